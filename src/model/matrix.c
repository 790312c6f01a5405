/* Rows of a weight matrix: see matrix.h. */
#include "model/matrix.h"

#include "quant/half.h"
#include "quant/lowbit.h"
#include "quant/q4.h"

const float *matrix_row(const struct matrix *m, int r, float *room)
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

size_t matrix_bytes(const struct matrix *m, int n)
{
    static const int bits[] = {
        [MATRIX_F32] = 32, [MATRIX_BF16] = 16, [MATRIX_Q4] = 4, [MATRIX_Q3] = 3, [MATRIX_Q2] = 2};
    size_t row = (size_t)m->cols * (size_t)bits[m->format] / 8;
    if (m->group)
        row += (size_t)(m->cols / m->group) * 2 * sizeof *m->scales;
    return row * (size_t)n;
}
