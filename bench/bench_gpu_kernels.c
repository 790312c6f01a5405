/* The kernels of products at the shapes of the released model: time of a dispatch that depends on
 * the one before, and the weights it reads a second.
 *
 *      bench_gpu_kernels [MIB [forms] [ROWS ...]]
 *
 * MIB: weights are in so much device memory (2048; more than caches hold), gone through in turn.
 * On devices with matrices of bytes the first lines say what tiles of products could reach if
 * nothing had to be read: coop/rate_coop.comp.
 *
 * forms: in other forms too (outputs x rows of a lane, groups under way; 0 outputs: tiles of so
 * many rows; outputs of a workgroup). ROWS: those of steps, or
 * of a prefill. From 52 rows on they share the experts there are, as a router that is fair to all
 * would have it; before, no two rows share one.
 *
 * The device is the one that the gpu engine would use, or CHERENKOV_DEVICE. Medians of 9 runs of
 * REPEATS each. Compare with what bench_gpu_seam says of memory and of a dispatch. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "gpu/head.h"
#include "gpu/hyper.h"
#include "gpu/mix.h"
#include "gpu/moe.h"
#include "gpu/params_rate.h"
#include "gpu/tile.h"

enum { RUNS = 9, REPEATS = 20, H = 2560, S = 4, LOW = 320, INTER = 640, E = 512, K = 10 };
enum { WARM_NS = 50000000 };
enum { VOCAB = 248320, ROWS = 4096, ROWS_MAX = 16 };
enum { ROOM = 256 << 20, ROOM_ROW = 320 << 10 }; /* bytes of everything but weights */

struct bench {
    struct device *d;
    struct tape *t;
    struct device_buffer weights, room, table, segments;
    u64 next, taken; /* of weights: offset; bytes of the job so far */
    u64 room_next;
    double products; /* of the job so far, of one weight with one activation */
    int R, repeat;
    bool forms;
    const struct gpu_linear_form *form; /* NULL: the best */
    int depth;                          /* of experts; 0: the best */
    int outs;                           /* of reads of the streams; 0: the best */
};

typedef int job_fn(struct bench *b, struct err *e);

/* The next bytes of the weights, from the front again at their end. */
static u64 weights_take(struct bench *b, size_t bytes)
{
    size_t n = (bytes + 255) / 256 * 256;
    if (b->next + n > b->weights.bytes)
        b->next = 0;
    u64 at = b->weights.address + b->next;
    b->next += n;
    b->taken += bytes;
    return at;
}

static u64 room_take(struct bench *b, size_t bytes)
{
    u64 at = b->room.address + b->room_next;
    b->room_next += (bytes + 255) / 256 * 256;
    assert(b->room_next <= b->room.bytes);
    return at;
}

static struct gpu_matrix matrix(struct bench *b, enum matrix_format f, int rows, int cols)
{
    size_t n = (size_t)rows * (size_t)cols;
    b->products += (double)n * b->R;
    struct gpu_matrix m = {.format = f, .rows = rows, .cols = cols};
    if (f == MATRIX_BF16) {
        m.w = weights_take(b, n * 2);
        return m;
    }
    u64 at = weights_take(b, n / 2 + n / 64 * 4);
    m.w = at;
    m.scales = at + n / 2;
    m.biases = m.scales + n / 64 * 2;
    return m;
}

static int list(struct bench *b, int cols, const int *rows, int n, struct err *e)
{
    struct gpu_product p[LINEAR_LIST];
    const struct gpu_linear l = {b->d, b->t, 0, room_take(b, ROWS * GPU_ACTS_BYTES((size_t)cols)),
                                 b->R, 0};
    for (int i = 0; i < n; i++)
        p[i] = (struct gpu_product){matrix(b, MATRIX_Q4, rows[i], cols),
                                    room_take(b, (size_t)b->R * (size_t)rows[i] * 4), rows[i]};
    int rc = gpu_linear_record_as(&l, p, n, b->form, e);
    tape_barrier(b->t);
    return rc;
}

static int deltanet_in(struct bench *b, struct err *e)
{
    static const int rows[] = {10240, 6144, 48, 48};
    return list(b, H, rows, 4, e);
}

static int deltanet_out(struct bench *b, struct err *e)
{
    static const int rows[] = {H};
    return list(b, 6144, rows, 1, e);
}

static int qsa_in(struct bench *b, struct err *e)
{
    static const int rows[] = {12288, 512, 512, 640};
    return list(b, H, rows, 4, e);
}

static int head(struct bench *b, struct err *e)
{
    static const int rows[] = {VOCAB};
    return list(b, H, rows, 1, e);
}

static int hyper_read(struct bench *b, bool many, struct err *e)
{
    size_t R = (size_t)b->R, wide = (size_t)S * H;
    struct gpu_matrix inject = matrix(b, MATRIX_Q4, S, S * H);
    struct gpu_hyper x = {.d = b->d,
                          .t = b->t,
                          .R = b->R,
                          .S = S,
                          .h = H,
                          .low = LOW,
                          .eps = 1e-6f,
                          .hyper = room_take(b, R * wide * 4),
                          .add = room_take(b, R * H * 4),
                          .inj = room_take(b, R * S * 4),
                          .gamma = room_take(b, wide * 4),
                          .norm_x = room_take(b, R * wide * 4),
                          .norm_q = room_take(b, R * GPU_ACTS_BYTES(wide)),
                          .low_x = room_take(b, gpu_hyper_low_floats(b->R, S, LOW) * 4),
                          .to_x = room_take(b, R * H * 4),
                          .to_q = room_take(b, R * GPU_ACTS_BYTES(H)),
                          .bad = room_take(b, 4),
                          .down = matrix(b, MATRIX_Q4, LOW, S * H),
                          .up = matrix(b, MATRIX_Q4, S * H, LOW),
                          .inject = &inject,
                          .many = many,
                          .outs = b->outs};
    x.room = room_take(b, gpu_hyper_room(&x));
    return gpu_hyper_record(&x, e);
}

static int hyper(struct bench *b, struct err *e)
{
    return hyper_read(b, false, e);
}

static int hyper_many(struct bench *b, struct err *e)
{
    return hyper_read(b, true, e);
}

static int route(struct bench *b, struct err *e)
{
    size_t R = (size_t)b->R;
    const struct gpu_route x = {.d = b->d,
                                .t = b->t,
                                .R = b->R,
                                .E = E,
                                .K = K,
                                .norm = true,
                                .x = room_take(b, R * H * 4),
                                .q = room_take(b, R * GPU_ACTS_BYTES(H)),
                                .router = matrix(b, MATRIX_BF16, E, H),
                                .shared_gate = matrix(b, MATRIX_Q4, 1, H),
                                .logits = room_take(b, R * E * 4),
                                .open = room_take(b, R * 4),
                                .route = room_take(b, R * K * 4),
                                .weight = room_take(b, R * K * 4)};
    return gpu_route_record(&x, e);
}

enum { RECORD = INTER * H * 3 / 64 * 36 };

/* Each repeat has a table of its own; rows choose K of the experts there are, in turn. */
static int moe(struct bench *b, struct err *e)
{
    size_t R = (size_t)b->R;
    u64 pairs = (u64)b->R * K, table[E];
    const u64 experts = pairs < E ? pairs : E;
    for (u64 i = 0; i < experts; i++)
        table[i] = weights_take(b, RECORD);
    b->products += (double)pairs * INTER * H * 3;
    u64 at = b->table.address + (u64)b->repeat * sizeof table;
    int rc = device_upload(b->d, &b->table, at - b->table.address, table, experts * 8, e);
    if (rc)
        return rc;
    struct gpu_moe x = {.d = b->d,
                        .t = b->t,
                        .R = b->R,
                        .E = E,
                        .K = K,
                        .h = H,
                        .inter = INTER,
                        .shared_inter = INTER,
                        .q = room_take(b, R * GPU_ACTS_BYTES(H)),
                        .table = at,
                        .route = b->table.address + REPEATS * sizeof table,
                        .weight = room_take(b, R * K * 4),
                        .open = room_take(b, R * 4),
                        .act = room_take(b, R * K * GPU_ACTS_BYTES(INTER)),
                        .shared_act = room_take(b, R * GPU_ACTS_BYTES(INTER)),
                        .to = room_take(b, R * H * 4),
                        .gate = matrix(b, MATRIX_Q4, INTER, H),
                        .up = matrix(b, MATRIX_Q4, INTER, H),
                        .down = matrix(b, MATRIX_Q4, H, INTER),
                        .bits = 4,
                        .depth = b->depth};
    x.room = room_take(b, gpu_moe_room(&x));
    return gpu_moe_record(&x, e);
}

/* The scan of R rows, of R sequences or of one; it reads their states, and writes them too. */
static int scan_of(struct bench *b, bool together, struct err *e)
{
    enum { NK = 16, NV = 48, D = 128, STATE = NV * D * D, WIDTH = (2 * NK + NV) * D, KEEP = 3 };
    static const struct config c = {.nk = NK, .nv = NV, .dk = D, .dv = D, .conv_kernel = KEEP + 1};
    size_t R = (size_t)b->R, values = (size_t)NV * D;
    struct gpu_segment s[ROWS] = {0};
    const struct scan all = {together ? 1 : b->R, together ? b->R : 1, true};
    for (u32 i = 0; i < (u32)all.n_segments; i++) {
        s[i].first = s[i].pending = i;
        s[i].n = (u32)all.rows;
        s[i].state = weights_take(b, (2 * (STATE + KEEP * WIDTH)) * sizeof(float));
        b->taken -= (STATE + KEEP * WIDTH) * sizeof(float); /* the other plane is written */
    }
    u64 at = b->segments.address + (u64)b->repeat * sizeof s;
    int rc = device_upload(b->d, &b->segments, at - b->segments.address, s,
                           (size_t)all.n_segments * sizeof s[0], e);
    const struct deltanet_params p = {
        .segments = at,
        .conv = room_take(b, R * WIDTH * 4),
        .z = room_take(b, R * values * 4),
        .a = room_take(b, R * NV * 4),
        .b = room_take(b, R * NV * 4),
        .taps = room_take(b, (size_t)WIDTH * (KEEP + 1) * 4),
        .a_log = room_take(b, NV * 4),
        .dt_bias = room_take(b, NV * 4),
        .norm = room_take(b, D * 4),
        .log = together ? 0 : room_take(b, R * GPU_DELTANET_LOG(NK, NV, D, D) * 4),
        .room = together ? room_take(b, deltanet_room(&c, R)) : 0,
        .to = room_take(b, R * GPU_ACTS_BYTES(values)),
        .st_at = {0, STATE},
        .conv_at = {2 * STATE, 2 * STATE + KEEP * WIDTH},
        .eps = 1e-6f,
        .R = (u32)R,
    };
    const struct mix m = {b->d, b->t, &c};
    rc = rc ? rc : deltanet_scan(&m, &p, all, e);
    tape_barrier(b->t);
    return rc;
}

static int scan(struct bench *b, struct err *e)
{
    return scan_of(b, false, e);
}

static int scan_rows(struct bench *b, struct err *e)
{
    return scan_of(b, true, e);
}

/* Tiles of the shape of dense products with all they need in registers, or in shared memory. */
static int rate(struct bench *b, int what, struct err *e)
{
    enum { GROUPS = 256, WORKGROUPS = 4224, INVOCATIONS = 512 };
    const struct gpu_tile_shape s = {.cols = H, .rows = ROWS, .bits = what};
    const struct rate_params p = {room_take(b, WORKGROUPS * INVOCATIONS * 4), GROUPS, 1};
    struct gpu_tiling t;
    int rc = gpu_tiling_make(b->d, "rate", &s, &t, e);
    if (rc)
        return rc;
    b->products += (double)WORKGROUPS * GROUPS * 64 * t.rows * t.outputs;
    tape_dispatch(b->t, t.k, &p, sizeof p, (struct grid){WORKGROUPS, 1, 1});
    tape_barrier(b->t);
    return 0;
}

static int rate_matrices(struct bench *b, struct err *e)
{
    return rate(b, RATE_MATRICES, e);
}

static int rate_shared(struct bench *b, struct err *e)
{
    return rate(b, RATE_SHARED, e);
}

static int rate_sums(struct bench *b, struct err *e)
{
    return rate(b, RATE_SUMS, e);
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static int measure(struct bench *b, const char *name, job_fn *job, struct err *e)
{
    double ns[RUNS];
    int rc = 0;
    b->taken = 0;
    b->products = 0;
    tape_begin(b->t);
    tape_stamp(b->t);
    for (int i = 0; !rc && i < REPEATS; i++) {
        b->room_next = 0;
        b->repeat = i;
        rc = job(b, e);
    }
    tape_stamp(b->t);
    rc = rc ? rc : tape_end(b->t, e);
    uint64_t start = clock_ns();
    for (int i = -1; !rc && i < RUNS; i++) {
        uint64_t value;
        rc = device_submit(b->d, b->t, &value, e);
        rc = rc ? rc : device_wait(b->d, value, e);
        if (i < 0 && clock_ns() - start < WARM_NS)
            i--; /* a device that was idle has low clocks */
        if (!rc && i >= 0)
            ns[i] = tape_ns(b->t, 0, 1) / REPEATS;
    }
    if (rc)
        return rc;
    qsort(ns, RUNS, sizeof *ns, by_value);
    double bytes = (double)b->taken / REPEATS, products = b->products / REPEATS;
    printf("%-14s R %4d   %9.1f us   %8.2f MB read   %7.1f GB/s   %7.2f T products/s", name, b->R,
           ns[RUNS / 2] / 1e3, bytes / 1e6, bytes / ns[RUNS / 2], products / ns[RUNS / 2] / 1e3);
    if (b->form)
        printf("   %d x %d, %d under way", b->form->outs, b->form->rows, b->form->depth);
    if (b->depth)
        printf("   %d under way", b->depth);
    if (b->outs)
        printf("   %d outputs", b->outs);
    printf("\n");
    fflush(stdout);
    return 0;
}

/* The ceilings of the products of many rows: R stands for nothing. */
static int measure_rates(struct bench *b, struct err *e)
{
    if (!device_about(b->d)->matrix.m)
        return 0;
    int rc = measure(b, "matrices alone", rate_matrices, e);
    rc = rc ? rc : measure(b, "from shared", rate_shared, e);
    return rc ? rc : measure(b, "with sums", rate_sums, e);
}

static bool has_forms(job_fn *job)
{
    return job == deltanet_in || job == deltanet_out || job == qsa_in || job == head;
}

static int measure_forms(struct bench *b, const char *name, job_fn *job, struct err *e)
{
    static const struct gpu_linear_form forms[] = {
        {1, 1, 1}, {1, 1, 2}, {1, 1, 3},  {1, 1, 5},  {2, 1, 1}, {2, 1, 2}, {2, 1, 3},
        {4, 1, 1}, {4, 1, 2}, {1, 2, 1},  {1, 2, 2},  {2, 2, 1}, {2, 2, 2}, {4, 2, 1},
        {1, 4, 1}, {1, 4, 2}, {2, 4, 1},  {2, 4, 2},  {4, 4, 1}, {1, 8, 1}, {1, 8, 2},
        {2, 8, 1}, {4, 8, 1}, {0, 16, 0}, {0, 32, 0}, {0, 64, 0}};
    int rc = 0;
    for (size_t i = 0; !rc && i < sizeof forms / sizeof forms[0]; i++) {
        const struct gpu_linear_form *f = &forms[i];
        const bool passes = f->outs && f->rows == 8 && b->R > 8 && b->R <= 64;
        const bool tiles = !f->outs && b->R >= 4 && b->R <= 64;
        if (f->rows != b->R && !passes && !tiles)
            continue;
        b->form = &forms[i];
        rc = measure(b, name, job, e);
    }
    b->form = NULL;
    return rc;
}

static int measure_depths(struct bench *b, const char *name, job_fn *job, struct err *e)
{
    int rc = 0;
    for (b->depth = 1; !rc && b->depth <= 5; b->depth++)
        rc = measure(b, name, job, e);
    b->depth = 0;
    return rc;
}

static int measure_outs(struct bench *b, const char *name, job_fn *job, struct err *e)
{
    static const int outs[] = {4, 6, 8, 12, 16, 24};
    int rc = 0;
    for (size_t i = 0; !rc && i < sizeof outs / sizeof outs[0] && b->R <= 24; i++) {
        b->outs = outs[i];
        rc = measure(b, name, job, e);
    }
    b->outs = 0;
    return rc;
}

static int all(struct bench *b, const int *rows, int n, struct err *e)
{
    static const struct {
        const char *name;
        job_fn *job;
    } jobs[] = {{"deltanet in", deltanet_in},
                {"deltanet scan", scan},
                {"scan, one's", scan_rows},
                {"deltanet out", deltanet_out},
                {"qsa in", qsa_in},
                {"hyper read", hyper},
                {"hyper, many", hyper_many},
                {"route", route},
                {"experts", moe},
                {"head", head}};
    int rc = 0;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++)
        for (int r = 0; !rc && r < n; r++) {
            job_fn *job = jobs[i].job;
            if (rows[r] > (job == scan   ? 16
                           : job == head ? 64
                                         : ROWS)) /* a room's, a step's most */
                continue;
            b->R = rows[r];
            rc = measure(b, jobs[i].name, job, e);
            if (!rc && b->forms && job == moe)
                rc = measure_depths(b, jobs[i].name, job, e);
            else if (!rc && b->forms && job == hyper)
                rc = measure_outs(b, jobs[i].name, job, e);
            else if (!rc && b->forms && has_forms(job))
                rc = measure_forms(b, jobs[i].name, job, e);
        }
    return rc;
}

/* Numbers of about a hundredth, whether bf16 or f32: with zeros all experts would tie. */
static int fill(struct bench *b, const struct device_buffer *to, struct err *e)
{
    enum { PIECE = 16 << 20 };
    uint16_t *piece = mem_array(PIECE / 2, 2);
    int rc = piece ? 0 : ERR(e, E_NOMEM, "out of memory");
    for (size_t i = 0; !rc && i < PIECE / 2; i++)
        piece[i] = (uint16_t)(0x3C00 | (rng_at(1, i) & 0x807F));
    for (size_t at = 0; !rc && at < to->bytes; at += PIECE)
        rc = device_upload(b->d, to, at, piece, at + PIECE < to->bytes ? PIECE : to->bytes - at, e);
    mem_free(piece);
    return rc;
}

static int open_all(struct bench *b, size_t mib, int rows, struct err *e)
{
    u32 *routes = mem_zalloc(REPEATS * E * 2 + ROWS * K, 4);
    size_t routes_at = (size_t)REPEATS * E * 8;
    for (u32 i = 0; i < ROWS * K; i++)
        routes[routes_at / 4 + i] = i % E;
    int rc = device_open(NULL, &b->d, e);
    rc = rc ? rc : tape_open(b->d, 2, &b->t, e);
    rc = rc ? rc : device_take(b->d, DEVICE_LOCAL, mib << 20, &b->weights, e);
    rc = rc ? rc : device_take(b->d, DEVICE_LOCAL, ROOM + (size_t)rows * ROOM_ROW, &b->room, e);
    rc = rc ? rc : fill(b, &b->weights, e);
    rc = rc ? rc : fill(b, &b->room, e);
    rc = rc ? rc : device_take(b->d, DEVICE_LOCAL, routes_at + ROWS * K * 4, &b->table, e);
    rc = rc ? rc
            : device_take(b->d, DEVICE_LOCAL, REPEATS * ROWS * sizeof(struct gpu_segment),
                          &b->segments, e);
    rc = rc ? rc : device_upload(b->d, &b->table, 0, routes, b->table.bytes, e);
    mem_free(routes);
    return rc;
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    struct err e = {0};
    size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : 2048;
    b.forms = argc > 2 && strcmp(argv[2], "forms") == 0;
    int rows[ROWS_MAX] = {1, 2, 4, 8, 16, 32, 128, 512}, n = 8;
    for (int i = 2 + b.forms, j = 0; i < argc && j < ROWS_MAX; i++, j++) {
        rows[j] = (int)strtol(argv[i], NULL, 10);
        n = j + 1;
        if (rows[j] < 1 || rows[j] > ROWS) {
            fprintf(stderr, "bench_gpu_kernels: rows are 1 to %d\n", ROWS);
            return 1;
        }
    }
    int most = 0;
    for (int i = 0; i < n; i++)
        most = rows[i] > most ? rows[i] : most;
    int rc = open_all(&b, mib, most, &e);
    if (!rc) {
        printf("%s, %zu MiB of weights\n", device_about(b.d)->name, mib);
        rc = measure_rates(&b, &e);
        rc = rc ? rc : all(&b, rows, n, &e);
    }
    if (rc)
        fprintf(stderr, "bench_gpu_kernels: %s\n", e.msg);
    if (b.d) {
        tape_close(b.t);
        device_free(b.d, &b.weights);
        device_free(b.d, &b.room);
        device_free(b.d, &b.table);
        device_free(b.d, &b.segments);
        device_close(b.d);
    }
    return rc != 0;
}
