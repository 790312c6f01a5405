/* The mixture of experts of a layer: the router's choice, the records of the experts that it names,
 * and their outputs.
 *
 * Resident, the device finds each record by a table that was written once, and the host takes no
 * part. Else there is a stop behind the router: the host reads the choice, opens a visit of the
 * stream for those that are not in the device's memory, waits for their records, starts copies to
 * the device where it has a tier for them, and writes their addresses into the table, in front of
 * the tape that uses them. Of a few rows the processor may compute some meanwhile (host_share.c):
 * then the table has the place of their outputs. Behind these go copies that nothing waits for
 * (ahead.c). The visit stays open, its records pinned, until that tape has ended.
 * Rows whose experts do not all fit into the pool at once go in several visits: results depend on a
 * row's own experts alone. */
#include <string.h>

#include "base/interrupt.h"
#include "gpu/blocks.h"
#include "gpu/moe.h"
#include "gpu/plan.h"

/* Whether the choice is nobody's business but that of the kernels that follow. */
static bool chosen_late(const struct gpu *g, int R)
{
    return g->experts.resident && !g->options.observe &&
           gpu_moe_chooses(R, g->base.weights->config.norm_topk);
}

/* to = the router's choice for R rows of x. */
static int route(struct gpu *g, const struct moe_weights *w, const struct gpu_acts *x, int R,
                 const struct routes *to, struct err *e)
{
    const struct config *c = &g->base.weights->config;
    const struct gpu_route r = {.d = g->device,
                                .t = g->tape,
                                .R = R,
                                .E = c->E,
                                .K = c->K,
                                .norm = c->norm_topk,
                                .late = chosen_late(g, R),
                                .x = x->x,
                                .q = x->q,
                                .router = gpu_matrix_of(g, &w->router),
                                .shared_gate = gpu_matrix_of(g, &w->shared_gate),
                                .logits = to->router,
                                .open = to->open,
                                .route = to->route,
                                .weight = to->route_w};
    return gpu_route_record(&r, e);
}

/* For the host, at the next stop. */
static int routes_back(struct gpu *g, const struct routes *x, int R, struct err *e)
{
    const size_t picks = (size_t)R * (size_t)g->base.weights->config.K;
    int rc = gpu_copy(g, x->route, x->back, picks, e);
    return rc ? rc : gpu_copy(g, x->route_w, x->back_w, picks, e);
}

static u64 *table_of(const struct gpu *g, int il)
{
    return g->host.table + (size_t)il * (size_t)g->base.weights->config.E;
}

/* A table's entry for a record of so many bits. */
static u64 tagged(u64 address, int bits)
{
    return address | (bits == 3 ? GPU_RECORD_Q3 : bits == 2 ? GPU_RECORD_Q2 : 0);
}

/* Rows first .. first + n - 1 through the experts in the layer's table. */
static int experts_apply(struct gpu *g, const struct batch *b, const struct moe_weights *w,
                         int first, int n, struct err *e)
{
    const struct config *c = &g->base.weights->config;
    const struct scratch *m = &g->scratch;
    const struct routes *r = &m->routes;
    gpu_phase(g, PHASE_EXPERTS);
    size_t at = (size_t)first, picks = at * (size_t)c->K;
    const struct gpu_moe x = {
        .d = g->device,
        .t = g->tape,
        .R = n,
        .E = c->E,
        .K = c->K,
        .h = c->h,
        .inter = c->inter,
        .shared_inter = c->shared_inter,
        .q = m->mixed.q + at * GPU_ACTS_BYTES((size_t)c->h),
        .table = gpu_shared(g, table_of(g, w->record_layer)),
        .route = r->route + picks * sizeof(u32),
        .weight = r->route_w + picks * sizeof(float),
        .open = r->open + at * sizeof(float),
        .logits = chosen_late(g, n) ? r->router : 0,
        .act = m->act,
        .shared_act = m->shared_act,
        .room = m->many,
        .to = m->out + at * (size_t)c->h * sizeof(float),
        .gate = gpu_matrix_of(g, &w->gate),
        .up = gpu_matrix_of(g, &w->up),
        .down = gpu_matrix_of(g, &w->down),
        .bits = g->options.miss_bits ? 0 : g->options.expert_bits,
        .host = gpu_shares(g, b),
        .far = !g->experts.resident,
    };
    return gpu_moe_record(&x, e);
}

/* --- visits --- */

/* As many rows from `first` on as name at most slots_max experts together; host.uses holds those,
 * *n of them. At least one row: the pool holds what a row needs. */
static int choose_rows(struct gpu *g, int first, int R, int *n)
{
    const struct config *c = &g->base.weights->config;
    const u32 *route = gpu_back(g, g->scratch.routes.back);
    const float *weight = gpu_back(g, g->scratch.routes.back_w);
    struct host *m = &g->host;
    int r = first;
    *n = 0;
    memset(m->count, 0, (size_t)c->E * sizeof *m->count);
    for (; r < R; r++) {
        int fresh = 0;
        for (int k = 0; k < c->K; k++)
            fresh += !m->count[route[r * c->K + k]];
        if (r > first && *n + fresh > g->experts.slots_max)
            break;
        for (int k = 0; k < c->K; k++) {
            int ie = (int)route[r * c->K + k];
            float by = weight[r * c->K + k];
            if (!m->count[ie]) {
                m->uses[(*n)++] = (struct stream_use){ie, 0, 0};
                m->count[ie] = *n;
            }
            struct stream_use *u = &m->uses[m->count[ie] - 1];
            u->rows++;
            u->weight = by > u->weight ? by : u->weight;
        }
    }
    return r - first;
}

/* Of the experts of a visit those that are on the device go into the table; host.uses keeps the
 * others, *n of them. */
static void find_on_device(struct gpu *g, int il, int *n)
{
    struct residency *tier = g->experts.tier;
    struct stream_use *uses = g->host.uses;
    int left = 0;
    residency_visit(tier);
    for (int i = 0; i < *n; i++) {
        u64 at = residency_find(tier, il, uses[i].expert);
        if (at)
            table_of(g, il)[uses[i].expert] = tagged(at, g->options.expert_bits);
        else
            uses[left++] = uses[i];
    }
    counters_add(&g->counters.layer[il].device_hits, (uint64_t)(*n - left));
    *n = left;
}

/* Writes the addresses of records that have come into the table: in the host's memory, or of copies
 * that have been started. In a prefill, which sees nearly all experts, they push out one another
 * and not what decoding uses. */
static int place_records(struct gpu *g, int il, const struct stream_entry *entry, int n, bool keep,
                         struct err *e)
{
    const uint8_t *slots = g->experts.slots.host;
    struct residency *tier = g->experts.tier;
    u64 *table = table_of(g, il);
    if (tier) {
        gpu_aside_begin(g);
        gpu_phase(g, PHASE_EXPERTS);
    }
    for (int i = 0; i < n; i++) {
        int ie = g->host.uses[entry[i].i].expert;
        u64 from = g->experts.slots.address + (u64)(entry[i].record - slots);
        u64 copy = tier ? residency_place(tier, g->tape, il, ie, from, keep) : 0;
        if (copy && keep && g->keep.max)
            stream_spare(g->stream, entry[i].record);
        table[ie] = tagged(copy ? copy : from, entry[i].bits);
    }
    return tier ? gpu_aside_end(g, 0, e) : 0;
}

/* What a visit is for: rows first .. first + R - 1 of a batch. */
struct rows_visit {
    int il, first, R;
    bool keep, share; /* in residency_place; gpu_shares */
};

/* Some records by the device, the last ones by the host. */
static int use_records(struct gpu *g, const struct rows_visit *v, const struct stream_entry *entry,
                       int n, struct err *e)
{
    const int own = v->share ? gpu_share_of(g, entry, n) : 0, rest = n - own;
    int rc = rest ? place_records(g, v->il, entry, rest, v->keep, e) : 0;
    if (rc || !own)
        return rc;
    gpu_share_compute(g, v->first, v->R, entry + rest, own);
    for (int i = rest; i < n; i++)
        table_of(g, v->il)[g->host.uses[entry[i].i].expert] = GPU_RECORD_HOST | g->scratch.outputs;
    return 0;
}

/* Copies may not have been made: nothing is on the device. */
static void forget(struct gpu *g)
{
    if (!g->experts.tier)
        return;
    gpu_copies_end(g);
    residency_forget(g->experts.tier);
}

/* All records of the visit, as they come. After a failure copies may not have been made, or of
 * slots that hold something else by now. */
static int take_records(struct gpu *g, const struct rows_visit *v, int n, struct err *e)
{
    enum { AT_ONCE = 64 };
    struct stream_entry entry[AT_ONCE];
    int rc = 0;
    for (int got = 1; !rc && got;) {
        rc = stream_ready(g->stream, true, entry, AT_ONCE, &got, e);
        if (rc)
            g->experts.n_uses = 0; /* the stream has ended the visit */
        else if (got)
            rc = use_records(g, v, entry, got, e);
    }
    if (rc)
        forget(g);
    for (int i = 0; !rc && g->options.cut_weak > 0 && i < n; i++)
        if (stream_was_cut(g->stream, i))
            table_of(g, v->il)[g->host.uses[i].expert] = 0;
    return rc;
}

void gpu_visit_close(struct gpu *g)
{
    if (g->experts.n_uses) /* also of what never came, when something failed half way */
        stream_end(g->stream);
    g->experts.n_uses = 0;
}

static bool on_device(const struct gpu *g, int il, int ie)
{
    return g->experts.tier && residency_has(g->experts.tier, il, ie);
}

/* Names the experts that the next layer will probably need, for reads and for copies. */
static int predict(struct gpu *g, const struct batch *b, const struct layer_weights *next,
                   struct err *e)
{
    const struct config *c = &g->base.weights->config;
    const u32 *guess = gpu_back(g, g->scratch.ahead.back);
    struct host *m = &g->host;
    int n = 0;
    memset(m->count, 0, (size_t)c->E * sizeof *m->count);
    for (int k = 0; k < c->K; k++)
        for (int r = 0; r < b->R; r++) {
            int ie = (int)guess[r * c->K + k];
            if (!m->count[ie]++ && !on_device(g, next->moe.record_layer, ie))
                m->guess[n++] = ie;
        }
    stream_predict(g->stream, next->moe.record_layer, m->guess, n);
    return g->ahead.max ? gpu_ahead_start(g, next->moe.record_layer, m->guess, n, e) : 0;
}

/* By the residual as it is before this layer's experts are added. */
static int route_ahead(struct gpu *g, const struct batch *b, const struct layer_weights *next,
                       struct err *e)
{
    const struct hyper_job read = {.w = &next->mlp_hyper,
                                   .hyper = g->scratch.hyper,
                                   .R = b->R,
                                   .inj = g->scratch.inj,
                                   .mixer = true,
                                   .to = &g->scratch.ahead_x};
    int rc = gpu_hyper_read(g, &read, e);
    rc = rc ? rc : route(g, &next->moe, &g->scratch.ahead_x, b->R, &g->scratch.ahead, e);
    return rc ? rc : routes_back(g, &g->scratch.ahead, b->R, e);
}

/* What is copied while kernels run. At a stop of its own: the guess at the next layer is made while
 * the host is busy with this one. */
static int beside_now(struct gpu *g, struct batch *b, const struct stop *s, struct err *e)
{
    int rc = 0;
    if (s->next && s->first + g->experts.rows == s->R)
        rc = predict(g, b, s->next, e);
    if (!rc && g->keep.max && !b->prefill)
        rc = gpu_keep_start(g, e);
    if (rc)
        forget(g);
    return rc;
}

/* The choice of rows first .. is known: a visit for as many of them as the pool holds experts for,
 * whose records are in the table when this returns. */
static int visit_now(struct gpu *g, struct batch *b, const struct stop *s, struct err *e)
{
    int n, il = s->w->record_layer;
    if (!s->first)
        gpu_see_routes(g, b);
    gpu_copies_settle(g);
    g->experts.rows = choose_rows(g, s->first, s->R, &n);
    counters_add(&g->counters.touched_bytes, (uint64_t)n * g->touched.record);
    if (g->experts.tier)
        find_on_device(g, il, &n);
    int rc = n ? stream_begin(g->stream, il, g->host.uses, n, CAUSE_DEMAND, e) : 0;
    if (rc)
        return rc;
    g->experts.n_uses = n;
    const struct rows_visit v = {il, s->first, g->experts.rows, !b->prefill, gpu_shares(g, b)};
    rc = n ? take_records(g, &v, n, e) : 0;
    if (g->experts.tier)
        residency_await(g->experts.tier);
    if (rc || s->later)
        return rc;
    return beside_now(g, b, s, e);
}

/* All rows in one visit where a plan is made (gpu.c sees to it that they fit), else in as many as
 * it takes. */
static int visit_rows(struct gpu *g, struct batch *b, const struct moe_weights *w,
                      const struct layer_weights *next, struct err *e)
{
    const bool apart = next && !plan_passes(g);
    int rc = next && !apart ? route_ahead(g, b, next, e) : 0;
    for (int r = 0, rows; !rc && r < b->R; r += rows) {
        struct stop s = {
            .run = visit_now, .w = w, .next = next, .first = r, .R = b->R, .later = apart};
        rc = gpu_stop(g, b, &s, e);
        if (!rc && apart) {
            rc = route_ahead(g, b, next, e);
            s.run = beside_now;
            s.later = false;
            s.inside = true;
            rc = rc ? rc : gpu_stop(g, b, &s, e);
        }
        rows = plan_passes(g) ? g->experts.rows : b->R;
        rc = rc ? rc : experts_apply(g, b, w, r, rows, e);
    }
    return rc;
}

static int see_routes_now(struct gpu *g, struct batch *b, const struct stop *s, struct err *e)
{
    (void)s;
    (void)e;
    gpu_see_routes(g, b);
    return 0;
}

int gpu_visit_apply(struct gpu *g, struct batch *b, const struct moe_weights *w,
                    const struct layer_weights *next, struct err *e)
{
    static const struct stop see = {.run = see_routes_now};
    const bool ahead = next && g->lookahead && !b->prefill && b->R <= ENGINE_ROWS_MAX;
    gpu_phase(g, PHASE_ROUTE);
    int rc = route(g, w, &g->scratch.mixed, b->R, &g->scratch.routes, e);
    if (!rc && (g->options.observe || !g->experts.resident))
        rc = routes_back(g, &g->scratch.routes, b->R, e);
    if (!rc && gpu_shares(g, b))
        rc = gpu_share_back(g, b, e);
    if (rc)
        return rc;
    if (g->experts.resident) {
        rc = g->options.observe ? gpu_stop(g, b, &see, e) : 0;
        return rc ? rc : experts_apply(g, b, w, 0, b->R, e);
    }
    return visit_rows(g, b, w, ahead ? next : NULL, e);
}

/* --- at open --- */

/* All records of a layer: read through the stream, a few at a time, and copied. */
static int load_layer(struct gpu *g, int il, struct err *e)
{
    enum { AT_ONCE = 64 };
    struct stream_entry entry[AT_ONCE];
    const int E = g->base.weights->config.E;
    for (int ie = 0; ie < E; ie++)
        g->host.uses[ie] = (struct stream_use){ie, 1, 0};
    int rc = stream_begin(g->stream, il, g->host.uses, E, CAUSE_PREFILL, e);
    for (int got = 1; !rc && got;) {
        rc = interrupt_check(e);
        rc = rc ? rc : stream_ready(g->stream, true, entry, AT_ONCE, &got, e);
        for (int i = 0; !rc && i < got; i++) {
            u64 at = 0;
            rc = residency_load(g->experts.tier, il, entry[i].i, entry[i].record, &at, e);
            table_of(g, il)[entry[i].i] = tagged(at, entry[i].bits);
            stream_done(g->stream, entry[i].i);
        }
    }
    if (!rc)
        stream_end(g->stream);
    return rc;
}

int gpu_experts_open(struct gpu *g, const struct share *s, struct err *e)
{
    const struct store *store = g->base.weights->source.store;
    const struct residency_options o = {.n_layers = store->manifest.experts.n_layers,
                                        .E = store->manifest.experts.E,
                                        .record_bytes =
                                            stream_slot_bytes(store, g->options.expert_bits, 0),
                                        .bytes = s->tier};
    if (s->tier < o.record_bytes)
        return 0;
    int rc = residency_open(g->device, &o, &g->experts.tier, e);
    if (rc)
        return rc;
    const int slots = residency_slots(g->experts.tier);
    g->counters.device_slots = (uint64_t)slots;
    g->counters.device_bytes = (uint64_t)slots * o.record_bytes;
    g->experts.resident = s->resident && residency_holds_all(g->experts.tier); /* or the driver gave
                                                                   less than it said */
    for (int il = 0; !rc && g->experts.resident && il < o.n_layers; il++)
        rc = load_layer(g, il, e);
    return rc;
}

int gpu_experts_import(struct gpu *g, struct err *e)
{
    void *pages;
    size_t bytes;
    stream_memory(g->stream, &pages, &bytes);
    return device_import(g->device, pages, bytes, &g->experts.slots, e);
}

void gpu_experts_free(struct gpu *g)
{
    gpu_copies_end(g);
    residency_close(g->experts.tier);
    g->experts.tier = NULL;
    device_free(g->device, &g->experts.slots);
}
