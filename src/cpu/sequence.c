/* The state of a token stream: its memory, and what a commit makes of the pending rows. See
 * state.h. */
#include <string.h>

#include "base/mem.h"
#include "cpu/blocks.h"
#include "quant/kv8.h"

static void deltanet_place(const struct config *c, struct deltanet_state *d, struct layout *l)
{
    for (int plane = 0; plane < 2; plane++) {
        d->st[plane] = layout_floats(l, deltanet_floats(c), 1);
        d->conv[plane] = layout_floats(l, (size_t)c->conv_kernel - 1, (size_t)deltanet_width(c));
    }
}

static void cache_place(const struct config *c, struct cache *k, int cells, struct layout *l)
{
    size_t n = (size_t)cells, width = (size_t)c->n_kv * c->head_dim;
    k->k = layout_take(l, n, width);
    k->v = layout_take(l, n, width);
    k->k_scale = layout_take(l, n, width / KV8_GROUP * sizeof *k->k_scale);
    k->v_scale = layout_take(l, n, width / KV8_GROUP * sizeof *k->v_scale);
    k->index = layout_floats(l, n, (size_t)c->index_dim);
    k->block = layout_floats(l, n / (size_t)c->index_ratio + 1, (size_t)c->index_dim);
}

/* Places every array of s; the draft head runs ahead of the text, so its cells reach further. */
static void sequence_place(const struct cpu *g, struct sequence *s, struct layout *l)
{
    const struct config *c = &g->weights.config;
    size_t wide = (size_t)c->S * c->h;
    int ahead = g->options.drafts ? ENGINE_DRAFTS_MAX : 0;
    s->tokens = layout_take(l, (size_t)s->ctx, sizeof *s->tokens);
    for (int il = 0; il < c->n_layers; il++) {
        if (c->attention[il])
            cache_place(c, &s->layers[il].cache, s->ctx, l);
        else
            deltanet_place(c, &s->layers[il].deltanet, l);
    }
    for (int m = 0; m < c->n_ple; m++)
        for (int plane = 0; plane < 2; plane++)
            s->ple[m][plane] = layout_floats(l, (size_t)ple_keep(c), wide);
    if (g->options.drafts) {
        cache_place(c, &s->layers[c->n_layers].cache, s->ctx + ahead, l);
        s->wide = layout_floats(l, wide, 1);
    }
    s->blocks = (size_t)(s->ctx + ahead) / c->index_ratio + 1;
    s->block_score = layout_floats(l, ATTEND_ROWS, s->blocks);
    s->block_rank = layout_take(l, ATTEND_ROWS * s->blocks, sizeof *s->block_rank);
}

size_t cpu_sequence_bytes(const struct cpu *g, int ctx)
{
    struct layer_state layers[CONFIG_LAYERS_MAX + 1] = {0};
    struct sequence s = {.ctx = ctx, .layers = layers};
    struct layout l = {0};
    sequence_place(g, &s, &l);
    return l.overflow ? SIZE_MAX : l.used;
}

int cpu_sequence_open(struct engine *base, int ctx, struct sequence **out, struct err *e)
{
    struct cpu *g = (struct cpu *)base;
    const struct config *c = &base->weights->config;
    struct err why = {0};
    if (engine_ctx_check(c, ctx, e))
        return -e->code;

    struct layer_state *layers = mem_zalloc((size_t)c->n_layers + 1, sizeof *layers);
    struct sequence *s = mem_zalloc(1, sizeof *s);
    if (!layers || !s) {
        mem_free(layers);
        mem_free(s);
        return ERR(e, E_NOMEM, "no memory for a sequence");
    }
    *s = (struct sequence){.g = g, .ctx = ctx, .layers = layers};
    size_t bytes = cpu_sequence_bytes(g, ctx);
    if (bytes == SIZE_MAX || os_pages_take(bytes, &s->pages, &why)) {
        cpu_sequence_close(s);
        return ERR(e, E_NOMEM,
                   "a sequence of %d tokens needs %.1f MiB of memory: ask for a smaller context",
                   ctx, (double)bytes / (1 << 20));
    }
    struct layout l = {.base = (char *)s->pages.data};
    sequence_place(g, s, &l);
    cpu_sequence_reset(s);
    *out = s;
    return 0;
}

void cpu_sequence_drop(struct sequence *s)
{
    s->g->pending.rows -= s->pending;
    s->pending = 0;
}

void cpu_sequence_close(struct sequence *s)
{
    if (!s)
        return;
    cpu_sequence_drop(s);
    os_pages_free(&s->pages);
    mem_free(s->layers);
    mem_free(s);
}

void cpu_sequence_reset(struct sequence *s)
{
    const struct config *c = &s->g->weights.config;
    size_t wide = (size_t)c->S * c->h;
    cpu_sequence_drop(s);
    for (int il = 0; il < c->n_layers; il++) {
        struct deltanet_state *d = &s->layers[il].deltanet;
        if (c->attention[il])
            continue;
        memset(d->st[s->plane], 0, deltanet_floats(c) * sizeof(float));
        memset(d->conv[s->plane], 0,
               (size_t)(c->conv_kernel - 1) * (size_t)deltanet_width(c) * sizeof(float));
    }
    for (int m = 0; m < c->n_ple; m++)
        memset(s->ple[m][s->plane], 0, (size_t)ple_keep(c) * wide * sizeof(float));
    if (s->wide)
        memset(s->wide, 0, wide * sizeof(float));
    s->len = 0;
}

int cpu_sequence_length(const struct sequence *s)
{
    return s->len;
}

struct keep_job {
    struct cpu *g;
    struct sequence *s;
    int n;
};

/* The rows before a convolution: of a layer, or of a PLE module. */
static void keep_item(void *ctx, int item, int member)
{
    const struct keep_job *x = ctx;
    const struct config *c = &x->g->weights.config;
    const size_t first = (size_t)x->s->first * c->S * c->h;
    const int m = item - c->n_layers;
    (void)member;
    if (m < 0)
        cpu_deltanet_keep(x->g, x->s, item, x->n);
    else
        cpu_ple_keep_rows(c, x->s, m, x->g->pending.ple[m] + first, x->n);
}

/* By all threads where they are worth a stage: with the released shapes a layer keeps 123 KB, a PLE
 * module 369 KB. */
static void keep_rows(struct cpu *g, struct sequence *s, int n)
{
    enum { KEEP_ALONE = 32 << 10 };
    const struct config *c = &g->weights.config;
    struct keep_job x = {g, s, n};
    const size_t layer = (size_t)(c->conv_kernel - 1) * (size_t)deltanet_width(c) * sizeof(float);
    const int items = c->n_layers + c->n_ple;
    if (layer * (size_t)c->n_layers >= KEEP_ALONE)
        team_run(g->team, items, keep_item, &x);
    else
        for (int i = 0; i < items; i++)
            keep_item(&x, i, 0);
}

int cpu_sequence_commit(struct engine *base, struct sequence *s, int n, struct err *e)
{
    struct cpu *g = (struct cpu *)base;
    const struct config *c = &g->weights.config;
    size_t wide = (size_t)c->S * c->h, first = (size_t)s->first * wide;
    if (engine_commit_check(n, s->pending, e))
        return -e->code;
    if (n) {
        keep_rows(g, s, n);
        if (n < s->pending)
            cpu_deltanet_replay(g, s, n);
        if (s->wide)
            memcpy(s->wide, g->pending.wide + first + (size_t)(n - 1) * wide,
                   wide * sizeof *s->wide);
        s->plane = !s->plane;
        s->len += n;
    }
    cpu_sequence_drop(s);
    return 0;
}
