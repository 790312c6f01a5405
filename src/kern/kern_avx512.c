/* The AVX-512 tier: F, BW, DQ, VL and VNNI. A vector is a whole chunk's 16 lanes. */
#ifdef __x86_64__
#include <immintrin.h>
#include <string.h>

#include "kern/tiers.h"

KERN_TARGET("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")

#define KERN_VEC   16
#define KERN_PARTS 1
#define KERN_ROWS  6

typedef __m512 vec;
struct lanes {
    vec part[KERN_PARTS];
};
/* The codes of a part, plane by plane. */
struct planes {
    __m512i of[4];
};

/* --- floats --- */

KERN_INLINE __mmask16 first(int n)
{
    return (__mmask16)((1u << n) - 1);
}

KERN_INLINE vec vec_set(float x)
{
    return _mm512_set1_ps(x);
}

KERN_INLINE vec vec_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

/* The first n of 16, zeros behind; without a branch. */
KERN_INLINE vec vec_load_some(const float *p, int n)
{
    return KERN_KNOWN(n == KERN_VEC) ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(first(n), p);
}

/* The same, where n is mostly 16. */
KERN_INLINE vec vec_load_n(const float *p, int n)
{
    return n == KERN_VEC ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(first(n), p);
}

KERN_INLINE void vec_store_n(float *p, vec v, int n)
{
    if (n == KERN_VEC)
        _mm512_storeu_ps(p, v);
    else
        _mm512_mask_storeu_ps(p, first(n), v);
}

KERN_INLINE vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

KERN_INLINE vec vec_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}

KERN_INLINE vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

KERN_INLINE vec vec_div(vec a, vec b)
{
    return _mm512_div_ps(a, b);
}

KERN_INLINE vec vec_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

/* a * b + c */
KERN_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* c - a * b */
KERN_INLINE vec vec_take(vec a, vec b, vec c)
{
    return _mm512_fnmadd_ps(a, b, c);
}

KERN_INLINE vec vec_minus_abs(vec x)
{
    return _mm512_or_ps(x, _mm512_set1_ps(-0.0f));
}

KERN_INLINE vec vec_by_sign(vec x, vec negative, vec positive)
{
    return _mm512_mask_blend_ps(_mm512_movepi32_mask(_mm512_castps_si512(x)), positive, negative);
}

/* v, or 0 where x < least. */
KERN_INLINE vec vec_zero_below(vec x, vec least, vec v)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, least, _CMP_NLT_UQ), v);
}

/* 2^k of the k in the low bits of t. */
KERN_INLINE vec vec_power(vec t)
{
    __m512i k = _mm512_add_epi32(_mm512_castps_si512(t), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(k, 23));
}

/* n bf16, zeros behind. */
KERN_INLINE vec vec_widen_some(const uint16_t *p, int n)
{
    __m256i h = KERN_KNOWN(n == KERN_VEC) ? _mm256_loadu_si256((const __m256i *)p)
                                          : _mm256_maskz_loadu_epi16(first(n), p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

KERN_INLINE vec vec_bytes(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

KERN_INLINE float half_value(uint16_t h)
{
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
}

/* The 16 lanes of each added up, -0 turned to 0. */
KERN_INLINE void lanes_fold4(const struct lanes *a, const struct lanes *b, const struct lanes *c,
                             const struct lanes *d, float *sum)
{
    vec ab = vec_add(_mm512_shuffle_f32x4(a->part[0], b->part[0], 0x44),
                     _mm512_shuffle_f32x4(a->part[0], b->part[0], 0xEE));
    vec cd = vec_add(_mm512_shuffle_f32x4(c->part[0], d->part[0], 0x44),
                     _mm512_shuffle_f32x4(c->part[0], d->part[0], 0xEE));
    vec v = vec_add(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
    v = vec_add(v, _mm512_permute_ps(v, 0x4E));
    v = vec_add(v, _mm512_permute_ps(v, 0xB1));
    v = _mm512_maskz_compress_ps(0x1111, vec_add(v, vec_set(0)));
    _mm_storeu_ps(sum, _mm512_castps512_ps128(v));
}

KERN_INLINE float lanes_fold(struct lanes s)
{
    __m256 v =
        _mm256_add_ps(_mm512_castps512_ps256(s.part[0]), _mm512_extractf32x8_ps(s.part[0], 1));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

/* --- quantising --- */

KERN_INLINE uint32_t block_peak_bits(const float *x)
{
    __m512i u = _mm512_and_si512(_mm512_loadu_si512(x), _mm512_set1_epi32(0x7FFFFFFF));
    return _mm512_reduce_max_epu32(u);
}

/* The codes of one block, four to each plane; all 0 for an inverse of 0. */
KERN_INLINE void block_codes(const float *x, float inverse, int8_t *to, int plane)
{
    const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    vec v = _mm512_maskz_mul_ps(inverse > 0 ? 0xFFFF : 0, vec_load(x), vec_set(inverse));
    __m128i q = _mm_shuffle_epi8(_mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)), order);
    _mm_storeu_si32(to, q);
    _mm_storeu_si32(to + plane, _mm_srli_si128(q, 4));
    _mm_storeu_si32(to + 2 * plane, _mm_srli_si128(q, 8));
    _mm_storeu_si32(to + 3 * plane, _mm_srli_si128(q, 12));
}

/* --- weights --- */

/* The first n words of 32 bits at p, from number `from` to from + 15 on; zeros behind. n <= 32. */
KERN_INLINE __m512i words(const void *p, int from, int n)
{
    const uint8_t *at = (const uint8_t *)p + 4 * from;
    if (KERN_KNOWN(n >= from + 16))
        return _mm512_loadu_si512(at);
    return _mm512_maskz_loadu_epi32((__mmask16)(((1ull << n) - 1) >> from), at);
}

/* Even and odd words of 32: elements 0..7 of each block, then 8..15. Low nibbles are the even
 * elements. */
KERN_INLINE struct planes planes4(const uint8_t *p, int k)
{
    const __m512i even =
                      _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),
                  odd = _mm512_add_epi32(even, _mm512_set1_epi32(1)), low = _mm512_set1_epi8(15);
    __m512i a = words(p, 0, 8 * k), b = words(p, 16, 8 * k);
    __m512i near = _mm512_permutex2var_epi32(a, even, b),
            far = _mm512_permutex2var_epi32(a, odd, b);
    return (struct planes){{_mm512_and_si512(near, low), _mm512_and_si512(far, low),
                            _mm512_and_si512(_mm512_srli_epi16(near, 4), low),
                            _mm512_and_si512(_mm512_srli_epi16(far, 4), low)}};
}

/* Two bits of each byte, moved to bits 2 and 3: steps of Q4. */
KERN_INLINE struct planes planes2(const uint8_t *p, int k)
{
    const __m512i field = _mm512_set1_epi8(12);
    __m512i w = words(p, 0, 4 * k);
    return (struct planes){{_mm512_and_si512(_mm512_slli_epi16(w, 2), field),
                            _mm512_and_si512(w, field),
                            _mm512_and_si512(_mm512_srli_epi16(w, 2), field),
                            _mm512_and_si512(_mm512_srli_epi16(w, 4), field)}};
}

/* upper has two bits of a code in bits 2 and 3 of its bytes, lower the third in bit 1. */
KERN_INLINE __m512i join3(__m512i upper, __m512i lower)
{
    const __m512i high = _mm512_set1_epi8(12), code = _mm512_set1_epi8(14);
    /* high ? upper : lower */
    return _mm512_and_si512(_mm512_ternarylogic_epi32(high, upper, lower, 0xCA), code);
}

/* Of three words the first two belong to a block each, the third to both: to the second shifted
 * by 4. */
KERN_INLINE struct planes planes3(const uint8_t *p, int k)
{
    const __m512i upper =
                      _mm512_setr_epi32(0, 1, 3, 4, 6, 7, 9, 10, 12, 13, 15, 16, 18, 19, 21, 22),
                  lower =
                      _mm512_setr_epi32(2, 2, 5, 5, 8, 8, 11, 11, 14, 14, 17, 17, 20, 20, 23, 23),
                  turn = _mm512_set1_epi64(4ll << 32);
    __m512i a = words(p, 0, 6 * k), b = words(p, 16, 6 * k);
    __m512i u = _mm512_permutex2var_epi32(a, upper, b);
    __m512i l = _mm512_srlv_epi32(_mm512_permutex2var_epi32(a, lower, b), turn);
    return (struct planes){{join3(_mm512_slli_epi16(u, 2), _mm512_slli_epi16(l, 1)), join3(u, l),
                            join3(_mm512_srli_epi16(u, 2), _mm512_srli_epi16(l, 1)),
                            join3(_mm512_srli_epi16(u, 4), _mm512_srli_epi16(l, 2))}};
}

/* k groups, zeros behind. */
KERN_INLINE struct planes part_planes(const int bits, const uint8_t *p, int k)
{
    return bits == 4 ? planes4(p, k) : bits == 3 ? planes3(p, k) : planes2(p, k);
}

/* The scale of each of k groups on its four lanes. */
KERN_INLINE vec part_weight(const uint16_t *scales, int k)
{
    const __m512i to_top =
        _mm512_setr_epi32(0x0100FFFF, 0x0100FFFF, 0x0100FFFF, 0x0100FFFF, 0x0302FFFF, 0x0302FFFF,
                          0x0302FFFF, 0x0302FFFF, 0x0504FFFF, 0x0504FFFF, 0x0504FFFF, 0x0504FFFF,
                          0x0706FFFF, 0x0706FFFF, 0x0706FFFF, 0x0706FFFF);
    __m128i four = KERN_KNOWN(k == 4) ? _mm_loadu_si64(scales)
                                      : _mm_maskz_loadu_epi16((__mmask8)first(k), scales);
    return _mm512_castsi512_ps(_mm512_shuffle_epi8(_mm512_broadcastq_epi64(four), to_top));
}

/* The codes of activations: plane p begins at x + p * plane. */
KERN_INLINE struct planes acts_planes(const int8_t *x, int plane)
{
    return (struct planes){{_mm512_loadu_si512(x), _mm512_loadu_si512(x + plane),
                            _mm512_loadu_si512(x + 2 * plane), _mm512_loadu_si512(x + 3 * plane)}};
}

/* Whole numbers of blocks, as floats. */
KERN_INLINE vec part_dot(const struct planes *w, const struct planes *x)
{
    __m512i s = _mm512_setzero_si512();
    KERN_UNROLL
    for (int p = 0; p < 4; p++)
        s = _mm512_dpbusd_epi32(s, w->of[p], x->of[p]);
    return _mm512_cvtepi32_ps(s);
}

#include "kern/products.h"

#include "kern/floats.h"

void kern_init_avx512(struct kern *k)
{
    fill_table(k);
    k->tier = "avx512";
}

KERN_TARGET_END
#endif
