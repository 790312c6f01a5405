/* Sparse attention: each query sees the blocks of keys that an indexer ranks highest.
 *
 *   q, gate = W_q x       per head: head_dim query values, then head_dim gate values
 *   k = W_k x, v = W_v x;  q = rope(rms(q)), k = rope(rms(k)) per head
 *   index queries and raw index key = W_index x; the raw key is cached
 *   key of block b (positions b*ratio ..) = rope(rms(mean of its raw keys), at b*ratio)
 *   score of b = sum over index heads of relu(rope(rms(index query)) . key) / sqrt(index_dim)
 *   visible = the budget/ratio complete blocks of the highest score (ties: the lower), and the tail
 *   att = softmax(q . k / sqrt(head_dim)) v over the visible positions, head i with kv head
 *   i/(heads/kv) out = W_o (att * sigmoid(gate))
 *
 * Block keys are made anew from raw keys for each query: there is nothing to invalidate when rows
 * are taken back. Sums over positions go in ascending order. */
#include <math.h>
#include <string.h>

#include "reference/arith.h"
#include "reference/blocks.h"
#include "reference/linear.h"

void qsa_fill(struct reference *g, const struct at *at, const struct qsa_weights *w, const float *x)
{
    const struct config *c = &g->base.weights->config;
    const struct cache *cache = &at->s->layers[at->il].cache;
    const struct norm k_norm = {w->k_norm.x, c->n_kv, c->head_dim, 1, c->eps};
    size_t width = (size_t)c->n_kv * c->head_dim, cell = (size_t)at->pos;
    float *row = g->scratch.row, *k = cache->k + cell * width;

    linear_apply(&w->k, x, row, k);
    linear_apply(&w->v, x, row, cache->v + cell * width);
    linear_rows(&w->index_qk, c->index_heads * c->index_dim, c->index_dim, x, row,
                cache->index + cell * c->index_dim);
    arith_rms(&k_norm, k, k);
    for (int ik = 0; ik < c->n_kv; ik++)
        arith_rope(g->scratch.freq, c->rot, at->pos, k + (size_t)ik * c->head_dim);
}

/* block_score[b] for the first n blocks. */
static void score_blocks(struct reference *g, const struct at *at, const struct qsa_weights *w,
                         const float *x, int n)
{
    const struct config *c = &g->base.weights->config;
    const struct norm q_norm = {w->index_q_norm.x, c->index_heads, c->index_dim, 1, c->eps};
    const struct norm k_norm = {w->index_k_norm.x, 1, c->index_dim, 1, c->eps};
    const float *raw = at->s->layers[at->il].cache.index;
    float *q = g->scratch.index_q, *key = g->scratch.index;

    linear_rows(&w->index_qk, 0, c->index_heads * c->index_dim, x, g->scratch.row, q);
    arith_rms(&q_norm, q, q);
    for (int ih = 0; ih < c->index_heads; ih++)
        arith_rope(g->scratch.freq, c->rot, at->pos, q + (size_t)ih * c->index_dim);
    for (int b = 0; b < n; b++) {
        const float *first = raw + (size_t)b * c->index_ratio * c->index_dim;
        for (int i = 0; i < c->index_dim; i++) {
            double sum = 0;
            for (int t = 0; t < c->index_ratio; t++)
                sum += (double)first[(size_t)t * c->index_dim + i];
            key[i] = (float)(sum / c->index_ratio);
        }
        arith_rms(&k_norm, key, key);
        arith_rope(g->scratch.freq, c->rot, b * c->index_ratio, key);
        double score = 0;
        for (int ih = 0; ih < c->index_heads; ih++) {
            double dot = arith_dot(q + (size_t)ih * c->index_dim, key, c->index_dim);
            score += dot > 0 ? dot : 0;
        }
        at->s->block_score[b] = (float)(score / sqrt(c->index_dim));
    }
}

/* visible = what the query at at->pos may look at, ascending; returns how many. */
static int select_visible(struct reference *g, const struct at *at, const struct qsa_weights *w,
                          const float *x)
{
    const struct config *c = &g->base.weights->config;
    struct sequence *s = at->s;
    int t = at->pos + 1, complete = t / c->index_ratio, most = c->index_budget / c->index_ratio;
    int n = 0;

    if (complete <= most) {
        memset(s->block_taken, 1, (size_t)complete);
    } else {
        score_blocks(g, at, w, x, complete);
        arith_top(s->block_score, complete, most, s->block_taken, s->block_best);
    }
    for (int p = 0; p < t; p++)
        if (p / c->index_ratio >= complete || s->block_taken[p / c->index_ratio])
            s->visible[n++] = p;
    see_ids(g, at, SEEN_SELECTED, s->visible, n);
    return n;
}

/* The head's part of att: attention with query q over the first n visible positions. */
static void attend(struct reference *g, const struct at *at, const float *q, int head, int n)
{
    const struct config *c = &g->base.weights->config;
    const struct cache *cache = &at->s->layers[at->il].cache;
    size_t width = (size_t)c->n_kv * c->head_dim;
    size_t kv = (size_t)(head / (c->n_heads / c->n_kv)) * c->head_dim;
    float *score = at->s->score, *out = g->scratch.att + (size_t)head * c->head_dim;
    double *sum = g->scratch.sum;

    for (int i = 0; i < n; i++) {
        const float *k = cache->k + (size_t)at->s->visible[i] * width + kv;
        score[i] = (float)(arith_dot(q, k, c->head_dim) / sqrt(c->head_dim));
    }
    arith_softmax(score, n);
    for (int j = 0; j < c->head_dim; j++)
        sum[j] = 0;
    for (int i = 0; i < n; i++) {
        const float *v = cache->v + (size_t)at->s->visible[i] * width + kv;
        for (int j = 0; j < c->head_dim; j++)
            sum[j] += (double)score[i] * (double)v[j];
    }
    for (int j = 0; j < c->head_dim; j++)
        out[j] = (float)sum[j];
}

void qsa_apply(struct reference *g, const struct at *at, const struct qsa_weights *w,
               const float *x, float *out)
{
    const struct config *c = &g->base.weights->config;
    const struct norm q_norm = {w->q_norm.x, 1, c->head_dim, 1, c->eps};
    struct scratch *m = &g->scratch;

    qsa_fill(g, at, w, x);
    int n = select_visible(g, at, w, x);
    for (int ih = 0; ih < c->n_heads; ih++) {
        float *att = m->att + (size_t)ih * c->head_dim;
        linear_rows(&w->q, ih * 2 * c->head_dim, c->head_dim, x, m->row, m->q);
        linear_rows(&w->q, (ih * 2 + 1) * c->head_dim, c->head_dim, x, m->row, m->gate);
        arith_rms(&q_norm, m->q, m->q);
        arith_rope(m->freq, c->rot, at->pos, m->q);
        attend(g, at, m->q, ih, n);
        for (int j = 0; j < c->head_dim; j++)
            att[j] *= arith_sigmoid(m->gate[j]);
    }
    linear_apply(&w->o, m->att, m->row, out);
}
