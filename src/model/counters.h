/* What a run did, for those who want to know why it was fast or slow: one struct, filled by the
 * engine and its stream, read by the command line and a server alike. A counter costs an add. Owned
 * by the engine, written by the thread that steps it alone, with counters_add. Any other thread may
 * read it meanwhile, by counters_read and counters_experts, and may then see half of a step. */
#ifndef MODEL_COUNTERS_H
#define MODEL_COUNTERS_H

#include <stdint.h>

#include "base/err.h"

/* Why bytes are read, or waited for. */
enum cause { CAUSE_DEMAND, CAUSE_LOOKAHEAD, CAUSE_PREFILL, CAUSE_WARM, CAUSE_NGRAM, CAUSE_COUNT };
const char *cause_name(enum cause c); /* "demand", ... */

/* What the time of batches goes into: parts of them on a device, by its clock, where the engine was
 * opened with `phases`; and of the host's, how long batches took and how much of it was waiting for
 * the device. */
enum device_phase {
    PHASE_EMBED, /* and rows of the n-gram tables into the residual */
    PHASE_READ,  /* of the residual */
    PHASE_MIXER,
    PHASE_ROUTE,
    PHASE_EXPERTS,
    PHASE_HEAD,
    PHASE_DRAFT, /* cells of the draft head, and drafts */
    PHASE_HOST,
    PHASE_WAIT,
    PHASE_COUNT
};
const char *device_phase_name(enum device_phase p); /* "embed", ... */

/* Arrays by bits are indexed by 2, 3, 4; entries 0 and 1 are empty. */
enum { COUNTER_BITS_MAX = 5 };

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
    uint64_t reads;           /* records asked of the disk, whatever the cause */
    uint64_t read_bytes;      /* and what came of them */
    uint64_t device_hits;     /* of an engine on a device: found in its memory, no part of `uses`;
                                 with all experts there, rows times experts of a row */
};

/* Of one expert of a record layer: what layer_counters says of all of them. */
struct expert_counters {
    uint64_t selected, hits, misses, prefetched, reads, read_bytes;
};

struct counters {
    int n_layers, n_experts;        /* record layers, experts of each */
    struct layer_counters *layer;   /* [n_layers] */
    struct expert_counters *expert; /* [n_layers][n_experts] */
    uint64_t steps, rows, prefill_tokens;
    uint64_t reads[CAUSE_COUNT][COUNTER_BITS_MAX]; /* records; n-gram blocks count under [0] */
    uint64_t bytes[CAUSE_COUNT];                   /* from disk */
    uint64_t wait_ns[CAUSE_COUNT];                 /* the stepping thread stood still */
    uint64_t read_ns; /* at least one demand or prefill read was open */
    uint64_t phase_ns[PHASE_COUNT];
    uint64_t on_device;     /* 1: weights lie in a device's memory, not in the machine's */
    uint64_t touched_bytes; /* weights that products went through */
    uint64_t copied_bytes;  /* records, from the pool to a device's memory */
    uint64_t host_experts;  /* that the host computed for a device: in its pool, not copied */
    uint64_t brought, brought_used; /* of these records those copied by lookahead; found there */
    uint64_t device_slots, device_bytes; /* sizes: experts that a device's memory takes, and what */
    uint64_t device_fixed_bytes;         /* else is in it */
    uint64_t pool_slots, pool_bytes, dense_bytes, sequence_bytes, scratch_bytes; /* sizes */
    uint64_t table_bytes;  /* of n-gram tables held whole */
    uint64_t budget_bytes; /* what all of these must fit; 0: the engine has no such limit */
};

/* Takes the arrays, all zeros; other fields stay as they are. On failure nothing is held. */
int counters_open(struct counters *c, int n_layers, int n_experts, struct err *e);
void counters_close(struct counters *c); /* zeros are fine */

/* n more. For the writing thread alone. */
static inline void counters_add(uint64_t *counter, uint64_t n)
{
    const uint64_t now = __atomic_load_n(counter, __ATOMIC_RELAXED) + n;
    __atomic_store_n(counter, now, __ATOMIC_RELAXED);
}

/* How things stand, from any thread: to was opened with as many layers. Its experts stay as they
 * are. */
void counters_read(const struct counters *c, struct counters *to);
/* The experts of layer il, out [n_experts]. */
void counters_experts(const struct counters *c, int il, struct expert_counters *out);

/* Over causes, and over layers. */
struct counters_sum {
    uint64_t read_bytes, hits, misses, device_hits;
};
struct counters_sum counters_sum(const struct counters *c);
/* Of those asked for, the share that was there; NAN: none were. */
double counters_hit_rate(uint64_t hits, uint64_t misses);
struct layer_counters counters_layers(const struct counters *c); /* every one, over layers */

#endif
