/* What a run did, for those who want to know why it was fast or slow: one struct, filled by the
 * engine and its stream, read by the command line and a server alike. A counter costs an add. Owned
 * by the engine, written by the thread that steps it (and, where it says so, by readers with atomic
 * adds); reading it during a step may see half of that step. */
#ifndef MODEL_COUNTERS_H
#define MODEL_COUNTERS_H

#include <stdint.h>

/* Why bytes are read, or waited for. */
enum cause { CAUSE_DEMAND, CAUSE_LOOKAHEAD, CAUSE_PREFILL, CAUSE_WARM, CAUSE_NGRAM, CAUSE_COUNT };
const char *cause_name(enum cause c); /* "demand", ... */

enum {
    COUNTER_BITS_MAX = 5
}; /* arrays by bits are indexed by 2, 3, 4; entries 0 and 1 are empty */

/* Of one record layer. */
struct layer_counters {
    uint64_t selected;        /* experts times rows */
    uint64_t uses;            /* distinct experts of visits: hits + misses */
    uint64_t hits, misses;    /* resident when asked for, or not (also if a read was under way) */
    uint64_t predicted;       /* experts that lookahead named */
    uint64_t prefetched;      /* reads that it started */
    uint64_t prefetch_used;   /* and that a visit found complete */
    uint64_t prefetch_late;   /* found under way: the visit had to wait for the rest */
    uint64_t prefetch_wasted; /* evicted without use */
    uint64_t cut;             /* dropped by cut_weak */
};

struct counters {
    int n_layers;                 /* record layers */
    struct layer_counters *layer; /* [n_layers] */
    uint64_t steps, rows, prefill_tokens;
    uint64_t reads[CAUSE_COUNT][COUNTER_BITS_MAX]; /* records; n-gram blocks count under [0] */
    uint64_t bytes[CAUSE_COUNT];                   /* from disk */
    uint64_t wait_ns[CAUSE_COUNT];                 /* the stepping thread stood still */
    uint64_t read_ns;       /* at least one demand or prefill read was open */
    uint64_t touched_bytes; /* weights that products went through */
    uint64_t pool_slots, pool_bytes, dense_bytes, sequence_bytes, scratch_bytes; /* sizes */
};

/* Over causes, and over layers. */
struct counters_sum {
    uint64_t read_bytes, hits, misses;
};
struct counters_sum counters_sum(const struct counters *c);

#endif
