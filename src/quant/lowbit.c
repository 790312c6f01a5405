/* Q3 and Q2: see lowbit.h.
 *
 * A chunk of 32 codes is two words of 2-bit fields (the upper two bits of a code), for 3-bit codes
 * followed by one word of their lowest bits. Byte b of word t holds four codes, so that one mask
 * takes the same field of four neighbours:
 *
 *   bits of byte b     0-1          2-3          4-5           6-7
 *   code 16t + ...     2b           8 + 2b       2b + 1        9 + 2b
 *
 * In Q4 these are byte 8t + b (2b low, 2b + 1 high) and byte 8t + 4 + b. In the third word the
 * lowest bits of the same four codes are bits 4t .. 4t + 3 of byte b. */
#include "quant/lowbit.h"

#include "quant/half.h"

#define CHUNK 32 /* codes */

/* `near` and `far`: the two Q4 bytes above. */
static uint8_t upper_bits(uint8_t near, uint8_t far)
{
    return (uint8_t)((near >> 2 & 0x03) | (far & 0x0C) | (near >> 2 & 0x30) | (far & 0xC0));
}

static uint8_t lower_bits(uint8_t near, uint8_t far)
{
    return (uint8_t)((near >> 1 & 1) | (far & 2) | (near >> 3 & 4) | (far >> 2 & 8));
}

void lowbit_from_q4(int bits, const uint8_t *codes4, size_t n, uint8_t *out)
{
    for (size_t c = 0; c < n / CHUNK; c++, codes4 += CHUNK / 2, out += lowbit_bytes(bits, CHUNK)) {
        for (int b = 0; b < 4; b++) {
            out[b] = upper_bits(codes4[b], codes4[4 + b]);
            out[4 + b] = upper_bits(codes4[8 + b], codes4[12 + b]);
            if (bits == 3)
                out[8 + b] = (uint8_t)(lower_bits(codes4[b], codes4[4 + b]) |
                                       lower_bits(codes4[8 + b], codes4[12 + b]) << 4);
        }
    }
}

/* The 32 codes of a chunk, in order. */
static void unpack(int bits, const uint8_t *chunk, uint8_t *q)
{
    for (int t = 0; t < 2; t++) {
        for (int b = 0; b < 4; b++) {
            for (int p = 0; p < 4; p++) {
                int code = chunk[4 * t + b] >> 2 * p & 3;
                if (bits == 3)
                    code = code << 1 | (chunk[8 + b] >> (4 * t + p) & 1);
                q[16 * t + 2 * b + 8 * (p & 1) + (p >> 1)] = (uint8_t)code;
            }
        }
    }
}

static void decode_chunk(int bits, const uint8_t *codes, float scale, float bias, float *out)
{
    uint8_t q[CHUNK];
    float step = bits == 3 ? 2 : 4, middle = bits == 3 ? 0.5f : 1.5f;
    unpack(bits, codes, q);
    for (int j = 0; j < CHUNK; j++)
        out[j] = ((float)q[j] * step + middle) * scale + bias;
}

void q3_decode_row(const uint8_t *codes, const uint16_t *scales, const uint16_t *biases, size_t n,
                   size_t group, float *out)
{
    for (size_t i = 0; i < n; i += CHUNK, codes += lowbit_bytes(3, CHUNK))
        decode_chunk(3, codes, bf16_to_f32(scales[i / group]), bf16_to_f32(biases[i / group]),
                     out + i);
}

void q2_decode_row(const uint8_t *codes, const uint16_t *scales, const uint16_t *biases, size_t n,
                   size_t group, float *out)
{
    for (size_t i = 0; i < n; i += CHUNK, codes += lowbit_bytes(2, CHUNK))
        decode_chunk(2, codes, bf16_to_f32(scales[i / group]), bf16_to_f32(biases[i / group]),
                     out + i);
}
