/* Products with the weight matrices. A row is widened to f32 when it is needed and forgotten again:
 * the weights are never all there in f32. */
#ifndef REFERENCE_LINEAR_H
#define REFERENCE_LINEAR_H

#include "model/weights.h"

/* Row r of m as f32, [cols]: in `room` (at least cols floats), or in place when m is f32. */
const float *linear_row(const struct matrix *m, int r, float *room);
/* out[i] = row (first + i) of m times x, i < n; each sum as arith_dot takes it, rounded to f32. */
void linear_rows(const struct matrix *m, int first, int n, const float *x, float *room, float *out);
/* out = m x: all rows. */
void linear_apply(const struct matrix *m, const float *x, float *room, float *out);

#endif
