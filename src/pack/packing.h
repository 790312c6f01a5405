/* A store while it is written: its open files, the journal, and each thread's buffers. dense.c,
 * experts.c and ngram.c write pieces through it; pack.c owns it.
 *
 * Threads write different pieces, so files and journal need no lock: what belongs to piece i has
 * one writer, the thread that packs it, and pack.c reads it when all threads are joined. */
#ifndef PACK_PACKING_H
#define PACK_PACKING_H

#include "pack/journal.h"
#include "pack/plan.h"
#include "pack/progress.h"

#define PACKING_MEMORY_MAX ((uint64_t)320 << 20) /* all lanes; leaves room below 512 MiB */

/* One thread's buffers. */
struct lane {
    struct encode_scratch scratch;
    uint8_t *out; /* packing.out_bytes, 64-byte aligned: what will be written */
};

struct packing {
    const struct plan *plan;
    struct pieces pieces;
    struct file file[PIECE_FILES]; /* ngram.bin closed when there is no table */
    struct journal journal;
    size_t out_bytes, raw_bytes, n_values;
    struct lane *lanes;
    int n_lanes;
    size_t *dense_order; /* operations, the longest first */
    int records_per_job; /* of one record layer */
    struct progress progress;
};

/* Opens or creates the files in dir, takes over what the journal vouches for once
 * packing_recheck has read it back, and sets up n_threads lanes (fewer when memory is short). */
int packing_open(const char *dir, const struct plan *plan, int n_threads, struct packing *out,
                 struct err *e);
/* Reads the claimed pieces back; those with other bytes are not done. *kept: bytes that stay. */
int packing_recheck(struct packing *p, uint64_t *kept, struct err *e);
/* Writes all pieces that are not done. */
int packing_write_all(struct packing *p, struct err *e);
int packing_sync(struct packing *p, struct err *e); /* the three files are on disk, and closed */
void packing_close(struct packing *p);

/* For the three writers, which then note the piece in the journal. E_INTERRUPTED when a stop was
 * asked for. */
int packing_write(struct packing *p, enum piece_file file, uint64_t offset, const void *from,
                  size_t n, struct err *e);

/* The writers: each packs one operation, batch of records, or block, with the buffers of lane l. */
int dense_pack(struct packing *p, struct lane *l, const struct plan_dense *d, struct err *e);
int experts_pack(struct packing *p, struct lane *l, int il, int ie, int n, struct err *e);
int ngram_pack(struct packing *p, struct lane *l, size_t block, struct err *e);

#endif
