/* Products with the weight matrices. A row is widened to f32 when it is needed (model/matrix.h) and
 * forgotten again: the weights are never all there in f32. `room` holds the widest row. */
#ifndef REFERENCE_LINEAR_H
#define REFERENCE_LINEAR_H

#include "model/weights.h"

/* out[i] = row (first + i) of m times x, i < n; each sum as arith_dot takes it, rounded to f32. */
void linear_rows(const struct matrix *m, int first, int n, const float *x, float *room, float *out);
/* out = m x: all rows. */
void linear_apply(const struct matrix *m, const float *x, float *room, float *out);

#endif
