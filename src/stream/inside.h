/* What the files of stream/ share: struct stream and the calls between them. No other folder
 * includes this.
 *
 *      stream.c     opens and closes; views of records
 *      visit.c      entries: from a list of experts to records that are ready
 *      reads.c      which read starts next, and what its end changes
 *      lookahead.c  reads nobody asked for yet: predicted experts, and the warm-up
 *      rows.c       rows of the n-gram tables
 *      table.c      those tables held whole
 *
 * Each cause has its own number of reads in flight at most, so that none waits in line behind
 * another. Reads start in the order demand, n-gram rows, lookahead, warm-up; each kind hands
 * reads.c one read at a time. Everything happens inside calls of the stepping thread; threads of a
 * reader see nothing but their requests. */
#ifndef STREAM_INSIDE_H
#define STREAM_INSIDE_H

#include "stream/pool.h"
#include "stream/reader.h"
#include "stream/stream.h"

enum {
    BITS_END = COUNTER_BITS_MAX, /* arrays by bits */
    DEPTH_USUAL = 8,             /* demand reads in flight where measuring is not worth it */
    DEPTH_MAX = 16,              /* and at most where it was; always so many for a prefill */
    ROWS_DEPTH = 32,             /* n-gram reads in flight: single blocks wait, they do not load */
    RING_MIN = 16,               /* records of a prefill that pass through, at once */
    RING_MAX = 64,
    EXTENT_BLOCKS = 4, /* the longest read of n-gram rows, when rows are short */
};

/* WAITING -> READING -> READY -> OUT -> DONE: begin, reads.c, ready, done. Resident ones begin
 * READY. WAITING and READING may become CUT, in ready. */
enum entry_state { ENTRY_WAITING, ENTRY_READING, ENTRY_READY, ENTRY_OUT, ENTRY_DONE, ENTRY_CUT };

struct entry {
    enum entry_state state;
    struct stream_use use;
    int slot;     /* while READING .. OUT; POOL_NONE otherwise, and with pool=map */
    bool keep;    /* becomes the most recent in the pool */
    bool passing; /* read by this visit and not to keep: its slot is the next to go */
};

struct visit {
    bool open;
    int il, n;
    enum cause cause;
    struct entry *entry;              /* [visit_max] */
    int *order;                       /* [visit_max] in which they are resolved */
    int *ready, ready_from, ready_to; /* entries in the order they became ready */
    int *waiting, wait_from, wait_to; /* entries without a slot, in the order of reading */
    int n_unready;                    /* WAITING or READING */
    int n_out;                        /* handed out, not given back */
    int n_passing, ring;              /* slots of entries that do not keep, and their limit */
    struct err failure;               /* of a read this visit needs */
};

enum op_kind { OP_RECORD, OP_ROWS, OP_TABLE };

/* A read in flight, from op_take to its completion. */
struct op {
    enum op_kind kind;
    enum cause cause;
    int bits;
    int slot;            /* OP_RECORD */
    int from, to;        /* OP_ROWS: of rows.order */
    uint32_t generation; /* OP_ROWS, OP_TABLE: rows.generation when it began */
    uint64_t off;
    size_t len;
    uint8_t *room;   /* OP_ROWS: where the blocks go; this op's own, always the same */
    struct op *next; /* free ones */
};

/* Records of one precision, as a file that is read. */
struct record_file {
    const struct records *records; /* NULL: not asked for */
    int file;                      /* of the reader */
};

struct rows {
    int file;
    char *path;
    int row_bytes, max;
    size_t extent;       /* the longest read */
    uint64_t *row;       /* [max] of the current begin */
    int *order;          /* [max] indices by ascending row */
    uint8_t *data;       /* [max][row_bytes] */
    int n, next, n_left; /* next: of order, the first that no read covers; n_left: not there yet,
                            with a table those of the end of order */
    uint32_t generation;
    struct err failure;
};

/* In this order: a row is as far as the first of its blocks. */
enum block_state { BLOCK_ABSENT, BLOCK_READING, BLOCK_PRESENT };

/* ngram.bin in memory; n 0: rows are read each time. */
struct table {
    uint8_t *data;      /* [n][READER_ALIGN] */
    uint8_t *state;     /* [n] enum block_state */
    uint64_t n;         /* blocks */
    uint64_t next_fill; /* the first not looked at; n: nothing is read that nobody asked for */
};

struct lookahead {
    int il;      /* layer of what was predicted */
    int *expert; /* [E] */
    int n, next; /* next: the first not looked at */
    int *warm;   /* [n_keys] keys, the most used first; NULL: no ranking */
    int n_warm, next_warm;
};

struct stream {
    const struct store *store;
    const struct expert_layout *experts;
    struct stream_options o;
    struct counters *counters; /* o.counters, or own */
    struct counters own;
    struct record_file record[BITS_END];
    struct reader *reader;
    struct pool pool;
    struct op *op, *free_op; /* [reader->depth] */
    uint8_t *op_room;
    struct visit visit;
    struct rows rows;
    struct table table;
    struct lookahead lookahead;
    int depth;    /* demand reads in flight at most, and lookahead reads beside them */
    int n_flight; /* of all kinds, and by cause */
    int n_by_cause[CAUSE_COUNT];
    int n_wanted;          /* demand and prefill reads among them */
    uint64_t wanted_since; /* when n_wanted left 0 */
    bool used;             /* there was a visit */
    int last_layer;        /* of the last visit: a lower or equal one starts a round */
};

static inline int key_of(const struct stream *st, int il, int ie)
{
    return il * st->experts->E + ie;
}

static inline struct layer_counters *layer_of(const struct stream *st, int key)
{
    return &st->counters->layer[key / st->experts->E];
}

static inline struct expert_counters *expert_of(const struct stream *st, int key)
{
    return &st->counters->expert[key];
}

/* --- reads.c --- */

int reads_open(struct stream *st, struct err *e);
/* Starts what can start and takes what has ended; wait: stands still until one read has ended
 * (at least one is in flight), on account of a cause. */
void reads_pump(struct stream *st);
void reads_wait(struct stream *st, enum cause cause);
void reads_drain(struct stream *st); /* starts nothing more, waits for all in flight */
/* A slot for a key, now READING; gives up another record if it must. POOL_NONE when nothing can be
 * given up; with sparing, also when that would be what lookahead read in this round. */
int reads_slot(struct stream *st, int key, bool sparing);
void reads_start_record(struct stream *st, int slot, enum cause cause, int bits);
/* Starts reading [from, to) of rows.order: len bytes from off. */
void reads_start_rows(struct stream *st, int from, int to, uint64_t off, size_t len);
/* Starts reading whole blocks of the table to where they stay. */
void reads_start_table(struct stream *st, enum cause cause, uint64_t off, size_t len);
/* Gives up a READY slot, counting a prefetch that nobody used. */
void reads_drop(struct stream *st, int slot);

/* --- each kind takes what it works in at open: E_NOMEM; stream_close frees it --- */

int visit_open(struct stream *st, struct err *e);
int rows_open(struct stream *st, struct err *e);
int lookahead_open(struct stream *st, struct err *e);
void lookahead_note(const struct stream *st); /* keeps the ranking, where one is wanted */

/* --- each kind starts its next read, if there is one and it may: true when it did. There is a free
 * op, and fewer than that kind's limit are in flight --- */

bool visit_start_next(struct stream *st);
bool rows_start_next(struct stream *st);
bool lookahead_start_next(struct stream *st);
bool warm_start_next(struct stream *st);
bool table_start_next(struct stream *st);

/* --- and hears of its end --- */

void visit_arrived(struct stream *st, int i);
void visit_failed(struct stream *st, int i, const struct err *e);
void rows_arrived(struct stream *st, const struct op *op);
void table_arrived(struct stream *st, const struct op *op, bool failed);

/* --- table.c; without a table (n 0) only open, close and forget are called --- */

int table_open(struct stream *st, struct err *e); /* where o.table_room is enough */
void table_close(struct stream *st);
void table_forget(struct stream *st); /* nothing is in flight */
/* How far len bytes from off are. */
enum block_state table_has(const struct stream *st, uint64_t off, size_t len);
/* Starts reading blocks from `from`, which is absent, up to the first that is not, or end. */
void table_read(struct stream *st, uint64_t from, uint64_t end, enum cause cause);

#endif
