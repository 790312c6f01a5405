/* Reads nobody has asked for yet: experts that the next layer will probably need, and (last of all)
 * those that were used most in earlier runs. Both stand behind every demand read: they start when
 * none waits and none is in flight. What they read changes when bytes come, never what is
 * computed. */
#include <assert.h>

#include "base/mem.h"
#include "stream/inside.h"

int lookahead_open(struct stream *st, struct err *e)
{
    st->lookahead.il = -1;
    st->lookahead.expert = mem_array((size_t)st->experts->E, sizeof *st->lookahead.expert);
    return st->lookahead.expert ? 0 : ERR(e, E_NOMEM, "out of memory for lookahead");
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
    st->counters->layer[il].predicted += (uint64_t)n;
    for (int i = 0; i < n; i++) {
        a->expert[i] = experts[i];
        int at = st->pool.where[key_of(st, il, experts[i])];
        if (at != POOL_NONE && st->pool.slot[at].state == SLOT_READY)
            pool_touch(&st->pool, at); /* not now, when it is about to be used */
    }
    reads_pump(st);
}

/* Leaves some of the depth to a demand that comes while they are in flight. */
bool lookahead_start_next(struct stream *st)
{
    struct lookahead *a = &st->lookahead;
    int most = st->depth > 3 ? st->depth - 2 : 1;
    if (st->n_wanted || st->n_background >= most)
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
        st->counters->layer[a->il].prefetched++;
        reads_start_record(st, slot, CAUSE_LOOKAHEAD, st->o.bits);
        return true;
    }
    return false;
}

/* Fills free slots, and gives up nothing for it. */
bool warm_start_next(struct stream *st)
{
    struct lookahead *a = &st->lookahead;
    int most = st->depth > 7 ? st->depth / 4 : 1;
    if (st->n_wanted || st->n_background >= most)
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
