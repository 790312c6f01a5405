/* The AVX2 tier on processors with AVX-VNNI: the same vectors, and one instruction for four
 * products of bytes and their sum. The whole numbers are the same, so the bits are too. */
#ifdef __x86_64__
#include "kern/tiers.h"

#define KERN_AVX2
#include <immintrin.h>
#include <string.h>

#include "quant/kv8.h"

KERN_TARGET("avx2,fma,f16c,avxvnni")

#include "kern/vec_avx2.h"

/* As in kern_avx2.c. */
KERN_INLINE vec part_dot(const struct planes *w, const struct planes *x)
{
    __m256i s = _mm256_setzero_si256();
    KERN_UNROLL
    for (int p = 0; p < 4; p++)
        s = _mm256_dpbusd_avx_epi32(s, w->of[p], x->of[p]);
    return _mm256_cvtepi32_ps(s);
}

#include "kern/products.h"

#include "kern/floats.h"

void kern_init_avx_vnni(struct kern *k)
{
    fill_table(k);
    k->tier = "avx2";
}

KERN_TARGET_END
#endif
