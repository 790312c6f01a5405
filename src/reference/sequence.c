/* The state of a token stream: its memory, and what a commit makes of the pending rows. See
 * state.h. */
#include <string.h>

#include "base/mem.h"
#include "reference/blocks.h"

void history_commit(struct history *h, int n)
{
    size_t width = (size_t)h->width;
    memmove(h->rows, h->rows + (size_t)n * width, (size_t)h->keep * width * sizeof *h->rows);
}

int sequence_max_visible(const struct config *c, int ctx)
{
    int most = c->index_budget + c->index_ratio - 1;
    return most < ctx ? most : ctx;
}

static void history_place(struct history *h, int keep, int width, struct layout *a)
{
    h->keep = keep;
    h->width = width;
    h->rows = layout_floats(a, (size_t)keep + ENGINE_ROWS_MAX, (size_t)width);
}

static void deltanet_place(const struct config *c, struct deltanet_state *d, struct layout *a)
{
    int keys = c->nk * c->dk, values = c->nv * c->dv;
    d->st = layout_floats(a, (size_t)c->dk, (size_t)values);
    history_place(&d->conv, c->conv_kernel - 1, 2 * keys + values, a);
    d->k = layout_floats(a, ENGINE_ROWS_MAX, (size_t)keys);
    d->delta = layout_floats(a, ENGINE_ROWS_MAX, (size_t)values);
    d->decay = layout_floats(a, ENGINE_ROWS_MAX, (size_t)c->nv);
}

static void cache_place(const struct config *c, struct cache *k, int cells, struct layout *a)
{
    k->k = layout_floats(a, (size_t)cells, (size_t)c->n_kv * c->head_dim);
    k->v = layout_floats(a, (size_t)cells, (size_t)c->n_kv * c->head_dim);
    k->index = layout_floats(a, (size_t)cells, (size_t)c->index_dim);
}

/* The draft head runs ahead of the text: its chained rows lie behind ctx when the context is
 * full. */
static void draft_place(const struct config *c, struct sequence *s, struct layout *a)
{
    cache_place(c, &s->layers[c->n_layers].cache, s->ctx + ENGINE_DRAFTS_MAX, a);
    history_place(&s->wide, 1, c->S * c->h, a);
}

static void room_place(const struct config *c, struct sequence *s, struct layout *a)
{
    int ahead = s->g->options.drafts ? ENGINE_DRAFTS_MAX : 0;
    size_t blocks = (size_t)(s->ctx + ahead) / c->index_ratio + 1;
    size_t visible = (size_t)sequence_max_visible(c, s->ctx + ahead);
    s->block_score = layout_floats(a, blocks, 1);
    s->block_taken = layout_take(a, blocks, sizeof *s->block_taken);
    s->block_best = layout_take(a, blocks, sizeof *s->block_best);
    s->visible = layout_take(a, visible, sizeof *s->visible);
    s->score = layout_floats(a, visible, 1);
}

/* Places every array of s in a, after s itself and the layers' structs. */
static void sequence_place(struct sequence *s, struct layout *a)
{
    const struct config *c = &s->g->base.weights->config;
    s->tokens = layout_take(a, (size_t)s->ctx, sizeof *s->tokens);
    for (int il = 0; il < c->n_layers; il++) {
        if (c->attention[il])
            cache_place(c, &s->layers[il].cache, s->ctx, a);
        else
            deltanet_place(c, &s->layers[il].deltanet, a);
    }
    for (int m = 0; m < c->n_ple; m++)
        history_place(&s->ple[m], c->ngram_size * (c->ple_kernel - 1), c->S * c->h, a);
    if (s->g->options.drafts)
        draft_place(c, s, a);
    room_place(c, s, a);
}

int sequence_open(struct engine *base, int ctx, struct sequence **out, struct err *e)
{
    struct reference *g = (struct reference *)base;
    const struct config *c = &base->weights->config;
    if (engine_ctx_check(c, ctx, e))
        return -e->code;

    struct layer_state *layers = mem_zalloc((size_t)c->n_layers + 1, sizeof *layers);
    struct sequence *s = mem_zalloc(1, sizeof *s);
    if (!layers || !s) {
        mem_free(layers);
        mem_free(s);
        return ERR(e, E_NOMEM, "no memory for a sequence");
    }
    s->g = g;
    s->ctx = ctx;
    s->layers = layers;
    struct layout a = {0};
    sequence_place(s, &a);
    s->bytes = a.used;
    s->memory = a.overflow ? NULL : mem_zalloc(1, a.used);
    if (!s->memory) {
        sequence_close(s);
        return ERR(e, E_NOMEM,
                   "a sequence of %d tokens needs %.1f MiB of memory: ask for a smaller context",
                   ctx, (double)a.used / (1 << 20));
    }
    a = (struct layout){.base = s->memory};
    sequence_place(s, &a);
    *out = s;
    return 0;
}

void sequence_close(struct sequence *s)
{
    if (!s)
        return;
    mem_free(s->memory);
    mem_free(s->layers);
    mem_free(s);
}

static void history_clear(struct history *h)
{
    memset(h->rows, 0, (size_t)h->keep * (size_t)h->width * sizeof *h->rows);
}

void sequence_reset(struct sequence *s)
{
    const struct config *c = &s->g->base.weights->config;
    for (int il = 0; il < c->n_layers; il++) {
        struct deltanet_state *d = &s->layers[il].deltanet;
        if (c->attention[il])
            continue;
        memset(d->st, 0, deltanet_floats(c) * sizeof *d->st);
        history_clear(&d->conv);
    }
    for (int m = 0; m < c->n_ple; m++)
        history_clear(&s->ple[m]);
    if (s->g->options.drafts)
        history_clear(&s->wide);
    s->len = s->pending = 0;
}

int sequence_length(const struct sequence *s)
{
    return s->len;
}

void sequence_enter(struct sequence *s)
{
    const struct config *c = &s->g->base.weights->config;
    for (int il = 0; il < c->n_layers; il++)
        if (!c->attention[il])
            memcpy(s->g->work[il], s->layers[il].deltanet.st, deltanet_floats(c) * sizeof(float));
}

int sequence_commit(struct engine *g, struct sequence *s, int n, struct err *e)
{
    const struct config *c = &g->weights->config;
    if (engine_commit_check(n, s->pending, e))
        return -e->code;
    for (int il = 0; il < c->n_layers; il++)
        if (!c->attention[il])
            deltanet_commit(c, &s->layers[il].deltanet, n);
    for (int m = 0; m < c->n_ple; m++)
        history_commit(&s->ple[m], n);
    if (s->g->options.drafts)
        history_commit(&s->wide, n);
    s->len += n;
    s->pending = 0;
    return 0;
}
