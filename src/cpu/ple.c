/* PLE: rows of a hashed n-gram table, gated by the residual and mixed over time.
 *
 *   E      = the rows of the n-grams that end in this token, concatenated           [ple_dim]
 *   key    = rms(W_key E) per stream,  value = W_value E,  query = rms(hyper) per stream
 *   dot_g  = key_g . query_g / sqrt(h)
 *   gate_g = sign(dot_g) * sqrt(max(|dot_g|, 1e-6)), sign(0) = 0
 *   gv_g   = sigmoid(gate_g) * value
 *   n      = rms(gv) per stream
 *   out    = gv + silu(conv(n)): depthwise, tap i of k reads n at t - ngram_size * (k-1-i)
 *
 * The rows are known from the tokens alone: their reads begin with the step. */
#include <math.h>
#include <string.h>

#include "cpu/blocks.h"
#include "quant/q4.h"

struct ple_job {
    struct cpu *g;
    const struct batch *b;
    const struct ple_weights *w;
    int m;
    float *rows; /* normed rows of the batch, [R][S*h] */
};

/* Heads of all modules before m. */
static int heads_before(const struct cpu *g, int m)
{
    int n = 0;
    for (int i = 0; i < m; i++)
        n += g->weights.ngram[i].n_heads;
    return n;
}

int cpu_ple_begin(struct cpu *g, const struct batch *b, struct err *e)
{
    const struct config *c = &g->weights.config;
    const struct ngram_layout *layout = &g->weights.source.store->manifest.ngram;
    int each = heads_before(g, c->n_ple);
    if (!each)
        return 0;
    for (int r = 0; r < b->R; r++) {
        uint64_t *row = g->scratch.ngram + (size_t)r * (size_t)each;
        for (int m = 0; m < c->n_ple; m++) {
            const struct ngram_module *module = &g->weights.ngram[m];
            ngram_rows(module, c, b->at[r].s->tokens, b->at[r].pos, row);
            for (int i = 0; i < module->n_heads; i++)
                row[i] += layout->first_row[m];
            row += module->n_heads;
        }
    }
    return stream_rows_begin(g->stream, g->scratch.ngram, b->R * each, e);
}

static void see_ngram(const struct ple_job *x)
{
    const struct cpu *g = x->g;
    const struct ngram_module *module = &g->weights.ngram[x->m];
    uint64_t first = g->weights.source.store->manifest.ngram.first_row[x->m];
    int each = heads_before(g, g->weights.config.n_ple), before = heads_before(g, x->m);
    const struct observer *o = g->options.observe;
    for (int r = 0; o && o->ints && r < x->b->R; r++) {
        for (int i = 0; i < module->n_heads; i++)
            g->scratch.ids[i] = (int64_t)(g->scratch.ngram[r * each + before + i] - first);
        o->ints(o->ctx, SEEN_NGRAM, x->b->il, x->b->at[r].pos, g->scratch.ids,
                (size_t)module->n_heads);
    }
}

/* ple_e of row r: its table rows, decoded. */
static void embed_item(void *ctx, int r, int member)
{
    const struct ple_job *x = ctx;
    struct cpu *g = x->g;
    const struct ngram_layout *layout = &g->weights.source.store->manifest.ngram;
    const struct ngram_module *module = &g->weights.ngram[x->m];
    int each = heads_before(g, g->weights.config.n_ple), before = heads_before(g, x->m);
    (void)member;
    for (int i = 0; i < module->n_heads; i++) {
        const uint8_t *row = stream_row(g->stream, r * each + before + i);
        const uint16_t *scales = (const uint16_t *)(const void *)(row + layout->weight_bytes);
        const uint16_t *biases = scales + layout->scale_bytes / 2;
        float *to =
            g->scratch.ple_e.x + (size_t)r * g->scratch.ple_e.n + (size_t)i * module->row_dim;
        q4_decode_row(row, scales, biases, (size_t)layout->dim, (size_t)layout->group, to);
    }
    acts_quantise(&g->kern, &g->scratch.ple_e, r, r + 1);
}

/* out = rms(x) of one stream. */
static void norm_stream(const struct cpu *g, const float *gamma, const float *x, float *out)
{
    const struct config *c = &g->weights.config;
    float scale = (float)(1.0 / sqrt((double)g->kern.sum_squares(x, c->h) / c->h + c->eps));
    g->kern.scale_mul(x, scale, gamma, c->h, out);
}

static float soft_gate(const struct kern *k, double dot)
{
    double root = sqrt(fmax(fabs(dot), 1e-6));
    float gate = (float)(dot > 0 ? root : dot < 0 ? -root : 0);
    k->sigmoid(&gate, 1);
    return gate;
}

/* Row r: scratch.norm, the key, becomes gv; its normed row is kept. */
static void gate_item(void *ctx, int r, int member)
{
    const struct ple_job *x = ctx;
    struct cpu *g = x->g;
    const struct config *c = &g->weights.config;
    const float *value = g->scratch.ple_value + (size_t)r * c->h;
    float *query = member_room(g, member);
    for (int ig = 0; ig < c->S; ig++) {
        size_t first = (size_t)ig * c->h, at = (size_t)r * c->S * c->h + first;
        float *gv = g->scratch.norm.x + at;
        norm_stream(g, x->w->norm_key.x + first, gv, gv);
        norm_stream(g, x->w->norm_query.x + first, g->scratch.hyper + at, query);
        double dot = (double)g->kern.dot(gv, query, c->h) / sqrt(c->h);
        float gate = soft_gate(&g->kern, dot);
        for (int i = 0; i < c->h; i++)
            gv[i] = gate * value[i];
        norm_stream(g, x->w->norm_conv.x + first, gv, x->rows + at);
    }
}

/* Row r: gv += silu(conv), and the residual has it. */
static void mix_item(void *ctx, int r, int member)
{
    const struct ple_job *x = ctx;
    struct cpu *g = x->g;
    const struct config *c = &g->weights.config;
    const struct at *at = &x->b->at[r];
    int width = c->S * c->h, keep = ple_keep(c);
    float *sum = member_room(g, member), *gv = g->scratch.norm.x + (size_t)r * width;
    float *hyper = g->scratch.hyper + (size_t)r * width;

    memset(sum, 0, (size_t)width * sizeof *sum);
    for (int t = 0; t < c->ple_kernel; t++) {
        int back = c->ngram_size * (c->ple_kernel - 1 - t), from = at->r - back;
        const float *n = from < 0 ? at->s->ple[x->m][at->s->plane] + (size_t)(keep + from) * width
                                  : x->rows + (size_t)(r - back) * width;
        g->kern.add_product(sum, g->ple_taps[x->m] + (size_t)t * width, n, width);
    }
    g->kern.silu(sum, width);
    for (int i = 0; i < width; i++)
        gv[i] += sum[i];
    for (int i = 0; i < width; i++)
        hyper[i] += gv[i];
}

void cpu_ple_keep_rows(const struct config *c, struct sequence *s, int m, const float *rows, int n)
{
    int keep = ple_keep(c);
    size_t width = (size_t)c->S * c->h;
    for (int i = 0; i < keep; i++) {
        int from = n - keep + i;
        const float *in = from < 0 ? s->ple[m][s->plane] + (size_t)(keep + from) * width
                                   : rows + (size_t)from * width;
        memcpy(s->ple[m][!s->plane] + (size_t)i * width, in, width * sizeof *in);
    }
}

int cpu_ple_add(struct cpu *g, const struct batch *b, int m, struct err *e)
{
    const struct config *c = &g->weights.config;
    const struct ple_weights *w = &g->weights.ple[m];
    struct scratch *room = &g->scratch;
    size_t width = (size_t)c->S * c->h;
    float *rows = b->prefill ? room->ple_rows : g->pending.ple[m] + (size_t)b->pending * width;
    struct ple_job x = {g, b, w, m, rows};
    const struct product in[] = {
        {&w->key, &room->ple_e, NULL, b->R, room->norm.x, width},
        {&w->value, &room->ple_e, NULL, b->R, room->ple_value, (size_t)c->h},
    };
    int rc = stream_rows_wait(g->stream, e);
    if (rc)
        return rc;
    see_ngram(&x);
    each_row(g, b->R, embed_item, &x);
    cpu_linear_apply(g, in, 2);
    each_row(g, b->R, gate_item, &x);
    each_row(g, b->R, mix_item, &x);
    cpu_see_rows(g, b, SEEN_PLE, room->norm.x, (int)width);
    if (b->prefill)
        cpu_ple_keep_rows(c, b->segments[0].s, m, rows, b->R);
    return 0;
}
