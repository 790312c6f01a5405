/* Which read starts next, and what its end changes: see inside.h. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>

#include "base/clock.h"
#include "base/mem.h"
#include "stream/inside.h"

static bool start_next(struct stream *st);
static int take_ended(struct stream *st, bool wait);
static void ended(struct stream *st, const struct read_result *r);

int reads_open(struct stream *st, struct err *e)
{
    size_t room = st->rows.extent;
    int n = st->reader->depth;
    st->op_room = mem_aligned(READER_ALIGN, (size_t)n * (room ? room : 1));
    st->op = mem_zalloc((size_t)n, sizeof *st->op);
    if (!st->op || !st->op_room)
        return ERR(e, E_NOMEM, "out of memory for %d reads in flight", n);
    for (int i = 0; i < n; i++) {
        st->op[i].room = st->op_room + (size_t)i * room;
        st->op[i].next = st->free_op;
        st->free_op = &st->op[i];
    }
    return 0;
}

void reads_pump(struct stream *st)
{
    do {
        while (st->free_op && start_next(st))
            ;
    } while (st->n_flight && take_ended(st, false));
}

void reads_wait(struct stream *st, enum cause cause)
{
    assert(st->n_flight);
    uint64_t start = clock_ns();
    take_ended(st, true);
    counters_add(&st->counters->wait_ns[cause], clock_ns() - start);
    reads_pump(st);
}

void reads_drain(struct stream *st)
{
    while (st->n_flight)
        take_ended(st, true);
}

void reads_drop(struct stream *st, int slot)
{
    const struct slot *s = &st->pool.slot[slot];
    if (s->prefetch)
        counters_add(&layer_of(st, s->key)->prefetch_wasted, 1);
    pool_drop(&st->pool, slot);
}

int reads_slot(struct stream *st, int key, bool sparing)
{
    struct pool *p = &st->pool;
    int i = pool_vacancy(p);
    if (i == POOL_NONE)
        return POOL_NONE;
    if (sparing && p->slot[i].prefetch && p->slot[i].round == p->round)
        return POOL_NONE;
    if (p->slot[i].state == SLOT_READY)
        reads_drop(st, i);
    pool_reserve(p, i, key);
    return i;
}

static bool start_next(struct stream *st)
{
    enum cause wants = st->visit.cause;
    const struct {
        enum cause cause;
        int most; /* in flight */
        bool (*start)(struct stream *st);
    } kinds[] = {
        {wants, wants == CAUSE_PREFILL && st->depth < DEPTH_MAX ? DEPTH_MAX : st->depth,
         visit_start_next},
        {CAUSE_NGRAM, ROWS_DEPTH, rows_start_next},
        {CAUSE_LOOKAHEAD, st->depth, lookahead_start_next},
        {CAUSE_WARM, st->depth > 7 ? st->depth / 4 : 1, warm_start_next},
        {CAUSE_WARM, st->depth > 7 ? st->depth / 4 : 1, table_start_next},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (st->n_by_cause[kinds[i].cause] < kinds[i].most && kinds[i].start(st))
            return true;
    return false;
}

static bool is_wanted(enum cause c)
{
    return c == CAUSE_DEMAND || c == CAUSE_PREFILL;
}

static struct op *op_take(struct stream *st, enum op_kind kind, enum cause cause)
{
    struct op *op = st->free_op;
    assert(op);
    st->free_op = op->next;
    op->kind = kind;
    op->cause = cause;
    st->n_flight++;
    st->n_by_cause[cause]++;
    if (is_wanted(cause) && !st->n_wanted++)
        st->wanted_since = clock_ns();
    return op;
}

static void op_release(struct stream *st, struct op *op)
{
    st->n_flight--;
    st->n_by_cause[op->cause]--;
    if (is_wanted(op->cause) && !--st->n_wanted)
        counters_add(&st->counters->read_ns, clock_ns() - st->wanted_since);
    op->next = st->free_op;
    st->free_op = op;
}

void reads_start_record(struct stream *st, int slot, enum cause cause, int bits)
{
    struct op *op = op_take(st, OP_RECORD, cause);
    const struct record_file *f = &st->record[bits];
    struct slot *s = &st->pool.slot[slot];
    s->bits = bits;
    s->prefetch = cause == CAUSE_LOOKAHEAD;
    op->slot = slot;
    op->bits = bits;
    op->off = (uint64_t)s->key * f->records->stride;
    op->len = (size_t)f->records->stride;
    counters_add(&st->counters->reads[cause][bits], 1);
    counters_add(&layer_of(st, s->key)->reads, 1);
    counters_add(&expert_of(st, s->key)->reads, 1);
    st->reader->ops->submit(st->reader, &(struct read_request){.file = f->file,
                                                               .off = op->off,
                                                               .to = pool_bytes(&st->pool, slot),
                                                               .len = op->len,
                                                               .want = op->len,
                                                               .user = op});
}

/* A piece of ngram.bin, whose last block may end early. */
static void start_ngram(struct stream *st, struct op *op, uint8_t *to, uint64_t off, size_t len)
{
    const uint64_t left = st->store->ngram.size - off;
    op->generation = st->rows.generation;
    op->off = off;
    op->len = len;
    counters_add(&st->counters->reads[op->cause][0], len / READER_ALIGN);
    st->reader->ops->submit(st->reader,
                            &(struct read_request){.file = st->rows.file,
                                                   .off = off,
                                                   .to = to,
                                                   .len = len,
                                                   .want = left < len ? (size_t)left : len,
                                                   .user = op});
}

void reads_start_rows(struct stream *st, int from, int to, uint64_t off, size_t len)
{
    struct op *op = op_take(st, OP_ROWS, CAUSE_NGRAM);
    op->from = from;
    op->to = to;
    start_ngram(st, op, op->room, off, len);
}

void reads_start_table(struct stream *st, enum cause cause, uint64_t off, size_t len)
{
    start_ngram(st, op_take(st, OP_TABLE, cause), st->table.data + off, off, len);
}

static int take_ended(struct stream *st, bool wait)
{
    struct read_result r[READER_DEPTH_MAX];
    int n = st->reader->ops->collect(st->reader, wait, r, READER_DEPTH_MAX);
    for (int i = 0; i < n; i++)
        ended(st, &r[i]);
    return n;
}

/* What a failed read says: which file, which record, why, what to do. */
static void describe(const struct stream *st, const struct op *op, int error, struct err *e)
{
    errno = error;
    if (op->kind != OP_RECORD) {
        (void)err_sys(e,
                      "%s: %zu bytes at %" PRIu64 " (n-gram rows) cannot be read; check the disk",
                      st->rows.path, op->len, op->off);
        return;
    }
    int key = st->pool.slot[op->slot].key, E = st->experts->E;
    (void)err_sys(e,
                  "%s: record %d (expert %d of layer %d, %zu bytes at %" PRIu64
                  ") cannot be read; check the disk, and the file with `cherenkov verify`",
                  st->record[op->bits].records->path, key, key % E, key / E, op->len, op->off);
}

static void record_ended(struct stream *st, const struct op *op, const struct read_result *r)
{
    struct slot *s = &st->pool.slot[op->slot];
    int pin = s->pin;
    if (!r->error) {
        counters_add(&layer_of(st, s->key)->read_bytes, op->len);
        counters_add(&expert_of(st, s->key)->read_bytes, op->len);
        pool_arrived(&st->pool, op->slot);
        if (pin != POOL_NONE)
            visit_arrived(st, pin);
        return;
    }
    struct err e = {0};
    describe(st, op, r->error, &e);
    if (s->prefetch)
        counters_add(&layer_of(st, s->key)->prefetch_wasted, 1);
    pool_failed(&st->pool, op->slot);
    if (pin != POOL_NONE)
        visit_failed(st, pin, &e);
}

static void rows_ended(struct stream *st, const struct op *op, const struct read_result *r)
{
    struct rows *w = &st->rows;
    if (op->generation != w->generation)
        return; /* of a list that nobody waits for any more */
    if (r->error && !w->failure.code)
        describe(st, op, r->error, &w->failure);
    rows_arrived(st, op);
}

/* What nobody asked for may fail unseen: whoever needs it reads it again. */
static void table_ended(struct stream *st, const struct op *op, const struct read_result *r)
{
    struct rows *w = &st->rows;
    if (r->error && op->cause == CAUSE_NGRAM && op->generation == w->generation && !w->failure.code)
        describe(st, op, r->error, &w->failure);
    table_arrived(st, op, r->error != 0);
}

static void ended(struct stream *st, const struct read_result *r)
{
    struct op *op = r->user;
    counters_add(&st->counters->bytes[op->cause], r->error ? 0 : op->len);
    op_release(st, op);
    if (op->kind == OP_RECORD)
        record_ended(st, op, r);
    else if (op->kind == OP_TABLE)
        table_ended(st, op, r);
    else
        rows_ended(st, op, r);
}
