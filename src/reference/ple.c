/* PLE: rows of a hashed n-gram table, gated by the residual and mixed over time.
 *
 *   E      = the rows of the n-grams that end in this token, concatenated           [ple_dim]
 *   key    = rms(W_key E) per stream,  value = W_value E,  query = rms(hyper) per stream
 *   dot_g  = key_g . query_g / sqrt(h)
 *   gate_g = sign(dot_g) * sqrt(max(|dot_g|, 1e-6)), sign(0) = 0
 *   gv_g   = sigmoid(gate_g) * value
 *   n      = rms(gv) per stream
 *   out    = gv + silu(conv(n)): depthwise, tap i of k reads n at t - ngram_size * (k-1-i) */
#include <math.h>

#include "reference/arith.h"
#include "reference/blocks.h"
#include "reference/linear.h"

/* ple_e = the rows of the table for the token at at->pos. */
static int look_up(struct reference *g, const struct at *at, int m, struct err *e)
{
    const struct weights *w = g->base.weights;
    const struct ngram_module *module = &w->ngram[m];
    uint64_t *rows = g->scratch.ngram;

    ngram_rows(module, &w->config, at->s->tokens, at->pos, rows);
    for (int i = 0; i < module->n_heads; i++) {
        float *to = g->scratch.ple_e + (size_t)i * module->row_dim;
        int rc = w->source.ngram_row(w->source.ctx, m, rows[i], to, e);
        if (rc)
            return rc;
        g->scratch.ids[i] = (int64_t)rows[i];
    }
    see_ids(g, at, SEEN_NGRAM, g->scratch.ids, module->n_heads);
    return 0;
}

static float soft_gate(double dot)
{
    double root = sqrt(fmax(fabs(dot), 1e-6));
    return arith_sigmoid((float)(dot > 0 ? root : dot < 0 ? -root : 0));
}

static void convolve(const struct config *c, const struct ple_weights *w, const float *newest,
                     const float *gv, float *out)
{
    int width = c->S * c->h, k = c->ple_kernel;
    for (int i = 0; i < width; i++) {
        float sum = 0;
        for (int t = 0; t < k; t++) {
            const float *n = newest - (size_t)c->ngram_size * (size_t)(k - 1 - t) * width;
            sum += w->conv.x[(size_t)i * k + t] * n[i];
        }
        out[i] = gv[i] + arith_silu(sum);
    }
}

int ple_apply(struct reference *g, const struct at *at, int m, const float *hyper, float *out,
              struct err *e)
{
    const struct config *c = &g->base.weights->config;
    const struct ple_weights *w = &g->base.weights->ple[m];
    const struct norm norm_key = {w->norm_key.x, c->S, c->h, 0, c->eps};
    const struct norm norm_query = {w->norm_query.x, c->S, c->h, 0, c->eps};
    const struct norm norm_conv = {w->norm_conv.x, c->S, c->h, 0, c->eps};
    struct scratch *room = &g->scratch;
    float *key = room->ple_key, *query = room->ple_query, *value = room->ple_value;
    float *gv = room->ple_gv, *n = history_row(&at->s->ple[m], at->r);

    int rc = look_up(g, at, w->module, e);
    if (rc)
        return rc;
    linear_apply(&w->key, room->ple_e, room->row, key);
    linear_apply(&w->value, room->ple_e, room->row, value);
    arith_rms(&norm_key, key, key);
    arith_rms(&norm_query, hyper, query);
    for (int ig = 0; ig < c->S; ig++) {
        size_t first = (size_t)ig * c->h;
        float gate = soft_gate(arith_dot(key + first, query + first, c->h) / sqrt(c->h));
        for (int i = 0; i < c->h; i++)
            gv[first + i] = gate * value[i];
    }
    arith_rms(&norm_conv, gv, n);
    convolve(c, w, n, gv, out);
    return 0;
}
