/* Packing: a checkpoint becomes a store. The only writer of stores.
 *
 * A kill at any moment leaves an unfinished directory (no manifest.json) or a whole store. A second
 * run reads back what the first wrote and goes on (journal.h). */
#ifndef PACK_PACK_H
#define PACK_PACK_H

#include "pack/plan.h"

struct pack_options {
    const char *output; /* NULL: "packed" in the source's folder */
    int n_threads; /* 0: one per processor, and at least two, so that reads and writes overlap */
    bool force;    /* pack again over a store or another's directory */
    uint64_t also; /* bytes that will be written there besides: the disk must have room for them */
};

struct pack_report {
    bool reused;            /* the store was there already, from this source */
    size_t n_restored;      /* texts that it lacked */
    uint64_t source_bytes;  /* of the tensors that went into the store */
    uint64_t store_bytes;   /* of the three data files */
    uint64_t written_bytes; /* of those, written by this run; the rest an earlier one left */
    double seconds;
    int n_threads;
};

/* Room on the output's disk. */
struct pack_space {
    uint64_t needed; /* still to be written */
    uint64_t margin; /* to be left free besides: 2 GB, less for small stores */
    uint64_t free;
};

/* The directory that would be written; to free with mem_free. */
int pack_output(const struct plan *p, const char *output, char **dir, struct err *e);
int pack_space(const struct plan *p, const char *dir, struct pack_space *out, struct err *e);
uint64_t pack_margin(uint64_t total); /* for files of so many bytes */

/* Carries the plan out, and shows progress on stderr. E_ARG when the output holds a store of
 * another source; E_SPACE before anything is written when the disk has too little room;
 * E_NONFINITE; E_INTERRUPTED. After a failure the output is unfinished, never a wrong store. */
int pack_run(const struct plan *p, const struct pack_options *o, struct pack_report *r,
             struct err *e);

#endif
