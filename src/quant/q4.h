/* Q4: MLX affine 4-bit, groups of 64 (weights) or 32 (n-gram table). formats/checkpoints B.2.
 *
 *   codes   element j of a row is in bits 4*(j%8) of the 32-bit word j/8: the low nibble first, so
 *           byte k of a row holds element 2k (low) and 2k+1 (high); little-endian
 *   scale, bias   one bf16 each per group of consecutive elements
 *   value = code * scale + bias, in f32 (one multiply, one add, each rounded) */
#ifndef QUANT_Q4_H
#define QUANT_Q4_H

#include <stddef.h>
#include <stdint.h>

/* Quantises one group of n values (n even, at least 2) exactly as MLX does, ties to even: writes
 * n/2 bytes of codes, the scale and the bias (bf16). Returns 0, or -1 if a value is not finite or
 * the values lie so far apart that scale or bias would not be; then writes nothing.
 * 0.73 G values/s on one core from bf16 in groups of 64 (bench_quant; EPYC, gcc 12, SSE2). */
int q4_encode_group(const float *x, size_t n, uint8_t *codes, uint16_t *scale, uint16_t *bias);

/* out[0..n) = values of a row of n elements; n a multiple of group, group even. */
void q4_decode_row(const uint8_t *codes, const uint16_t *scales, const uint16_t *biases, size_t n,
                   size_t group, float *out);

#endif
