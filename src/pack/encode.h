/* Rows of a matrix as Q4, whatever form a checkpoint has them in. The one place that turns
 * published weights into codes, scales and biases; dense, experts and ngram lay them out.
 *
 *   ENCODE_COPY     MLX affine 4-bit in the group size that the store wants: copied bit for bit
 *   ENCODE_BF16     quantised with MLX's arithmetic (quant/q4.h)
 *   ENCODE_REGROUP  MLX affine 4-bit in another group size: to f32, then quantised again. Lossy, so
 *                   only on request (plan.h) */
#ifndef PACK_ENCODE_H
#define PACK_ENCODE_H

#include "checkpoint/checkpoint.h"

enum encode_form { ENCODE_COPY, ENCODE_BF16, ENCODE_REGROUP };

struct encode_source {
    enum encode_form form;
    const struct tensor *weight;          /* [.., rows][cols] BF16, or [.., rows][cols/8] U32 */
    const struct tensor *scales, *biases; /* [.., rows][cols/source_group] BF16; NULL if BF16 */
    uint64_t rows;                        /* of all leading dimensions together */
    uint64_t cols;                        /* elements of a row, a multiple of both groups */
    uint64_t group, source_group;         /* of the result, of the source (0 if BF16) */
};

/* Rows of a source, its leading dimensions counted as one, and where they go: codes n * cols/2
 * bytes; scales and biases n * cols/group each. */
struct encode_rows {
    uint64_t first, n;
    uint8_t *codes;
    uint16_t *scales, *biases;
};

/* One thread's room for source bytes and for the values of one row. */
struct encode_scratch {
    uint8_t *raw; /* raw_bytes, 64-byte aligned */
    size_t raw_bytes;
    float *values; /* n_values */
    size_t n_values;
};

/* Reads rows. s must hold one row in its source form (encode_row_bytes) and cols values; more raw
 * room makes larger reads. Blocks. 0, or E_IO, or E_NONFINITE naming the tensor and its element:
 * then what was to be filled is garbage. */
int encode_read(const struct encode_source *m, const struct checkpoint *c, struct encode_rows to,
                const struct encode_scratch *s, struct err *e);

/* Of one row in its source form, all parts. */
uint64_t encode_row_bytes(const struct encode_source *m);

#endif
