/* Q4: see q4.h. Plain loops over blocks of known length, shaped so that compilers vectorise them;
 * the bits do not depend on whether they do, since each value is a chain of single IEEE operations
 * and nothing is contracted. Pure functions: any number of threads may call them. */
#include "quant/q4.h"

#include <math.h>

#include "quant/half.h"

#define CODE_MAX  15
#define SCALE_MIN 1e-7f
#define BLOCK     32 /* divides the usual group sizes */

/* value = code * scale + bias, before the two numbers are rounded to bf16. */
struct line {
    float scale, bias;
};

/* The bits of a f32 to an integer of the same order, and back. */
static inline int32_t flip(int32_t u)
{
    return u ^ (u < 0 ? INT32_MAX : 0);
}

/* The smallest and the largest value; -1 if any is not finite. Compares integers: no
 * NaN cases, so that it vectorises, and what is not finite comes out at an end. That -0 is below +0
 * here makes no difference to a line. */
static inline int find_range(const float *x, size_t n, float *lo, float *hi)
{
    int32_t least = INT32_MAX, most = INT32_MIN;
    for (size_t i = 0; i < n; i++) {
        int32_t u;
        memcpy(&u, &x[i], sizeof u);
        u = flip(u);
        least = u < least ? u : least;
        most = u > most ? u : most;
    }
    if (most >= 0x7F800000 || least <= ~0x7F800000)
        return -1;
    least = flip(least);
    most = flip(most);
    memcpy(lo, &least, sizeof *lo);
    memcpy(hi, &most, sizeof *hi);
    return 0;
}

static inline float round_even(float x)
{
    float a = fabsf(x); /* from 2^23 on every f32 is whole */
    return a < 0x1p23f ? copysignf(a + 0x1p23f - 0x1p23f, x) : x;
}

/* Lays the edge of larger magnitude on a whole code, so that it and zero come back exact. */
static inline struct line fit(float lo, float hi)
{
    int low = fabsf(lo) > fabsf(hi);
    float size = (hi - lo) / CODE_MAX, edge = low ? lo : hi;
    size = size > SCALE_MIN ? size : SCALE_MIN;
    float scale = low ? size : -size, code = round_even(edge / scale);
    return code != 0 ? (struct line){edge / code, edge} : (struct line){scale, 0};
}

/* Adding 1.5 * 2^23, whose last place is 1, rounds to even and leaves the whole number in the low
 * bits. That needs |quotient| < 2^22: it is under 32, as |edge| is at least half of hi - lo. */
static inline int32_t code_of(float x, struct line l)
{
    float q = (x - l.bias) / l.scale + 0x1.8p23f;
    int32_t u;
    memcpy(&u, &q, sizeof u);
    u -= 0x4B400000;
    u = u > 0 ? u : 0;
    return u < CODE_MAX ? u : CODE_MAX;
}

static inline void write_block(const float *x, size_t n, struct line l, uint8_t *codes)
{
    int32_t q[BLOCK];
    for (size_t i = 0; i < n; i++)
        q[i] = code_of(x[i], l);
    for (size_t k = 0; k < n / 2; k++)
        codes[k] = (uint8_t)(q[2 * k] | q[2 * k + 1] << 4);
}

static inline int encode(const float *x, size_t n, uint8_t *codes, uint16_t *scale, uint16_t *bias)
{
    float lo, hi;
    if (find_range(x, n, &lo, &hi))
        return -1;
    struct line l = fit(lo, hi);
    uint16_t s = bf16_from_f32(l.scale), b = bf16_from_f32(l.bias);
    if ((s & 0x7F80) == 0x7F80 || (b & 0x7F80) == 0x7F80)
        return -1;
    *scale = s;
    *bias = b;
    if (l.scale == 0) /* edge / SCALE_MIN overflowed: a constant group, whose codes are all 0 */
        l.scale = 1;
    for (; n >= BLOCK; x += BLOCK, codes += BLOCK / 2, n -= BLOCK)
        write_block(x, BLOCK, l, codes);
    write_block(x, n, l, codes);
    return 0;
}

int q4_encode_group(const float *x, size_t n, uint8_t *codes, uint16_t *scale, uint16_t *bias)
{
    switch (n) { /* one copy for each usual size, whose loops then have a known count */
    case 64:
        return encode(x, 64, codes, scale, bias);
    case 32:
        return encode(x, 32, codes, scale, bias);
    default:
        return encode(x, n, codes, scale, bias);
    }
}

static inline void decode(const uint8_t *codes, float scale, float bias, size_t n, float *out)
{
    for (size_t k = 0; k < n / 2; k++) {
        out[2 * k] = (float)(codes[k] & 15) * scale + bias;
        out[2 * k + 1] = (float)(codes[k] >> 4) * scale + bias;
    }
}

void q4_decode_row(const uint8_t *codes, const uint16_t *scales, const uint16_t *biases, size_t n,
                   size_t group, float *out)
{
    for (size_t g = 0; g < n / group; g++, codes += group / 2, out += group) {
        float scale = bf16_to_f32(scales[g]), bias = bf16_to_f32(biases[g]);
        if (group == 64)
            decode(codes, scale, bias, 64, out);
        else if (group == 32)
            decode(codes, scale, bias, 32, out);
        else
            decode(codes, scale, bias, group, out);
    }
}
