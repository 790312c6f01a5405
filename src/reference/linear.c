/* Products with the weight matrices: see linear.h. */
#include "reference/linear.h"

#include "model/matrix.h"
#include "reference/arith.h"

void linear_rows(const struct matrix *m, int first, int n, const float *x, float *room, float *out)
{
    for (int i = 0; i < n; i++)
        out[i] = (float)arith_dot(matrix_row(m, first + i, room), x, m->cols);
}

void linear_apply(const struct matrix *m, const float *x, float *room, float *out)
{
    linear_rows(m, 0, m->rows, x, room, out);
}
