/* Reads nobody has asked for yet: experts that the next layer will probably need, and (last of all)
 * those that were used most in earlier runs. Both stand behind every demand read: they start when
 * none waits and none is in flight. What they read changes when bytes come, never what is
 * computed. */
#include <assert.h>

#include "base/log.h"
#include "base/mem.h"
#include "stream/inside.h"
#include "stream/order.h"
#include "stream/ranking.h"

static bool used_more(const void *ctx, int a, int b)
{
    const float *use = ctx;
    return use[a] != use[b] ? use[a] > use[b] : a < b;
}

/* Uses of earlier runs go on counting in this one, and name what to read first. */
static void read_ranking(struct stream *st)
{
    struct lookahead *a = &st->lookahead;
    struct err e = {0};
    if (ranking_read(st->store, st->pool.freq, &e)) {
        if (e.code != E_NOTFOUND)
            log_say(LOG_WARN, "%s; not used, and replaced at the end where that can be", e.msg);
        return;
    }
    for (int key = 0; key < st->pool.n_keys; key++)
        if (st->pool.freq[key] > 0)
            a->warm[a->n_warm++] = key;
    order_sort(a->warm, a->n_warm, used_more, st->pool.freq);
}

int lookahead_open(struct stream *st, struct err *e)
{
    struct lookahead *a = &st->lookahead;
    a->il = -1;
    a->expert = mem_array((size_t)st->experts->E, sizeof *a->expert);
    a->warm = mem_array((size_t)st->pool.n_keys, sizeof *a->warm);
    if (!a->expert || !a->warm)
        return ERR(e, E_NOMEM, "out of memory for lookahead");
    if (st->o.keep_ranking)
        read_ranking(st);
    return 0;
}

void lookahead_note(const struct stream *st)
{
    struct err e = {0};
    float *use;
    if (!st->o.keep_ranking || !st->used)
        return;
    use = mem_array((size_t)st->pool.n_keys, sizeof *use);
    for (int key = 0; use && key < st->pool.n_keys; key++)
        use[key] = pool_frequency(&st->pool, key);
    if (use && ranking_write(st->store, use, &e))
        log_say(LOG_DEBUG, "which experts were used is not kept: %s", e.msg);
    mem_free(use);
}

void stream_predict(struct stream *st, int il, const int *experts, int n)
{
    struct lookahead *a = &st->lookahead;
    assert(il >= 0 && il < st->experts->n_layers && n <= st->experts->E);
    if (st->o.no_lookahead || st->o.pool == ENGINE_POOL_MAP)
        return;
    a->il = il;
    a->n = n;
    a->next = 0;
    counters_add(&st->counters->layer[il].predicted, (uint64_t)n);
    for (int i = 0; i < n; i++) {
        a->expert[i] = experts[i];
        int at = st->pool.where[key_of(st, il, experts[i])];
        if (at != POOL_NONE && st->pool.slot[at].state == SLOT_READY)
            pool_touch(&st->pool, at); /* not now, when it is about to be used */
    }
    reads_pump(st);
}

bool lookahead_start_next(struct stream *st)
{
    struct lookahead *a = &st->lookahead;
    if (st->n_wanted)
        return false;
    while (a->next < a->n) {
        int key = key_of(st, a->il, a->expert[a->next++]);
        if (st->pool.where[key] != POOL_NONE)
            continue;
        int slot = reads_slot(st, key, true);
        if (slot == POOL_NONE) {
            a->next = a->n; /* no room but that of other predictions */
            return false;
        }
        counters_add(&st->counters->layer[a->il].prefetched, 1);
        counters_add(&expert_of(st, key)->prefetched, 1);
        reads_start_record(st, slot, CAUSE_LOOKAHEAD, st->o.bits);
        return true;
    }
    return false;
}

/* Fills free slots, and gives up nothing for it. */
bool warm_start_next(struct stream *st)
{
    struct lookahead *a = &st->lookahead;
    if (st->n_wanted)
        return false;
    while (a->next_warm < a->n_warm && st->pool.n_free) {
        int key = a->warm[a->next_warm++];
        if (st->pool.where[key] != POOL_NONE)
            continue;
        reads_start_record(st, reads_slot(st, key, true), CAUSE_WARM, st->o.bits);
        return true;
    }
    return false;
}
