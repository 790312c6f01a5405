/* What the tiers share: numbers that all must agree on, and the functions that fill the table. For
 * the files of this folder alone. */
#ifndef KERN_TIERS_H
#define KERN_TIERS_H

#include <float.h>

#include "kern/kern.h"

void kern_init_ref(struct kern *k);
void kern_init_avx2(struct kern *k);
void kern_init_avx_vnni(struct kern *k);
void kern_init_avx512(struct kern *k);
void kern_init_neon(struct kern *k);

#define KERN_INLINE static inline __attribute__((always_inline))

/* Whether the compiler sees that a condition holds. */
#define KERN_KNOWN(condition) (__builtin_constant_p(condition) && (condition))

/* In front of a loop of known length: as many copies of its body. */
#define KERN_PRAGMA(text) _Pragma(#text)
#ifdef __clang__
#define KERN_UNROLL KERN_PRAGMA(unroll)
#else
#define KERN_UNROLL KERN_PRAGMA(GCC unroll 16)
#endif

/* The dot product instructions of 64-bit ARM; clang before 16 has them only where flags allow. */
#if defined(__aarch64__) && (!defined(__clang__) || defined(__ARM_FEATURE_DOTPROD))
#define KERN_HAVE_NEON
#endif

/* Around the functions of a tier: which instructions they may use. */
#ifdef __clang__
#define KERN_TARGET(list)                                                                          \
    KERN_PRAGMA(clang attribute push(__attribute__((target(list))), apply_to = function))
#define KERN_TARGET_END KERN_PRAGMA(clang attribute pop)
#else
#define KERN_TARGET(list) KERN_PRAGMA(GCC push_options) KERN_PRAGMA(GCC target(list))
#define KERN_TARGET_END   KERN_PRAGMA(GCC pop_options)
#endif

/* Blocks whose largest magnitude lies outside have scale 0: below, 127 / peak could overflow. */
#define KERN_PEAK_MIN 0x1p-100f
#define KERN_PEAK_MAX FLT_MAX
/* The largest magnitude of a block as bits; above are infinity and NaN. */
#define KERN_FINITE_BITS 0x7F7FFFFFu

/* A byte 128 times, for initialisers. */
#define KERN_TIMES_8(x) x, x, x, x, x, x, x, x
#define KERN_TIMES_128(x)                                                                          \
    KERN_TIMES_8(x), KERN_TIMES_8(x), KERN_TIMES_8(x), KERN_TIMES_8(x), KERN_TIMES_8(x),           \
        KERN_TIMES_8(x), KERN_TIMES_8(x), KERN_TIMES_8(x), KERN_TIMES_8(x), KERN_TIMES_8(x),       \
        KERN_TIMES_8(x), KERN_TIMES_8(x), KERN_TIMES_8(x), KERN_TIMES_8(x), KERN_TIMES_8(x),       \
        KERN_TIMES_8(x)

/* exp(x) = 2^k exp(r), k = x / ln 2 to the nearest whole number, |r| <= ln 2 / 2 and a little:
 * exp(r) = 1 + r + r^2 (C2 + C3 r + ... C6 r^4), within 4e-9 of itself before rounding. Adding and
 * taking off ROUND = 1.5 * 2^23 rounds to a whole number and leaves it in the low bits. Below MIN,
 * just above ln 2^-126, the result is 0, so that 2^k is never a denormal. */
#define KERN_EXP_MIN      -87.33f
#define KERN_EXP_ROUND    0x1.8p23f
#define KERN_EXP_LOG2E    0x1.715476p+0f
#define KERN_EXP_LN2_HIGH 0x1.62e4p-1f
#define KERN_EXP_LN2_LOW  0x1.7f7d1cp-20f
#define KERN_EXP_C2       0x1.fffffcp-2f
#define KERN_EXP_C3       0x1.555492p-3f
#define KERN_EXP_C4       0x1.5558f2p-5f
#define KERN_EXP_C5       0x1.123a2p-7f
#define KERN_EXP_C6       0x1.6a23cep-10f

/* What a code stands for in steps of Q4 is code + this: the middle of what fell together. */
static inline float kern_middle(int bits)
{
    return bits == 4 ? 0 : bits == 3 ? 0.5f : 1.5f;
}

/* Bytes of a row of n weight codes. */
static inline size_t kern_row_bytes(int bits, int n)
{
    return (size_t)n / 8 * (size_t)bits;
}

#endif
