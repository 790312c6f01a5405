/* The gated residual on a device: see hyper.h. */
#include "gpu/hyper.h"

#include <assert.h>

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

static int mix_record(const struct gpu_hyper *x, struct err *e)
{
    const struct gpu_matrix *up = &x->up;
    const u32 bits = up->format == MATRIX_Q4 ? 4 : up->format == MATRIX_Q3 ? 3 : 2;
    const u32 constants[] = {(u32)x->h, (u32)x->S, (u32)x->low, bits};
    const struct hyper_mix_params p = {x->low_x, up->w,   up->scales,      up->biases, x->norm_x,
                                       x->to_x,  x->to_q, 1 / (float)x->S, 0};
    const struct kernel *k;
    int rc = device_kernel(x->d, "hyper_mix", constants, 4, &k, e);
    if (rc)
        return rc;
    assert(up->format >= MATRIX_Q4 && x->low % 64 == 0);
    tape_dispatch(x->t, k, &p, sizeof p, (struct grid){(u32)x->h / 64, (u32)x->R, 1});
    tape_barrier(x->t);
    return 0;
}

int gpu_hyper_record(const struct gpu_hyper *x, struct err *e)
{
    const struct gpu_linear in = {x->d, x->t, x->norm_x, x->norm_q, x->R};
    struct gpu_product p[2] = {{x->down, x->low_x, x->low}};
    if (x->inject)
        p[1] = (struct gpu_product){*x->inject, x->inj, x->S};
    int rc = norm_record(x, false, e);
    rc = rc ? rc : gpu_linear_record(&in, p, x->inject ? 2 : 1, e);
    if (rc)
        return rc;
    tape_barrier(x->t);
    return mix_record(x, e);
}

int gpu_hyper_record_add(const struct gpu_hyper *x, struct err *e)
{
    return norm_record(x, true, e);
}
