/* Products with the weight matrices: see linear.h. */
#include "gpu/linear.h"

#include <assert.h>

#include "gpu/tile.h"

enum {
    PASS_ROWS = 8,        /* most rows of a lane */
    PASS_OUTPUTS = 40000, /* of all passes: more of them go in tiles */
    FLOAT_TILE_ROWS = 48, /* from so many rows on products of bf16 and f32 go in tiles */
};

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

/* How a dispatch is cut: outputs of a workgroup, rows that go through it together. */
struct cut {
    const struct kernel *k;
    u32 outputs, rows;
};

static int cut_floats(const struct gpu_linear *l, const struct gpu_matrix *m, struct cut *c,
                      struct err *e)
{
    const u32 outs = 4, rows = 8; /* of a lane, with many rows */
    const u32 constants[] = {(u32)bits_of(m->format), (u32)m->cols, outs, rows};
    const bool many = l->R >= FLOAT_TILE_ROWS;
    c->outputs = LINEAR_SIZE / 32 * (many ? outs : 1);
    c->rows = many ? rows : 1;
    return device_kernel(l->d, many ? "linear_float_tile" : "linear_float", constants, many ? 4 : 2,
                         &c->k, e);
}

static int cut_few(const struct gpu_linear *l, const struct gpu_matrix *m,
                   const struct gpu_linear_form *f, struct cut *c, struct err *e)
{
    const u32 constants[] = {(u32)bits_of(m->format), (u32)m->cols, (u32)f->outs, (u32)f->rows,
                             (u32)f->depth};
    c->outputs = LINEAR_SIZE / GPU_LANES((u32)m->cols) * (u32)f->outs;
    c->rows = (u32)f->rows;
    return device_kernel(l->d, "linear", constants, 5, &c->k, e);
}

static int cut_tiles(const struct gpu_linear *l, const struct group *g,
                     const struct gpu_linear_form *f, struct cut *c, struct err *e)
{
    const struct gpu_matrix *m = &g->p[0]->m;
    const struct gpu_tile_shape s = {
        .cols = m->cols, .rows = f->rows, .bits = bits_of(m->format), .runs = l->runs};
    struct gpu_tiling t;
    int rc = gpu_tiling_make(l->d, "linear", &s, &t, e);
    *c = (struct cut){t.k, t.outputs, t.rows};
    return rc;
}

static struct gpu_linear_form tiles_of(int R)
{
    return (struct gpu_linear_form){.rows = R > 32 ? 64 : R > 16 ? 32 : 16};
}

/* Rows go through a workgroup in passes of up to 8. A tile takes as long as its groups one after
 * another, however few workgroups there are: so more rows are in tiles where outputs fill the
 * device.
 *
 * H200, 357be86, bench_gpu_kernels forms, passes and tiles: 16,480 outputs of 40 groups, R 16 41.6
 * and 39.5 us, R 24 63 and 42; 2,560 of 96 groups, R 16 22 and 99, R 64 59 and 109; 248,320 of 40
 * groups, R 8 255 and 396, R 12 505 and 404.
 *
 * Few rows wait for memory: what is under way everywhere should be more than memory's rate times
 * its latency. A device that is a processor has caches for that, and takes long to compile it.
 *
 * H200, 7ec736b, bench_gpu_kernels: R 1 with 2, 3, 5 under way 23.7 MB in 11.1, 10.9, 14.9 us,
 * 358 MB in 98, 99, 92; R 8 with 2 and 4 outputs 33 and 23, 289 and 257. */
struct gpu_linear_form gpu_linear_form(const struct device *d, int R, int cols, size_t outputs)
{
    int team = GPU_LANES(cols), per = (cols / 64 + team - 1) / team;
    bool software = device_about(d)->kind == DEVICE_SOFTWARE;
    size_t lanes = outputs * (size_t)team;
    size_t passes = ((size_t)R + PASS_ROWS - 1) / PASS_ROWS;
    if (passes > 1 && passes * outputs > PASS_OUTPUTS)
        return tiles_of(R);
    int rows = R >= 5 ? 8 : R >= 3 ? 4 : R, under_way = R == 1 ? 3 : R == 2 ? 2 : 1, outs = 1;
    if (software)
        return (struct gpu_linear_form){1, rows, 1};
    if (R == 1 && lanes >= 1 << 19)
        under_way = 5;
    if (rows >= 4)
        outs = rows == 8 && passes * lanes >= 3 << 15 ? 4 : 2;
    return (struct gpu_linear_form){outs, rows, under_way < per ? under_way : per};
}

static int group_record(const struct gpu_linear *l, const struct group *g,
                        const struct gpu_linear_form *form, struct err *e)
{
    const struct gpu_matrix *m = &g->p[0]->m;
    bool quantised = m->format >= MATRIX_Q4;
    size_t outputs = 0;
    struct cut cut;
    u32 blocks = 0;
    for (int i = 0; i < g->n; i++)
        outputs += (size_t)g->p[i]->m.rows;
    const struct gpu_linear_form best =
        l->runs ? tiles_of(l->R) : gpu_linear_form(l->d, l->R, m->cols, outputs);
    const struct gpu_linear_form *f = form ? form : &best;
    assert(!quantised || (m->cols % 64 == 0 && l->q % 16 == 0));
    int rc = !quantised ? cut_floats(l, m, &cut, e)
             : f->outs  ? cut_few(l, m, f, &cut, e)
                        : cut_tiles(l, g, f, &cut, e);
    if (rc)
        return rc;
    struct linear_params p = params_of(l, g, quantised);
    for (int i = 0; i < g->n; i++)
        blocks += (p.m[i].rows + cut.outputs - 1) / cut.outputs;
    tape_dispatch(l->t, cut.k, &p, sizeof p,
                  (struct grid){blocks, ((u32)l->R + cut.rows - 1) / cut.rows, 1});
    return 0;
}

int gpu_linear_record(const struct gpu_linear *l, const struct gpu_product *p, int n, struct err *e)
{
    return gpu_linear_record_as(l, p, n, NULL, e);
}

int gpu_linear_record_as(const struct gpu_linear *l, const struct gpu_product *p, int n,
                         const struct gpu_linear_form *form, struct err *e)
{
    for (enum matrix_format f = MATRIX_F32; f <= MATRIX_Q2; f++) {
        struct group g = {.n = 0};
        for (int i = 0; i < n; i++) {
            if (p[i].m.format == f)
                g.p[g.n++] = &p[i];
            if (g.n == 0 || (g.n < LINEAR_LIST && i < n - 1))
                continue;
            int rc = group_record(l, &g, form, e);
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
