/* Which experts of a visit the processor computes: blocks.h says what for.
 *
 * An expert that is in the pool and not on the device would be copied there first. While such
 * copies are under way the processor is idle, and it reads the pool as fast as the device does or
 * faster. So of those that are ready at once it takes so many that both are done at the same time,
 * the ones of least weight; what each takes is measured at open, by the same ways with the same
 * sizes. While the device has free slots all are copied: it would stay empty.
 *
 *      router | copies of the first ones | experts
 *             | outputs of the others    |    ^ takes both, in routing order
 *
 * None of it changes what is computed (host_moe.h). */
#include "base/clock.h"
#include "gpu/blocks.h"
#include "gpu/plan.h"

enum { PROBES = 5, PROBE_COPIES = 16 };

/* --- at open --- */

static int pool_slots(const struct gpu *g)
{
    return (int)(g->experts.slots.bytes / g->touched.record);
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Nanoseconds of a record. What is copied is anything: the tier holds nothing yet. */
static int measure_copies(struct gpu *g, double *ns, struct err *e)
{
    struct residency *tier = g->experts.tier;
    const int n = least(PROBE_COPIES, least(pool_slots(g), residency_slots(tier)));
    int rc = 0;
    for (int i = 0; !rc && i < PROBES; i++) {
        gpu_aside_begin(g);
        residency_probe(tier, g->tape, g->experts.slots.address, n);
        const uint64_t start = clock_ns();
        rc = gpu_aside_end(g, 0, e);
        rc = rc ? rc : gpu_wait(g, e);
        const double took = (double)(clock_ns() - start) / n;
        *ns = i && *ns < took ? *ns : took;
    }
    return rc;
}

/* Nanoseconds of an expert for one row: as many as a row has, of other records each time. */
static void measure_host(struct gpu *g, double *ns)
{
    const int n = least(g->base.weights->config.K, pool_slots(g));
    const uint8_t *slots = g->experts.slots.host;
    for (int i = 0, at = 0; i < PROBES; i++) {
        for (int k = 0; k < n; k++, at = (at + 1) % pool_slots(g))
            host_moe_add(g->share.moe, slots + (size_t)at * g->touched.record,
                         g->options.expert_bits, &k, 1);
        const uint64_t start = clock_ns();
        host_moe_run(g->share.moe, g->host.outputs);
        const double took = (double)(clock_ns() - start) / n;
        *ns = i && *ns < took ? *ns : took;
    }
}

int gpu_share_open(struct gpu *g, struct err *e)
{
    const struct config *c = &g->base.weights->config;
    struct share_rates *s = &g->share;
    if (g->options.host_experts == ENGINE_HOST_OFF || !g->experts.tier || g->experts.resident)
        return 0;
    int rc = host_moe_open(c->h, c->inter, c->K, g->options.threads, &s->moe, e);
    if (rc || g->options.host_experts == ENGINE_HOST_ON)
        return rc;
    measure_host(g, &s->host_ns);
    return measure_copies(g, &s->copy_ns, e);
}

void gpu_share_close(struct gpu *g)
{
    host_moe_close(g->share.moe);
    g->share.moe = NULL;
}

/* --- in a visit --- */

bool gpu_shares(const struct gpu *g, const struct batch *b)
{
    return g->share.moe && !b->prefill && b->R <= HOST_MOE_ROWS;
}

int gpu_share_back(struct gpu *g, const struct batch *b, struct err *e)
{
    const size_t bytes = (size_t)b->R * GPU_ACTS_BYTES((size_t)g->base.weights->config.h);
    return gpu_copy(g, g->scratch.mixed.q, g->scratch.mixed_back, bytes / sizeof(u32), e);
}

int gpu_share_of(const struct gpu *g, const struct stream_entry *entry, int n)
{
    const struct share_rates *s = &g->share;
    double best = s->copy_ns * n, host = 0;
    int many = 0;
    if (!residency_full(g->experts.tier))
        return 0;
    if (g->options.host_experts == ENGINE_HOST_ON)
        return n;
    for (int i = n - 1; i >= 0; i--) {
        const double copies = s->copy_ns * i;
        host += s->host_ns * g->host.uses[entry[i].i].rows;
        const double both = host > copies ? host : copies;
        if (both < best) {
            best = both;
            many = n - i;
        }
    }
    return many;
}

void gpu_share_compute(struct gpu *g, int first, int R, const struct stream_entry *entry, int n)
{
    const struct config *c = &g->base.weights->config;
    const u32 *route = (const u32 *)gpu_back(g, g->scratch.routes.back) + (size_t)first * c->K;
    const uint8_t *rows = gpu_back(g, g->scratch.mixed_back);
    int pair[HOST_MOE_ROWS];
    host_moe_rows(g->share.moe, rows + (size_t)first * GPU_ACTS_BYTES((size_t)c->h), R);
    for (int i = 0; i < n; i++) {
        const u32 ie = (u32)g->host.uses[entry[i].i].expert;
        int used = 0;
        for (int k = 0; k < R * c->K; k++)
            if (route[k] == ie)
                pair[used++] = k;
        host_moe_add(g->share.moe, entry[i].record, entry[i].bits, pair, used);
    }
    host_moe_run(g->share.moe, g->host.outputs);
    counters_add(&g->counters.host_experts, (uint64_t)n);
}
