/* 16- and 8-bit floats, scalar.
 *
 *   bf16      s eeeeeeee mmmmmmm        the upper half of a f32
 *   f16       s eeeee mmmmmmmmmm        IEEE 754 binary16
 *   fp8 e4m3  s eeee mmm                bias 7, no infinities, 0x7F and 0xFF are NaN, max 448 */
#ifndef QUANT_HALF_H
#define QUANT_HALF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline float bf16_to_f32(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* Round to nearest, ties to even; NaN stays NaN (quiet), overflow becomes infinity. */
uint16_t bf16_from_f32(float f);
float f16_to_f32(uint16_t h);
uint16_t f16_from_f32(float f); /* nearest, ties to even */
float fp8_e4m3_to_f32(uint8_t b);

void bf16_widen(const uint16_t *x, size_t n, float *out); /* out[i] = x[i]; may not overlap */

#endif
