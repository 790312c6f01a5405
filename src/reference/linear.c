/* Products with the weight matrices: see linear.h. */
#include "reference/linear.h"

#include "quant/half.h"
#include "quant/lowbit.h"
#include "quant/q4.h"
#include "reference/arith.h"

const float *linear_row(const struct matrix *m, int r, float *room)
{
    size_t n = (size_t)m->cols, at = (size_t)r * n;
    size_t groups = m->group ? n / (size_t)m->group : 0, group_at = (size_t)r * groups;
    const uint16_t *scales = m->scales ? m->scales + group_at : NULL;
    const uint16_t *biases = m->biases ? m->biases + group_at : NULL;
    const uint8_t *codes = m->w;

    switch (m->format) {
    case MATRIX_F32:
        return (const float *)m->w + at;
    case MATRIX_BF16:
        bf16_widen((const uint16_t *)m->w + at, n, room);
        break;
    case MATRIX_Q4:
        q4_decode_row(codes + at / 2, scales, biases, n, (size_t)m->group, room);
        break;
    case MATRIX_Q3:
        q3_decode_row(codes + lowbit_bytes(3, at), scales, biases, n, (size_t)m->group, room);
        break;
    case MATRIX_Q2:
        q2_decode_row(codes + lowbit_bytes(2, at), scales, biases, n, (size_t)m->group, room);
        break;
    }
    return room;
}

void linear_rows(const struct matrix *m, int first, int n, const float *x, float *room, float *out)
{
    for (int i = 0; i < n; i++)
        out[i] = (float)arith_dot(linear_row(m, first + i, room), x, m->cols);
}

void linear_apply(const struct matrix *m, const float *x, float *room, float *out)
{
    linear_rows(m, 0, m->rows, x, room, out);
}
