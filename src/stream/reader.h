/* Positioned reads in the background: whole blocks from files opened for direct reading, several in
 * flight, completed in any order. reader_uring.c (io_uring) and reader_pread.c (threads) do the
 * work; reader_fault.c stands in front of another one and spoils it, for tests.
 *
 * One thread submits and collects. Offsets, lengths and buffers are multiples of READER_ALIGN, but
 * the last block of a file may end early: a read that comes back shorter than `want` failed. */
#ifndef STREAM_READER_H
#define STREAM_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/engine.h"

enum { READER_ALIGN = 4096, READER_DEPTH_MAX = 64, READER_FILES_MAX = 8 };

struct reader;

struct read_request {
    int file;     /* reader_add's number */
    uint64_t off; /* multiple of READER_ALIGN */
    void *to;     /* aligned to READER_ALIGN, owned by the caller, in use until it completes */
    size_t len;   /* multiple of READER_ALIGN */
    size_t want;  /* fewer bytes than this are a failure (want <= len) */
    void *user;   /* comes back with the completion */
};

struct read_result {
    void *user;
    int error;   /* 0, or errno; short reads are EIO after what is left was tried again */
    uint64_t ns; /* from submission to completion */
};

struct reader_ops {
    const char *name; /* "io_uring", "pread" */
    /* path stays the caller's; the number is what requests name. E_IO, E_NOTFOUND. Files that do
     * not take direct reads are read through the page cache, and what was read is dropped from
     * it. */
    int (*add)(struct reader *r, const char *path, int *file, struct err *e);
    /* Never blocks; the caller keeps at most depth requests in flight (asserted). */
    void (*submit)(struct reader *r, const struct read_request *q);
    /* Completions so far, at most max; wait: blocks until there is one, if any is in flight. */
    int (*collect)(struct reader *r, bool wait, struct read_result *out, int max);
    void (*close)(struct reader *r); /* waits for what is in flight; its completions are lost */
};

/* Every reader begins with this. */
struct reader {
    const struct reader_ops *ops;
    int depth; /* the most requests in flight */
};

/* For readers: n more bytes of q have come after *got. *got becomes where to go on, a multiple of
 * READER_ALIGN unless all is there (direct reads go on at whole blocks only; part of one is read
 * again). false: this is the end of the file, or nothing that can be gone on from. */
static inline bool reader_advance(const struct read_request *q, size_t *got, size_t n)
{
    size_t all = *got + n, blocks = all / READER_ALIGN * READER_ALIGN;
    bool more = all >= q->want || blocks > *got;
    *got = all >= q->want ? all : blocks;
    return more;
}

/* E_UNSUPPORTED where the system has no io_uring or forbids it. */
int reader_uring_open(int depth, struct reader **out, struct err *e);
int reader_pread_open(int depth, struct reader **out, struct err *e);
/* The one that was asked for; AUTO: io_uring, or threads where there is none. */
int reader_open(enum engine_reads how, int depth, struct reader **out, struct err *e);

/* What to spoil, each with probability 1 in n (0: never), from a seed. */
struct reader_faults {
    uint64_t seed;
    int delay, shorten, interrupt, fail; /* fail: EIO */
    long fail_at;                        /* the nth request fails with EIO; 0: none */
    bool reorder;                        /* completions come back in random order */
    int hold; /* reads of file hold - 1 do not end while this says so; 0: none */
};
/* Owns inner from success on. The faults may be changed between calls through *live (or NULL). */
int reader_fault_open(struct reader *inner, const struct reader_faults *f, struct reader **out,
                      struct reader_faults **live, struct err *e);

#endif
