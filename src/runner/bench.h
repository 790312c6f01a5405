/* How fast a model runs here: prompts and answers, repeated, with what each cost in reads from disk
 * and memory. Tokens are random numbers of the seed, so that runs of other engines and settings can
 * be compared; with a prompt of words or with drafts answers are the model's own (greedy), since
 * only those can be guessed. */
#ifndef RUNNER_BENCH_H
#define RUNNER_BENCH_H

#include "runner/model.h"

enum { BENCH_REPETITIONS_MAX = 100 };

struct bench_options {
    int prompt_tokens; /* of each sequence */
    int tokens;        /* decoded in a repetition, of each sequence; 0: prefill only */
    int sequences;     /* 1..BATCH_MAX: their rows share steps */
    int repetitions;   /* behind one that is not counted, which fills the pool */
    bool answers;      /* decode the model's own tokens instead of random ones */
    int drafts;        /* of answers; 0: none; the model was opened with drafts */
    bool lookup;       /* drafts from the text instead of the head */
    bool no_warm_up;
    uint64_t seed;
    const struct tokens *prompt; /* NULL: random; else its tokens, prompt_tokens of them */
    void *ctx;
    bool (*cancelled)(void *ctx); /* asked between steps; may be NULL */
};

/* One half of the work over all repetitions. Rates are tokens of all sequences a second. */
struct bench_part {
    double rate[BENCH_REPETITIONS_MAX]; /* [repetitions], in order */
    double best, median;
    uint64_t tokens; /* in all repetitions */
    double seconds;
    uint64_t read_bytes, touched_bytes; /* from disk; of weights in memory; 0 also if not counted */
    double reading_s;                   /* while a read that was waited for was open */
    uint64_t phase_ns[PHASE_COUNT], steps; /* by phase, if the engine was opened with them */
    uint64_t hits, misses;                 /* of experts asked of the pool */
    uint64_t device_hits, copied_bytes; /* found in a device's memory; copied there from the pool */
    uint64_t host_experts;              /* computed by the host in place of that */
    uint64_t brought, brought_used; /* records copied there by lookahead; and found by a visit */
};

struct bench_result {
    int repetitions; /* done; fewer than asked for when cancelled */
    struct bench_part prefill, decode;
    uint64_t drafted, accepted;
    uint64_t logits_hash; /* of the last logits: those of the last repetition */
    bool counted;         /* the engine counts reads and touched bytes */
};

/* E_LIMIT when prompt and answer do not fit the model's context; E_INTERRUPTED when cancelled
 * before one repetition was done. */
int bench_run(struct model *m, const struct bench_options *o, struct bench_result *r,
              struct err *e);

#endif
