/* Rows of the n-gram tables: whole blocks are read, the rows inside them copied out, so that what
 * is kept is as small as the rows. Rows are taken in ascending order, so that those that share a
 * block share its read. */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "stream/inside.h"
#include "stream/order.h"

static uint64_t block_of(uint64_t byte)
{
    return byte / READER_ALIGN * READER_ALIGN;
}

static uint64_t block_end(uint64_t byte)
{
    return block_of(byte + READER_ALIGN - 1);
}

int rows_open(struct stream *st, struct err *e)
{
    struct rows *w = &st->rows;
    size_t n = st->o.rows_max > 0 ? (size_t)st->o.rows_max : 0;
    if (!st->store->manifest.ngram.rows || !n)
        return 0;
    w->max = (int)n;
    w->row_bytes = st->store->manifest.ngram.row_bytes;
    w->extent = EXTENT_BLOCKS * READER_ALIGN;
    if (w->extent < block_end((uint64_t)w->row_bytes) + READER_ALIGN)
        w->extent = block_end((uint64_t)w->row_bytes) + READER_ALIGN;
    w->row = mem_array(n, sizeof *w->row);
    w->order = mem_array(n, sizeof *w->order);
    if (!st->table.n)
        w->data = mem_array(n, (size_t)w->row_bytes);
    w->path = file_join(st->store->dir, "ngram.bin");
    if (!w->row || !w->order || !(w->data || st->table.n) || !w->path)
        return ERR(e, E_NOMEM, "out of memory for %zu n-gram rows", n);
    return st->reader->ops->add(st->reader, w->path, &w->file, e);
}

/* Whether all rows of this begin are in the table. */
static bool all_there(const struct stream *st)
{
    const struct rows *w = &st->rows;
    for (int i = 0; i < w->n; i++)
        if (table_has(st, w->row[i] * (uint64_t)w->row_bytes, (size_t)w->row_bytes) !=
            BLOCK_PRESENT)
            return false;
    return true;
}

static bool before(const void *ctx, int a, int b)
{
    const uint64_t *row = ctx;
    return row[a] < row[b];
}

int stream_rows_begin(struct stream *st, const uint64_t *rows, int n, struct err *e)
{
    struct rows *w = &st->rows;
    (void)e;
    assert(n <= w->max);
    w->generation++;
    w->n = w->n_left = n;
    w->next = 0;
    err_clear(&w->failure);
    for (int i = 0; i < n; i++) {
        assert(rows[i] < st->store->manifest.ngram.rows);
        w->row[i] = rows[i];
        w->order[i] = i;
    }
    if (st->table.n && all_there(st))
        w->n_left = 0, w->next = n;
    else
        order_sort(w->order, n, before, w->row);
    reads_pump(st);
    return 0;
}

static uint64_t row_at(const struct rows *w, int k)
{
    return w->row[w->order[k]] * (uint64_t)w->row_bytes;
}

/* How many are not there yet. What fills the table may have failed at a block that one of them
 * waited for: then that is read for its sake. */
static int rows_left(struct stream *st)
{
    struct rows *w = &st->rows;
    while (st->table.n && w->n_left && !w->failure.code) {
        const int k = w->n - w->n_left;
        const enum block_state has = table_has(st, row_at(w, k), (size_t)w->row_bytes);
        if (has == BLOCK_PRESENT) {
            w->n_left--;
            continue;
        }
        if (has == BLOCK_ABSENT) {
            w->next = k;
            reads_pump(st);
        }
        if (st->n_flight)
            break;
    }
    return w->n_left;
}

int stream_rows_wait(struct stream *st, struct err *e)
{
    struct rows *w = &st->rows;
    reads_pump(st);
    while (rows_left(st) && !w->failure.code)
        reads_wait(st, CAUSE_NGRAM);
    if (!w->failure.code)
        return 0;
    w->generation++; /* what is still in flight is not looked at */
    w->n = w->next = w->n_left = 0;
    return ERR(e, w->failure.code, "%s", w->failure.msg);
}

const uint8_t *stream_row(const struct stream *st, int i)
{
    const struct rows *w = &st->rows;
    return st->table.n ? st->table.data + w->row[i] * (uint64_t)w->row_bytes
                       : w->data + (size_t)i * (size_t)w->row_bytes;
}

/* One read into the table: the first block of the next rows that is absent, and those behind it as
 * far as an extent and rows go that want them. */
static bool table_row_start(struct stream *st)
{
    struct rows *w = &st->rows;
    for (; w->next < w->n; w->next++) {
        uint64_t from = row_at(w, w->next) / READER_ALIGN;
        uint64_t end = block_end(row_at(w, w->next) + (uint64_t)w->row_bytes) / READER_ALIGN;
        while (from < end && st->table.state[from] != BLOCK_ABSENT)
            from++;
        if (from == end)
            continue;
        for (int k = w->next + 1; k < w->n && row_at(w, k) / READER_ALIGN <= end; k++) {
            uint64_t until = block_end(row_at(w, k) + (uint64_t)w->row_bytes) / READER_ALIGN;
            if ((until - from) * READER_ALIGN > w->extent)
                break;
            end = until;
        }
        table_read(st, from, end, CAUSE_NGRAM);
        return true;
    }
    return false;
}

/* One read: the next row, and all that follow in the same blocks or the ones right behind, as far
 * as an extent goes. */
bool rows_start_next(struct stream *st)
{
    struct rows *w = &st->rows;
    if (w->next == w->n || w->failure.code)
        return false;
    if (st->table.n)
        return table_row_start(st);
    int from = w->next, to = from;
    uint64_t off = block_of(row_at(w, from)), end = off;
    for (; to < w->n; to++) {
        uint64_t at = row_at(w, to), until = block_end(at + (uint64_t)w->row_bytes);
        if (to > from && (block_of(at) > end || until - off > w->extent))
            break;
        end = until;
    }
    w->next = to;
    reads_start_rows(st, from, to, off, (size_t)(end - off));
    return true;
}

void rows_arrived(struct stream *st, const struct op *op)
{
    struct rows *w = &st->rows;
    for (int k = op->from; k < op->to && !w->failure.code; k++)
        memcpy(w->data + (size_t)w->order[k] * (size_t)w->row_bytes,
               op->room + (row_at(w, k) - op->off), (size_t)w->row_bytes);
    w->n_left -= op->to - op->from;
}
