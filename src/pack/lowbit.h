/* The experts of a store in 3 and 2 bits, made from its 4-bit records: experts3.bin with
 * manifest3.json, experts2.bin with manifest2.json (docs/format.md, "Low-bit stores"). Both are
 * made in one pass over experts.bin.
 *
 * A kill at any moment leaves no manifestN.json, and so no copy, or a whole one: the old manifest
 * is removed before the first byte is written, and the new one is written last. */
#ifndef PACK_LOWBIT_H
#define PACK_LOWBIT_H

#include "pack/pack.h"
#include "store/store.h"

struct lowbit_options {
    bool want[RECORDS_BITS_MAX + 1]; /* [3], [2] */
    int n_threads; /* 0: one per processor, at least two; never more than LOWBIT_THREADS_MAX */
    bool force;    /* make again what is there */
};
enum { LOWBIT_THREADS_MAX = 8 };

struct lowbit_report {
    bool made[RECORDS_BITS_MAX + 1]; /* false: not wanted, or there already */
    uint64_t read_bytes, written_bytes;
    double seconds;
    int n_threads;
};

/* "4,3,2" or part of it, in any order, to want; 4 says nothing new. E_ARG names flag. */
int lowbit_parse(const char *list, const char *flag, struct lowbit_options *o, struct err *e);
/* Bytes of the copies that o asks for, of experts of this layout. */
uint64_t lowbit_bytes_of(const struct expert_layout *x, const struct lowbit_options *o);
/* Room for the copies that are to be made on the disk of s. */
int lowbit_space(const struct store *s, const struct lowbit_options *o, struct pack_space *out,
                 struct err *e);
/* path as for store_open. Shows progress on stderr. E_NOTFOUND without experts.bin; E_SPACE before
 * anything is changed; E_INTERRUPTED. After a failure what was being made is removed. */
int lowbit_run(const char *path, const struct lowbit_options *o, struct lowbit_report *r,
               struct err *e);

/* For those who write such a copy (pack/synth.c too): manifestN.json of records r, whose r->sum is
 * set. source: the seal of the store's manifest. Replaces the file; syncs dir. */
int lowbit_publish(const char *dir, const struct records *r, const char *source, struct err *e);

#endif
