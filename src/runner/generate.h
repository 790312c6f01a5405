/* The loop from prompt to text: feed, choose, stop, stream.
 *
 * A generation is one answer in the making; generation_next makes one token of it. generate is the
 * whole loop for callers that are called back. Memory is taken when it opens: a token allocates
 * nothing (but text longer than any piece before it).
 *
 *      opened --next (feeds the prompt, chooses)--> answering
 *      answering --next (feeds the token before, chooses)--> answering, or finished
 *      finished (stop, length, interrupted): next gives no more text
 */
#ifndef RUNNER_GENERATE_H
#define RUNNER_GENERATE_H

#include "runner/model.h"

enum finish { FINISH_NONE, FINISH_STOP, FINISH_LENGTH, FINISH_INTERRUPTED };
const char *finish_name(enum finish f); /* "stop", ... */

struct generate_options {
    struct sample_options sample;
    int max_tokens; /* 0: until the context is full */
    const char *const *stop;
    size_t n_stop; /* stop strings; they need a tokenizer */
    /* Goes on behind stop ids, which then come out as text like all special tokens. */
    bool ignore_stop_ids;
    void *ctx;
    /* Whole UTF-8 text as it becomes certain; nonzero stops (FINISH_INTERRUPTED). May be NULL. Only
     * generate calls it. */
    int (*on_text)(void *ctx, const char *text, size_t len);
    /* Asked between tokens and prompt chunks; true stops. May be NULL. */
    bool (*cancelled)(void *ctx);
};

struct generate_result {
    enum finish finish;
    int n_prompt, n_cached; /* n_cached: prompt tokens that were already in the state */
    int n_generated;
    double prefill_s, decode_s; /* the first token counts as prefill */
    uint64_t logits_hash;       /* of the last logits, for comparing two runs by eye; 0: none yet */
    struct tokens ids;          /* generated, stop id included; owned: tokens_free */
};

/* What can be said of a prompt before anything is allocated or computed. E_ARG: it is empty, or an
 * id is none of the model's. E_LIMIT: prompt and one token do not fit, with both numbers. */
int generation_check(const struct model *m, const struct tokens *prompt, struct err *e);

struct generation;

/* Generates behind `seq`, whose committed tokens must be a beginning of prompt, less than all of
 * it; prompt must pass generation_check. prompt is borrowed until the first generation_next
 * returned, o's arrays until close. */
int generation_open(struct model *m, struct sequence *seq, const struct tokens *prompt,
                    const struct generate_options *o, struct generation **out, struct err *e);
void generation_close(struct generation *g);
/* One more token. *text is what became certain by it, perhaps "", borrowed until the next call;
 * NULL once the answer is finished. After a failure only generation_close is left. */
int generation_next(struct generation *g, const char **text, size_t *len, struct err *e);
/* What it came to so far; ids are copied and the caller's. */
int generation_result(const struct generation *g, struct generate_result *out, struct err *e);

/* The same, whole. On return seq holds the prompt and the answer without its last token (which
 * no one needed to feed yet), or what was fed when it was interrupted; on failure some prefix. */
int generate(struct model *m, struct sequence *seq, const struct tokens *prompt,
             const struct generate_options *o, struct generate_result *out, struct err *e);

#endif
