/* The numbers of a made-up store (synth.h): each a function of seed, name and place.
 *
 * Codes are uniform; a group's scale is sigma / 4.61 varied by 25 % either way, with either sign,
 * and its bias -7.5 scale, so that weights have mean 0 and deviation sigma = gain / sqrt(columns).
 * Gains keep each block's output near 1, and logits near 4. Norms are near 1, routers give logits
 * of deviation 6.
 *
 * Skew: in each record layer experts have a random rank r from 0, and the router's row of an expert
 * is scaled by (r + 1)^-skew, so that a few are chosen often. With 10 of 512 experts and logits
 * that are normal (simulated), the most used quarter gets .24 of the choices at 0, .47 at 0.1, .74
 * at 0.25, .96 at 0.5. */
#ifndef PACK_SYNTH_VALUES_H
#define PACK_SYNTH_VALUES_H

#include "pack/plan.h"

struct synth_values {
    const struct plan *plan;
    uint64_t seed;
    double skew;
    /* [plan->target.n_dense]: the operation that an entry belongs to, and which part of it */
    const struct plan_dense **op;
    int *part;
};

int synth_values_init(const struct plan *p, uint64_t seed, double skew, struct synth_values *out,
                      struct err *e);
void synth_values_free(struct synth_values *v);

/* n bytes of dense tensor i from its byte `at` on; both multiples of 8 but at the tensor's end. */
void synth_dense(const struct synth_values *v, size_t i, uint64_t at, void *to, size_t n);
/* A 4-bit record, padding included. */
void synth_record(const struct synth_values *v, int il, int ie, uint8_t *to);
/* n rows of ngram.bin. */
void synth_rows(const struct synth_values *v, uint64_t first, uint64_t n, uint8_t *to);

#endif
