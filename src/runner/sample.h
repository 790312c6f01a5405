/* Choosing a token from logits. docs/numerics.md, "Sampling", has the order and the ties.
 *
 * Order: repetition, frequency and presence penalties on logits; temperature; top-k; top-p;
 * min-p; draw. All in f64; ties go to the lower id; the random number is a function of (seed,
 * position). */
#ifndef RUNNER_SAMPLE_H
#define RUNNER_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct sample_options {
    double temperature;         /* 0: greedy */
    int top_k;                  /* 0: all */
    double top_p;               /* 1: all */
    double min_p;               /* 0: all */
    double presence, frequency; /* 0: none */
    double repetition;          /* 1: none */
    uint64_t seed;
};

#define SAMPLE_GREEDY ((struct sample_options){.top_p = 1, .repetition = 1})

struct sampler;

/* Memory for a choice is taken here; choosing allocates nothing. */
int sampler_open(int vocab, int n_tokens_used, const struct sample_options *o, struct sampler **out,
                 struct err *e);
void sampler_close(struct sampler *s);
/* Tokens of prompt and answer, for the penalties. */
void sampler_accept(struct sampler *s, int32_t id);
/* The token for `position`. logits [vocab] is read only. E_NONFINITE names token and position. Ids
 * at or above n_tokens_used (padding rows of the head) are neither looked at nor chosen. */
int sampler_choose(struct sampler *s, const float *logits, uint64_t position, int32_t *id,
                   struct err *e);
/* E_ARG with the name and the allowed range of a value that is out of it. */
int sample_options_check(const struct sample_options *o, struct err *e);

#endif
