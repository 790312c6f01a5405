/* Making the gpu engine: options, the memory of device and host, weights, the stream. See gpu.h. */
#include "gpu/open.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/mem.h"
#include "base/units.h"
#include "gpu/blocks.h"
#include "gpu/gpu.h"
#include "gpu/plan.h"
#include "model/identity.h"
#include "stream/budget.h"

/* Tokens of a prompt at once. The weights of an expert are read once for a chunk: with thousands
 * of tokens many name the same; scratch may take a sixteenth of a GPU's memory for that.
 *
 * H200, 8 layers, 4,096 tokens: 10,700 tok/s at 2,048, 12,400 at 4,096. */
enum { CHUNK_DEFAULT = 256, CHUNK_DISCRETE = 4096, CHUNK_SHARE = 16 };

static int check_model(const struct weights *w, const struct engine_options *o, struct err *e);
static int resolve_options(struct gpu *g, const struct engine_options *o, struct err *e);
static int share_memory(struct gpu *g, struct budget *b, struct share *s, struct err *e);
static int open_rooms(struct gpu *g, struct err *e);
static int load_weights(struct gpu *g, struct err *e);
static int open_stream(struct gpu *g, const struct budget *b, const struct share *share,
                       struct err *e);
static int open_plans(struct gpu *g, struct err *e);
static void say_where(struct gpu *g);

int gpu_open(const struct weights *w, const struct engine_options *o, struct engine **out,
             struct err *e)
{
    return gpu_open_tampered(w, o, NULL, 0, out, e);
}

/* A software device takes longer to make kernels than to run most of what they are for. */
static bool rehearses(const struct gpu *g)
{
    return device_about(g->device)->kind != DEVICE_SOFTWARE && !g->options.observe;
}

/* With gpu_close undoing whatever was reached. */
static int open_parts(struct gpu *g, const struct engine_options *o, struct err *e)
{
    const struct weights *w = g->base.weights;
    struct budget b;
    struct share s;
    int rc = check_model(w, o, e);
    rc = rc ? rc : resolve_options(g, o, e);
    rc = rc ? rc : device_open(NULL, &g->device, e);
    rc = rc ? rc : share_memory(g, &b, &s, e);
    rc = rc ? rc : open_rooms(g, e);
    rc = rc ? rc : load_weights(g, e);
    rc = rc ? rc : open_stream(g, &b, &s, e);
    gpu_count_init(g);
    rc = rc ? rc : open_plans(g, e);
    rc = rc ? rc : gpu_share_open(g, e);
    rc = rc || !rehearses(g) ? rc : gpu_rehearse(g, e);
    const struct identity_options id = {"gpu", g->options.expert_bits, g->options.mtp_norm,
                                        g->options.drafts};
    return rc ? rc : identity_of(w, &id, &g->identity, e);
}

int gpu_open_tampered(const struct weights *w, const struct engine_options *o,
                      struct reader *reader, uint64_t evict_seed, struct engine **out,
                      struct err *e)
{
    struct gpu *g = mem_zalloc(1, sizeof *g);
    if (!g)
        return ERR(e, E_NOMEM, "no memory for an engine");
    g->base = (struct engine){.ops = &gpu_engine, .weights = w};
    g->reader = reader;
    g->evict_seed = evict_seed;
    int rc = open_parts(g, o, e);
    if (rc) {
        gpu_close(&g->base);
        return rc;
    }
    say_where(g);
    *out = &g->base;
    return 0;
}

/* The remark. */
static void say_where(struct gpu *g)
{
    const char *name = device_about(g->device)->name;
    const struct counters *c = &g->counters;
    char rates[96] = "";
    if (g->share.copy_ns > 0)
        snprintf(rates, sizeof rates, "; the others copied in %.0f us or computed in %.0f us each",
                 g->share.copy_ns / 1e3, g->share.host_ns / 1e3);
    if (g->experts.resident || !g->experts.tier)
        snprintf(g->remark, sizeof g->remark, "experts %s %s",
                 g->experts.resident ? "in the memory of" : "streamed to", name);
    else
        snprintf(g->remark, sizeof g->remark, "%llu of %d experts at once in the memory of %s%s",
                 (unsigned long long)c->device_slots,
                 c->n_layers * g->base.weights->source.store->manifest.experts.E, name, rates);
    g->base.remark = g->remark;
}

void gpu_close(struct engine *base)
{
    struct gpu *g = (struct gpu *)base;
    struct err ignored = {0};
    if (!g)
        return;
    struct device_buffer *const buffers[] = {&g->dense, &g->vectors, &g->local, &g->shared,
                                             &g->back};
    if (g->plans)
        (void)gpu_wait(g, &ignored);
    plans_close(g);
    gpu_share_close(g);
    gpu_experts_free(g);
    stream_close(g->stream);
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        device_free(g->device, buffers[i]);
    device_close(g->device);
    os_pages_free(&g->pages);
    counters_close(&g->counters);
    mem_free(g);
}

/* --- what it takes --- */

static int not_64(const char *what, int n, struct err *e)
{
    return ERR(e, E_UNSUPPORTED, "%s %d: the gpu engine wants a multiple of 64; use --engine cpu",
               what, n);
}

static int check_read(const struct hyper_weights *w, struct err *e)
{
    return w->up.format >= MATRIX_Q4
               ? 0
               : ERR(e, E_UNSUPPORTED,
                     "hyper-connections that are not quantised: the gpu engine wants them in 4 "
                     "bits; use --engine cpu");
}

static int check_layer(const struct layer_weights *w, struct err *e)
{
    const struct moe_weights *m = &w->moe;
    int rc = check_read(&w->attn_hyper, e);
    rc = rc ? rc : check_read(&w->mlp_hyper, e);
    if (!rc &&
        (m->gate.format != MATRIX_Q4 || m->up.format != MATRIX_Q4 || m->down.format != MATRIX_Q4))
        return ERR(e, E_UNSUPPORTED,
                   "a shared expert that is not quantised: the gpu engine wants it in 4 bits; use "
                   "--engine cpu");
    return rc;
}

static int check_model(const struct weights *w, const struct engine_options *o, struct err *e)
{
    const struct config *c = &w->config;
    if (!w->source.store)
        return ERR(e, E_UNSUPPORTED,
                   "engine gpu runs packed stores only: pack the checkpoint first");
    if (o->pool == ENGINE_POOL_MAP)
        return ERR(e, E_UNSUPPORTED,
                   "--pool map: a GPU cannot read a file's pages in place; leave it out, or use "
                   "--engine cpu");
    if (c->h % 64 || c->lowrank % 64)
        return not_64(c->h % 64 ? "hidden_size" : "hc_lowrank", c->h % 64 ? c->h : c->lowrank, e);
    if (c->inter % 64 || c->shared_inter % 64)
        return not_64(c->inter % 64 ? "moe_intermediate_size" : "shared_expert_intermediate_size",
                      c->inter % 64 ? c->inter : c->shared_inter, e);
    int rc = mix_check(c, e);
    rc = rc ? rc : check_read(&w->mixer, e);
    for (int il = 0; !rc && il < c->n_layers; il++)
        rc = check_layer(&w->layers[il], e);
    if (!rc && o->drafts && c->n_mtp) {
        rc = check_layer(&w->mtp.layer, e);
        rc = rc ? rc : check_read(&w->mtp.mixer, e);
    }
    return rc;
}

static int resolve_options(struct gpu *g, const struct engine_options *o, struct err *e)
{
    const struct config *c = &g->base.weights->config;
    struct engine_options *out = &g->options;
    int rc = engine_options_resolve(c, o, out, e);
    rc = rc ? rc : engine_sizes_resolve(c, o, out, e);
    if (rc)
        return rc;
    int most = c->index_budget + c->index_ratio - 1;
    g->max_visible = most < c->max_pos ? most : c->max_pos;
    sequence_places(g);
    return 0;
}

/* --- memory --- */

static void count_rooms(struct gpu *g, size_t bytes[ROOMS])
{
    struct layout room[ROOMS] = {{0}};
    gpu_scratch_place(g, room);
    for (int i = 0; i < ROOMS; i++)
        bytes[i] = room[i].overflow ? SIZE_MAX : room[i].used;
}

/* Bytes on the device without experts. */
static uint64_t device_bytes(const struct gpu *g, const size_t room[ROOMS])
{
    const struct weights *w = g->base.weights;
    return w->source.store->dense.size + w->arena_bytes + room[ROOM_LOCAL] +
           (uint64_t)gpu_sequence_bytes(g, g->options.ctx) * (uint64_t)g->options.n_sequences;
}

/* What was asked for, or what the driver has, less a sixteenth for what it does not say. */
static uint64_t device_limit(const struct gpu *g)
{
    uint64_t all = device_about(g->device)->free_bytes, asked = g->options.device_memory;
    all -= all / 16;
    return asked && asked < all ? asked : all;
}

static int check_device(struct gpu *g, const size_t room[ROOMS], struct err *e)
{
    const int n = g->options.n_sequences;
    const uint64_t sequences = gpu_sequence_bytes(g, g->options.ctx) * (uint64_t)n;
    char r[5][UNITS_ROOM];
    uint64_t need = device_bytes(g, room), have = device_limit(g);
    if (need <= have)
        return 0;
    return ERR(
        e, E_LIMIT,
        "%s of device memory are needed without any expert (%s of weights, %s of scratch, %s "
        "for %d sequence%s), and %s gives %s: raise --device-memory if it was given, lower "
        "--max-ctx, --prefill-chunk and --drafts, or use --engine cpu",
        units_bytes(r[0], need), units_bytes(r[1], need - room[ROOM_LOCAL] - sequences),
        units_bytes(r[2], room[ROOM_LOCAL]), units_bytes(r[3], sequences), n, n == 1 ? "" : "s",
        device_about(g->device)->name, units_bytes(r[4], have));
}

static bool pool_asked(const struct engine_options *o)
{
    return o->pool_slots || o->pool_bytes;
}

/* Bytes that are left on the device for experts, which all fit or are a tier above the pool.
 * Where a pool was asked for, that is where experts are, unless the device's memory was given
 * too; where device and host share their memory, a tier would hold everything twice. */
static uint64_t tier_bytes(const struct gpu *g, uint64_t left)
{
    const struct engine_options *o = &g->options;
    if (o->miss_bits || o->cut_weak > 0)
        return 0; /* what is there must not decide what is computed */
    if (o->device_memory)
        return left;
    return pool_asked(o) || device_about(g->device)->unified ? 0 : left;
}

/* Device and host; a chunk that nobody asked for gets smaller until it fits. */
static int share_memory(struct gpu *g, struct budget *b, struct share *s, struct err *e)
{
    const struct store *store = g->base.weights->source.store;
    const struct engine_options *o = &g->options;
    const bool unified = device_about(g->device)->unified;
    const uint64_t slot = stream_slot_bytes(store, o->expert_bits, o->miss_bits);
    const int all = store->manifest.experts.n_layers * store->manifest.experts.E;
    struct budget_wish wish = {.memory = o->memory,
                               .pool_bytes = o->pool_bytes,
                               .pool_slots = o->pool_slots,
                               .n_sequences = 1,
                               .beside = o->beside,
                               .slot_bytes = slot,
                               .slots_min = stream_slots_min(store),
                               .slots_max = all};
    const bool own = device_about(g->device)->kind == DEVICE_DISCRETE;
    g->base.chunk = o->chunk ? o->chunk : own ? CHUNK_DISCRETE : CHUNK_DEFAULT;
    for (;; g->base.chunk /= 2) {
        struct err why = {0};
        size_t room[ROOMS];
        g->rows = g->base.chunk < ENGINE_ROWS_MAX ? ENGINE_ROWS_MAX : g->base.chunk;
        count_rooms(g, room);
        if (!o->chunk && g->base.chunk > CHUNK_DEFAULT &&
            room[ROOM_LOCAL] > device_limit(g) / CHUNK_SHARE)
            continue;
        wish.scratch = room[ROOM_SHARED] + room[ROOM_BACK] + room[ROOM_HOST];
        wish.dense = !unified ? 0 : o->device_memory ? device_limit(g) : device_bytes(g, room);
        int rc = check_device(g, room, &why);
        rc = rc ? rc : budget_make(&wish, b, &why);
        if (rc && why.code == E_LIMIT && !o->chunk && g->base.chunk > ENGINE_ROWS_MAX)
            continue;
        if (rc)
            return ERR(e, why.code, "%s", why.msg);
        uint64_t left = device_limit(g) - device_bytes(g, room);
        const bool fits = (uint64_t)all * slot <= left;
        g->counters.device_fixed_bytes = device_bytes(g, room);
        s->tier = tier_bytes(g, left);
        s->resident = unified && !o->device_memory ? fits && !pool_asked(o) && b->slots == all
                                                   : fits && s->tier && !pool_asked(o);
        if (s->resident) {
            s->tier = left;
            b->slots = wish.slots_min; /* what records pass through at open */
            if (!unified)
                b->left += b->pool - (uint64_t)b->slots * slot;
        }
        return 0;
    }
}

static int open_rooms(struct gpu *g, struct err *e)
{
    size_t bytes[ROOMS];
    count_rooms(g, bytes);
    int rc = device_take(g->device, DEVICE_LOCAL, bytes[ROOM_LOCAL], &g->local, e);
    rc = rc ? rc : device_take(g->device, DEVICE_SHARED, bytes[ROOM_SHARED], &g->shared, e);
    rc = rc ? rc : device_take(g->device, DEVICE_BACK, bytes[ROOM_BACK], &g->back, e);
    rc = rc ? rc : os_pages_take(bytes[ROOM_HOST], &g->pages, e);
    if (rc)
        return rc;
    struct layout room[ROOMS] = {
        [ROOM_LOCAL].base = (char *)(uintptr_t)g->local.address,
        [ROOM_SHARED].base = (char *)(uintptr_t)g->shared.address,
        [ROOM_BACK].base = (char *)(uintptr_t)g->back.address,
        [ROOM_HOST].base = (char *)g->pages.data,
    };
    gpu_scratch_place(g, room);
    g->counters.scratch_bytes =
        bytes[ROOM_LOCAL] + bytes[ROOM_SHARED] + bytes[ROOM_BACK] + bytes[ROOM_HOST];
    const struct config *c = &g->base.weights->config;
    for (int i = 0; i < c->rot / 2; i++)
        g->host.freq[i] = (float)pow(c->rope_theta, -2.0 * i / c->rot);
    return 0;
}

/* A buffer of that size with these bytes. They may have to come from the disk first: between two
 * pieces it can be stopped. */
static int load(struct device *d, const void *data, size_t bytes, struct device_buffer *to,
                struct err *e)
{
    const size_t piece = 64 << 20;
    int rc = device_take(d, DEVICE_LOCAL, bytes, to, e);
    for (size_t at = 0; !rc && at < bytes; at += piece) {
        const size_t n = bytes - at < piece ? bytes - at : piece;
        rc = interrupt_check(e);
        rc = rc ? rc : device_upload(d, to, at, (const char *)data + at, n, e);
    }
    return rc;
}

static int load_weights(struct gpu *g, struct err *e)
{
    const struct weights *w = g->base.weights;
    const struct map *dense = &w->source.store->dense;
    int rc = load(g->device, dense->data, dense->size, &g->dense, e);
    rc = rc ? rc : load(g->device, w->arena, w->arena_bytes, &g->vectors, e);
    g->counters.dense_bytes = dense->size;
    return rc;
}

/* --- experts --- */

static int open_stream(struct gpu *g, const struct budget *b, const struct share *share,
                       struct err *e)
{
    const bool resident = share->resident;
    const struct weights *w = g->base.weights;
    const struct store *s = w->source.store;
    const struct engine_options *o = &g->options;
    const struct expert_layout *x = &s->manifest.experts;
    struct counters *n = &g->counters;
    int heads = 0;
    for (int m = 0; m < w->config.n_ple; m++)
        heads += w->ngram[m].n_heads;
    if (counters_open(n, x->n_layers, x->E, e))
        return -e->code;
    n->budget_bytes = b->memory;
    n->sequence_bytes = (uint64_t)gpu_sequence_bytes(g, o->ctx) * (uint64_t)o->n_sequences;
    const struct stream_options so = {.bits = o->expert_bits,
                                      .miss_bits = o->miss_bits,
                                      .slots = b->slots,
                                      .visit_max = x->E,
                                      .rows_max = g->rows * heads,
                                      .table_room = b->left,
                                      .reads = o->reads,
                                      .depth = o->read_depth,
                                      .no_lookahead = o->no_lookahead,
                                      .cut_weak = o->cut_weak,
                                      .counters = n,
                                      .keep_ranking = !o->no_ranking && !resident,
                                      .reader = g->reader,
                                      .evict_seed = g->evict_seed};
    g->lookahead = !o->no_lookahead && !resident && b->slots < x->n_layers * x->E;
    /* half of the pool, so that reads under way for other layers leave room for a visit */
    g->experts.slots_max = b->slots / 2 < w->config.K ? w->config.K : b->slots / 2;
    int rc = stream_open(s, &so, &g->stream, e);
    if (!rc && share->tier)
        rc = gpu_experts_open(g, share, e);
    if (!rc && !g->experts.resident)
        rc = gpu_experts_import(g, e);
    if (!rc && g->experts.tier && !g->experts.resident)
        gpu_copies_open(g, b->slots);
    g->lookahead = g->lookahead || g->ahead.max;
    return rc;
}

/* Stops of a plan: one for the rows of the n-gram tables, two for each layer's experts. */
static int open_plans(struct gpu *g, struct err *e)
{
    enum { PLANS_RESIDENT = 32, PLANS_STREAMED = 8 };
    const int layers = g->base.weights->config.n_layers;
    return g->experts.resident ? plans_open(g, PLANS_RESIDENT, 2, e)
                               : plans_open(g, PLANS_STREAMED, 2 * layers + 2, e);
}
