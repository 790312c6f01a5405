/* Copies ahead of time: of experts that the next layer will probably use those that the pool has and
 * the device has not, while this layer's and the next one's kernels run.
 *
 * Copies of what a layer does use begin when its router is through, and kernels wait for them. The
 * way from the host is idle from there to the next router, and this fills it. A copy that was right
 * is one less to wait for, also if it is still under way; one that was wrong was for nothing, and
 * takes its share of the way from those that are waited for as long as it lasts. So there are as
 * many as have ended when the next router is through, give or take one. Its record is held in the
 * pool until it has ended. None of it changes what is computed.
 *
 *      router of layer L | copies for L ->| copies ahead for L+1 ...
 *                        |                | experts of L | mixer of L+1 | router of L+1 */
#include "gpu/blocks.h"
#include "gpu/plan.h"

enum { AHEAD_FIRST = 3 };

void gpu_ahead_open(struct gpu *g, int slots)
{
    const struct device_info *about = device_about(g->device);
    const int spare = (slots - g->experts.slots_max) / 2; /* of the pool; the rest is for reads */
    const bool beside = about->copy_queue || about->kind == DEVICE_SOFTWARE; /* for tests */
    const int most = spare < DEVICE_COPIES_MAX ? spare : DEVICE_COPIES_MAX;
    g->ahead = (struct ahead){.max = beside ? most : 0};
    g->ahead.most = AHEAD_FIRST < g->ahead.max ? AHEAD_FIRST : g->ahead.max;
}

/* Gives back the records whose copies have ended. */
static void settle(struct gpu *g)
{
    struct ahead *a = &g->ahead;
    while (a->n && device_copied(g->device, a->copy[a->first].value)) {
        stream_release(g->stream, a->copy[a->first].record);
        a->first = (a->first + 1) % DEVICE_COPIES_MAX;
        a->n--;
    }
}

void gpu_ahead_settle(struct gpu *g)
{
    struct ahead *a = &g->ahead;
    settle(g);
    if (a->full && !a->n && a->most < a->max)
        a->most++;
    else if (a->n > 1 && a->most > 1)
        a->most--;
    a->full = false;
}

int gpu_ahead_start(struct gpu *g, int il, const int *guess, int n, struct err *e)
{
    struct ahead *a = &g->ahead;
    const uint8_t *slots = g->experts.slots.host;
    const int had = a->n;
    uint64_t value = 0;
    for (int i = 0; i < n && a->n < a->most; i++) {
        const uint8_t *record = stream_hold(g->stream, il, guess[i]);
        if (!record)
            continue;
        if (!residency_bring(g->experts.tier, il, guess[i], &g->experts.slots,
                             (size_t)(record - slots))) {
            stream_release(g->stream, record);
            break;
        }
        a->copy[(a->first + a->n++) % DEVICE_COPIES_MAX].record = record;
    }
    const int rc = residency_start(g->experts.tier, gpu_started(g), &value, e);
    for (int i = had; i < a->n; i++) /* of a failed start none is waited for */
        a->copy[(a->first + i) % DEVICE_COPIES_MAX].value =
            rc ? 0 : value - (uint64_t)(a->n - 1 - i);
    a->full = a->n == a->most;
    if (rc)
        residency_forget(g->experts.tier);
    return rc;
}

void gpu_ahead_end(struct gpu *g)
{
    struct ahead *a = &g->ahead;
    struct err ignored = {0};
    if (a->n)
        (void)device_wait_copied(
            g->device, a->copy[(a->first + a->n - 1) % DEVICE_COPIES_MAX].value, &ignored);
    settle(g);
}
