/* Products with activations of 16 bits on AVX2, included by kern_avx2.c; alone this header is
 * empty. Wider tiers have the same: a row of 2560 x 640 experts takes 1.3 times as long as with 8
 * bits, of which one processor does 7 GB of weights a second (Zen 5, beside other programs). */
#ifndef KERN_PRODUCTS16_H
#define KERN_PRODUCTS16_H
#ifdef KERN_AVX2

/* Of two groups of weights and activations: whole numbers of their blocks of 16. Eight products of
 * at most 15 * 128 stay below 2^15. */
KERN_INLINE __m256i part_dot16(const struct planes *w, const int8_t *x)
{
    __m256i high = _mm256_maddubs_epi16(w->of[0], load_codes(x));
    __m256i low = _mm256_maddubs_epi16(w->of[0], load_codes(x + KERN_PART));
    KERN_UNROLL
    for (int p = 1; p < 4; p++) {
        const int8_t *plane = x + p * (KERN_PART / 4);
        high = _mm256_add_epi16(high, _mm256_maddubs_epi16(w->of[p], load_codes(plane)));
        low = _mm256_add_epi16(low, _mm256_maddubs_epi16(w->of[p], load_codes(plane + KERN_PART)));
    }
    return _mm256_add_epi32(_mm256_madd_epi16(high, _mm256_set1_epi16(256)),
                            _mm256_madd_epi16(low, _mm256_set1_epi16(1)));
}

/* Whole numbers of n groups, n <= 8, as floats; zeros behind. */
KERN_INLINE vec groups_dot16(const int bits, const uint8_t *w, const int8_t *x, int n)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i part[4];
    KERN_UNROLL
    for (int i = 0; i < 4; i++) {
        const uint8_t *from = w + (size_t)(i * 16 * bits);
        const int left = n - 2 * i;
        part[i] = _mm256_setzero_si256();
        if (left > 0) {
            struct planes p = left > 1 ? part_planes(bits, from, 2) : part_planes(bits, from, 1);
            part[i] = part_dot16(&p, x + (size_t)i * 2 * KERN_PART);
        }
    }
    __m256i a = _mm256_hadd_epi32(part[0], part[1]), b = _mm256_hadd_epi32(part[2], part[3]);
    __m256i all = _mm256_permutevar8x32_epi32(_mm256_hadd_epi32(a, b), order);
    return _mm256_cvtepi32_ps(all);
}

/* What n groups of a row add. */
struct terms {
    vec products, biases;
};

KERN_INLINE struct terms groups_terms(const struct kern_matrix *m, const int bits,
                                      const struct kern_acts16 *x, size_t o, int g, int n)
{
    const size_t at = o * (size_t)(m->cols / KERN_GROUP) + (size_t)g;
    const vec scale = vec_widen_some(m->scales + at, n);
    vec bias = vec_widen_some(m->biases + at, n);
    if (bits != 4)
        bias = vec_add(bias, vec_mul(vec_set(kern_middle(bits)), scale));
    const vec dot = groups_dot16(bits, m->codes + at * (size_t)(8 * bits),
                                 x->codes + (size_t)(g / 2) * 2 * KERN_PART, n);
    return (struct terms){vec_mul(vec_mul(dot, vec_load_n(x->scale + g, n)), scale),
                          vec_mul(bias, vec_load_n(x->sum + g, n))};
}

/* Two groups after two. */
KERN_INLINE __m128 add_pairs(__m128 lanes, const struct terms *t)
{
    const __m128 p[2] = {_mm256_castps256_ps128(t->products),
                         _mm256_extractf128_ps(t->products, 1)};
    const __m128 b[2] = {_mm256_castps256_ps128(t->biases), _mm256_extractf128_ps(t->biases, 1)};
    KERN_UNROLL
    for (int i = 0; i < 2; i++) {
        lanes = _mm_add_ps(_mm_add_ps(lanes, p[i]), b[i]);
        lanes = _mm_add_ps(_mm_add_ps(lanes, _mm_movehl_ps(p[i], p[i])), _mm_movehl_ps(b[i], b[i]));
    }
    return lanes;
}

/* Output o. Terms behind the last group are zeros, and lanes are never -0: adding them changes
 * nothing. */
KERN_INLINE float output16(const struct kern_matrix *m, const int bits, const int lanes,
                           const struct kern_acts16 *x, int o)
{
    const int groups = m->cols / KERN_GROUP;
    float lane[32] = {0};
    __m128 two = _mm_setzero_ps();
    for (int g = 0; g < groups; g += KERN_VEC) {
        const int n = groups - g < KERN_VEC ? groups - g : KERN_VEC;
        float *at = lane + g % lanes;
        struct terms t = n == KERN_VEC ? groups_terms(m, bits, x, (size_t)o, g, KERN_VEC)
                                       : groups_terms(m, bits, x, (size_t)o, g, n);
        if (lanes == 2)
            two = add_pairs(two, &t);
        else
            _mm256_storeu_ps(at, vec_add(vec_add(vec_load(at), t.products), t.biases));
    }
    if (lanes == 2)
        _mm_storeu_ps(lane, two);
    for (int l = 1; l < lanes; l++)
        lane[0] += lane[l];
    return lane[0];
}

KERN_INLINE void outputs16(const struct kern_matrix *m, const int bits, const struct kern_acts16 *x,
                           int o0, int o1, float *to)
{
    if (x->lanes == 2)
        for (int o = o0; o < o1; o++)
            to[o - o0] = output16(m, bits, 2, x, o);
    else if (x->lanes == 8)
        for (int o = o0; o < o1; o++)
            to[o - o0] = output16(m, bits, 8, x, o);
    else
        for (int o = o0; o < o1; o++)
            to[o - o0] = output16(m, bits, 32, x, o);
}

static void product16(const struct kern_matrix *m, const struct kern_acts16 *x, int o0, int o1,
                      float *to)
{
    if (m->bits == 4)
        outputs16(m, 4, x, o0, o1, to);
    else if (m->bits == 3)
        outputs16(m, 3, x, o0, o1, to);
    else
        outputs16(m, 2, x, o0, o1, to);
}

#endif
#endif
