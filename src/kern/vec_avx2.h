/* Vectors of the AVX2 tiers: a chunk's 16 lanes are two of them. Included by the files that define
 * KERN_AVX2; alone this header is empty. What differs between them is how bytes are multiplied:
 * part_dot is theirs. */
#ifndef KERN_VEC_AVX2_H
#define KERN_VEC_AVX2_H
#ifdef KERN_AVX2

#include <immintrin.h>
#include <string.h>

#include "kern/tiers.h"

#define KERN_VEC   8
#define KERN_PARTS 2
#define KERN_ROWS  4

typedef __m256 vec;
struct lanes {
    vec part[KERN_PARTS];
};
/* The codes of a part, plane by plane. */
struct planes {
    __m256i of[4];
};

/* --- floats --- */

/* All ones in the first n of 8 lanes. */
KERN_INLINE __m256i first(int n)
{
    static const int32_t ones[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(ones + KERN_VEC - n));
}

KERN_INLINE vec vec_set(float x)
{
    return _mm256_set1_ps(x);
}

KERN_INLINE vec vec_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

/* The first n of 8, zeros behind; without a branch. */
KERN_INLINE vec vec_load_some(const float *p, int n)
{
    return KERN_KNOWN(n == KERN_VEC) ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, first(n));
}

/* The same, where n is mostly 8. */
KERN_INLINE vec vec_load_n(const float *p, int n)
{
    return n == KERN_VEC ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, first(n));
}

KERN_INLINE void vec_store_n(float *p, vec v, int n)
{
    if (n == KERN_VEC)
        _mm256_storeu_ps(p, v);
    else
        _mm256_maskstore_ps(p, first(n), v);
}

KERN_INLINE vec vec_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

KERN_INLINE vec vec_sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}

KERN_INLINE vec vec_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

KERN_INLINE vec vec_div(vec a, vec b)
{
    return _mm256_div_ps(a, b);
}

KERN_INLINE vec vec_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}

/* a * b + c */
KERN_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* c - a * b */
KERN_INLINE vec vec_take(vec a, vec b, vec c)
{
    return _mm256_fnmadd_ps(a, b, c);
}

KERN_INLINE vec vec_minus_abs(vec x)
{
    return _mm256_or_ps(x, _mm256_set1_ps(-0.0f));
}

KERN_INLINE vec vec_by_sign(vec x, vec negative, vec positive)
{
    return _mm256_blendv_ps(positive, negative, x);
}

/* v, or 0 where x < least. */
KERN_INLINE vec vec_zero_below(vec x, vec least, vec v)
{
    return _mm256_and_ps(_mm256_cmp_ps(x, least, _CMP_NLT_UQ), v);
}

/* 2^k of the k in the low bits of t. */
KERN_INLINE vec vec_power(vec t)
{
    __m256i k = _mm256_add_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(k, 23));
}

/* n of 8 words of 16 bits, n > 0, zeros behind: whole pairs, then the last one. */
KERN_INLINE __m128i load_words(const uint16_t *p, int n)
{
    static const uint8_t last[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
                                   0x80, 0x80, 0x80, 0x80, 0,    1,    0x80, 0x80, 0x80, 0x80,
                                   0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80};
    if (KERN_KNOWN(n == KERN_VEC))
        return _mm_loadu_si128((const __m128i *)p);
    __m128i pairs = _mm_maskload_epi32((const int *)p, _mm256_castsi256_si128(first(n / 2)));
    __m128i to = _mm_loadu_si128((const __m128i *)(last + 16 - 2 * n));
    return _mm_or_si128(pairs, _mm_shuffle_epi8(_mm_cvtsi32_si128(p[n - 1]), to));
}

/* n bf16, zeros behind. */
KERN_INLINE vec vec_widen_some(const uint16_t *p, int n)
{
    __m256i wide = _mm256_cvtepu16_epi32(load_words(p, n));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

KERN_INLINE vec vec_bytes(const int8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

KERN_INLINE float half_value(uint16_t h)
{
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
}

/* The 16 lanes of each added up, -0 turned to 0. */
KERN_INLINE void lanes_fold4(const struct lanes *a, const struct lanes *b, const struct lanes *c,
                             const struct lanes *d, float *sum)
{
    vec va = vec_add(a->part[0], a->part[1]), vb = vec_add(b->part[0], b->part[1]);
    vec vc = vec_add(c->part[0], c->part[1]), vd = vec_add(d->part[0], d->part[1]);
    vec ab = vec_add(_mm256_permute2f128_ps(va, vb, 0x20), _mm256_permute2f128_ps(va, vb, 0x31));
    vec cd = vec_add(_mm256_permute2f128_ps(vc, vd, 0x20), _mm256_permute2f128_ps(vc, vd, 0x31));
    vec v = vec_add(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xEE));
    v = vec_add(vec_add(v, _mm256_permute_ps(v, 0xB1)), vec_set(0)); /* a . c . and b . d . */
    __m128 acbd = _mm_shuffle_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1), 0x88);
    _mm_storeu_ps(sum, _mm_permute_ps(acbd, 0xD8));
}

KERN_INLINE float lanes_fold(struct lanes s)
{
    vec v = vec_add(s.part[0], s.part[1]);
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

/* --- quantising --- */

KERN_INLINE uint32_t block_peak_bits(const float *x)
{
    const __m256i *p = (const __m256i *)x;
    __m256i size = _mm256_set1_epi32(0x7FFFFFFF);
    __m256i u = _mm256_max_epi32(_mm256_and_si256(_mm256_loadu_si256(p), size),
                                 _mm256_and_si256(_mm256_loadu_si256(p + 1), size));
    __m128i v = _mm_max_epi32(_mm256_castsi256_si128(u), _mm256_extracti128_si256(u, 1));
    v = _mm_max_epi32(v, _mm_shuffle_epi32(v, 0x4E));
    v = _mm_max_epi32(v, _mm_shuffle_epi32(v, 0xB1));
    return (uint32_t)_mm_cvtsi128_si32(v);
}

/* The codes of one block, four to each plane; all 0 for an inverse of 0. */
KERN_INLINE void block_codes(const float *x, float inverse, int8_t *to, int plane)
{
    const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    vec by = vec_set(inverse), any = _mm256_cmp_ps(by, vec_set(0), _CMP_GT_OQ);
    vec low = _mm256_and_ps(any, vec_mul(vec_load(x), by));
    vec high = _mm256_and_ps(any, vec_mul(vec_load(x + KERN_VEC), by));
    __m256i w = _mm256_packs_epi32(_mm256_cvtps_epi32(low), _mm256_cvtps_epi32(high));
    w = _mm256_permute4x64_epi64(w, 0xD8); /* it packs halves apart */
    __m128i q = _mm_packs_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1));
    q = _mm_shuffle_epi8(q, order);
    _mm_storeu_si32(to, q);
    _mm_storeu_si32(to + plane, _mm_srli_si128(q, 4));
    _mm_storeu_si32(to + 2 * plane, _mm_srli_si128(q, 8));
    _mm_storeu_si32(to + 3 * plane, _mm_srli_si128(q, 12));
}

/* --- weights --- */

/* 16 bytes for each of k groups, zeros behind. */
KERN_INLINE __m256i load_part(const void *p, int k)
{
    return KERN_KNOWN(k == 2) ? _mm256_loadu_si256((const __m256i *)p)
                              : _mm256_maskload_epi32((const int *)p, first(4 * k));
}

/* Even and odd words of 16: elements 0..7 of each block, then 8..15. Low nibbles are the even
 * elements. */
KERN_INLINE struct planes planes4(const uint8_t *p, int k)
{
    const __m256i low = _mm256_set1_epi8(15);
    vec a = _mm256_loadu_ps((const float *)p);
    vec b = vec_load_some((const float *)(p + 32), 8 * (k - 1));
    __m256i near = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88)),
            far = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xDD));
    near = _mm256_permute4x64_epi64(near, 0xD8);
    far = _mm256_permute4x64_epi64(far, 0xD8);
    return (struct planes){{_mm256_and_si256(near, low), _mm256_and_si256(far, low),
                            _mm256_and_si256(_mm256_srli_epi16(near, 4), low),
                            _mm256_and_si256(_mm256_srli_epi16(far, 4), low)}};
}

/* Two bits of each byte, moved to bits 2 and 3: steps of Q4. */
KERN_INLINE struct planes planes2(const uint8_t *p, int k)
{
    const __m256i field = _mm256_set1_epi8(12);
    __m256i w = load_part(p, k);
    return (struct planes){{_mm256_and_si256(_mm256_slli_epi16(w, 2), field),
                            _mm256_and_si256(w, field),
                            _mm256_and_si256(_mm256_srli_epi16(w, 2), field),
                            _mm256_and_si256(_mm256_srli_epi16(w, 4), field)}};
}

/* upper has two bits of a code in bits 2 and 3 of its bytes, lower the third in bit 1. */
KERN_INLINE __m256i join3(__m256i upper, __m256i lower)
{
    return _mm256_or_si256(_mm256_and_si256(upper, _mm256_set1_epi8(12)),
                           _mm256_and_si256(lower, _mm256_set1_epi8(2)));
}

/* Of three words the first two belong to a block each, the third to both: to the second shifted
 * by 4. Two loads of 8 of the 12 words overlap; of 6 words the second is empty. */
KERN_INLINE struct planes planes3(const uint8_t *p, int k)
{
    const __m256i upper = _mm256_setr_epi32(0, 1, 3, 4, 6, 7, 5, 6),
                  lower = _mm256_setr_epi32(2, 2, 5, 5, 4, 4, 7, 7),
                  turn = _mm256_setr_epi32(0, 4, 0, 4, 0, 4, 0, 4);
    __m256i a = _mm256_castps_si256(vec_load_some((const float *)p, 4 + 2 * k)),
            b = _mm256_castps_si256(vec_load_some((const float *)(p + 16), 8 * (k - 1)));
    __m256i u = _mm256_blend_epi32(_mm256_permutevar8x32_epi32(a, upper),
                                   _mm256_permutevar8x32_epi32(b, upper), 0xC0);
    __m256i l = _mm256_blend_epi32(_mm256_permutevar8x32_epi32(a, lower),
                                   _mm256_permutevar8x32_epi32(b, lower), 0xF0);
    l = _mm256_srlv_epi32(l, turn);
    return (struct planes){{join3(_mm256_slli_epi16(u, 2), _mm256_slli_epi16(l, 1)), join3(u, l),
                            join3(_mm256_srli_epi16(u, 2), _mm256_srli_epi16(l, 1)),
                            join3(_mm256_srli_epi16(u, 4), _mm256_srli_epi16(l, 2))}};
}

/* k groups, zeros behind. */
KERN_INLINE struct planes part_planes(const int bits, const uint8_t *p, int k)
{
    return bits == 4 ? planes4(p, k) : bits == 3 ? planes3(p, k) : planes2(p, k);
}

KERN_INLINE __m256i load_codes(const int8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

/* The codes of activations: plane p begins at x + p * plane. */
KERN_INLINE struct planes acts_planes(const int8_t *x, int plane)
{
    return (struct planes){{load_codes(x), load_codes(x + plane), load_codes(x + 2 * plane),
                            load_codes(x + 3 * plane)}};
}

/* The scale of each of k groups on its four lanes. */
KERN_INLINE vec part_weight(const uint16_t *scales, int k)
{
    const __m256i to_top = _mm256_setr_epi32(0x0100FFFF, 0x0100FFFF, 0x0100FFFF, 0x0100FFFF,
                                             0x0302FFFF, 0x0302FFFF, 0x0302FFFF, 0x0302FFFF);
    uint32_t two;
    if (KERN_KNOWN(k == 2))
        memcpy(&two, scales, sizeof two);
    else /* for k = 1 a number for lanes that stay zero */
        two = scales[0] | (uint32_t)scales[k - 1] << 16;
    return _mm256_castsi256_ps(_mm256_shuffle_epi8(_mm256_set1_epi32((int32_t)two), to_top));
}

#endif
#endif
