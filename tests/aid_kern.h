/* For tests of kernels: the tiers of this processor, arrays that end at a page nobody may touch,
 * and values with a seed. */
#ifndef TESTS_AID_KERN_H
#define TESTS_AID_KERN_H

#include "aid_test.h"
#include "kern/kern.h"

enum { AID_TIERS_MAX = 8 };

/* Every table kern_init can fill here, the reference first; returns how many. name[i] tells apart
 * those of one tier (avx2 with and without AVX-VNNI). With $CHERENKOV_CPU only what it allows. */
int aid_kern_tiers(struct kern *tier, const char **name);

/* Bytes that end where a forbidden page begins, after another one; freed by aid_guarded_free. */
void *aid_guarded(size_t bytes);
void aid_guarded_free(void); /* all of them */

/* Values of activations, each kind a way to go wrong. */
enum aid_values {
    AID_NORMAL,   /* a bell around 0 */
    AID_OUTLIERS, /* the same with a few a thousand times as large */
    AID_ZEROS,
    AID_ENDS,   /* -1, 1, and 0 in turn */
    AID_HUGE,   /* near 1e30 */
    AID_TINY,   /* near 1e-36, some denormal: under the smallest peak of a block and over */
    AID_MIXED,  /* magnitudes from 1e-30 to 1e5 */
    AID_VALUES, /* how many kinds */
};
void aid_values(enum aid_values kind, uint64_t seed, float *x, size_t n);

/* Same bits, or both NaN. -1 when all are, else the first index that differs. */
long aid_differ(const float *a, const float *b, size_t n);

#endif
