/* Reports to the observer. What it wants to see is on the device: so each is a stop, at which its
 * part is fetched. */
#include "gpu/blocks.h"
#include "gpu/plan.h"

/* n bytes at an address of `local`. */
static int fetch(struct gpu *g, u64 from, void *to, size_t n, struct err *e)
{
    return device_download(g->device, &g->local, from - g->local.address, to, n, e);
}

void gpu_see_row(const struct gpu *g, const struct batch *b, int r, enum seen what, const float *x,
                 int n)
{
    const struct observer *o = g->options.observe;
    if (o && o->floats)
        o->floats(o->ctx, what, b->il, b->host->at[r].pos, x, (size_t)n);
}

static int see_rows_now(struct gpu *g, struct batch *b, const struct stop *s, struct err *e)
{
    const size_t n = (size_t)s->n;
    int rc = fetch(g, s->x, g->host.seen, (size_t)b->R * n * sizeof(float), e);
    for (int r = 0; !rc && r < b->R; r++)
        gpu_see_row(g, b, r, s->what, g->host.seen + (size_t)r * n, s->n);
    return rc;
}

int gpu_see_rows(struct gpu *g, struct batch *b, enum seen what, u64 x, int n, struct err *e)
{
    const struct stop s = {.run = see_rows_now, .what = what, .x = x, .n = n};
    return g->options.observe ? gpu_stop(g, b, &s, e) : 0;
}

void gpu_see_ids(const struct gpu *g, const struct batch *b, int r, enum seen what, const int *ids,
                 int n)
{
    const struct observer *o = g->options.observe;
    if (!o || !o->ints)
        return;
    for (int i = 0; i < n; i++)
        g->host.ids[i] = ids[i];
    o->ints(o->ctx, what, b->il, b->host->at[r].pos, g->host.ids, (size_t)n);
}

/* The positions that a row at pos sees, ascending; chosen: as select.comp left them. */
static int visible_of(const struct config *c, int pos, const u32 *chosen, int64_t *ids)
{
    int blocks = (pos + 1) / c->index_ratio, most = c->index_budget / c->index_ratio, n = 0;
    for (int i = 0; blocks > most && i < most; i++)
        for (int j = 0; j < c->index_ratio; j++)
            ids[n++] = (int64_t)chosen[i] * c->index_ratio + j;
    for (int p = blocks > most ? blocks * c->index_ratio : 0; p <= pos; p++)
        ids[n++] = p;
    return n;
}

static int see_selected_now(struct gpu *g, struct batch *b, const struct stop *s, struct err *e)
{
    const struct config *c = &g->base.weights->config;
    const struct observer *o = g->options.observe;
    int most = c->index_budget / c->index_ratio;
    u32 *chosen = (u32 *)g->host.seen; /* which has room for the larger of the two */
    int rc = fetch(g, g->scratch.chosen, chosen, (size_t)b->R * (size_t)most * 4, e);
    (void)s;
    for (int r = 0; !rc && r < b->R; r++) {
        int pos = b->host->at[r].pos;
        int n = visible_of(c, pos, chosen + (size_t)r * (size_t)most, g->host.ids);
        o->ints(o->ctx, SEEN_SELECTED, b->il, pos, g->host.ids, (size_t)n);
    }
    return rc;
}

int gpu_see_selected(struct gpu *g, struct batch *b, struct err *e)
{
    static const struct stop see = {.run = see_selected_now};
    const struct observer *o = g->options.observe;
    return o && o->ints ? gpu_stop(g, b, &see, e) : 0;
}

void gpu_see_routes(const struct gpu *g, const struct batch *b)
{
    int K = g->base.weights->config.K;
    const int *route = gpu_back(g, g->scratch.routes.back);
    const float *weight = gpu_back(g, g->scratch.routes.back_w);
    for (int r = 0; r < b->R; r++)
        gpu_see_ids(g, b, r, SEEN_ROUTE, route + (size_t)r * K, K);
    for (int r = 0; r < b->R; r++)
        gpu_see_row(g, b, r, SEEN_ROUTE_WEIGHT, weight + (size_t)r * K, K);
}
