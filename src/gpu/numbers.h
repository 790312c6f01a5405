/* The arithmetic of this engine, once for kernels and host (and for the tests, which follow kernels
 * bit by bit). Vulkan rounds additions and products of f32 correctly and promises little about
 * anything else: divisions, roots, exponentials and even fma() differ between devices. So all is
 * made of single additions and products here, each rounded, in the order written down; EXACT keeps
 * a compiler from joining or reordering them. Then the bits of a result are the same on every
 * device. Values below 2^-126 may count as zeros.
 *
 * What is not finite comes out not finite. */
#ifndef GPU_NUMBERS_H
#define GPU_NUMBERS_H

#ifdef GL_core_profile
#define EXACT precise
#define NUM
#define NUM_UINT         uint
#define NUM_SIGNED       int
#define NUM_OF(x)        float(x)
#define NUM_SIGNED_OF(x) int(x)
#define num_float        uintBitsToFloat
#define num_bits         floatBitsToUint
#else
#include <stdint.h>
#include <string.h>
#define EXACT
#define NUM              static inline
#define NUM_UINT         uint32_t
#define NUM_SIGNED       int32_t
#define NUM_OF(x)        ((float)(x))
#define NUM_SIGNED_OF(x) ((int32_t)(x))
NUM float num_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
NUM uint32_t num_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}
#endif

/* A number of magnitude under 2^22 plus this is rounded to a whole one, ties to even, and has it in
 * its low bits. */
#define NUM_WHOLE      12582912.0f
#define NUM_WHOLE_BITS 0x4B400000u

/* To the nearest whole number, ties to even; |x| < 2^22. */
NUM NUM_SIGNED num_round(float x)
{
    EXACT float t = x + NUM_WHOLE;
    NUM_SIGNED bits = NUM_SIGNED_OF(num_bits(t));
    return bits - NUM_SIGNED_OF(NUM_WHOLE_BITS);
}

/* e^x for x <= 88; 0 below -87.33. Within 2 ulp. */
NUM float num_exp(float x)
{
    EXACT float c = x < -87.33f ? 0.0f : x;
    EXACT float t = c * 1.44269504f + NUM_WHOLE;
    EXACT float n = t - NUM_WHOLE;
    EXACT float r = c - n * 0.693359375f; /* ln 2 in two parts: this product is exact */
    r = r - n * -2.12194440e-4f;
    EXACT float p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r;
    p = p + 1.0f;
    p = p * num_float((num_bits(t) - NUM_WHOLE_BITS + 127u) << 23);
    return x < -87.33f ? 0.0f : p;
}

/* 1 / x for x in 2^-100 .. 2^100; within 2 ulp. Newton's method from a linear guess of the exponent
 * and mantissa. */
NUM float num_reciprocal(float x)
{
    EXACT float y = num_float(0x7EF311C7u - num_bits(x));
    y = y * (2.0f - x * y);
    y = y * (2.0f - x * y);
    y = y * (2.0f - x * y);
    y = y * (2.0f - x * y);
    return y;
}

/* 1 / sqrt(x) for x in 2^-100 .. 2^100; within 2 ulp. */
NUM float num_rsqrt(float x)
{
    EXACT float half_x = x * 0.5f;
    EXACT float y = num_float(0x5F3759DFu - (num_bits(x) >> 1));
    y = y * (1.5f - half_x * y * y);
    y = y * (1.5f - half_x * y * y);
    y = y * (1.5f - half_x * y * y);
    y = y * (1.5f - half_x * y * y);
    return y;
}

NUM float num_sigmoid(float x)
{
    EXACT float e = num_exp(x < 0.0f ? x : -x);
    EXACT float r = num_reciprocal(1.0f + e);
    EXACT float s = x < 0.0f ? e * r : r;
    return s;
}

NUM float num_silu(float x)
{
    EXACT float s = x * num_sigmoid(x);
    return s;
}

/* A number whose order among unsigned ones is that of the floats; -0 as 0. */
NUM NUM_UINT num_order(float x)
{
    EXACT float y = x + 0.0f;
    NUM_UINT u = num_bits(y);
    return (u >> 31) != 0u ? ~u : u | 0x80000000u;
}

NUM float num_bf16(NUM_UINT u)
{
    return num_float(u << 16);
}

/* --- activations of 16 bits, in groups of 64 ---
 *
 * most: the largest |x| of a group, as bits. scale = 2^k, the smallest with most / scale <= 32512:
 * so a code is within 16257 .. 32512 at the largest element, both divisions are exact, and a code
 * falls into two signed bytes, 256 * high + low. A group under 2^-100 counts as zeros; one with
 * something that is not finite has scale 0 and a sum that is not a number. */
#define ACTS_LEAST 0x0D800000u /* 2^-100 */

NUM float acts_scale(NUM_UINT most)
{
    NUM_UINT e = (most + 0x1FFFFu) >> 23;
    return most < ACTS_LEAST || most >= 0x7F800000u ? 0.0f : num_float((e - 14u) << 23);
}

NUM float acts_inverse(NUM_UINT most)
{
    NUM_UINT e = (most + 0x1FFFFu) >> 23;
    return most < ACTS_LEAST || most >= 0x7F800000u ? 0.0f : num_float((268u - e) << 23);
}

/* The sum of a group whose codes add up to `codes`. */
NUM float acts_sum(NUM_UINT most, NUM_SIGNED codes)
{
    EXACT float s = acts_scale(most) * NUM_OF(codes);
    return most >= 0x7F800000u ? num_float(0x7FC00000u) : s;
}

#endif
