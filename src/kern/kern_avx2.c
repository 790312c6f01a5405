/* The AVX2 tier. Bytes multiply into words of 16 bits: eight products of at most 15 * 128,
 * half a block's, stay below 2^15. */
#ifdef __x86_64__
#include "kern/tiers.h"

#define KERN_AVX2
#include <immintrin.h>
#include <string.h>

#include "quant/kv8.h"

KERN_TARGET("avx2,fma,f16c")

#include "kern/vec_avx2.h"

/* Whole numbers of blocks, as floats. */
KERN_INLINE vec part_dot(const struct planes *w, const struct planes *x)
{
    __m256i s = _mm256_maddubs_epi16(w->of[0], x->of[0]);
    KERN_UNROLL
    for (int p = 1; p < 4; p++)
        s = _mm256_add_epi16(s, _mm256_maddubs_epi16(w->of[p], x->of[p]));
    return _mm256_cvtepi32_ps(_mm256_madd_epi16(s, _mm256_set1_epi16(1)));
}

#include "kern/products.h"

#include "kern/floats.h"

#include "kern/products16.h"

void kern_init_avx2(struct kern *k)
{
    fill_table(k);
    k->product16 = product16;
    k->tier = "avx2";
}

KERN_TARGET_END
#endif
