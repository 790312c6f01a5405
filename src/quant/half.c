/* 16- and 8-bit floats: see half.h. Integer arithmetic only, so every machine and rounding mode
 * gives the same bits. */
#include "quant/half.h"

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

uint16_t bf16_from_f32(float f)
{
    uint32_t u = bits_of(f);
    if ((u & 0x7FFFFFFF) > 0x7F800000)
        return (uint16_t)(u >> 16 | 0x40); /* quiet, and not an infinity when the payload is low */
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3FF;
    if (e == 31)
        return float_of(sign | 0x7F800000 | m << 13);
    if (e)
        return float_of(sign | (e + 112) << 23 | m << 13);
    float tiny = (float)m * 0x1p-24f; /* zero and subnormals: exact */
    return float_of(sign | bits_of(tiny));
}

uint16_t f16_from_f32(float f)
{
    uint32_t u = bits_of(f), a = u & 0x7FFFFFFF;
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    if (a > 0x7F800000)
        return (uint16_t)(sign | 0x7E00 | (a >> 13 & 0x3FF));
    if (a >= 0x477FF000) /* 65520, half way from the largest f16 to the next power: infinity */
        return (uint16_t)(sign | 0x7C00);
    if (a >=
        0x38800000) /* 2^-14: normal; a carry out of the mantissa raises the exponent, rightly */
        return (uint16_t)(sign | (a - 0x38000000 + 0xFFF + (a >> 13 & 1)) >> 13);
    uint32_t drop = 126 - (a >> 23); /* bits below 2^-24 */
    if (drop > 24)
        return sign; /* below 2^-25 */
    uint32_t m = (a & 0x7FFFFF) | 0x800000, half = 1u << (drop - 1);
    return (uint16_t)(sign | (m + half - 1 + (m >> drop & 1)) >> drop);
}

float fp8_e4m3_to_f32(uint8_t b)
{
    uint32_t sign = (uint32_t)(b & 0x80) << 24, e = b >> 3 & 15, m = b & 7;
    if (e == 15 && m == 7)
        return float_of(sign | 0x7FC00000);
    if (e)
        return float_of(sign | (e + 120) << 23 | m << 20);
    return float_of(sign | bits_of((float)m * 0x1p-9f));
}

void bf16_widen(const uint16_t *x, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = bf16_to_f32(x[i]);
}
