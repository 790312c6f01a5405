/* Choosing a token from logits. docs/numerics.md, "Sampling", has the order and the ties.
 *
 * Order: a constraint's mask; repetition, frequency and presence penalties on logits; biases;
 * temperature; top-k; top-p; min-p; draw. All in f64; ties go to the lower id; the random number is
 * a function of (seed, position). */
#ifndef RUNNER_SAMPLE_H
#define RUNNER_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/constraint.h"

enum { SAMPLE_TOP_MAX = 20, SAMPLE_BIAS_MAX = 1024 };

/* Added to the logit of a token. */
struct sample_bias {
    int32_t id;
    double add; /* -100..100 */
};

struct sample_options {
    double temperature;         /* 0: greedy */
    int top_k;                  /* 0: all */
    double top_p;               /* 1: all */
    double min_p;               /* 0: all */
    double presence, frequency; /* 0: none */
    double repetition;          /* 1: none */
    uint64_t seed;
    const struct sample_bias *bias; /* [n_bias], ids all different; copied by sampler_open */
    int n_bias;                     /* 0: none */
};

#define SAMPLE_GREEDY ((struct sample_options){.top_p = 1, .repetition = 1})

/* Natural logarithms of what the model itself gives, before mask, penalties, biases and
 * temperature. */
struct sample_logprob {
    int32_t id;
    double logprob;
};
struct sample_logprobs {
    struct sample_logprob chosen;
    int n_top;
    struct sample_logprob top[SAMPLE_TOP_MAX]; /* likeliest first, ties to the lower id */
};

struct sampler;

/* Memory for a choice is taken here; choosing allocates nothing. */
int sampler_open(int vocab, int n_tokens_used, const struct sample_options *o, struct sampler **out,
                 struct err *e);
void sampler_close(struct sampler *s);
/* From now on only what c allows is chosen. c is borrowed; its `accept` is the caller's to call.
 * E_NOMEM. */
int sampler_constrain(struct sampler *s, const struct constraint *c, struct err *e);
/* Tokens of prompt and answer, for the penalties. */
void sampler_accept(struct sampler *s, int32_t id);
/* The token for `position`. logits [vocab] is read only. E_NONFINITE names token and position;
 * E_UNSUPPORTED: the constraint allows none. Ids at or above n_tokens_used (padding rows of the
 * head) are neither looked at nor chosen. */
int sampler_choose(struct sampler *s, const float *logits, uint64_t position, int32_t *id,
                   struct err *e);
/* Whether what it chooses is always the likeliest token as the model has it, ties to the lower id:
 * then nobody needs the logits for it. */
bool sampler_takes_best(const struct sampler *s);
/* Of finite logits, for the token chosen from them; n_top 0..SAMPLE_TOP_MAX. */
void sampler_logprobs(const struct sampler *s, const float *logits, int32_t id, int n_top,
                      struct sample_logprobs *out);
/* E_ARG with the name and the allowed range of a value that is out of it. */
int sample_options_check(const struct sample_options *o, struct err *e);

#endif
