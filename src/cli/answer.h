/* What `run` and `chat` share: the flags that shape an answer, text to stdout as it comes, and the
 * closing line of figures. */
#ifndef CLI_ANSWER_H
#define CLI_ANSWER_H

#include <jansson.h>

#include "cli/model_flags.h"
#include "runner/generate.h"

struct answer_flags {
    struct model_flags model;
    const char *system, *effort;
    int64_t ctx, max_tokens, top_k, seed; /* top_k, seed: -1 when not given */
    int64_t drafts;
    int draft_source; /* enum draft_source */
    bool draft_always, no_ranking;
    double temperature, top_p, min_p; /* NAN when not given, all six */
    double presence, frequency, repetition;
    struct flag_list stop;
    bool greedy, ignore_eos, think, no_think;
};

enum { ANSWER_FLAGS = 21 + MODEL_FLAGS };

/* The table's rows, ANSWER_FLAGS of them, with *a set to what holds when no flag is given. */
void answer_flags_init(struct answer_flags *a, struct flag *rows);
/* Flags that contradict one another: E_ARG. */
int answer_flags_check(const struct answer_flags *a, const char *command, struct err *e);
int answer_model_options(const struct answer_flags *a, const char *command,
                         struct model_options *out, struct err *e);
/* Settings for an answer of m, streamed to stdout until a person interrupts. With no --seed,
 * another seed at every start. a is borrowed. */
int answer_options(const struct answer_flags *a, const struct model *m,
                   struct generate_options *out, struct err *e);
/* Template variables: enable_thinking (false unless --think or --effort), reasoning_effort. For
 * json_decref. */
int answer_variables(const struct answer_flags *a, json_t **out, struct err *e);
/* Text to stdout at once; nonzero when it cannot be written. ctx is not used. */
int answer_print(void *ctx, const char *text, size_t len);
/* "prompt 21 tok ...": the closing line, with what the model's engine counted. */
void answer_figures(const struct model *m, const struct generate_result *r,
                    const struct generate_options *o);

#endif
