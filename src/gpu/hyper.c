/* The gated residual on a device: see hyper.h. */
#include "gpu/hyper.h"

#include <assert.h>

enum {
    FEW_ROWS = 64,    /* up to so many, each workgroup of the first products makes its norm */
    FEW_WIDTH = 8192, /* widest stream for that: it lies in its shared memory */
};

/* Outputs of a workgroup of the first products: one row's are to be under way all at once.
 *
 * H200, 357be86, bench_gpu_kernels, hyper read: R 1 with 6, 12, 24 outputs 11.1, 10.8, 11.1 us; R 8
 * 31, 24, 22; R 24 74, 54, 47, as many rows 181. */
static u32 outputs_of(const struct gpu_hyper *x)
{
    return x->outs ? (u32)x->outs : x->R == 1 ? 12 : 24;
}

static int norm_record(const struct gpu_hyper *x, bool only_add, struct err *e)
{
    const u32 constants[] = {(u32)x->h, (u32)x->S};
    const struct hyper_norm_params p = {.hyper = x->hyper,
                                        .add = x->add,
                                        .inj = x->inj,
                                        .gamma = x->gamma,
                                        .x = x->norm_x,
                                        .q = only_add ? 0 : x->norm_q,
                                        .bad = x->bad,
                                        .by_S = 1 / (float)x->S,
                                        .by_h = 1 / (float)x->h,
                                        .eps = x->eps,
                                        .first = (u32)x->first};
    const struct kernel *k;
    int rc = device_kernel(x->d, "hyper_norm", constants, 2, &k, e);
    if (rc)
        return rc;
    assert(x->h % 64 == 0);
    tape_dispatch(x->t, k, &p, sizeof p, (struct grid){(u32)x->S, (u32)x->R, 1});
    tape_barrier(x->t);
    return 0;
}

static u32 bits_of(const struct gpu_matrix *m)
{
    return m->format == MATRIX_Q4 ? 4 : m->format == MATRIX_Q3 ? 3 : 2;
}

static struct quant_matrix quant_of(const struct gpu_matrix *m)
{
    return (struct quant_matrix){m->w, m->scales, m->biases};
}

/* Groups of weights under way in a lane. */
static u32 under_way(const struct gpu_hyper *x, u32 best)
{
    return device_about(x->d)->kind == DEVICE_SOFTWARE ? 1 : best;
}

/* Whether the first products are added stream by stream, each a chain; depends on shapes alone. */
static bool by_stream(const struct gpu_hyper *x)
{
    return x->h <= FEW_WIDTH && x->down.format >= MATRIX_Q4 &&
           (!x->inject || x->inject->format == x->down.format);
}

/* Few rows: norms and first products in one dispatch, which leaves in `kept` what mix needs. */
static bool few(const struct gpu_hyper *x)
{
    return by_stream(x) && !x->many && x->R <= FEW_ROWS;
}

size_t gpu_hyper_low_floats(int R, int S, int low)
{
    const size_t parts = (size_t)(R < FEW_ROWS ? R : FEW_ROWS) * (size_t)S * (size_t)(low + S);
    const size_t sums = (size_t)R * (size_t)low;
    return parts > sums ? parts : sums;
}

static u64 kept_of(const struct gpu_hyper *x)
{
    return x->norm_x;
}

static int down_record(const struct gpu_hyper *x, struct err *e)
{
    const u32 outs = outputs_of(x);
    const u32 constants[] = {(u32)x->h, (u32)x->S, (u32)x->low, bits_of(&x->down), outs};
    const struct hyper_down_params p = {.hyper = x->hyper,
                                        .add = x->add,
                                        .inj = x->inj,
                                        .gamma = x->gamma,
                                        .parts = x->low_x,
                                        .kept = kept_of(x),
                                        .down = quant_of(&x->down),
                                        .inject = x->inject ? quant_of(x->inject)
                                                            : (struct quant_matrix){0},
                                        .bad = x->bad,
                                        .by_S = 1 / (float)x->S,
                                        .by_h = 1 / (float)x->h,
                                        .eps = x->eps,
                                        .first = (u32)x->first};
    const u32 outputs = (u32)(x->low + (x->inject ? x->S : 0));
    const struct kernel *k;
    int rc = device_kernel(x->d, "hyper_down", constants, 5, &k, e);
    if (rc)
        return rc;
    assert(x->h % 64 == 0);
    tape_dispatch(x->t, k, &p, sizeof p,
                  (struct grid){(outputs + outs - 1) / outs, (u32)x->S, (u32)x->R});
    tape_barrier(x->t);
    return 0;
}

static int mix_record(const struct gpu_hyper *x, struct err *e)
{
    const u32 constants[] = {(u32)x->h,       (u32)x->S,       (u32)x->low,
                             bits_of(&x->up), under_way(x, 3), few(x) ? (u32)x->S : 1};
    const struct hyper_mix_params p = {.low = x->low_x,
                                       .up = quant_of(&x->up),
                                       .x = x->to_x,
                                       .q = x->to_q,
                                       .norm = few(x) ? 0 : x->norm_x,
                                       .hyper = x->hyper,
                                       .add = x->add,
                                       .gamma = x->gamma,
                                       .kept = kept_of(x),
                                       .inj = x->inject ? x->inj : 0,
                                       .by_S = 1 / (float)x->S};
    const struct kernel *k;
    int rc = device_kernel(x->d, "hyper_mix", constants, 6, &k, e);
    if (rc)
        return rc;
    assert(x->up.format >= MATRIX_Q4 && x->low % 64 == 0);
    tape_dispatch(x->t, k, &p, sizeof p, (struct grid){(u32)x->h / 64, (u32)x->R, 1});
    tape_barrier(x->t);
    return 0;
}

/* --- many rows: weights of `up` are read once for a tile of them --- */

static int low_record(const struct gpu_hyper *x, u64 q, struct err *e)
{
    const struct hyper_low_params p = {x->low_x, q, 1 / (float)x->S, (u32)x->low};
    const struct kernel *k;
    int rc = device_kernel(x->d, "hyper_low", NULL, 0, &k, e);
    if (!rc)
        tape_dispatch(x->t, k, &p, sizeof p,
                      (struct grid){((u32)x->low / 8 + 255) / 256, (u32)x->R, 1});
    return rc;
}

static int gate_record(const struct gpu_hyper *x, u64 gate, struct err *e)
{
    const struct hyper_gate_params p = {.gate = gate,
                                        .norm = x->norm_x,
                                        .x = x->to_x,
                                        .q = x->to_q,
                                        .by_S = 1 / (float)x->S,
                                        .h = (u32)x->h,
                                        .S = (u32)x->S};
    const struct kernel *k;
    int rc = device_kernel(x->d, "hyper_gate", NULL, 0, &k, e);
    if (!rc)
        tape_dispatch(x->t, k, &p, sizeof p,
                      (struct grid){((u32)x->h / 8 + 255) / 256, (u32)x->R, 1});
    return rc;
}

static size_t low_bytes(const struct gpu_hyper *x)
{
    return ((size_t)x->R * GPU_ACTS_BYTES((size_t)x->low) + 255) / 256 * 256;
}

size_t gpu_hyper_room(const struct gpu_hyper *x)
{
    return low_bytes(x) + (size_t)x->R * (size_t)x->S * (size_t)x->h * sizeof(float);
}

static int mix_many_record(const struct gpu_hyper *x, struct err *e)
{
    const u64 low = x->room, gate = x->room + low_bytes(x);
    const struct gpu_linear l = {x->d, x->t, 0, low, x->R, 0};
    const struct gpu_product up = {x->up, gate, x->S * x->h};
    int rc = low_record(x, low, e);
    tape_barrier(x->t);
    rc = rc ? rc : gpu_linear_record(&l, &up, 1, e);
    tape_barrier(x->t);
    rc = rc ? rc : gate_record(x, gate, e);
    tape_barrier(x->t);
    return rc;
}

int gpu_hyper_record(const struct gpu_hyper *x, struct err *e)
{
    const struct gpu_linear in = {x->d, x->t, x->norm_x, x->norm_q, x->R, by_stream(x) ? x->S : 0};
    struct gpu_product p[2] = {{x->down, x->low_x, x->low}};
    int rc;
    if (x->inject)
        p[1] = (struct gpu_product){*x->inject, x->inj, x->S};
    if (few(x)) {
        rc = down_record(x, e);
        return rc ? rc : mix_record(x, e);
    }
    rc = norm_record(x, false, e);
    rc = rc ? rc : gpu_linear_record(&in, p, x->inject ? 2 : 1, e);
    if (rc)
        return rc;
    tape_barrier(x->t);
    return x->many || x->R > FEW_ROWS ? mix_many_record(x, e) : mix_record(x, e);
}

int gpu_hyper_record_add(const struct gpu_hyper *x, struct err *e)
{
    return norm_record(x, true, e);
}
