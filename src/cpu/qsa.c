/* Sparse attention: each query sees the blocks of keys that an indexer ranks highest.
 *
 *   q, gate = W_q x       per head: head_dim query values, then head_dim gate values
 *   k = W_k x, v = W_v x;  q = rope(rms(q)), k = rope(rms(k)) per head; k and v cached as KV8
 *   index queries and raw index key = W_index x; the raw key is cached
 *   key of block b (positions b*ratio ..) = rope(rms(mean of its raw keys), at b*ratio)
 *   visible: select.c
 *   att = softmax(q . k / sqrt(head_dim)) v over the visible positions, head i with kv head
 *   i/(heads/kv);  out = W_o (att * sigmoid(gate))
 *
 * Cells of all rows are written before any of them is read, so a row sees those of its own batch as
 * it would have seen them later: quantised. A block's key is made whenever its last position is
 * written, so it is never older than its raw keys.
 *
 * Attention is added up in parts of ATTEND_PART visible positions, each with its own largest score;
 * the parts of a row then meet in ascending order. The division is the same however many rows and
 * threads there are. */
#include <math.h>
#include <string.h>

#include "cpu/blocks.h"
#include "quant/kv8.h"

struct qsa_job {
    struct cpu *g;
    const struct batch *b;
    const struct qsa_weights *w;
    int first, n; /* rows of the group that attends */
    int parts;    /* the most of a row */
};

static struct cache *cache_of(const struct batch *b, int r)
{
    return &b->at[r].s->layers[b->il].cache;
}

/* x = rms(x) of one head. */
static void norm_head(const struct cpu *g, const struct vector *gamma, int n, float *x)
{
    float scale =
        (float)(1.0 / sqrt((double)g->kern.sum_squares(x, n) / n + g->weights.config.eps));
    g->kern.scale_mul(x, scale, gamma->x, n, x);
}

/* Rotates the pairs (x[i], x[i + rot/2]); rope holds cosines and sines of the position. */
static void rotate(const struct config *c, const float *rope, float *x)
{
    int half = c->rot / 2;
    for (int i = 0; i < half; i++) {
        float cosine = rope[i], sine = rope[half + i], a = x[i], b = x[i + half];
        x[i] = a * cosine - b * sine;
        x[i + half] = b * cosine + a * sine;
    }
}

/* Keys, values and the raw index key of row r, into its cell. */
static void fill_item(void *ctx, int r, int member)
{
    const struct qsa_job *x = ctx;
    const struct config *c = &x->g->weights.config;
    const struct scratch *m = &x->g->scratch;
    size_t width = (size_t)c->n_kv * c->head_dim, cell = (size_t)x->b->at[r].pos;
    size_t index_width = (size_t)(c->index_heads + 1) * c->index_dim;
    struct cache *cache = cache_of(x->b, r);
    float *k = m->k + (size_t)r * width;
    const float *raw = m->index + (size_t)r * index_width + index_width - c->index_dim;

    (void)member;
    for (int ik = 0; ik < c->n_kv; ik++) {
        norm_head(x->g, &x->w->k_norm, c->head_dim, k + (size_t)ik * c->head_dim);
        rotate(c, m->rope + (size_t)r * c->rot, k + (size_t)ik * c->head_dim);
    }
    if (kv8_encode_row(k, width, cache->k + cell * width,
                       cache->k_scale + cell * width / KV8_GROUP) ||
        kv8_encode_row(m->v + (size_t)r * width, width, cache->v + cell * width,
                       cache->v_scale + cell * width / KV8_GROUP))
        row_spoil(x->g, r);
    memcpy(cache->index + cell * c->index_dim, raw, (size_t)c->index_dim * sizeof *raw);
}

/* The key of the block that row r completes, if it does. */
static void block_item(void *ctx, int r, int member)
{
    const struct qsa_job *x = ctx;
    const struct config *c = &x->g->weights.config;
    int end = x->b->at[r].pos + 1, start = end - c->index_ratio, half = c->rot / 2;
    if (end % c->index_ratio)
        return;
    struct cache *cache = cache_of(x->b, r);
    const float *raw = cache->index + (size_t)start * c->index_dim;
    float *key = cache->block + (size_t)(start / c->index_ratio) * c->index_dim;
    float *rope = member_room(x->g, member);
    for (int i = 0; i < c->index_dim; i++) {
        float sum = 0;
        for (int t = 0; t < c->index_ratio; t++)
            sum += raw[(size_t)t * c->index_dim + i];
        key[i] = sum / (float)c->index_ratio;
    }
    norm_head(x->g, &x->w->index_k_norm, c->index_dim, key);
    for (int i = 0; i < half; i++) {
        double angle = (double)((float)start * x->g->freq[i]);
        rope[i] = (float)cos(angle);
        rope[half + i] = (float)sin(angle);
    }
    rotate(c, rope, key);
}

/* Query heads and index queries of row r; the scale of the scores goes into the queries. */
static void query_item(void *ctx, int r, int member)
{
    const struct qsa_job *x = ctx;
    const struct config *c = &x->g->weights.config;
    const struct scratch *m = &x->g->scratch;
    const float *rope = m->rope + (size_t)r * c->rot;
    float root = (float)(1.0 / sqrt(c->head_dim));
    (void)member;
    for (int ih = 0; ih < c->n_heads; ih++) {
        float *q = m->q + ((size_t)r * c->n_heads + (size_t)ih) * 2 * c->head_dim;
        norm_head(x->g, &x->w->q_norm, c->head_dim, q);
        rotate(c, rope, q);
        for (int i = 0; i < c->head_dim; i++)
            q[i] *= root;
    }
    for (int ih = 0; ih < c->index_heads; ih++) {
        float *q = m->index + ((size_t)r * (c->index_heads + 1) + (size_t)ih) * c->index_dim;
        norm_head(x->g, &x->w->index_q_norm, c->index_dim, q);
        rotate(c, rope, q);
    }
}

static void fill_cells(struct qsa_job *x)
{
    each_row(x->g, x->b->R, fill_item, x);
    each_row(x->g, x->b->R, block_item, x);
}

void cpu_qsa_fill(struct cpu *g, const struct batch *b, const struct qsa_weights *w)
{
    const struct config *c = &g->weights.config;
    struct scratch *m = &g->scratch;
    struct qsa_job x = {.g = g, .b = b, .w = w};
    size_t width = (size_t)c->n_kv * c->head_dim, queries = (size_t)c->index_heads * c->index_dim;
    const struct matrix key = cpu_linear_part(&w->index_qk, (int)queries, c->index_dim);
    const struct product in[] = {
        {&w->k, &m->mixed, NULL, b->R, m->k, width},
        {&w->v, &m->mixed, NULL, b->R, m->v, width},
        {&key, &m->mixed, NULL, b->R, m->index + queries, queries + (size_t)c->index_dim},
    };
    cpu_linear_apply(g, in, 3);
    fill_cells(&x);
}

/* --- attention --- */

/* A part of what a row sees with a kv head. */
struct part {
    int r, ik, from, n;      /* row of the group, kv head, visible positions */
    float *most, *sum, *out; /* of head i of the kv head at i * parts; out [H][head_dim] */
};

static struct part part_at(const struct qsa_job *x, int r, int ik, int ip)
{
    const struct config *c = &x->g->weights.config;
    const struct scratch *m = &x->g->scratch;
    size_t H = (size_t)(c->n_heads / c->n_kv), parts = (size_t)x->parts;
    size_t head = ((size_t)r * c->n_kv + (size_t)ik) * H * parts;
    int from = ip * ATTEND_PART, n = m->n_visible[r] - from;
    return (struct part){r,
                         ik,
                         from,
                         n < ATTEND_PART ? n : ATTEND_PART,
                         m->part_max + head + ip,
                         m->part_sum + head + ip,
                         m->part_out + (head + (size_t)ip * H) * c->head_dim};
}

/* A row of an 8-bit cache at position pos, as kv head ik sees it. */
static struct kern_kv8 cell_of(const struct config *c, const int8_t *codes, const uint16_t *scales,
                               int pos, int ik)
{
    size_t at = ((size_t)pos * c->n_kv + (size_t)ik) * c->head_dim;
    return (struct kern_kv8){codes + at, scales + at / KV8_GROUP};
}

/* score[i][H]: of the part's positions, in the members' room; q [H][head_dim]. */
static void score_part(const struct qsa_job *x, const struct part *p, const float *q, float *score)
{
    const struct config *c = &x->g->weights.config;
    const struct cache *cache = cache_of(x->b, x->first + p->r);
    const int *visible = x->g->scratch.visible + (size_t)p->r * x->g->max_visible + p->from;
    int H = c->n_heads / c->n_kv;
    for (int i = 0; i < p->n; i++) {
        const struct kern_kv8 k = cell_of(c, cache->k, cache->k_scale, visible[i], p->ik);
        x->g->kern.dot_kv8(q, H, &k, c->head_dim, score + (size_t)i * H);
    }
}

/* score = exp(score - the head's largest). */
static void soften_part(const struct qsa_job *x, const struct part *p, float *score)
{
    const struct config *c = &x->g->weights.config;
    int H = c->n_heads / c->n_kv;
    float row[ATTEND_PART];
    for (int ih = 0; ih < H; ih++) {
        for (int i = 0; i < p->n; i++)
            row[i] = score[(size_t)i * H + ih];
        float most = x->g->kern.max(row, p->n);
        p->most[(size_t)ih * x->parts] = most;
        p->sum[(size_t)ih * x->parts] = x->g->kern.exp_sum(row, most, p->n);
        for (int i = 0; i < p->n; i++)
            score[(size_t)i * H + ih] = row[i];
    }
}

/* Item (row of the group, kv head, part). */
static void part_item(void *ctx, int item, int member)
{
    const struct qsa_job *x = ctx;
    const struct config *c = &x->g->weights.config;
    int H = c->n_heads / c->n_kv, n = c->head_dim;
    const struct part p =
        part_at(x, item / x->parts / c->n_kv, item / x->parts % c->n_kv, item % x->parts);
    const struct cache *cache = cache_of(x->b, x->first + p.r);
    const int *visible = x->g->scratch.visible + (size_t)p.r * x->g->max_visible + p.from;
    float *q = member_room(x->g, member), *score = q + (size_t)H * n;
    if (p.n <= 0)
        return;
    for (int ih = 0; ih < H; ih++) {
        size_t head = (size_t)(x->first + p.r) * c->n_heads + (size_t)(p.ik * H + ih);
        memcpy(q + (size_t)ih * n, x->g->scratch.q + head * 2 * n, (size_t)n * sizeof *q);
    }
    score_part(x, &p, q, score);
    soften_part(x, &p, score);
    memset(p.out, 0, (size_t)H * n * sizeof *p.out);
    for (int i = 0; i < p.n; i++) {
        const struct kern_kv8 v = cell_of(c, cache->v, cache->v_scale, visible[i], p.ik);
        x->g->kern.add_kv8(p.out, H, score + (size_t)i * H, &v, n);
    }
}

/* The parts of a head meet, and its gate. Item (row of the group, head). */
static void merge_item(void *ctx, int item, int member)
{
    const struct qsa_job *x = ctx;
    const struct config *c = &x->g->weights.config;
    const struct kern *k = &x->g->kern;
    int r = item / c->n_heads, head = item % c->n_heads, H = c->n_heads / c->n_kv, n = c->head_dim;
    int ih = head % H, parts = (x->g->scratch.n_visible[r] + ATTEND_PART - 1) / ATTEND_PART;
    const struct part p = part_at(x, r, head / H, 0);
    float *factor = member_room(x->g, member), sum = 0;
    size_t at = (size_t)(x->first + r) * c->n_heads + (size_t)head;
    float *att = x->g->scratch.att.x + at * n, *gate = x->g->scratch.q + at * 2 * n + n;

    memcpy(factor, p.most + (size_t)ih * x->parts, (size_t)parts * sizeof *factor);
    k->exp_sum(factor, k->max(factor, parts), parts);
    memset(att, 0, (size_t)n * sizeof *att);
    for (int ip = 0; ip < parts; ip++) {
        sum += factor[ip] * p.sum[(size_t)ih * x->parts + ip];
        k->add_scaled(att, p.out + ((size_t)ip * H + (size_t)ih) * n, factor[ip], n);
    }
    k->sigmoid(gate, n);
    k->scale_mul(att, 1 / sum, gate, n, att);
}

static void quantise_item(void *ctx, int r, int member)
{
    struct qsa_job *x = ctx;
    (void)member;
    acts_quantise(&x->g->kern, &x->g->scratch.att, r, r + 1);
}

/* Rows first .. first + n - 1, of which visible is known. */
static void attend(struct qsa_job *x)
{
    const struct config *c = &x->g->weights.config;
    int most = 0;
    for (int i = 0; i < x->n; i++)
        most = x->g->scratch.n_visible[i] > most ? x->g->scratch.n_visible[i] : most;
    x->parts = (most + ATTEND_PART - 1) / ATTEND_PART;
    team_run(x->g->team, x->n * c->n_kv * x->parts, part_item, x);
    each_row(x->g, x->n * c->n_heads, merge_item, x);
}

void cpu_qsa_apply(struct cpu *g, const struct batch *b, const struct qsa_weights *w)
{
    const struct config *c = &g->weights.config;
    struct scratch *m = &g->scratch;
    struct qsa_job x = {.g = g, .b = b, .w = w};
    size_t width = (size_t)c->n_kv * c->head_dim, heads = (size_t)c->n_heads * c->head_dim;
    size_t index_width = (size_t)(c->index_heads + 1) * c->index_dim;
    const struct product in[] = {
        {&w->q, &m->mixed, NULL, b->R, m->q, 2 * heads},
        {&w->k, &m->mixed, NULL, b->R, m->k, width},
        {&w->v, &m->mixed, NULL, b->R, m->v, width},
        {&w->index_qk, &m->mixed, NULL, b->R, m->index, index_width},
    };
    const struct product out = {&w->o, &m->att, NULL, b->R, m->out, (size_t)c->h};

    cpu_linear_apply(g, in, 4);
    fill_cells(&x);
    each_row(g, b->R, query_item, &x);
    for (x.first = 0; x.first < b->R; x.first += x.n) {
        x.n = b->R - x.first < ATTEND_ROWS ? b->R - x.first : ATTEND_ROWS;
        select_visible(g, b, x.first, x.n);
        attend(&x);
    }
    each_row(g, b->R, quantise_item, &x);
    cpu_linear_apply(g, &out, 1);
}
