/* The loop from prompt to text: feed, choose, stop, stream.
 *
 * A generation is one answer in the making; generation_next gives one token of it. generate is the
 * whole loop for callers that are called back. Memory is taken when it opens: a token allocates
 * nothing (but text longer than any piece before it).
 *
 * A step feeds the last token given and drafts of those behind it, and draws the target's own token
 * after each row: as long as a draft equals that token, the next row's draw counts too. So a step
 * makes one token or several; they wait here, with their rows pending in the sequence, until they
 * are given. Rows are committed for tokens that were given, and no others:
 *
 *      opened --feeds the prompt, draws--> made 1
 *      made n --next gives one--> made n - 1, or finished
 *      made 0 --step: rows, verify, draw--> made 1 to 1 + drafts
 *      finished (stop, length, interrupted): next gives no more text
 *
 * The text, and what the sequence holds when it ends, are the same with any drafts. */
#ifndef RUNNER_GENERATE_H
#define RUNNER_GENERATE_H

#include "runner/batch.h"
#include "runner/draft.h"
#include "runner/model.h"

enum finish { FINISH_NONE, FINISH_STOP, FINISH_LENGTH, FINISH_INTERRUPTED };
const char *finish_name(enum finish f); /* "stop", ... */

struct generate_options {
    struct sample_options sample;
    struct draft_options draft; /* zeros: none */
    struct batch *batch; /* borrowed; NULL: one of its own, which is enough for generation_next */
    int max_tokens;      /* 0: until the context is full */
    const char *const *stop;
    size_t n_stop; /* stop strings; they need a tokenizer */
    /* Goes on behind stop ids, which then come out as text like all special tokens. */
    bool ignore_stop_ids;
    const struct constraint *constraint; /* on what may be drawn, or NULL; borrowed until close */
    bool logprobs;                       /* generation_given has them */
    int top_logprobs;                    /* 0..SAMPLE_TOP_MAX of the likeliest tokens besides */
    void *ctx;
    /* Whole UTF-8 text as it becomes certain; nonzero stops (FINISH_INTERRUPTED). May be NULL. Only
     * generate calls it. */
    int (*on_text)(void *ctx, const char *text, size_t len);
    /* Asked before each token but the first, and before each chunk of the prompt; true stops. May
     * be NULL. */
    bool (*cancelled)(void *ctx);
};

struct generate_result {
    enum finish finish;
    int stop_string;        /* which of the stop strings ended it, or -1 */
    int n_prompt, n_cached; /* n_cached: prompt tokens that were already in the state */
    int n_generated, n_drafted, n_accepted; /* drafts verified; those that were right */
    int n_steps;                            /* behind the prompt */
    double prefill_s, decode_s;             /* the first token counts as prefill */
    uint64_t logits_hash; /* of the last logits, for comparing two runs by eye; 0: none yet */
    struct tokens ids;    /* generated, stop id included; owned: tokens_free */
};

/* What can be said of a prompt before anything is allocated or computed. E_ARG: it is empty, or an
 * id is none of the model's. E_LIMIT: prompt and one token do not fit, with both numbers. */
int generation_check(const struct model *m, const struct tokens *prompt, struct err *e);

struct generation;

/* Generates behind `seq`, whose committed tokens must be a beginning of prompt, less than all of
 * it; prompt must pass generation_check. prompt is borrowed until it is fed (the first
 * generation_next returned, or batch_feed made a token), o's arrays until close. */
int generation_open(struct model *m, struct sequence *seq, const struct tokens *prompt,
                    const struct generate_options *o, struct generation **out, struct err *e);
void generation_close(struct generation *g);
/* One more token, by a step if none waits. *text is what became certain by it, perhaps "", borrowed
 * until the next call; NULL once the answer is finished. After a failure only generation_close is
 * left. */
int generation_next(struct generation *g, const char **text, size_t *len, struct err *e);
/* The token that the latest generation_next gave; false: that call gave none. */
struct given {
    int32_t id;
    bool is_stop;                           /* it ends the answer, and is no text */
    const struct sample_logprobs *logprobs; /* borrowed until the next call; NULL without */
};
bool generation_given(const struct generation *g, struct given *out);
/* How many tokens wait: so many calls of generation_next will not step. */
int generation_waiting(const struct generation *g);
/* Ends it where it stands: tokens that wait are dropped, and the sequence is as if they had never
 * been made; or, where answers took turns, at length 0. */
int generation_end(struct generation *g, struct err *e);
/* What it came to so far, of what was given; ids are copied and the caller's. */
int generation_result(const struct generation *g, struct generate_result *out, struct err *e);

/* The same, whole. On return seq holds the prompt and the answer without its last token (which
 * no one needed to feed yet), or what was fed when it was interrupted; on failure some prefix. */
int generate(struct model *m, struct sequence *seq, const struct tokens *prompt,
             const struct generate_options *o, struct generate_result *out, struct err *e);

/* --- for runner/batch.c, which steps them --- */

bool generation_wants_prompt(const struct generation *g);
bool generation_wants_step(const struct generation *g); /* nothing waits, and it is not finished */
/* Feeds at most `most` tokens of the prompt, as one chunk of the engine; behind the last one makes
 * the first token. logits [vocab] is scratch. */
void generation_feed(struct generation *g, int most, float *logits);
/* How much of the prompt is left to feed. */
int generation_prompt_left(const struct generation *g);
/* All of that as rows of a step that others share: rows [generation_prompt_left]; returns how many,
 * 0 when it was cancelled. The step was done: best is of the last of them, and so are logits
 * [vocab], if they are wanted. They are committed, and the first token is made. */
int generation_prompt_rows(struct generation *g, struct row *rows);
void generation_prompt_take(struct generation *g, const float *logits, const struct best *best);
/* What to feed next, at most `most` rows: rows [most]; returns how many, 0 when it was cancelled or
 * failed. together: answers that share the step. */
int generation_rows(struct generation *g, int together, int most, struct row *rows);
bool generation_wants_logits(const struct generation *g); /* of those rows: or what is best does */
/* The step of those rows was done; logits [rows][vocab], if they are wanted; best [rows]. Makes
 * tokens. */
void generation_take(struct generation *g, const float *logits, const struct best *best);
/* Others step now: rows of all tokens made are committed, also of those that still wait. If it ends
 * before they are given, its sequence starts over. */
void generation_keep(struct generation *g);
void generation_drop_drafts(struct generation *g); /* only the first of those rows is fed */
void generation_fail(struct generation *g, const struct err *why);

#endif
