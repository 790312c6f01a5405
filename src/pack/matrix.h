/* Rows of a matrix as Q4, whatever form a checkpoint has them in. The one place that turns
 * published weights into codes, scales and biases; dense, experts and ngram lay them out.
 *
 *   MATRIX_Q4       MLX affine 4-bit in the group size that the store wants: copied bit for bit
 *   MATRIX_BF16     quantised with MLX's arithmetic (quant/q4.h)
 *   MATRIX_REGROUP  MLX affine 4-bit in another group size: to f32, then quantised again. Lossy, so
 *                   only on request (plan.h) */
#ifndef PACK_MATRIX_H
#define PACK_MATRIX_H

#include "checkpoint/checkpoint.h"

enum matrix_form { MATRIX_Q4, MATRIX_BF16, MATRIX_REGROUP };

struct matrix {
    enum matrix_form form;
    const struct tensor *weight;          /* [.., rows][cols] BF16, or [.., rows][cols/8] U32 */
    const struct tensor *scales, *biases; /* [.., rows][cols/source_group] BF16; NULL if BF16 */
    uint64_t rows;                        /* of all leading dimensions together */
    uint64_t cols;                        /* elements of a row, a multiple of both groups */
    uint64_t group, source_group;         /* of the result, of the source (0 if BF16) */
};

/* Where n rows of a result go: codes n * cols/2 bytes; scales and biases n * cols/group each. */
struct matrix_rows {
    uint8_t *codes;
    uint16_t *scales, *biases;
};

/* One thread's room for source bytes and for the values of one row. */
struct matrix_scratch {
    uint8_t *raw; /* raw_bytes, 64-byte aligned */
    size_t raw_bytes;
    float *values; /* n_values */
    size_t n_values;
};

/* Reads rows row..row+n (the leading dimensions counted as one) into `to`. s must hold one row in
 * its source form (matrix_row_bytes) and cols values; more raw room makes larger reads. Blocks.
 * 0, or E_IO, or E_NONFINITE naming the tensor and its element: then `to` is garbage. */
int matrix_read(const struct matrix *m, const struct checkpoint *c, uint64_t row, uint64_t n,
                struct matrix_rows to, const struct matrix_scratch *s, struct err *e);

uint64_t matrix_row_bytes(const struct matrix *m); /* of one row in its source form, all parts */

#endif
