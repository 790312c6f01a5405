/* Making the engine: its options, the budget before anything is allocated, the dense weights in
 * memory of its own, the stream, the team, and what is derived from the weights. */
#include "cpu/open.h"

#include <math.h>
#include <stdio.h>

#include "base/cpuid.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/units.h"
#include "cpu/cpu.h"
#include "cpu/state.h"
#include "model/identity.h"
#include "quant/kv8.h"
#include "stream/budget.h"

enum {
    CHUNK_DEFAULT = 512,
};

static int resolve_options(struct cpu *g, const struct engine_options *o, struct err *e);
static int check_model(const struct weights *w, struct err *e);
static int share_memory(struct cpu *g, struct budget *b, struct err *e);
static int load_weights(struct cpu *g, const struct weights *w, struct err *e);
static int open_parts(struct cpu *g, const struct budget *b, struct err *e);
static void remark_unlocked(struct cpu *g);
static void derive(struct cpu *g);

int cpu_open(const struct weights *w, const struct engine_options *o, struct engine **out,
             struct err *e)
{
    return cpu_open_tampered(w, o, NULL, 0, out, e);
}

int cpu_open_tampered(const struct weights *w, const struct engine_options *o,
                      struct reader *reader, uint64_t evict_seed, struct engine **out,
                      struct err *e)
{
    struct budget b;
    struct cpu *g = mem_zalloc(1, sizeof *g);
    if (!g)
        return ERR(e, E_NOMEM, "no memory for an engine");
    g->reader = reader;
    g->evict_seed = evict_seed;
    g->weights.config = w->config;
    g->weights.source = w->source;
    for (int m = 0; m < w->config.n_ple; m++)
        g->weights.ngram[m] = w->ngram[m];
    int rc = check_model(w, e);
    rc = rc ? rc : resolve_options(g, o, e);
    rc = rc ? rc : share_memory(g, &b, e);
    rc = rc ? rc : load_weights(g, w, e);
    rc = rc ? rc : open_parts(g, &b, e);
    if (rc) {
        cpu_close(&g->base);
        return rc;
    }
    derive(g);
    if (!g->dense.locked)
        remark_unlocked(g);
    *out = &g->base;
    return 0;
}

void cpu_close(struct engine *base)
{
    struct cpu *g = (struct cpu *)base;
    if (!g)
        return;
    stream_close(g->stream);
    team_close(g->team);
    os_pages_free(&g->pages);
    weights_free(&g->weights);
    dense_free(&g->dense);
    counters_close(&g->counters);
    mem_free(g);
}

/* What this engine computes with its own code, and no other. */
static int check_model(const struct weights *w, struct err *e)
{
    const struct config *c = &w->config;
    if (!w->source.store)
        return ERR(e, E_UNSUPPORTED,
                   "engine cpu runs packed stores only: pack the checkpoint first");
    if (c->head_dim % KV8_GROUP)
        return ERR(e, E_UNSUPPORTED,
                   "head_dim %d: the 8-bit cache wants a multiple of %d; use --engine reference",
                   c->head_dim, KV8_GROUP);
    return 0;
}

static int resolve_options(struct cpu *g, const struct engine_options *o, struct err *e)
{
    const struct config *c = &g->weights.config;
    struct engine_options *out = &g->options;
    int rc = engine_options_resolve(c, o, out, e);
    if (rc)
        return rc;
    out->threads = o->threads ? o->threads : os_cpu_count();
    if (out->threads < 1 || out->threads > ENGINE_THREADS_MAX)
        return ERR(e, E_ARG, "%d threads: want 1 to %d, or 0 for one of each processor", o->threads,
                   ENGINE_THREADS_MAX);
    rc = engine_sizes_resolve(c, o, out, e);
    if (rc)
        return rc;
    int most = c->index_budget + c->index_ratio - 1;
    g->max_visible = most < c->max_pos ? most : c->max_pos;
    return 0;
}

/* Bytes of scratch for chunks of g->base.chunk tokens. */
static size_t scratch_bytes(struct cpu *g)
{
    struct layout l = {0};
    g->rows = g->base.chunk < ENGINE_ROWS_MAX ? ENGINE_ROWS_MAX : g->base.chunk;
    scratch_place(g, &l);
    return l.overflow ? SIZE_MAX : l.used;
}

/* The budget; a chunk that nobody asked for gets smaller until it fits. */
static int share_memory(struct cpu *g, struct budget *b, struct err *e)
{
    const struct store *s = g->weights.source.store;
    const struct engine_options *o = &g->options;
    bool map = o->pool == ENGINE_POOL_MAP;
    struct budget_wish wish = {
        .memory = o->memory,
        .pool_bytes = o->pool_bytes,
        .pool_slots = o->pool_slots,
        .dense = s->dense.size,
        .sequence = cpu_sequence_bytes(g, o->ctx),
        .n_sequences = o->n_sequences,
        .beside = o->beside,
        .slot_bytes = map ? 0 : stream_slot_bytes(s, o->expert_bits, o->miss_bits),
        .slots_min = map ? 0 : stream_slots_min(s),
        .slots_max = map ? 0 : s->manifest.experts.n_layers * s->manifest.experts.E,
    };
    g->base = (struct engine){.ops = &cpu_engine,
                              .weights = &g->weights,
                              .chunk = o->chunk ? o->chunk : CHUNK_DEFAULT,
                              .prompt_rows = ENGINE_ROWS_MAX};
    for (;;) {
        struct err why = {0};
        wish.scratch = scratch_bytes(g);
        int rc = budget_make(&wish, b, &why);
        if (!rc)
            return 0;
        if (why.code != E_LIMIT || o->chunk || g->base.chunk <= ENGINE_ROWS_MAX)
            return ERR(e, why.code, "%s", why.msg);
        g->base.chunk /= 2;
    }
}

static int load_weights(struct cpu *g, const struct weights *w, struct err *e)
{
    struct weight_source source;
    int rc = dense_load(w->source.store, &g->dense, e);
    if (rc)
        return rc;
    dense_source(&g->dense, &source);
    rc = weights_init(&w->config, &source, &g->weights, e);
    if (rc)
        g->weights = (struct weights){0};
    return rc;
}

static void remark_unlocked(struct cpu *g)
{
    char room[UNITS_ROOM];
    snprintf(g->remark, sizeof g->remark,
             "%s of dense weights %s: steps get slow if the system takes their memory for other "
             "programs (ulimit -l says how much may be locked)",
             units_bytes(room, g->dense.size), g->dense.why);
    g->base.remark = g->remark;
}

static int open_stream(struct cpu *g, const struct budget *b, struct err *e)
{
    const struct config *c = &g->weights.config;
    const struct store *s = g->weights.source.store;
    const struct engine_options *o = &g->options;
    const struct expert_layout *x = &s->manifest.experts;
    struct counters *n = &g->counters;
    int heads = 0;
    for (int m = 0; m < c->n_ple; m++)
        heads += g->weights.ngram[m].n_heads;
    if (counters_open(n, x->n_layers, x->E, e))
        return -e->code;
    n->budget_bytes = b->memory;
    n->dense_bytes = s->dense.size;
    n->sequence_bytes = cpu_sequence_bytes(g, o->ctx) * (uint64_t)o->n_sequences;
    const struct stream_options so = {.bits = o->expert_bits,
                                      .miss_bits = o->miss_bits,
                                      .pool = o->pool,
                                      .slots = b->slots,
                                      .visit_max = c->E,
                                      .rows_max = g->rows * heads,
                                      .table_room = b->left,
                                      .reads = o->reads,
                                      .depth = o->read_depth,
                                      .no_lookahead = o->no_lookahead,
                                      .cut_weak = o->cut_weak,
                                      .counters = n,
                                      .keep_ranking = !o->no_ranking,
                                      .reader = g->reader,
                                      .evict_seed = g->evict_seed};
    g->lookahead = !o->no_lookahead && o->pool == ENGINE_POOL_COPY && b->slots < x->n_layers * x->E;
    return stream_open(s, &so, &g->stream, e);
}

static int open_parts(struct cpu *g, const struct budget *b, struct err *e)
{
    const struct identity_options id = {"cpu", g->options.expert_bits, g->options.mtp_norm,
                                        g->options.drafts};
    unsigned cpu;
    size_t bytes = scratch_bytes(g);
    int rc = cpuid_allowed(&cpu, e);
    if (rc)
        return rc;
    kern_init(&g->kern, cpu);
    rc = os_pages_take(bytes, &g->pages, e);
    if (rc)
        return rc;
    struct layout l = {.base = (char *)g->pages.data};
    scratch_place(g, &l);
    g->counters.scratch_bytes = bytes;
    rc = team_open(g->options.threads, &g->team, e);
    rc = rc ? rc : open_stream(g, b, e);
    return rc ? rc : identity_of(&g->weights, &id, &g->identity, e);
}

/* taps [kernel][width] from [width][kernel]. */
static void turn_taps(const struct vector *v, int kernel, float *taps)
{
    int width = v->n / kernel;
    for (int ch = 0; ch < width; ch++)
        for (int t = 0; t < kernel; t++)
            taps[(size_t)t * width + ch] = v->x[(size_t)ch * kernel + t];
}

static void derive(struct cpu *g)
{
    const struct config *c = &g->weights.config;
    for (int il = 0; il < c->n_layers; il++) {
        const struct deltanet_weights *w = &g->weights.layers[il].deltanet;
        if (c->attention[il])
            continue;
        turn_taps(&w->conv, c->conv_kernel, g->extra[il].taps);
        for (int iv = 0; iv < c->nv; iv++)
            g->extra[il].rate[iv] = exp((double)w->A_log.x[iv]);
    }
    for (int m = 0; m < c->n_ple; m++)
        turn_taps(&g->weights.ple[m].conv, c->ple_kernel, g->ple_taps[m]);
    for (int i = 0; i < c->rot / 2; i++)
        g->freq[i] = (float)pow(c->rope_theta, -2.0 * i / c->rot);
}
