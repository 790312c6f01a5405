/* The state of a token stream: its memory on the device, and what a commit makes of the pending
 * rows. See state.h. */
#include <string.h>

#include "base/mem.h"
#include "gpu/blocks.h"
#include "gpu/plan.h"
#include "quant/kv8.h"

/* Where n elements of `bytes` bytes come to lie behind what l holds. */
static u64 place(struct layout *l, size_t n, size_t bytes)
{
    u64 at = l->used;
    layout_take(l, n, bytes);
    return at;
}

void sequence_places(struct gpu *g)
{
    const struct config *c = &g->base.weights->config;
    size_t wide = (size_t)c->S * c->h;
    struct places *p = &g->places;
    struct layout l = {0};
    *p = (struct places){0};
    for (int il = 0; il < c->n_layers; il++) {
        if (c->attention[il]) {
            p->cache[il] = p->n_caches++;
            continue;
        }
        struct deltanet_place *d = &p->deltanet[il];
        for (int plane = 0; plane < 2; plane++) {
            d->st[plane] = place(&l, deltanet_floats(c), sizeof(float));
            d->conv[plane] =
                place(&l, (size_t)(c->conv_kernel - 1) * (size_t)deltanet_width(c), sizeof(float));
        }
    }
    for (int m = 0; m < c->n_ple; m++)
        for (int plane = 0; plane < 2; plane++)
            p->ple[m].rows[plane] = place(&l, (size_t)ple_keep(c) * wide, sizeof(float));
    if (g->options.drafts) {
        p->cache[c->n_layers] = p->n_caches++;
        p->wide = place(&l, wide, sizeof(float));
    }
    p->bytes = l.used;
}

/* The tables' part that depends on ctx, with offsets from the start of the state; returns the bytes
 * of all. The draft head runs ahead of the text, so there are more cells than tokens. */
static size_t segment_place(const struct gpu *g, int ctx, struct gpu_segment *at)
{
    const struct config *c = &g->base.weights->config;
    size_t ahead = g->options.drafts ? ENGINE_DRAFTS_MAX : 0, cells = (size_t)ctx + ahead;
    size_t width = (size_t)c->n_kv * c->head_dim, blocks = cells / (size_t)c->index_ratio + 1;
    struct layout l = {0};
    place(&l, cells, width);
    at->v = place(&l, cells, width);
    at->k_scale = place(&l, cells, width / KV8_GROUP * sizeof(uint16_t));
    at->v_scale = place(&l, cells, width / KV8_GROUP * sizeof(uint16_t));
    at->index = place(&l, cells * (size_t)c->index_dim, sizeof(float));
    at->block = place(&l, blocks * (size_t)c->index_dim, sizeof(float));
    at->cache_bytes = l.used;
    at->cells = (u32)cells;
    at->blocks = (u32)blocks;

    struct layout all = {.used = g->places.bytes};
    at->state = 0;
    at->cache = place(&all, (size_t)g->places.n_caches, l.used);
    at->score = place(&all, ATTEND_ROWS * blocks, sizeof(float));
    return l.overflow || all.overflow ? SIZE_MAX : all.used;
}

size_t gpu_sequence_bytes(const struct gpu *g, int ctx)
{
    struct gpu_segment at = {0};
    return segment_place(g, ctx, &at);
}

int gpu_sequence_open(struct engine *base, int ctx, struct sequence **out, struct err *e)
{
    struct gpu *g = (struct gpu *)base;
    const struct config *c = &base->weights->config;
    struct err why = {0};
    if (engine_ctx_check(c, ctx, e))
        return -e->code;

    struct sequence *s = mem_zalloc(1, sizeof *s);
    int32_t *tokens = mem_array((size_t)ctx, sizeof *tokens);
    if (!s || !tokens) {
        mem_free(s);
        mem_free(tokens);
        return ERR(e, E_NOMEM, "no memory for a sequence");
    }
    *s = (struct sequence){.g = g, .ctx = ctx, .tokens = tokens};
    size_t bytes = segment_place(g, ctx, &s->at);
    if (bytes == SIZE_MAX || device_take(g->device, DEVICE_LOCAL, bytes, &s->state, &why)) {
        gpu_sequence_close(s);
        return ERR(e, E_NOMEM,
                   "a sequence of %d tokens needs %.1f MiB of memory of the device: ask for a "
                   "smaller context",
                   ctx, (double)bytes / (1 << 20));
    }
    s->at.state = s->state.address;
    s->at.cache += s->state.address;
    s->at.score += s->state.address;
    gpu_sequence_reset(s);
    *out = s;
    return 0;
}

void gpu_sequence_drop(struct sequence *s)
{
    s->g->pending.rows -= s->pending;
    s->pending = 0;
}

void gpu_sequence_close(struct sequence *s)
{
    struct err ignored = {0};
    if (!s)
        return;
    (void)gpu_wait(s->g, &ignored); /* for what a reset or a commit has left to do */
    gpu_sequence_drop(s);
    device_free(s->g->device, &s->state);
    mem_free(s->tokens);
    mem_free(s);
}

/* Zeros in what is not by position. */
static int clear(struct sequence *s, struct err *e)
{
    struct gpu *g = s->g;
    const struct config *c = &g->base.weights->config;
    size_t wide = (size_t)c->S * c->h;
    size_t conv = (size_t)(c->conv_kernel - 1) * (size_t)deltanet_width(c);
    const struct places *p = &g->places;
    int rc = 0;
    gpu_aside_begin(g);
    for (int il = 0; !rc && il < c->n_layers; il++) {
        if (c->attention[il])
            continue;
        rc = gpu_copy(g, 0, sequence_at(s, p->deltanet[il].st[s->plane]), deltanet_floats(c), e);
        if (!rc)
            rc = gpu_copy(g, 0, sequence_at(s, p->deltanet[il].conv[s->plane]), conv, e);
    }
    for (int m = 0; !rc && m < c->n_ple; m++)
        rc =
            gpu_copy(g, 0, sequence_at(s, p->ple[m].rows[s->plane]), (size_t)ple_keep(c) * wide, e);
    if (!rc && g->options.drafts)
        rc = gpu_copy(g, 0, sequence_at(s, p->wide), wide, e);
    return gpu_aside_end(g, rc, e);
}

void gpu_sequence_reset(struct sequence *s)
{
    struct err ignored = {0}; /* a device that is lost fails the next step too */
    gpu_sequence_drop(s);
    s->len = 0;
    (void)clear(s, &ignored);
}

int gpu_sequence_length(const struct sequence *s)
{
    return s->len;
}

/* Records what makes the other plane, and the wide residual, of n of the pending rows. */
static int commit_rows(struct gpu *g, struct sequence *s, int n, struct err *e)
{
    const struct config *c = &g->base.weights->config;
    size_t wide = (size_t)c->S * c->h, first = (size_t)s->first * wide * sizeof(float);
    bool all = n == s->pending; /* then the step has made the other plane */
    int rc = all ? 0 : gpu_deltanet_commit(g, s, n, e);
    for (int m = 0; !rc && !all && m < c->n_ple; m++)
        rc = gpu_ple_keep_rows(g, s, m, g->pending.ple[m] + first, n, e);
    if (!rc && g->options.drafts)
        rc = gpu_copy(g, g->pending.wide + first + (size_t)(n - 1) * wide * sizeof(float),
                      sequence_at(s, g->places.wide), wide, e);
    return rc;
}

static int commit_aside(struct gpu *g, struct sequence *s, int n, struct err *e)
{
    if (n == s->pending && !g->options.drafts)
        return 0; /* nothing is left to do */
    gpu_aside_begin(g);
    return gpu_aside_end(g, commit_rows(g, s, n, e), e);
}

int gpu_sequence_commit(struct engine *base, struct sequence *s, int n, struct err *e)
{
    struct gpu *g = (struct gpu *)base;
    if (engine_commit_check(n, s->pending, e))
        return -e->code;
    if (n) {
        int rc = commit_aside(g, s, n, e);
        if (rc)
            return rc;
        s->plane = !s->plane;
        s->len += n;
    }
    gpu_sequence_drop(s);
    return 0;
}
