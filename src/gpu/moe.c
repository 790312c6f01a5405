/* Mixture of experts on a device: see moe.h. */
#include "gpu/moe.h"

#include <assert.h>

int gpu_route_record(const struct gpu_route *x, struct err *e)
{
    const struct gpu_linear in = {x->d, x->t, x->x, x->q, x->R};
    const struct gpu_product p[] = {{x->router, x->logits, x->E}, {x->shared_gate, x->open, 1}};
    const u32 constants[] = {(u32)x->E, (u32)x->K, x->norm};
    const struct moe_route_params q = {x->logits, x->route, x->weight};
    const struct kernel *k;
    assert(x->K <= 64 && x->K <= x->E);
    int rc = gpu_linear_record(&in, p, 2, e);
    rc = rc ? rc : device_kernel(x->d, "moe_route", constants, 3, &k, e);
    if (rc)
        return rc;
    tape_barrier(x->t);
    tape_dispatch(x->t, k, &q, sizeof q, (struct grid){(u32)x->R, 1, 1});
    tape_barrier(x->t);
    return 0;
}

static struct moe_matrix matrix_of(const struct gpu_matrix *m)
{
    assert(m->format == MATRIX_Q4);
    return (struct moe_matrix){m->w, m->scales, m->biases};
}

/* Groups of weights under way in a lane, of each of its outputs. */
static u32 depth_of(const struct gpu_moe *x, u32 best)
{
    return x->depth ? (u32)x->depth : device_about(x->d)->kind == DEVICE_SOFTWARE ? 1 : best;
}

static int up_record(const struct gpu_moe *x, struct err *e)
{
    const u32 constants[] = {(u32)x->h, (u32)x->inter, (u32)x->shared_inter, (u32)x->K,
                             depth_of(x, 4)};
    const struct moe_up_params p = {.x = x->q,
                                    .table = x->table,
                                    .route = x->route,
                                    .act = x->act,
                                    .shared_act = x->shared_act,
                                    .gate = matrix_of(&x->gate),
                                    .up = matrix_of(&x->up),
                                    .R = (u32)x->R};
    int wide = x->inter > x->shared_inter ? x->inter : x->shared_inter;
    const struct kernel *k;
    int rc = device_kernel(x->d, "moe_up", constants, 5, &k, e);
    if (rc)
        return rc;
    tape_dispatch(x->t, k, &p, sizeof p,
                  (struct grid){(u32)wide / 64, (u32)(x->R * (x->K + 1)), 1});
    tape_barrier(x->t);
    return 0;
}

/* Columns of a workgroup: so many that its 384 invocations have something to do, and that the
 * outputs of all lanes and experts fit into 16 KiB. */
static u32 columns_of(const struct gpu_moe *x)
{
    u32 team = GPU_LANES((u32)(x->inter > x->shared_inter ? x->inter : x->shared_inter));
    u32 line = team * (u32)(x->K + 1), columns = 16;
    while (columns > 2 && columns * line > 4096)
        columns /= 2;
    return columns;
}

static int down_record(const struct gpu_moe *x, struct err *e)
{
    const u32 columns = columns_of(x);
    const u32 constants[] = {(u32)x->h, (u32)x->inter, (u32)x->shared_inter,
                             (u32)x->K, columns,       depth_of(x, 5)};
    const struct moe_down_params p = {.table = x->table,
                                      .route = x->route,
                                      .weight = x->weight,
                                      .open = x->open,
                                      .act = x->act,
                                      .shared_act = x->shared_act,
                                      .to = x->to,
                                      .down = matrix_of(&x->down)};
    const struct kernel *k;
    int rc = device_kernel(x->d, "moe_down", constants, 6, &k, e);
    if (rc)
        return rc;
    tape_dispatch(x->t, k, &p, sizeof p, (struct grid){(u32)x->h / columns, (u32)x->R, 1});
    tape_barrier(x->t);
    return 0;
}

int gpu_moe_record(const struct gpu_moe *x, struct err *e)
{
    assert(x->h % 64 == 0 && x->inter % 64 == 0 && x->shared_inter % 64 == 0);
    int rc = up_record(x, e);
    return rc ? rc : down_record(x, e);
}
