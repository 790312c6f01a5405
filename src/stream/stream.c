/* A stream: opening and closing, and what needs no reads. See stream.h; inside.h is the map. */
#include "stream/stream.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "stream/inside.h"
#include "stream/probe.h"

#define MEASURED_BYTES   ((uint64_t)1 << 30) /* of experts, from which on measuring is worth it */
#define MEASURED_SECONDS 0.12

static int check_options(const struct stream *st, struct err *e);
static int open_counters(struct stream *st, struct err *e);
static int open_records(struct stream *st, int bits, struct err *e);
static int open_reader(struct stream *st, struct err *e);
static int open_pool(struct stream *st, struct err *e);
static int choose_depth(struct stream *st, struct err *e);

int stream_slots_min(const struct store *s)
{
    const struct expert_layout *x = &s->manifest.experts;
    int want = 2 * s->config.K; /* one token's, and as many that are being read ahead */
    if (want < 16)
        want = 16; /* two groups of a prefill */
    return want < x->n_layers * x->E ? want : x->n_layers * x->E;
}

static uint64_t stride(const struct store *s, int bits)
{
    struct records r;
    records_layout(&s->manifest.experts, bits ? bits : 4, &r);
    return r.stride;
}

uint64_t stream_slot_bytes(const struct store *s, int bits, int miss_bits)
{
    uint64_t a = stride(s, bits), b = miss_bits ? stride(s, miss_bits) : 0;
    return a > b ? a : b;
}

int stream_open(const struct store *s, const struct stream_options *o, struct stream **out,
                struct err *e)
{
    struct stream *st = mem_zalloc(1, sizeof *st);
    *out = NULL;
    if (!st)
        return ERR(e, E_NOMEM, "out of memory for reading experts");
    *st = (struct stream){.store = s,
                          .experts = &s->manifest.experts,
                          .o = *o,
                          .reader = o->reader,
                          .last_layer = -1};
    st->o.bits = o->bits ? o->bits : 4;
    int rc = check_options(st, e);
    if (!rc)
        rc = open_counters(st, e);
    if (!rc)
        rc = open_reader(st, e);
    if (!rc)
        rc = open_records(st, st->o.bits, e);
    if (!rc && o->miss_bits)
        rc = open_records(st, o->miss_bits, e);
    if (!rc)
        rc = open_pool(st, e);
    if (!rc)
        rc = choose_depth(st, e);
    if (!rc)
        rc = visit_open(st, e);
    if (!rc)
        rc = table_open(st, e);
    if (!rc)
        rc = rows_open(st, e);
    if (!rc)
        rc = lookahead_open(st, e);
    if (!rc)
        rc = reads_open(st, e);
    if (rc) {
        stream_close(st);
        return rc;
    }
    reads_pump(st); /* the warm-up begins */
    *out = st;
    return 0;
}

void stream_close(struct stream *st)
{
    if (!st)
        return;
    if (st->op) {
        reads_drain(st);
        lookahead_note(st);
    }
    if (st->reader)
        st->reader->ops->close(st->reader);
    pool_close(&st->pool);
    mem_free(st->visit.entry);
    mem_free(st->visit.order);
    mem_free(st->visit.ready);
    mem_free(st->visit.waiting);
    table_close(st);
    mem_free(st->rows.row);
    mem_free(st->rows.order);
    mem_free(st->rows.data);
    mem_free(st->rows.path);
    mem_free(st->lookahead.expert);
    mem_free(st->lookahead.warm);
    mem_free(st->op);
    mem_free(st->op_room);
    counters_close(&st->own);
    mem_free(st);
}

void stream_memory(const struct stream *st, void **pages, size_t *bytes)
{
    *pages = st->pool.pages.data;
    *bytes = st->pool.pages.bytes;
}

void stream_expert(const struct stream *st, const uint8_t *record, int bits, struct expert *out)
{
    weights_expert(st->experts, st->record[bits].records, record, out);
}

void stream_forget(struct stream *st)
{
    st->lookahead.next = st->lookahead.n;
    st->lookahead.next_warm = st->lookahead.n_warm;
    if (!st->visit.open)
        reads_drain(st);
    table_forget(st);
    for (int i = 0; i < st->pool.n; i++)
        if (st->pool.slot[i].state == SLOT_READY && !slot_is_held(&st->pool.slot[i]))
            reads_drop(st, i);
}

const uint8_t *stream_hold(struct stream *st, int il, int ie)
{
    int at = st->pool.n ? st->pool.where[key_of(st, il, ie)] : POOL_NONE;
    if (at == POOL_NONE || st->pool.slot[at].state != SLOT_READY)
        return NULL;
    st->pool.slot[at].held++;
    return pool_bytes(&st->pool, at);
}

static int slot_of(const struct stream *st, const uint8_t *record)
{
    return (int)((size_t)(record - st->pool.pages.data) / st->pool.slot_bytes);
}

void stream_release(struct stream *st, const uint8_t *record)
{
    struct slot *s = &st->pool.slot[slot_of(st, record)];
    assert(s->held > 0);
    s->held--;
}

uint8_t *stream_give(struct stream *st, int il, int ie)
{
    const int key = key_of(st, il, ie);
    int slot =
        st->pool.n && st->pool.where[key] == POOL_NONE ? reads_slot(st, key, false) : POOL_NONE;
    if (slot == POOL_NONE)
        return NULL;
    st->pool.slot[slot].bits = st->o.bits;
    st->pool.slot[slot].prefetch = false;
    return pool_bytes(&st->pool, slot);
}

void stream_given(struct stream *st, const uint8_t *record, bool written)
{
    const int slot = slot_of(st, record);
    assert(st->pool.slot[slot].pin == POOL_NONE);
    if (written)
        pool_arrived(&st->pool, slot);
    else
        pool_failed(&st->pool, slot);
}

void stream_spare(struct stream *st, const uint8_t *record)
{
    pool_demote(&st->pool, slot_of(st, record));
}

static int check_options(const struct stream *st, struct err *e)
{
    const struct stream_options *o = &st->o;
    int least = stream_slots_min(st->store);
    const int bits[] = {o->bits, o->miss_bits ? o->miss_bits : o->bits};
    for (int i = 0; i < 2; i++)
        if (bits[i] < RECORDS_BITS_MIN || bits[i] > RECORDS_BITS_MAX)
            return ERR(e, E_ARG, "experts of %d bits: want %d to %d", bits[i], RECORDS_BITS_MIN,
                       RECORDS_BITS_MAX);
    if (o->miss_bits && o->miss_bits >= o->bits)
        return ERR(e, E_ARG, "--miss-experts %d: want fewer bits than --experts %d", o->miss_bits,
                   o->bits);
    if (!(o->cut_weak >= 0 && o->cut_weak <= 1))
        return ERR(e, E_ARG, "--cut-weak %g: want 0 to 1", o->cut_weak);
    if (o->pool == ENGINE_POOL_MAP && (o->bits != 4 || o->miss_bits))
        return ERR(e, E_UNSUPPORTED, "--pool map: works with experts of 4 bits alone");
    if (o->pool == ENGINE_POOL_COPY && o->slots < least)
        return ERR(e, E_LIMIT, "the pool has %d slots for experts, want at least %d", o->slots,
                   least);
    if (o->depth < 0 || o->depth > READER_DEPTH_MAX)
        return ERR(e, E_ARG, "%d reads in flight: want 1 to %d, or 0 to measure", o->depth,
                   READER_DEPTH_MAX);
    return 0;
}

/* Without counters of an engine there are some nobody looks at, so that counting asks nothing. */
static int open_counters(struct stream *st, struct err *e)
{
    st->counters = st->o.counters ? st->o.counters : &st->own;
    if (st->o.counters)
        return 0;
    return counters_open(&st->own, st->experts->n_layers, st->experts->E, e);
}

/* A reader takes all kinds of reads at once: as many as any reader may. */
static int open_reader(struct stream *st, struct err *e)
{
    int rc = st->reader ? 0 : reader_open(st->o.reads, READER_DEPTH_MAX, &st->reader, e);
    st->depth = st->o.depth ? st->o.depth : DEPTH_USUAL;
    return rc;
}

static int open_records(struct stream *st, int bits, struct err *e)
{
    struct record_file *f = &st->record[bits];
    int rc = store_records(st->store, bits, &f->records, e);
    if (rc || st->o.pool == ENGINE_POOL_MAP)
        return rc;
    return st->reader->ops->add(st->reader, f->records->path, &f->file, e);
}

/* How many reads in flight this disk gains from; into slots that hold nothing yet. The system
 * clears their memory when it is first touched: before the clock runs, or the first depth, which
 * is the smallest, would be measured with that. */
static int choose_depth(struct stream *st, struct err *e)
{
    const struct records *x = st->record[st->o.bits].records;
    int n = st->pool.n < DEPTH_MAX ? st->pool.n : DEPTH_MAX;
    if (st->o.depth || st->o.reader || !n || x->n * x->stride < MEASURED_BYTES)
        return 0;
    memset(st->pool.pages.data, 0, (size_t)n * st->pool.slot_bytes);
    return probe_depth(st->reader,
                       &(struct probe_what){.file = st->record[st->o.bits].file,
                                            .stride = x->stride,
                                            .n = x->n,
                                            .room = st->pool.pages.data,
                                            .unit = st->pool.slot_bytes,
                                            .seed = clock_ns()},
                       MEASURED_SECONDS, &st->depth, e);
}

static int open_pool(struct stream *st, struct err *e)
{
    int n_keys = st->experts->n_layers * st->experts->E;
    bool map = st->o.pool == ENGINE_POOL_MAP;
    int slots = map ? 0 : st->o.slots < n_keys ? st->o.slots : n_keys;
    uint64_t bytes = stream_slot_bytes(st->store, st->o.bits, st->o.miss_bits);
    int rc = pool_open(&st->pool, slots, (size_t)bytes, n_keys, e);
    if (rc)
        return rc;
    st->pool.evict_seed = st->o.evict_seed;
    st->counters->pool_slots = (uint64_t)slots;
    st->counters->pool_bytes = st->pool.pages.bytes;
    return 0;
}
