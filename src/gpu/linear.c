/* Products with the weight matrices: see linear.h. */
#include "gpu/linear.h"

#include <assert.h>

/* One dispatch: matrices of the same format, cols and input. */
struct group {
    const struct gpu_product *p[LINEAR_LIST];
    int n;
};

static int bits_of(enum matrix_format f)
{
    static const int bits[] = {
        [MATRIX_F32] = 32, [MATRIX_BF16] = 16, [MATRIX_Q4] = 4, [MATRIX_Q3] = 3, [MATRIX_Q2] = 2};
    return bits[f];
}

static u64 lower(u64 a, u64 b)
{
    return a < b ? a : b;
}

static struct linear_params params_of(const struct gpu_linear *l, const struct group *g,
                                      bool quantised)
{
    struct linear_params p = {.base = UINT64_MAX, .to = UINT64_MAX, .x = quantised ? l->q : l->x};
    p.R = (u32)l->R;
    for (int i = 0; i < g->n; i++) {
        const struct gpu_matrix *m = &g->p[i]->m;
        p.to = lower(p.to, g->p[i]->to);
        p.base = lower(p.base, m->w);
        if (quantised)
            p.base = lower(lower(p.base, m->scales), m->biases);
    }
    for (int i = 0; i < g->n; i++) {
        const struct gpu_matrix *m = &g->p[i]->m;
        u64 w = m->w - p.base, scales = quantised ? m->scales - p.base : 0;
        u64 biases = quantised ? m->biases - p.base : 0, to = g->p[i]->to - p.to;
        assert((w | scales | biases) % 16 == 0 && (w | scales | biases) >> 36 == 0);
        assert(to % 4 == 0 && to >> 34 == 0);
        p.m[i] = (struct linear_matrix){.w = (u32)(w / 16),
                                        .scales = (u32)(scales / 16),
                                        .biases = (u32)(biases / 16),
                                        .to = (u32)(to / 4),
                                        .rows = (u32)m->rows,
                                        .stride = (u32)g->p[i]->stride};
    }
    return p;
}

/* Rows that a weight is loaded once for, and outputs that an activation is: of the best of those
 * tried where memory, and with more rows registers, are the limit. */
static void shape_of(int R, u32 outs_few, u32 *outs, u32 *rows)
{
    *rows = R >= 5 ? 8 : R >= 3 ? 4 : (u32)R;
    *outs = R == 1 ? outs_few : *rows == 8 ? 1 : 2;
}

static int group_record(const struct gpu_linear *l, const struct group *g, struct err *e)
{
    const struct gpu_matrix *m = &g->p[0]->m;
    bool quantised = m->format >= MATRIX_Q4;
    u32 outs = 1, rows = 1, team = 32;
    const struct kernel *k;
    size_t outputs = 0;
    for (int i = 0; i < g->n; i++)
        outputs += (size_t)g->p[i]->m.rows;
    if (quantised) {
        assert(m->cols % 64 == 0 && l->q % 16 == 0);
        team = GPU_LANES((u32)m->cols);
        shape_of(l->R,
                 outputs * team >= (1 << 18)   ? 4
                 : outputs * team >= (1 << 15) ? 2
                                               : 1,
                 &outs, &rows);
    }
    const u32 constants[] = {(u32)bits_of(m->format), (u32)m->cols, outs, rows};
    int rc = device_kernel(l->d, quantised ? "linear" : "linear_float", constants,
                           quantised ? 4 : 3, &k, e);
    if (rc)
        return rc;
    struct linear_params p = params_of(l, g, quantised);
    u32 each = LINEAR_SIZE / team * outs, blocks = 0;
    for (int i = 0; i < g->n; i++)
        blocks += (p.m[i].rows + each - 1) / each;
    tape_dispatch(l->t, k, &p, sizeof p, (struct grid){blocks, ((u32)l->R + rows - 1) / rows, 1});
    return 0;
}

int gpu_linear_record(const struct gpu_linear *l, const struct gpu_product *p, int n, struct err *e)
{
    for (enum matrix_format f = MATRIX_F32; f <= MATRIX_Q2; f++) {
        struct group g = {.n = 0};
        for (int i = 0; i < n; i++) {
            if (p[i].m.format == f)
                g.p[g.n++] = &p[i];
            if (g.n == 0 || (g.n < LINEAR_LIST && i < n - 1))
                continue;
            int rc = group_record(l, &g, e);
            if (rc)
                return rc;
            g.n = 0;
        }
    }
    return 0;
}

int gpu_linear_quantise(const struct gpu_linear *l, int n, struct err *e)
{
    const struct kernel *k;
    int rc = device_kernel(l->d, "linear_quantise", NULL, 0, &k, e);
    if (rc)
        return rc;
    assert(n % 64 == 0);
    struct quantise_params p = {.x = l->x, .q = l->q, .n = (u32)n};
    tape_dispatch(l->t, k, &p, sizeof p, (struct grid){((u32)n / 8 + 255) / 256, (u32)l->R, 1});
    return 0;
}
