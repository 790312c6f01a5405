/* Rows of a weight matrix, whatever its format. */
#ifndef MODEL_MATRIX_H
#define MODEL_MATRIX_H

#include "model/weights.h"

/* Row r of m as f32, [cols]: in `room` (at least cols floats), or in place when m is f32. */
const float *matrix_row(const struct matrix *m, int r, float *room);
/* Bytes of n rows: values, or codes with their scales and biases. */
size_t matrix_bytes(const struct matrix *m, int n);

#endif
