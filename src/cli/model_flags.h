/* The flags of every command that runs a model: which engine computes, and with how much of the
 * machine. One table, so that a flag means the same everywhere. None changes what is computed,
 * except --experts, and --miss-experts and --cut-weak, which are told at start. */
#ifndef CLI_MODEL_FLAGS_H
#define CLI_MODEL_FLAGS_H

#include "cli/flags.h"
#include "runner/model.h"

struct model_flags {
    const char *engine;
    uint64_t memory, device_memory;
    int64_t pool_slots, chunk, threads;
    double pool_gb, cut_weak;
    int pool, reads, host_experts; /* words of the table, 0 the first */
    int experts, miss_experts;     /* the same; miss_experts -1: not given */
    bool probe;
};

enum { MODEL_FLAGS = 14 };

/* The table's rows, MODEL_FLAGS of them, with *f set to what holds when no flag is given. */
void model_flags_init(struct model_flags *f, struct flag *rows);
/* What --experts says: 4, 3 or 2; 0: the best that the store has. */
int model_flags_bits(const struct model_flags *f);
/* out: MODEL_OPTIONS with what the flags say. E_ARG: flags that contradict one another. Warns of
 * those whose answers depend on the cache. */
int model_flags_options(const struct model_flags *f, const char *command, struct model_options *out,
                        struct err *e);
/* What --probe measured, and what the engine remarks, on stderr; mostly nothing. */
void model_flags_say_opening(const struct model *m);

#endif
