/* The loop from prompt to text: feed, choose, stop, stream. One call generates one answer. */
#ifndef RUNNER_GENERATE_H
#define RUNNER_GENERATE_H

#include "runner/model.h"

enum finish { FINISH_STOP, FINISH_LENGTH, FINISH_INTERRUPTED };

struct generate_options {
    struct sample_options sample;
    int max_tokens; /* 0: until the context is full */
    const char *const *stop;
    size_t n_stop; /* stop strings */
    bool ignore_stop_ids;
    void *ctx;
    /* Whole UTF-8 text as it becomes certain; nonzero stops (FINISH_INTERRUPTED). May be NULL. */
    int (*on_text)(void *ctx, const char *text, size_t len);
    /* Asked between tokens and prompt chunks; true stops. May be NULL. */
    bool (*cancelled)(void *ctx);
};

struct generate_result {
    enum finish finish;
    int n_prompt, n_cached,
        n_generated; /* n_cached: prompt tokens that were already in the state */
    double prefill_s, decode_s;
    uint64_t logits_hash; /* of the last logits, for comparing two runs by eye */
    struct tokens ids;    /* generated, stop id included; owned: tokens_free */
};

/* Generates behind `seq`, whose committed tokens must be the first n_cached of prompt. The prompt
 * must be non-empty and fit (E_LIMIT says both numbers). On return seq holds prompt and
 * answer. */
int generate(struct model *m, struct sequence *seq, const struct tokens *prompt, int n_cached,
             const struct generate_options *o, struct generate_result *out, struct err *e);

#endif
