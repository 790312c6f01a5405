/* KV8: rows of the KV cache as bytes, groups of 32.
 *
 *   scale   f16 of d = (largest |v| of the group) / 127
 *   code    v / d to the nearest whole number (ties to even), clamped to -127..127
 *   value = code * scale, in f32
 *
 * Codes [n] and scales [n/32] of a row lie in arrays of their own. Codes come from the f32 d, not
 * from the rounded scale. A group whose d is under half the smallest f16 comes back as zeros. */
#ifndef QUANT_KV8_H
#define QUANT_KV8_H

#include <stddef.h>
#include <stdint.h>

enum { KV8_GROUP = 32 };

/* n a multiple of 32. Returns 0, or -1 if a value is not finite or a scale would not be (|v| from
 * 127 * 65520 on); codes and scales then hold the groups before. */
int kv8_encode_row(const float *v, size_t n, int8_t *codes, uint16_t *scales);
void kv8_decode_row(const int8_t *codes, const uint16_t *scales, size_t n, float *out);

#endif
