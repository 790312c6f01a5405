/* How well the model predicts a text: negative log-likelihood per token, over windows.
 *
 * A window starts from an empty state, so its first tokens have little in front of them;
 * therefore a window scores only its tokens that no earlier one scored, and windows overlap by
 * window - stride. */
#ifndef RUNNER_PERPLEXITY_H
#define RUNNER_PERPLEXITY_H

#include "model/engine.h"
#include "text/tokenizer.h"

struct perplexity_options {
    int window, stride; /* tokens; 1 <= stride < window <= the sequence's context */
    void *ctx;
    bool (*cancelled)(void *ctx); /* asked at every token; may be NULL */
};

/* nll [ids->n]: of each token given those before it in its window; nll[0] is 0, nothing predicts
 * it. seq is reset for every window. E_ARG: under two tokens, or options that make no sense. */
int perplexity_run(struct engine *engine, struct sequence *seq, const struct tokens *ids,
                   const struct perplexity_options *o, double *nll, struct err *e);

#endif
