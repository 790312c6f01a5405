/* Routed experts, from disk into slots, in time. Knows no equations: it deals in (record layer,
 * expert) keys, slots, byte ranges and completions; an engine says what it needs and computes.
 *
 * A visit is what one layer of one step, or of one chunk of a prefill, needs: a list of distinct
 * experts. The stream resolves each to a slot: those in the pool are ready at once; the others get
 * a free or evicted slot and a read. Entries are handed out as they become ready, and the engine
 * gives each back when it has computed with it:
 *
 *      begin(layer, uses) --ready--> entries --done(entry)--> ... --ready--> none left --end-->
 *
 * An entry's slot is pinned from the moment it is resolved until done. A visit may be longer than
 * the pool: what has no slot yet waits for a done (that is the ring of a prefill). The order in
 * which entries become ready depends on the disk; what an engine computes must not.
 *
 * While a visit is open, and between visits, reads of the next layer's likely experts (predict) go
 * on in the background, always behind demand reads. A slot that is being read stays reserved until
 * the read has ended, wanted or not. A failed or short read is the failure of the visit that needs
 * it, with file, record and errno; the stream stays usable, and the record counts as absent.
 *
 * All calls come from the one thread that steps the engine. Nothing allocates after open. */
#ifndef STREAM_STREAM_H
#define STREAM_STREAM_H

#include "model/engine.h"
#include "store/store.h"

struct stream;

struct stream_options {
    int bits;              /* 4, 3, 2: which file of the store records come from */
    int miss_bits;         /* 0, or fewer bits: where demand reads come from */
    enum engine_pool pool; /* map: no slots, no reads; bits 4 only */
    int slots;             /* of the pool, at least stream_slots_min(store) */
    int visit_max;         /* the longest visit: entries */
    int rows_max;          /* n-gram rows of one stream_rows_begin */
    uint64_t table_room;   /* bytes for n-gram tables: held whole from stream_table_bytes on */
    enum engine_reads reads;
    int depth; /* demand reads in flight, 1..64; 0: measured at open, in some 100 ms, where the
                  store is large */
    bool no_lookahead;
    double cut_weak;
    struct counters *counters; /* borrowed; layer array set up by the engine */
    bool keep_ranking;         /* fill free slots with what earlier runs used, and note what this
                                  one did, in the store's directory where that can be written */
    struct reader *reader;     /* NULL: made by the stream; tests put a fault-injecting one here */
    uint64_t evict_seed;       /* 0; for tests: records leave the pool at random, from this seed */
};

/* Slots without which no visit can go on: those of one batch of decode. */
int stream_slots_min(const struct store *s);
/* Bytes of a slot for records of so many bits. */
uint64_t stream_slot_bytes(const struct store *s, int bits, int miss_bits);
/* Bytes that the n-gram tables take when they are held whole. */
uint64_t stream_table_bytes(const struct store *s);

int stream_open(const struct store *s, const struct stream_options *o, struct stream **out,
                struct err *e);
void stream_close(struct stream *st); /* waits for what is being read; keeps the ranking */

struct stream_use {
    int expert;
    int rows;     /* how many rows use it: prefill keeps the most used ones */
    float weight; /* the largest over rows; only cut_weak looks at it */
};

/* An entry that is ready. */
struct stream_entry {
    int i;                 /* of the visit's uses */
    int bits;              /* precision of the record */
    const uint8_t *record; /* pinned until stream_done(i) */
};

/* Starts a visit to record layer il: pins what is resident, reads the rest (cause: CAUSE_DEMAND, or
 * CAUSE_PREFILL: then records that few rows use do not displace others). uses [n], distinct
 * experts, copied. */
int stream_begin(struct stream *st, int il, const struct stream_use *uses, int n, enum cause cause,
                 struct err *e);
/* Entries that became ready since the last call, at most max: out [max]. wait: blocks until there
 * is at least one. 0 entries with wait: all of the visit were handed out, or cut. A visit that is
 * longer than the pool needs entries given back before it waits for more. On failure the visit is
 * over: all is unpinned, and stream_end does nothing more. */
int stream_ready(struct stream *st, bool wait, struct stream_entry *out, int max, int *n,
                 struct err *e);
void stream_done(struct stream *st, int i);
void stream_end(struct stream *st); /* also gives up a visit half way */
/* Whether use i of the visit was dropped by cut_weak; asked before stream_end. */
bool stream_was_cut(const struct stream *st, int i);

/* Experts that layer il will probably need, most likely first: those that are absent are read when
 * no demand read waits. Replaces what was predicted before and has not been started. */
void stream_predict(struct stream *st, int il, const int *experts, int n);

/* The memory that all slots lie in, for engines whose device reads them there; NULL with pool
 * map. */
void stream_memory(const struct stream *st, void **pages, size_t *bytes);

/* The matrices of a record. */
void stream_expert(const struct stream *st, const uint8_t *record, int bits, struct expert *out);

/* Rows of the n-gram tables, known long before they are needed: begin starts reads of their blocks,
 * at most rows_max; wait returns when all are there; row i is then row_bytes bytes, until the next
 * begin. Where the tables are held, rows that were read before cost nothing. On failure of wait no
 * row is valid. */
int stream_rows_begin(struct stream *st, const uint64_t *rows, int n, struct err *e);
int stream_rows_wait(struct stream *st, struct err *e);
const uint8_t *stream_row(const struct stream *st, int i);

/* Record (il, ie), if it is resident: stays, as it is, until it has been released as often. NULL:
 * it is not. A visit of n entries needs n slots that are not held. */
const uint8_t *stream_hold(struct stream *st, int il, int ie);
void stream_release(struct stream *st, const uint8_t *record);

/* Records that the engine has and the pool is to have. stream_give: a slot to write record (il, ie)
 * to, for which another may leave; NULL: there is none, or the record is there or being read. From
 * then until stream_given, which says whether it has been written, no visit may ask for it. */
uint8_t *stream_give(struct stream *st, int il, int ie);
void stream_given(struct stream *st, const uint8_t *record, bool written);
/* A resident record that the engine has a copy of may leave before others. */
void stream_spare(struct stream *st, const uint8_t *record);

/* Drops everything resident that nobody holds: for tests and cold measurements. */
void stream_forget(struct stream *st);

#endif
