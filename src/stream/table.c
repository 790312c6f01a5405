/* The n-gram tables held whole, where the budget has room for them: blocks of ngram.bin are read
 * straight to where they stay, those of rows that are asked for first, the others behind all other
 * reads. Then a row costs no read any more.
 *
 *      ABSENT --table_read--> READING --table_arrived--> PRESENT
 *         ^                      |                          |
 *         +-------- failed ------+-------- forgotten -------+
 *
 * A block that is being read is not read again, whoever wants it. Its memory is not asked for in
 * huge pages: the system would clear two megabytes for each of the first rows. */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "stream/inside.h"

enum { FILL_BLOCKS = 64 }; /* of a read that fills: 256 KiB */

static uint64_t blocks_of(const struct store *s)
{
    return (s->ngram.size + READER_ALIGN - 1) / READER_ALIGN;
}

uint64_t stream_table_bytes(const struct store *s)
{
    return blocks_of(s) * (READER_ALIGN + sizeof(uint8_t));
}

int table_open(struct stream *st, struct err *e)
{
    struct table *t = &st->table;
    const uint64_t n = blocks_of(st->store), bytes = stream_table_bytes(st->store);
    if (!n || st->o.rows_max < 1 || st->o.table_room < bytes)
        return 0;
    t->data = mem_aligned(READER_ALIGN, (size_t)n * READER_ALIGN);
    t->state = mem_zalloc((size_t)n, sizeof *t->state);
    if (!t->data || !t->state)
        return ERR(e, E_NOMEM, "out of memory for n-gram tables of %llu bytes",
                   (unsigned long long)st->store->ngram.size);
    t->n = n;
    t->next_fill = st->o.no_lookahead ? n : 0;
    st->counters->table_bytes = bytes;
    return 0;
}

void table_close(struct stream *st)
{
    mem_free(st->table.data);
    mem_free(st->table.state);
}

void table_forget(struct stream *st)
{
    struct table *t = &st->table;
    t->next_fill = t->n;
    for (uint64_t i = 0; i < t->n; i++)
        if (t->state[i] == BLOCK_PRESENT)
            t->state[i] = BLOCK_ABSENT;
}

enum block_state table_has(const struct stream *st, uint64_t off, size_t len)
{
    const struct table *t = &st->table;
    enum block_state worst = BLOCK_PRESENT;
    for (uint64_t i = off / READER_ALIGN; i * READER_ALIGN < off + len; i++)
        if (t->state[i] < worst)
            worst = (enum block_state)t->state[i];
    return worst;
}

bool table_start_next(struct stream *st)
{
    struct table *t = &st->table;
    if (st->n_wanted)
        return false;
    while (t->next_fill < t->n && t->state[t->next_fill] != BLOCK_ABSENT)
        t->next_fill++;
    if (t->next_fill == t->n)
        return false;
    table_read(st, t->next_fill, t->next_fill + FILL_BLOCKS, CAUSE_WARM);
    return true;
}

void table_read(struct stream *st, uint64_t from, uint64_t end, enum cause cause)
{
    struct table *t = &st->table;
    uint64_t to = from;
    assert(t->state[from] == BLOCK_ABSENT);
    for (; to < t->n && to < end && t->state[to] == BLOCK_ABSENT; to++)
        t->state[to] = BLOCK_READING;
    const size_t len = (size_t)(to - from) * READER_ALIGN;
    reads_start_table(st, cause, from * READER_ALIGN, len);
}

void table_arrived(struct stream *st, const struct op *op, bool failed)
{
    struct table *t = &st->table;
    memset(t->state + op->off / READER_ALIGN, failed ? BLOCK_ABSENT : BLOCK_PRESENT,
           op->len / READER_ALIGN);
    if (failed) /* a disk that fails is asked for what is needed, and for nothing besides */
        t->next_fill = t->n;
}
