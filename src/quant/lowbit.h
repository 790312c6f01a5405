/* Q3 and Q2: routed experts below 4 bits, derived from Q4 codes; scales and biases stay those of
 * the Q4 record. Layout in docs/format.md ("low-bit stores"); formats/packed-store.md section 6.
 *
 *            code from q4   value                        bytes per 32 codes
 *   3-bit    q4 >> 1        (2q + 0.5) * scale + bias    12
 *   2-bit    q4 >> 2        (4q + 1.5) * scale + bias     8 */
#ifndef QUANT_LOWBIT_H
#define QUANT_LOWBIT_H

#include <stddef.h>
#include <stdint.h>

/* bits 3 or 2; n a multiple of 32. codes4 holds n/2 bytes; out n/32*12 or n/32*8. */
void lowbit_from_q4(int bits, const uint8_t *codes4, size_t n, uint8_t *out);
/* out[0..n) = values; n a multiple of group and of 32; group a multiple of 32. */
void q3_decode_row(const uint8_t *codes, const uint16_t *scales, const uint16_t *biases, size_t n,
                   size_t group, float *out);
void q2_decode_row(const uint8_t *codes, const uint16_t *scales, const uint16_t *biases, size_t n,
                   size_t group, float *out);
/* Bytes of n codes (n a multiple of 32). */
static inline size_t lowbit_bytes(int bits, size_t n)
{
    return n / 32 * (size_t)(bits == 3 ? 12 : 8);
}

#endif
