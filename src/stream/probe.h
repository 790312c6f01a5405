/* How fast this disk gives whole records in random order, read directly: what a run can hope for,
 * and how many reads in flight it takes. */
#ifndef STREAM_PROBE_H
#define STREAM_PROBE_H

#include "store/store.h"
#include "stream/reader.h"

struct probe {
    uint64_t bytes;
    double seconds;
    double gbs; /* 10^9 bytes a second */
    int depth;  /* reads that were in flight */
};

/* Random records of a file, `depth` in flight (at most the reader's), until the time is over. */
struct probe_what {
    int file;           /* of the reader */
    uint64_t stride, n; /* bytes of a record, records in the file */
    uint8_t *room;      /* [depth][unit] for what is read; aligned to READER_ALIGN */
    size_t unit;        /* at least stride, a multiple of READER_ALIGN */
    uint64_t seed;
};
/* E_IO when a read fails. */
int probe_run(struct reader *r, const struct probe_what *w, int depth, double seconds,
              struct probe *out, struct err *e);

/* The fewest reads in flight with which this reader is within PROBE_GAIN of its best, of those that
 * the reader can have; takes up to `seconds`. */
int probe_depth(struct reader *r, const struct probe_what *w, double seconds, int *depth,
                struct err *e);

struct probe_wish {
    int bits; /* which experts of the store */
    enum engine_reads how;
    int depth; /* 0: the best one */
    double seconds;
};
/* Random records of a store's experts, through a reader of its own. */
int probe_store(const struct store *s, const struct probe_wish *w, struct probe *out,
                struct err *e);

#endif
