/* The NEON tier: 64-bit ARM with the dot product instructions. A chunk's 16 lanes are four vectors,
 * so a part is one group of 64 elements. */
#include "kern/tiers.h"

#ifdef KERN_HAVE_NEON
#include <arm_neon.h>
#include <string.h>

#include "quant/kv8.h"

KERN_TARGET("arch=armv8.2-a+dotprod")

#define KERN_VEC   4
#define KERN_PARTS 4
#define KERN_ROWS  4

typedef float32x4_t vec;
struct lanes {
    vec part[KERN_PARTS];
};
/* The codes of a part, plane by plane. */
struct planes {
    int8x16_t of[4];
};

/* --- floats --- */

KERN_INLINE vec vec_set(float x)
{
    return vdupq_n_f32(x);
}

KERN_INLINE vec vec_load(const float *p)
{
    return vld1q_f32(p);
}

/* The first n of 4, zeros behind. */
KERN_INLINE vec vec_load_n(const float *p, int n)
{
    if (n == KERN_VEC)
        return vld1q_f32(p);
    float some[KERN_VEC] = {0};
    for (int l = 0; l < n; l++)
        some[l] = p[l];
    return vld1q_f32(some);
}

KERN_INLINE vec vec_load_some(const float *p, int n)
{
    return vec_load_n(p, n);
}

KERN_INLINE void vec_store_n(float *p, vec v, int n)
{
    if (n == KERN_VEC) {
        vst1q_f32(p, v);
        return;
    }
    float some[KERN_VEC];
    vst1q_f32(some, v);
    for (int l = 0; l < n; l++)
        p[l] = some[l];
}

KERN_INLINE vec vec_add(vec a, vec b)
{
    return vaddq_f32(a, b);
}

KERN_INLINE vec vec_sub(vec a, vec b)
{
    return vsubq_f32(a, b);
}

KERN_INLINE vec vec_mul(vec a, vec b)
{
    return vmulq_f32(a, b);
}

KERN_INLINE vec vec_div(vec a, vec b)
{
    return vdivq_f32(a, b);
}

KERN_INLINE vec vec_max(vec a, vec b)
{
    return vmaxq_f32(a, b);
}

/* a * b + c */
KERN_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return vfmaq_f32(c, a, b);
}

/* c - a * b */
KERN_INLINE vec vec_take(vec a, vec b, vec c)
{
    return vfmsq_f32(c, a, b);
}

KERN_INLINE vec vec_minus_abs(vec x)
{
    return vnegq_f32(vabsq_f32(x));
}

KERN_INLINE vec vec_by_sign(vec x, vec negative, vec positive)
{
    uint32x4_t sign = vcltq_s32(vreinterpretq_s32_f32(x), vdupq_n_s32(0));
    return vbslq_f32(sign, negative, positive);
}

/* v, or 0 where x < least. */
KERN_INLINE vec vec_zero_below(vec x, vec least, vec v)
{
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(v), vcltq_f32(x, least)));
}

/* 2^k of the k in the low bits of t. */
KERN_INLINE vec vec_power(vec t)
{
    uint32x4_t k = vaddq_u32(vreinterpretq_u32_f32(t), vdupq_n_u32(127));
    return vreinterpretq_f32_u32(vshlq_n_u32(k, 23));
}

/* n bf16, zeros behind. */
KERN_INLINE vec vec_widen_some(const uint16_t *p, int n)
{
    uint16_t some[KERN_VEC] = {0};
    if (n != KERN_VEC) {
        for (int l = 0; l < n; l++)
            some[l] = p[l];
        p = some;
    }
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}

KERN_INLINE vec vec_bytes(const int8_t *p)
{
    uint32_t four;
    memcpy(&four, p, sizeof four);
    int8x8_t b = vreinterpret_s8_u32(vdup_n_u32(four));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(b))));
}

KERN_INLINE float half_value(uint16_t h)
{
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(h))), 0);
}

/* Lanes l and l + 8, then l + 4: four are left. */
KERN_INLINE vec lanes_to_4(const struct lanes *s)
{
    return vec_add(vec_add(s->part[0], s->part[2]), vec_add(s->part[1], s->part[3]));
}

/* The 16 lanes of each added up, -0 turned to 0. */
KERN_INLINE void lanes_fold4(const struct lanes *a, const struct lanes *b, const struct lanes *c,
                             const struct lanes *d, float *sum)
{
    vec va = lanes_to_4(a), vb = lanes_to_4(b), vc = lanes_to_4(c), vd = lanes_to_4(d);
    vec ab = vec_add(vcombine_f32(vget_low_f32(va), vget_low_f32(vb)),
                     vcombine_f32(vget_high_f32(va), vget_high_f32(vb)));
    vec cd = vec_add(vcombine_f32(vget_low_f32(vc), vget_low_f32(vd)),
                     vcombine_f32(vget_high_f32(vc), vget_high_f32(vd)));
    vst1q_f32(sum, vec_add(vpaddq_f32(ab, cd), vec_set(0)));
}

KERN_INLINE float lanes_fold(struct lanes s)
{
    vec v = lanes_to_4(&s);
    return vpadds_f32(vadd_f32(vget_low_f32(v), vget_high_f32(v)));
}

/* --- quantising --- */

KERN_INLINE uint32_t block_peak_bits(const float *x)
{
    uint32x4_t most = vdupq_n_u32(0);
    KERN_UNROLL
    for (int h = 0; h < KERN_PARTS; h++)
        most = vmaxq_u32(most, vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x + h * KERN_VEC))));
    return vmaxvq_u32(most);
}

/* The codes of eight elements; what is no number becomes 0. */
KERN_INLINE int16x8_t codes_of(const float *x, vec by)
{
    return vcombine_s16(vqmovn_s32(vcvtnq_s32_f32(vec_mul(vld1q_f32(x), by))),
                        vqmovn_s32(vcvtnq_s32_f32(vec_mul(vld1q_f32(x + 4), by))));
}

/* The codes of one block, four to each plane; all 0 for an inverse of 0. */
KERN_INLINE void block_codes(const float *x, float inverse, int8_t *to, int plane)
{
    static const uint8_t order[16] = {0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15};
    vec by = vec_set(inverse);
    int8x16_t q = vcombine_s8(vqmovn_s16(codes_of(x, by)), vqmovn_s16(codes_of(x + 8, by)));
    q = vqtbl1q_s8(q, vld1q_u8(order));
    for (int p = 0; p < 4; p++) {
        uint32_t four = vgetq_lane_u32(vreinterpretq_u32_s8(q), 0);
        memcpy(to + p * plane, &four, sizeof four);
        q = vextq_s8(q, q, 4);
    }
}

/* --- weights --- */

KERN_INLINE int8x16_t masked(uint8x16_t v, uint8_t mask)
{
    return vreinterpretq_s8_u8(vandq_u8(v, vdupq_n_u8(mask)));
}

/* Even and odd words of 8: elements 0..7 of each block, then 8..15. Low nibbles are the even
 * elements. */
KERN_INLINE struct planes planes4(const uint8_t *p)
{
    uint32x4_t a = vreinterpretq_u32_u8(vld1q_u8(p)), b = vreinterpretq_u32_u8(vld1q_u8(p + 16));
    uint8x16_t near = vreinterpretq_u8_u32(vuzp1q_u32(a, b)),
               far = vreinterpretq_u8_u32(vuzp2q_u32(a, b));
    return (struct planes){{masked(near, 15), masked(far, 15),
                            vreinterpretq_s8_u8(vshrq_n_u8(near, 4)),
                            vreinterpretq_s8_u8(vshrq_n_u8(far, 4))}};
}

/* Two bits of each byte, moved to bits 2 and 3: steps of Q4. */
KERN_INLINE struct planes planes2(const uint8_t *p)
{
    uint8x16_t w = vld1q_u8(p);
    return (struct planes){{masked(vshlq_n_u8(w, 2), 12), masked(w, 12),
                            masked(vshrq_n_u8(w, 2), 12), masked(vshrq_n_u8(w, 4), 12)}};
}

/* upper has two bits of a code in bits 2 and 3 of its bytes, lower the third in bit 1. */
KERN_INLINE int8x16_t join3(uint8x16_t upper, uint8x16_t lower)
{
    return vorrq_s8(masked(upper, 12), masked(lower, 2));
}

/* Of three words the first two belong to a block each, the third to both: to the second shifted
 * by 4. */
KERN_INLINE struct planes planes3(const uint8_t *p)
{
    static const uint8_t upper[16] = {0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15, 16, 17, 18, 19},
                         lower[16] = {8, 9, 10, 11, 8, 9, 10, 11, 20, 21, 22, 23, 20, 21, 22, 23};
    static const int32_t turn[4] = {0, -4, 0, -4};
    uint8x16x2_t w = {{vld1q_u8(p), vcombine_u8(vld1_u8(p + 16), vdup_n_u8(0))}};
    uint8x16_t u = vqtbl2q_u8(w, vld1q_u8(upper)), l = vqtbl2q_u8(w, vld1q_u8(lower));
    l = vreinterpretq_u8_u32(vshlq_u32(vreinterpretq_u32_u8(l), vld1q_s32(turn)));
    return (struct planes){{join3(vshlq_n_u8(u, 2), vshlq_n_u8(l, 1)), join3(u, l),
                            join3(vshrq_n_u8(u, 2), vshrq_n_u8(l, 1)),
                            join3(vshrq_n_u8(u, 4), vshrq_n_u8(l, 2))}};
}

/* A part is one group, so never less: k is 1 here and below. */
KERN_INLINE struct planes part_planes(const int bits, const uint8_t *p, int k)
{
    (void)k;
    return bits == 4 ? planes4(p) : bits == 3 ? planes3(p) : planes2(p);
}

KERN_INLINE vec part_weight(const uint16_t *scales, int k)
{
    (void)k;
    return vreinterpretq_f32_u32(vdupq_n_u32((uint32_t)scales[0] << 16));
}

/* The codes of activations: plane p begins at x + p * plane. */
KERN_INLINE struct planes acts_planes(const int8_t *x, int plane)
{
    return (struct planes){
        {vld1q_s8(x), vld1q_s8(x + plane), vld1q_s8(x + 2 * plane), vld1q_s8(x + 3 * plane)}};
}

/* Whole numbers of a group's blocks, as floats. */
KERN_INLINE vec part_dot(const struct planes *w, const struct planes *x)
{
    int32x4_t s = vdupq_n_s32(0);
    KERN_UNROLL
    for (int p = 0; p < 4; p++)
        s = vdotq_s32(s, w->of[p], x->of[p]);
    return vcvtq_f32_s32(s);
}

#include "kern/products.h"

#include "kern/floats.h"

void kern_init_neon(struct kern *k)
{
    fill_table(k);
    k->tier = "neon";
}

KERN_TARGET_END
#endif
