/* Rows of the n-gram tables: known from the tokens alone, read while layers before them run, and
 * decoded by the host into the memory that kernels read them from. */
#include "gpu/blocks.h"
#include "gpu/plan.h"
#include "quant/q4.h"

/* Heads of all modules before m. */
static int heads_before(const struct gpu *g, int m)
{
    int n = 0;
    for (int i = 0; i < m; i++)
        n += g->base.weights->ngram[i].n_heads;
    return n;
}

int gpu_rows_begin(struct gpu *g, const struct batch *b, struct err *e)
{
    const struct weights *w = g->base.weights;
    const struct config *c = &w->config;
    const struct ngram_layout *layout = &w->source.store->manifest.ngram;
    int each = heads_before(g, c->n_ple);
    if (!each)
        return 0;
    for (int r = 0; r < b->R; r++) {
        const struct at *at = &b->host->at[r];
        uint64_t *row = g->host.ngram + (size_t)r * (size_t)each;
        for (int m = 0; m < c->n_ple; m++) {
            const struct ngram_module *module = &w->ngram[m];
            ngram_rows(module, c, at->s->tokens, at->pos, row);
            for (int i = 0; i < module->n_heads; i++)
                row[i] += layout->first_row[m];
            row += module->n_heads;
        }
    }
    return stream_rows_begin(g->stream, g->host.ngram, b->R * each, e);
}

/* scratch.ple_e[m] of row r. */
static void decode(struct gpu *g, int m, int r)
{
    const struct ngram_layout *layout = &g->base.weights->source.store->manifest.ngram;
    const struct ngram_module *module = &g->base.weights->ngram[m];
    const struct gpu_acts *to = &g->scratch.ple_e[m];
    int first = r * heads_before(g, g->base.weights->config.n_ple) + heads_before(g, m);
    float *x = (float *)((char *)g->shared.host + (to->x - g->shared.address));
    for (int i = 0; i < module->n_heads; i++) {
        const uint8_t *row = stream_row(g->stream, first + i);
        const uint16_t *scales = (const uint16_t *)(const void *)(row + layout->weight_bytes);
        const uint16_t *biases = scales + layout->scale_bytes / 2;
        q4_decode_row(row, scales, biases, (size_t)layout->dim, (size_t)layout->group,
                      x + (size_t)r * (size_t)to->n + (size_t)i * module->row_dim);
    }
}

static int take_now(struct gpu *g, struct batch *b, const struct stop *s, struct err *e)
{
    int n = g->base.weights->config.n_ple;
    int rc = stream_rows_wait(g->stream, e);
    (void)s;
    for (int m = 0; !rc && m < n; m++)
        for (int r = 0; r < b->R; r++)
            decode(g, m, r);
    return rc;
}

/* The tapes before it do not read what is decoded. */
int gpu_rows_take(struct gpu *g, struct batch *b, struct err *e)
{
    static const struct stop take = {.run = take_now, .early = true};
    if (b->rows_taken || !heads_before(g, g->base.weights->config.n_ple))
        return 0;
    b->rows_taken = true;
    return gpu_stop(g, b, &take, e);
}

static int see_ngram_now(struct gpu *g, struct batch *b, const struct stop *s, struct err *e)
{
    const struct weights *w = g->base.weights;
    const struct observer *o = g->options.observe;
    const int m = s->n;
    uint64_t first = w->source.store->manifest.ngram.first_row[m];
    int each = heads_before(g, w->config.n_ple), before = heads_before(g, m);
    for (int r = 0; o && o->ints && r < b->R; r++) {
        for (int i = 0; i < w->ngram[m].n_heads; i++)
            g->host.ids[i] = (int64_t)(g->host.ngram[r * each + before + i] - first);
        o->ints(o->ctx, SEEN_NGRAM, b->il, b->host->at[r].pos, g->host.ids,
                (size_t)w->ngram[m].n_heads);
    }
    (void)e;
    return 0;
}

int gpu_see_ngram(struct gpu *g, struct batch *b, int m, struct err *e)
{
    const struct stop s = {.run = see_ngram_now, .early = true, .n = m};
    return g->options.observe ? gpu_stop(g, b, &s, e) : 0;
}
