/* Where everything is that a step works in: four rooms, placed by one list. */
#include "gpu/head.h"
#include "gpu/hyper.h"
#include "gpu/moe.h"
#include "gpu/state.h"

/* n elements of `bytes` bytes: their device address, 0 while counting. */
static u64 put(struct layout *l, size_t n, size_t bytes)
{
    return (u64)(uintptr_t)layout_take(l, n, bytes);
}

static u64 floats(struct layout *l, size_t n, size_t width)
{
    return (u64)(uintptr_t)layout_floats(l, n, width);
}

static struct gpu_acts acts(struct layout *l, size_t rows, int n)
{
    u64 x = floats(l, rows, (size_t)n);
    return (struct gpu_acts){x, put(l, rows, GPU_ACTS_BYTES((size_t)n)), n};
}

static struct routes routes(const struct config *c, struct layout room[ROOMS], size_t rows)
{
    struct layout *local = &room[ROOM_LOCAL], *back = &room[ROOM_BACK];
    const size_t picks = rows * (size_t)c->K;
    return (struct routes){
        .router = floats(local, rows, (size_t)c->E),
        .route = put(local, picks, sizeof(u32)),
        .route_w = floats(local, picks, 1),
        .open = floats(local, rows, 1),
        .back = put(back, picks, sizeof(u32)),
        .back_w = floats(back, picks, 1),
    };
}

static void moe_place(struct gpu *g, struct layout room[ROOMS], size_t rows)
{
    const struct config *c = &g->base.weights->config;
    struct scratch *m = &g->scratch;
    struct layout *local = &room[ROOM_LOCAL];
    m->routes = routes(c, room, rows);
    m->ahead = routes(c, room, ENGINE_ROWS_MAX);
    if (g->options.host_experts != ENGINE_HOST_OFF) {
        m->mixed_back = put(&room[ROOM_BACK], HOST_MOE_ROWS, GPU_ACTS_BYTES((size_t)c->h));
        m->outputs = floats(&room[ROOM_SHARED], HOST_MOE_ROWS * (size_t)c->K, (size_t)c->h);
    }
    m->ahead_x = acts(local, ENGINE_ROWS_MAX, c->h);
    m->act = put(local, rows * (size_t)c->K, GPU_ACTS_BYTES((size_t)c->inter));
    m->shared_act = put(local, rows, GPU_ACTS_BYTES((size_t)c->shared_inter));
    const struct gpu_moe moe = {.R = (int)rows,
                                .E = c->E,
                                .K = c->K,
                                .h = c->h,
                                .inter = c->inter,
                                .shared_inter = c->shared_inter};
    const struct gpu_hyper hyper = {.R = (int)rows, .S = c->S, .h = c->h, .low = c->lowrank};
    const size_t rooms[] = {gpu_moe_room(&moe), gpu_hyper_room(&hyper), deltanet_room(c, rows)};
    size_t most = 0;
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++)
        most = rooms[i] > most ? rooms[i] : most;
    m->many = put(local, 1, most);
}

static void qsa_place(struct gpu *g, struct layout *l, size_t rows)
{
    const struct config *c = &g->base.weights->config;
    struct scratch *m = &g->scratch;
    size_t heads = (size_t)c->n_heads * c->head_dim, width = (size_t)c->n_kv * c->head_dim;
    size_t part_heads = (size_t)ATTEND_ROWS * (size_t)c->n_heads * (size_t)attend_parts(c);
    m->q = floats(l, rows, 2 * heads);
    m->k = floats(l, rows, width);
    m->v = floats(l, rows, width);
    m->index = floats(l, rows, (size_t)(c->index_heads + 1) * c->index_dim);
    m->att = acts(l, rows, (int)heads);
    m->chosen = put(l, rows * (size_t)(c->index_budget / c->index_ratio), sizeof(u32));
    m->part_sum = floats(l, part_heads, 1);
    m->part_max = floats(l, part_heads, 1);
    m->part_out = floats(l, part_heads, (size_t)c->head_dim);
}

static size_t all_heads(const struct gpu *g)
{
    size_t n = 0;
    for (int m = 0; m < g->base.weights->config.n_ple; m++)
        n += (size_t)g->base.weights->ngram[m].n_heads;
    return n;
}

static void ple_place(struct gpu *g, struct layout room[ROOMS], size_t rows)
{
    const struct config *c = &g->base.weights->config;
    struct scratch *m = &g->scratch;
    if (!all_heads(g))
        return;
    u64 q = put(&room[ROOM_LOCAL], rows, GPU_ACTS_BYTES((size_t)c->ple_dim));
    for (int i = 0; i < c->n_ple; i++)
        m->ple_e[i] =
            (struct gpu_acts){floats(&room[ROOM_SHARED], rows, (size_t)c->ple_dim), q, c->ple_dim};
    m->ple_value = floats(&room[ROOM_LOCAL], rows, (size_t)c->h);
    m->ple_rows = floats(&room[ROOM_LOCAL], rows, (size_t)c->S * c->h);
}

static void mtp_place(struct gpu *g, struct layout room[ROOMS], size_t rows)
{
    const struct config *c = &g->base.weights->config;
    struct scratch *m = &g->scratch;
    struct layout *l = &room[ROOM_LOCAL];
    m->embed = acts(l, rows, c->h);
    m->streams = (struct gpu_acts){m->norm.x,
                                   put(l, rows * (size_t)c->S, GPU_ACTS_BYTES((size_t)c->h)), c->h};
    m->fold = floats(l, rows, (size_t)c->h);
    m->last_wide = floats(l, (size_t)c->S, (size_t)c->h);
    m->wide = put(&room[ROOM_SHARED], rows, sizeof(u64));
}

static void pending_place(struct gpu *g, struct layout *l)
{
    const struct config *c = &g->base.weights->config;
    struct pending *p = &g->pending;
    const size_t rows = ENGINE_ROWS_MAX;
    for (int il = 0; il < c->n_layers; il++) {
        if (c->attention[il])
            continue;
        p->deltanet[il] = floats(l, rows, (size_t)GPU_DELTANET_LOG(c->nk, c->nv, c->dk, c->dv));
    }
    for (int m = 0; m < c->n_ple; m++)
        p->ple[m] = floats(l, rows, (size_t)c->S * c->h);
    if (g->options.drafts)
        p->wide = floats(l, rows, (size_t)c->S * c->h);
}

/* Addresses in `shared` are the device's; a pointer of the host is as far from its start. */
static void *shared_take(const struct gpu *g, struct layout *l, size_t n, size_t bytes)
{
    u64 at = put(l, n, bytes);
    return at ? (char *)g->shared.host + (at - g->shared.address) : NULL;
}

static void host_place(struct gpu *g, struct layout room[ROOMS], size_t rows)
{
    const struct config *c = &g->base.weights->config;
    struct layout *l = &room[ROOM_HOST], *shared = &room[ROOM_SHARED];
    struct host *m = &g->host;
    size_t rot = (size_t)c->rot, ids = (size_t)g->max_visible, wide = (size_t)c->S * c->h;
    for (int i = 0; i < 2; i++) {
        struct tables *t = &m->tables[i];
        t->at = layout_take(l, rows, sizeof *t->at);
        t->row = shared_take(g, shared, rows, sizeof *t->row);
        t->segment = shared_take(g, shared, ENGINE_ROWS_MAX, sizeof *t->segment);
        t->rope = shared_take(g, shared, rows * rot, sizeof *t->rope);
        t->rope_block = shared_take(g, shared, rows * rot, sizeof *t->rope_block);
    }
    m->freq = layout_floats(l, rot / 2, 1);
    m->ngram = layout_take(l, rows * all_heads(g), sizeof *m->ngram);
    m->count = layout_take(l, (size_t)c->E, sizeof *m->count);
    m->uses = layout_take(l, (size_t)c->E, sizeof *m->uses);
    m->guess = layout_take(l, (size_t)c->E, sizeof *m->guess);
    ids = ids > CONFIG_NGRAM_HEADS_MAX ? ids : CONFIG_NGRAM_HEADS_MAX;
    m->ids = layout_take(l, ids > (size_t)c->K ? ids : (size_t)c->K, sizeof *m->ids);
    if (g->options.observe)
        m->seen =
            layout_floats(l, rows, wide > (size_t)g->max_visible ? wide : (size_t)g->max_visible);
}

void gpu_scratch_place(struct gpu *g, struct layout room[ROOMS])
{
    const struct config *c = &g->base.weights->config;
    struct scratch *m = &g->scratch;
    struct layout *l = &room[ROOM_LOCAL];
    size_t rows = (size_t)g->rows, values = (size_t)c->nv * c->dv;
    m->hyper = floats(l, rows, (size_t)c->S * c->h);
    m->norm = acts(l, rows, c->S * c->h);
    m->low = floats(l, gpu_hyper_low_floats((int)rows, c->S, c->lowrank), 1);
    m->inj = floats(l, rows, (size_t)c->S);
    m->mixed = acts(l, rows, c->h);
    m->hidden = acts(l, ENGINE_ROWS_MAX, c->h);
    m->out = floats(l, rows, (size_t)c->h);
    m->conv = floats(l, rows, (size_t)deltanet_width(c));
    m->z = floats(l, rows, values);
    m->a = floats(l, rows, (size_t)c->nv);
    m->b = floats(l, rows, (size_t)c->nv);
    m->y = acts(l, rows, (int)values);
    qsa_place(g, l, rows);
    moe_place(g, room, rows);
    ple_place(g, room, rows);
    if (g->options.drafts)
        mtp_place(g, room, rows);
    m->logits = floats(l, ENGINE_ROWS_MAX, (size_t)c->vocab);
    m->logits_back = floats(&room[ROOM_BACK], ENGINE_ROWS_MAX, (size_t)c->vocab);
    m->best = put(l, ENGINE_ROWS_MAX, sizeof(u32));
    m->best_parts = put(l, 1, gpu_best_room(ENGINE_ROWS_MAX, c->vocab));
    m->best_back = put(&room[ROOM_BACK], ENGINE_ROWS_MAX, sizeof(u32));
    m->parts_back = put(&room[ROOM_BACK], 1, gpu_best_room(ENGINE_ROWS_MAX, c->vocab));
    m->bad = put(&room[ROOM_BACK], 1, sizeof(u32));
    size_t records =
        (size_t)g->base.weights->source.store->manifest.experts.n_layers * (size_t)c->E;
    m->table = put(&room[ROOM_SHARED], records, sizeof(u64));
    host_place(g, room, rows);
    pending_place(g, l);
    if (!g->shared.host)
        return;
    g->host.table = (u64 *)((char *)g->shared.host + (m->table - g->shared.address));
    g->host.outputs = (float *)((char *)g->shared.host + (m->outputs - g->shared.address));
    g->host.wide = (u64 *)((char *)g->shared.host + (m->wide - g->shared.address));
}
