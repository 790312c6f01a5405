/* Mixture of experts on a device: see moe.h. */
#include "gpu/moe.h"

#include <assert.h>

#include "gpu/tile.h"

int gpu_route_record(const struct gpu_route *x, struct err *e)
{
    const struct gpu_linear in = {x->d, x->t, x->x, x->q, x->R, 0};
    const struct gpu_product p[] = {{x->router, x->logits, x->E}, {x->shared_gate, x->open, 1}};
    const u32 constants[] = {(u32)x->E, (u32)x->K, x->norm};
    const struct moe_route_params q = {x->logits, x->route, x->weight};
    const struct kernel *k;
    assert(x->K <= 64 && x->K <= x->E);
    int rc = gpu_linear_record(&in, p, 2, e);
    tape_barrier(x->t);
    if (rc || x->late)
        return rc;
    rc = device_kernel(x->d, "moe_route", constants, 3, &k, e);
    if (rc)
        return rc;
    tape_dispatch(x->t, k, &q, sizeof q, (struct grid){(u32)x->R, 1, 1});
    tape_barrier(x->t);
    return 0;
}

static struct moe_matrix matrix_of(const struct gpu_matrix *m)
{
    assert(m->format == MATRIX_Q4);
    return (struct moe_matrix){m->w, m->scales, m->biases};
}

/* Groups of weights under way in a lane, of each of its outputs. With more the kernels are longer,
 * and have to be fetched again for each layer, which a kernel that runs alone does not show.
 *
 * H200, soon after 357be86, bench, 8 layers: with 4 and 5 1,120 tok/s, with 1 in moe_up 1,146, in
 * moe_down 1,142, in both 1,153; bench_gpu_kernels, R 1 20.3 us both, R 16 183 and 164. */
static u32 depth_of(const struct gpu_moe *x)
{
    return x->depth ? (u32)x->depth : 1;
}

static int up_record(const struct gpu_moe *x, struct err *e)
{
    const u32 constants[] = {(u32)x->h,      (u32)x->inter, (u32)x->shared_inter,
                             (u32)x->K,      depth_of(x),   x->logits ? (u32)x->E : 1,
                             x->logits != 0, x->host};
    const struct moe_up_params p = {.x = x->q,
                                    .table = x->table,
                                    .route = x->route,
                                    .act = x->act,
                                    .shared_act = x->shared_act,
                                    .gate = matrix_of(&x->gate),
                                    .up = matrix_of(&x->up),
                                    .logits = x->logits,
                                    .weight = x->weight,
                                    .R = (u32)x->R};
    int wide = x->inter > x->shared_inter ? x->inter : x->shared_inter;
    const struct kernel *k;
    int rc = device_kernel(x->d, "moe_up", constants, 8, &k, e);
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
    const u32 constants[] = {(u32)x->h,   (u32)x->inter, (u32)x->shared_inter, (u32)x->K, columns,
                             depth_of(x), x->host};
    const struct moe_down_params p = {.table = x->table,
                                      .route = x->route,
                                      .weight = x->weight,
                                      .open = x->open,
                                      .act = x->act,
                                      .shared_act = x->shared_act,
                                      .to = x->to,
                                      .down = matrix_of(&x->down)};
    const struct kernel *k;
    int rc = device_kernel(x->d, "moe_down", constants, 7, &k, e);
    if (rc)
        return rc;
    tape_dispatch(x->t, k, &p, sizeof p, (struct grid){(u32)x->h / columns, (u32)x->R, 1});
    tape_barrier(x->t);
    return 0;
}

/* --- many rows --- */

/* From so many rows on they are sorted by expert, so that a record that lies far away is read once;
 * or that is near, because tiles are faster. And the choice has a dispatch of its own.
 *
 * H200, 357be86, bench_gpu_kernels, experts that no two rows share: R 16 183 us (164 with one group
 * under way), R 24 sorted 754, R 64 1,529. */
enum { FAR_ROWS = 24, NEAR_ROWS = 128, CHOICE_ROWS = 24 };

/* Rows of a tile: as an expert has on average, or the fewest there are. */
static int tile_rows(const struct gpu_moe *x)
{
    return x->R * x->K / x->E + 1;
}

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* What lies in the room, aligned to 256. */
struct room {
    u64 list, tiles;    /* u32 [R][K]; struct gpu_tile [tiles_max] */
    u64 routed, shared; /* f32 [R][K][2][inter] or [h]; [R][2][shared_inter] or [h] */
    size_t tiles_max, bytes;
};

static struct room room_of(const struct gpu_moe *x)
{
    const size_t R = (size_t)x->R, pairs = R * (size_t)x->K, h = (size_t)x->h;
    struct room r = {.tiles_max = pairs / 16 + 1 + (size_t)x->E};
    const size_t bytes[] = {pairs * sizeof(u32), r.tiles_max * sizeof(struct gpu_tile),
                            pairs * most(2 * (size_t)x->inter, h) * sizeof(float),
                            R * most(2 * (size_t)x->shared_inter, h) * sizeof(float)};
    u64 *const at[] = {&r.list, &r.tiles, &r.routed, &r.shared};
    for (int i = 0; i < 4; i++) {
        *at[i] = x->room + r.bytes;
        r.bytes += (bytes[i] + 255) / 256 * 256;
    }
    return r;
}

size_t gpu_moe_room(const struct gpu_moe *x)
{
    return room_of(x).bytes;
}

static int sort_record(const struct gpu_moe *x, const struct room *r, u32 rows, u32 n_tiles,
                       struct err *e)
{
    const u32 constants[] = {(u32)x->E};
    const struct moe_sort_params p = {.route = x->route,
                                      .list = r->list,
                                      .tiles = r->tiles,
                                      .pairs = (u32)(x->R * x->K),
                                      .n_tiles = n_tiles,
                                      .rows = rows};
    const struct kernel *k;
    int rc = device_kernel(x->d, "moe_sort", constants, 1, &k, e);
    if (!rc)
        tape_dispatch(x->t, k, &p, sizeof p, (struct grid){1, 1, 1});
    return rc;
}

struct grid gpu_act_grid(size_t rows, int n)
{
    const size_t groups = (rows * (size_t)(n / 8) + 255) / 256, most = 65535;
    const size_t lines = (groups + most - 1) / most;
    return (struct grid){(u32)((groups + lines - 1) / lines), (u32)lines, 1};
}

/* Activations of n columns of `rows` rows. */
static int act_record(const struct gpu_moe *x, u64 from, u64 to, int n, int rows, struct err *e)
{
    const struct moe_act_params p = {from, to, (u32)n, (u32)rows};
    const struct kernel *k;
    int rc = device_kernel(x->d, "moe_act", NULL, 0, &k, e);
    if (!rc)
        tape_dispatch(x->t, k, &p, sizeof p, gpu_act_grid((size_t)rows, n));
    return rc;
}

static int sum_record(const struct gpu_moe *x, const struct room *r, struct err *e)
{
    const struct moe_sum_params p = {.table = x->table,
                                     .route = x->route,
                                     .weight = x->weight,
                                     .open = x->open,
                                     .routed = r->routed,
                                     .of_shared = r->shared,
                                     .to = x->to,
                                     .h = (u32)x->h,
                                     .K = (u32)x->K};
    const struct kernel *k;
    int rc = device_kernel(x->d, "moe_sum", NULL, 0, &k, e);
    if (!rc)
        tape_dispatch(x->t, k, &p, sizeof p, (struct grid){((u32)x->h + 255) / 256, (u32)x->R, 1});
    return rc;
}

/* A product of all tiles; q: activations of cols columns, one row for `share` pairs. */
struct routed {
    u64 q;
    int cols, outputs, share, matrix, n_matrices;
};

static int routed_record(const struct gpu_moe *x, const struct room *r, const struct routed *w,
                         u32 n_tiles, struct err *e)
{
    const struct gpu_tile_shape s = {
        .cols = w->cols, .rows = tile_rows(x), .bits = x->bits, .experts = true};
    const struct moe_tile_params p = {.x = w->q,
                                      .to = r->routed,
                                      .table = x->table,
                                      .list = r->list,
                                      .tiles = r->tiles,
                                      .share = (u32)w->share,
                                      .elements = (u32)(x->h * x->inter),
                                      .outputs = (u32)w->outputs,
                                      .matrix = (u32)w->matrix,
                                      .n_matrices = (u32)w->n_matrices};
    struct gpu_tiling t;
    int rc = gpu_tiling_make(x->d, "moe", &s, &t, e);
    if (rc)
        return rc;
    u32 blocks = ((u32)w->outputs + t.outputs - 1) / t.outputs;
    tape_dispatch(x->t, t.k, &p, sizeof p, (struct grid){blocks * (u32)w->n_matrices, n_tiles, 1});
    return 0;
}

/* gate and up of the shared expert, side by side; or down. */
static int shared_record(const struct gpu_moe *x, const struct room *r, bool down, struct err *e)
{
    const struct gpu_linear l = {x->d, x->t, 0, down ? x->shared_act : x->q, x->R, 0};
    const int n = x->shared_inter;
    const struct gpu_product in[] = {{x->gate, r->shared, 2 * n},
                                     {x->up, r->shared + (u64)n * sizeof(float), 2 * n}};
    const struct gpu_product out = {x->down, r->shared, x->h};
    return gpu_linear_record(&l, down ? &out : in, down ? 1 : 2, e);
}

static int sorted_record(const struct gpu_moe *x, struct err *e)
{
    const struct room r = room_of(x);
    const struct routed up = {x->q, x->h, x->inter, x->K, 0, 2};
    const struct routed down = {x->act, x->inter, x->h, 1, 2, 1};
    struct gpu_tiling t;
    const struct gpu_tile_shape s = {
        .cols = x->h, .rows = tile_rows(x), .bits = x->bits, .experts = true};
    int rc = gpu_tiling_make(x->d, "moe", &s, &t, e);
    if (rc)
        return rc;
    u32 pairs = (u32)(x->R * x->K),
        n_tiles = pairs / t.rows + (pairs < (u32)x->E ? pairs : (u32)x->E);
    assert(n_tiles <= r.tiles_max);
    rc = sort_record(x, &r, t.rows, n_tiles, e);
    rc = rc ? rc : shared_record(x, &r, false, e);
    tape_barrier(x->t);
    rc = rc ? rc : routed_record(x, &r, &up, n_tiles, e);
    rc = rc ? rc : act_record(x, r.shared, x->shared_act, x->shared_inter, x->R, e);
    tape_barrier(x->t);
    rc = rc ? rc : act_record(x, r.routed, x->act, x->inter, x->R * x->K, e);
    rc = rc ? rc : shared_record(x, &r, true, e);
    tape_barrier(x->t);
    rc = rc ? rc : routed_record(x, &r, &down, n_tiles, e);
    tape_barrier(x->t);
    rc = rc ? rc : sum_record(x, &r, e);
    tape_barrier(x->t);
    return rc;
}

bool gpu_moe_chooses(int R, bool norm)
{
    return R < CHOICE_ROWS && norm;
}

int gpu_moe_record(const struct gpu_moe *x, struct err *e)
{
    assert(!x->logits || gpu_moe_chooses(x->R, true));
    assert(!x->host || x->R < FAR_ROWS);
    assert(x->h % 64 == 0 && x->inter % 64 == 0 && x->shared_inter % 64 == 0);
    if (x->R >= (x->far ? FAR_ROWS : NEAR_ROWS))
        return sorted_record(x, e);
    int rc = up_record(x, e);
    return rc ? rc : down_record(x, e);
}
