/* Random numbers that are a function of (seed, counter): no state, so that the number used for the
 * token at a position does not depend on how many steps led there (docs/numerics.md, Drafts). */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

/* splitmix64: adds the golden-ratio increment, then the finaliser of Steele, Lea and Flood (2014).
 * Multipliers of the n-gram hash are made by exactly this function (store/ngram.c). */
static inline uint64_t rng_splitmix64(uint64_t v)
{
    v += 0x9E3779B97F4A7C15u;
    v = (v ^ (v >> 30)) * 0xBF58476D1CE4E5B9u;
    v = (v ^ (v >> 27)) * 0x94D049BB133111EBu;
    return v ^ (v >> 31);
}

static inline uint64_t rng_at(uint64_t seed, uint64_t counter)
{
    return rng_splitmix64(rng_splitmix64(seed) ^ rng_splitmix64(~counter));
}

/* Uniform in [0, 1), 53 bits. */
static inline double rng_unit_at(uint64_t seed, uint64_t counter)
{
    return (double)(rng_at(seed, counter) >> 11) * 0x1p-53;
}

#endif
