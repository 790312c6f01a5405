/* Memory: one budget, shared out once, before anything is allocated.
 *
 *      limit = dense weights + sequences + scratch + fixed (program, buffers) + beside + pool
 *
 * The pool gets what is left, between the fewest slots that work and one for every record; what
 * that leaves is for whatever is faster in memory than on disk (n-gram tables). Too
 * small a budget is E_LIMIT: what is there, what is needed, for what, and which flag changes it. */
#ifndef STREAM_BUDGET_H
#define STREAM_BUDGET_H

#include <stdint.h>

#include "base/err.h"

struct budget_wish {
    uint64_t memory;     /* --memory; 0: the machine's or control group's limit less headroom */
    uint64_t pool_bytes; /* --pool-gb; 0: not given */
    int pool_slots;      /* --pool-slots; 0: not given */
    uint64_t dense, sequence, scratch; /* bytes; sequence: of one */
    int n_sequences;
    uint64_t beside; /* what the program keeps besides: states of earlier prompts */
    uint64_t slot_bytes;
    int slots_min, slots_max;
};

struct budget {
    uint64_t memory; /* the limit that holds */
    uint64_t fixed;  /* dense, sequences, scratch, beside and overhead */
    uint64_t pool;
    uint64_t left; /* of the limit, for what may be kept in memory and need not: n-gram tables */
    int slots;
};

int budget_make(const struct budget_wish *w, struct budget *out, struct err *e);

#endif
