/* Copies between pool and device beside the tapes: blocks.h says what for.
 *
 * **Ahead.** Copies of what a layer uses begin when its router is through, and kernels wait for
 * them. The way from the host is idle from there to the next router, and what the next layer will
 * probably use fills it. A copy that was right is one less to wait for, also if it is still under
 * way; one that was wrong was for nothing, and takes its share of the way from those that are
 * waited for as long as it lasts. So there are as many as have ended when the next router is
 * through, give or take one. A record is held in the pool until it has been copied.
 *
 *      router of layer L | copies for L ->| copies ahead for L+1 ...
 *                        |                | experts of L | mixer of L+1 | router of L+1
 *
 * **Keeping.** What leaves the device would have to be read from the disk again if the pool has not
 * got it, and the pool, which sees what the device has not got, would hold what has just been
 * copied. So a record that was copied may leave the pool first, and one that is about to leave the
 * device is copied back: together they hold about as many as both have slots.
 *
 *      disk --read--> pool --copied--> device --about to leave, copied back--> pool --> gone
 *
 * None of it changes what is computed. */
#include "gpu/blocks.h"
#include "gpu/plan.h"

enum {
    AHEAD_FIRST = 3,
    KEEP_REACH = 32, /* records at the device's end that are kept: a layer's visit takes a few */
    KEEP_ONCE = 8,   /* copies back at a stop */
};

static void put(struct under_way *u, const uint8_t *record)
{
    u->copy[(u->first + u->n++) % DEVICE_COPIES_MAX].record = record;
}

/* The values of the last n: `value` is that of the last; 0: none of them was started. */
static void started(struct under_way *u, int n, uint64_t value)
{
    for (int i = 0; i < n; i++)
        u->copy[(u->first + u->n - 1 - i) % DEVICE_COPIES_MAX].value =
            value ? value - (uint64_t)i : 0;
}

static void written(struct stream *st, const uint8_t *record)
{
    stream_given(st, record, true);
}

/* Gives what has been copied to `done`. */
static void settle(struct gpu *g, struct under_way *u,
                   void (*done)(struct stream *st, const uint8_t *record))
{
    while (u->n && device_copied(g->device, u->copy[u->first].value)) {
        done(g->stream, u->copy[u->first].record);
        u->first = (u->first + 1) % DEVICE_COPIES_MAX;
        u->n--;
    }
}

static void wait_all(struct gpu *g, const struct under_way *u)
{
    struct err ignored = {0}; /* a device that is lost copies nothing more */
    if (u->n)
        (void)device_wait_copied(
            g->device, u->copy[(u->first + u->n - 1) % DEVICE_COPIES_MAX].value, &ignored);
}

void gpu_copies_open(struct gpu *g, int slots)
{
    const struct expert_layout *x = &g->base.weights->source.store->manifest.experts;
    const struct device_info *about = device_about(g->device);
    const int spare = (slots - g->experts.slots_max) / 2; /* of the pool; the rest is for reads */
    const bool beside = about->copy_queue || about->kind == DEVICE_SOFTWARE; /* for tests */
    const int most = spare < DEVICE_COPIES_MAX ? spare : DEVICE_COPIES_MAX;
    struct ahead *a = &g->ahead;
    a->max = beside && !g->options.no_lookahead ? most : 0;
    a->most = AHEAD_FIRST < a->max ? AHEAD_FIRST : a->max;
    g->keep.max = slots < x->n_layers * x->E ? most : 0;
}

void gpu_copies_settle(struct gpu *g)
{
    struct ahead *a = &g->ahead;
    settle(g, &a->to, stream_release);
    settle(g, &g->keep.from, written);
    if (a->full && !a->to.n && a->most < a->max)
        a->most++;
    else if (a->to.n > 1 && a->most > 1)
        a->most--;
    a->full = false;
}

int gpu_ahead_start(struct gpu *g, int il, const int *guess, int n, struct err *e)
{
    struct ahead *a = &g->ahead;
    const int had = a->to.n;
    uint64_t value = 0;
    for (int i = 0; i < n && a->to.n < a->most; i++) {
        const uint8_t *record = stream_hold(g->stream, il, guess[i]);
        if (!record)
            continue;
        if (!residency_bring(g->experts.tier, il, guess[i], &g->experts.slots,
                             (size_t)(record - (const uint8_t *)g->experts.slots.host))) {
            stream_release(g->stream, record);
            break;
        }
        if (g->keep.max)
            stream_spare(g->stream, record);
        put(&a->to, record);
    }
    const int rc = residency_start(g->experts.tier, gpu_started(g), &value, e);
    started(&a->to, a->to.n - had, rc ? 0 : value);
    a->full = a->to.n == a->most;
    return rc;
}

int gpu_keep_start(struct gpu *g, struct err *e)
{
    struct residency_record leaving[KEEP_REACH];
    struct device_copy copy[KEEP_ONCE];
    struct under_way *u = &g->keep.from;
    int32_t slot[KEEP_ONCE];
    uint64_t value = 0;
    int n = 0, many = residency_leaving(g->experts.tier, KEEP_REACH, leaving);
    for (int i = 0; i < many && n < KEEP_ONCE && u->n < g->keep.max; i++) {
        const struct residency_record *x = &leaving[i];
        const uint8_t *to = stream_give(g->stream, x->il, x->ie);
        if (!to)
            continue;
        copy[n] = (struct device_copy){x->buffer, &g->experts.slots, x->off,
                                       (size_t)(to - (const uint8_t *)g->experts.slots.host),
                                       g->touched.record};
        slot[n++] = x->slot;
        put(u, to);
    }
    const int rc = n ? device_copy(g->device, copy, n, gpu_started(g), &value, e) : 0;
    started(u, n, value);
    for (int i = 0; !rc && i < n; i++)
        residency_hold(g->experts.tier, slot[i], value - (uint64_t)(n - 1 - i));
    for (; rc && n; n--)
        stream_given(g->stream, u->copy[(u->first + --u->n) % DEVICE_COPIES_MAX].record, false);
    return rc;
}

void gpu_copies_end(struct gpu *g)
{
    wait_all(g, &g->ahead.to);
    wait_all(g, &g->keep.from);
    settle(g, &g->ahead.to, stream_release);
    settle(g, &g->keep.from, written);
}
