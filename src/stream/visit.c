/* Visits: from a list of experts to records that are ready. See stream.h; entry_state in inside.h
 * has the states of an entry. */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "stream/inside.h"
#include "stream/order.h"

static bool weighs_more(const void *ctx, int a, int b);
static void choose_kept(struct stream *st);
static void resolve(struct stream *st, int i);
static bool cut_late(struct stream *st);
static void let_go(struct stream *st, int i);
static int fail(struct stream *st, struct err *e);

int visit_open(struct stream *st, struct err *e)
{
    struct visit *v = &st->visit;
    size_t n = (size_t)(st->o.visit_max > 0 ? st->o.visit_max : st->experts->E);
    st->o.visit_max = (int)n;
    v->entry = mem_array(n, sizeof *v->entry);
    v->order = mem_array(n, sizeof *v->order);
    v->ready = mem_array(n, sizeof *v->ready);
    v->waiting = mem_array(n, sizeof *v->waiting);
    return v->entry && v->order && v->ready && v->waiting
               ? 0
               : ERR(e, E_NOMEM, "out of memory for %zu experts of a step", n);
}

int stream_begin(struct stream *st, int il, const struct stream_use *uses, int n, enum cause cause,
                 struct err *e)
{
    struct visit *v = &st->visit;
    assert(!v->open && n <= st->o.visit_max && il >= 0 && il < st->experts->n_layers);
    assert(cause == CAUSE_DEMAND || cause == CAUSE_PREFILL);
    (void)e;
    st->pool.round += il <= st->last_layer;
    st->last_layer = il;
    st->used = true;
    *v = (struct visit){.open = true,
                        .il = il,
                        .n = n,
                        .cause = cause,
                        .entry = v->entry,
                        .order = v->order,
                        .ready = v->ready,
                        .waiting = v->waiting};
    for (int i = 0; i < n; i++) {
        v->entry[i] = (struct entry){.use = uses[i], .slot = POOL_NONE, .keep = true};
        v->order[i] = i;
    }
    if (st->lookahead.il == il) /* what it named is known now */
        st->lookahead.next = st->lookahead.n;
    if (cause == CAUSE_PREFILL)
        choose_kept(st);
    else if (st->o.cut_weak > 0) /* what may be dropped is read last */
        order_sort(v->order, n, weighs_more, v->entry);
    for (int i = 0; i < n; i++)
        resolve(st, v->order[i]);
    reads_pump(st);
    return 0;
}

int stream_ready(struct stream *st, bool wait, struct stream_entry *out, int max, int *n,
                 struct err *e)
{
    struct visit *v = &st->visit;
    assert(v->open && max > 0);
    *n = 0;
    reads_pump(st);
    while (wait && v->ready_from == v->ready_to && v->n_unready && !v->failure.code) {
        if (cut_late(st))
            break;
        assert(st->n_flight); /* else every slot is pinned by what the engine has not given back */
        reads_wait(st, v->cause);
    }
    if (v->failure.code)
        return fail(st, e);
    for (; *n < max && v->ready_from < v->ready_to; ++*n) {
        int i = v->ready[v->ready_from++];
        struct entry *x = &v->entry[i];
        x->state = ENTRY_OUT;
        v->n_out++;
        out[*n] = (struct stream_entry){.i = i, .bits = st->o.bits};
        if (x->slot == POOL_NONE) {
            out[*n].record = store_record(st->store, v->il, x->use.expert);
        } else {
            out[*n].record = pool_bytes(&st->pool, x->slot);
            out[*n].bits = st->pool.slot[x->slot].bits;
        }
    }
    return 0;
}

void stream_done(struct stream *st, int i)
{
    struct visit *v = &st->visit;
    assert(v->open && i >= 0 && i < v->n && v->entry[i].state == ENTRY_OUT);
    v->entry[i].state = ENTRY_DONE;
    v->n_out--;
    let_go(st, i);
    reads_pump(st);
}

void stream_end(struct stream *st)
{
    struct visit *v = &st->visit;
    for (int i = 0; v->open && i < v->n; i++)
        let_go(st, i);
    v->open = false;
    reads_pump(st);
}

bool stream_was_cut(const struct stream *st, int i)
{
    return st->visit.entry[i].state == ENTRY_CUT;
}

bool visit_start_next(struct stream *st)
{
    struct visit *v = &st->visit;
    if (!v->open || v->failure.code || v->wait_from == v->wait_to)
        return false;
    int i = v->waiting[v->wait_from];
    struct entry *x = &v->entry[i];
    if (!x->keep && v->n_passing >= v->ring)
        return false;
    int slot = reads_slot(st, key_of(st, v->il, x->use.expert), false);
    if (slot == POOL_NONE)
        return false;
    v->wait_from++;
    x->state = ENTRY_READING;
    x->slot = slot;
    x->passing = !x->keep;
    v->n_passing += x->passing;
    st->pool.slot[slot].pin = i;
    bool small = v->cause == CAUSE_DEMAND && st->o.miss_bits;
    reads_start_record(st, slot, v->cause, small ? st->o.miss_bits : st->o.bits);
    return true;
}

static void become_ready(struct visit *v, int i)
{
    v->entry[i].state = ENTRY_READY;
    v->ready[v->ready_to++] = i;
}

void visit_arrived(struct stream *st, int i)
{
    st->visit.n_unready--;
    become_ready(&st->visit, i);
}

void visit_failed(struct stream *st, int i, const struct err *e)
{
    struct visit *v = &st->visit;
    v->entry[i].slot = POOL_NONE;
    if (!v->failure.code)
        v->failure = *e;
}

static bool used_more(const void *ctx, int a, int b)
{
    const struct entry *x = ctx;
    return x[a].use.rows != x[b].use.rows ? x[a].use.rows > x[b].use.rows : a < b;
}

static bool weighs_more(const void *ctx, int a, int b)
{
    const struct entry *x = ctx;
    return x[a].use.weight != x[b].use.weight ? x[a].use.weight > x[b].use.weight : a < b;
}

/* A prefill visits most experts of every layer in turn: kept are the most used of the layer, as
 * many as its share of the pool. The others pass through few slots, so that one long prompt does
 * not empty the pool. */
static void choose_kept(struct stream *st)
{
    struct visit *v = &st->visit;
    int share = st->pool.n / st->experts->n_layers, quarter = st->pool.n / 4;
    v->ring = quarter > RING_MAX ? RING_MAX : quarter > RING_MIN ? quarter : RING_MIN;
    order_sort(v->order, v->n, used_more, v->entry);
    for (int k = share; k < v->n; k++)
        v->entry[v->order[k]].keep = false;
}

static void count_use(struct stream *st, int key, int rows, bool hit)
{
    struct layer_counters *c = layer_of(st, key);
    struct expert_counters *x = expert_of(st, key);
    counters_add(&c->selected, (uint64_t)rows);
    counters_add(&c->uses, 1);
    counters_add(hit ? &c->hits : &c->misses, 1);
    counters_add(&x->selected, (uint64_t)rows);
    counters_add(hit ? &x->hits : &x->misses, 1);
}

/* A resident record is pinned, one that is being read is waited for, the rest is to be read. */
static void resolve(struct stream *st, int i)
{
    struct visit *v = &st->visit;
    struct entry *x = &v->entry[i];
    int key = key_of(st, v->il, x->use.expert), at = st->pool.where[key];
    struct layer_counters *c = layer_of(st, key);
    struct slot *s = at == POOL_NONE ? NULL : &st->pool.slot[at];
    bool hit = st->o.pool == ENGINE_POOL_MAP || (s && s->state == SLOT_READY);
    pool_count(&st->pool, key, x->use.rows);
    count_use(st, key, x->use.rows, hit);
    if (s) {
        if (s->prefetch)
            counters_add(hit ? &c->prefetch_used : &c->prefetch_late, 1);
        s->prefetch = false;
        s->pin = i;
        x->slot = at;
    }
    if (hit) {
        if (s && x->keep)
            pool_touch(&st->pool, at);
        become_ready(v, i);
        return;
    }
    v->n_unready++;
    x->state = s ? ENTRY_READING : ENTRY_WAITING;
    if (!s)
        v->waiting[v->wait_to++] = i;
}

/* Entry i no longer pins its slot. */
static void let_go(struct stream *st, int i)
{
    struct entry *x = &st->visit.entry[i];
    if (x->slot == POOL_NONE)
        return;
    struct slot *s = &st->pool.slot[x->slot];
    s->pin = POOL_NONE;
    if (x->passing) {
        st->visit.n_passing--;
        if (s->state == SLOT_READY)
            pool_demote(&st->pool, x->slot);
    }
    x->slot = POOL_NONE;
}

/* When nothing is left to compute with and all that is missing weighs little, the step goes on
 * without it. Reads that have begun go on, for the next time. */
static bool cut_late(struct stream *st)
{
    struct visit *v = &st->visit;
    if (v->cause != CAUSE_DEMAND || v->n_out)
        return false;
    for (int i = 0; i < v->n; i++)
        if (v->entry[i].state <= ENTRY_READING && !(v->entry[i].use.weight < st->o.cut_weak))
            return false;
    for (int i = 0; i < v->n; i++) {
        if (v->entry[i].state > ENTRY_READING)
            continue;
        let_go(st, i);
        v->entry[i].state = ENTRY_CUT;
        counters_add(&st->counters->layer[v->il].cut, 1);
    }
    v->wait_from = v->wait_to;
    v->n_unready = 0;
    return true;
}

static int fail(struct stream *st, struct err *e)
{
    struct err why = st->visit.failure;
    stream_end(st);
    return ERR(e, why.code, "%s", why.msg);
}
