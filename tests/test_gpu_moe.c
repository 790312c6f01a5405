/* The router's choice, experts and the best token on a device, bit for bit as in C. */
#include "gpu/moe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "gpu/head.h"
#include "gpu/host_moe.h"
#include "gpu/numbers.h"
#include "model/engine.h"
#include "quant/half.h"
#include "tests/aid_gpu_model.h"
#include "tests/aid_test.h"

static struct aid_gpu g;

/* --- the router --- */

/* The K largest of x, by looking again and again. */
static void choose(const float *x, int E, int K, u32 *route)
{
    for (int k = 0; k < K; k++) {
        int best = -1;
        for (int ie = 0; ie < E; ie++) {
            bool taken = false;
            for (int j = 0; j < k; j++)
                taken = taken || route[j] == (u32)ie;
            if (!taken && (best < 0 || x[ie] > x[best]))
                best = ie;
        }
        route[k] = (u32)best;
    }
}

static void weigh(const float *x, int E, int K, bool norm, const u32 *route, float *w)
{
    float most = x[route[0]], sum = 0, lane[256] = {0};
    for (int ie = 0; ie < E; ie++)
        lane[ie % 256] += num_exp(x[ie] - most);
    for (int k = 128; k > 0; k /= 2)
        for (int i = 0; i < k; i++)
            lane[i] = lane[2 * i] + lane[2 * i + 1];
    for (int k = 0; k < K; k++) {
        w[k] = num_exp(x[route[k]] - most);
        sum += w[k];
    }
    for (int k = 0; k < K; k++)
        w[k] = w[k] * num_reciprocal(norm ? sum : lane[0]);
}

enum { ROUTE_ROWS = 6 };

static struct gpu_matrix matrix_of(const struct model_matrix *m)
{
    return (struct gpu_matrix){m->bits == 16 ? MATRIX_BF16 : MATRIX_Q4,
                               m->rows,
                               m->cols,
                               m->at_w,
                               m->at_scales,
                               m->at_biases};
}

/* Rows with ties: experts with the same weights, and a row of zeros, where all are equal. */
static void route_is_right(int E, int K, bool norm)
{
    enum { H = 128 };
    struct model_matrix router, gate;
    struct err e = {0};
    size_t n = (size_t)E;
    static float x[ROUTE_ROWS * H];
    float *logits = mem_array(ROUTE_ROWS * n, 4), want_w[64], got_w[ROUTE_ROWS * 64];
    uint8_t q[ROUTE_ROWS * GPU_ACTS_BYTES(H)] = {0};
    u32 want[64], got[ROUTE_ROWS * 64];
    model_floats(x, ROUTE_ROWS * H);
    memset(x + 2 * H, 0, H * 4);
    for (int r = 0; r < ROUTE_ROWS; r++)
        model_quantise(x + r * H, H, q + r * GPU_ACTS_BYTES(H));
    model_matrix_init(&router, 16, E, H);
    for (int ie = 3; ie < E; ie += 3)
        memcpy(router.w + ie * H * 2, router.w, H * 2);
    model_matrix_init(&gate, 4, 1, H);
    model_put(&g, &router);
    model_put(&g, &gate);
    struct gpu_route a = {.d = g.device,
                          .t = g.tape,
                          .R = ROUTE_ROWS,
                          .E = E,
                          .K = K,
                          .norm = norm,
                          .x = aid_gpu_put(&g, x, sizeof x),
                          .q = aid_gpu_put(&g, q, sizeof q),
                          .router = matrix_of(&router),
                          .shared_gate = matrix_of(&gate),
                          .logits = aid_gpu_room(&g, ROUTE_ROWS * n * 4),
                          .open = aid_gpu_room(&g, ROUTE_ROWS * 4),
                          .route = aid_gpu_room(&g, ROUTE_ROWS * (size_t)K * 4),
                          .weight = aid_gpu_room(&g, ROUTE_ROWS * (size_t)K * 4)};
    aid_gpu_begin(&g);
    assert_ok(gpu_route_record(&a, &e), e);
    aid_gpu_end(&g);
    aid_gpu_get(&g, a.logits, logits, ROUTE_ROWS * n * 4);
    aid_gpu_get(&g, a.route, got, ROUTE_ROWS * (size_t)K * 4);
    aid_gpu_get(&g, a.weight, got_w, ROUTE_ROWS * (size_t)K * 4);
    for (int r = 0; r < ROUTE_ROWS; r++) {
        float *row = logits + (size_t)r * n, open;
        for (int ie = 0; ie < E; ie++)
            assert_int_equal(num_bits(row[ie]), num_bits(model_product(&router, ie, x + r * H)));
        aid_gpu_get(&g, a.open + (u64)r * 4, &open, 4);
        assert_int_equal(num_bits(open),
                         num_bits(model_product(&gate, 0, q + r * GPU_ACTS_BYTES(H))));
        choose(row, E, K, want);
        weigh(row, E, K, norm, want, want_w);
        assert_memory_equal(want, got + r * K, (size_t)K * 4);
        assert_memory_equal(want_w, got_w + r * K, (size_t)K * 4);
    }
    model_matrix_free(&router);
    model_matrix_free(&gate);
    mem_free(logits);
    aid_gpu_reset(&g);
}

static void routes_are_right(void **state)
{
    (void)state;
    route_is_right(8, 2, true);
    route_is_right(48, 10, false);
    route_is_right(512, 10, true);
    route_is_right(300, 64, false);
    route_is_right(5, 5, true);
    route_is_right(64, 1, true);
}

/* --- experts --- */

enum { EXPERTS = 5, K = 3, MOE_ROWS = 90 };

struct expert_model {
    struct model_matrix m[3]; /* gate, up, down */
};

/* The record of an expert as a store has it. */
static uint8_t *record_make(const struct expert_model *x, size_t *bytes)
{
    size_t codes = x->m[0].w_bytes, groups = (size_t)x->m[0].rows * (size_t)(x->m[0].cols / 64) * 2;
    uint8_t *r = mem_array(1, 3 * codes + 6 * groups);
    for (size_t i = 0; i < 3; i++) {
        memcpy(r + i * codes, x->m[i].w, codes);
        memcpy(r + 3 * codes + 2 * i * groups, x->m[i].scales, groups);
        memcpy(r + 3 * codes + (2 * i + 1) * groups, x->m[i].biases, groups);
    }
    *bytes = 3 * codes + 6 * groups;
    return r;
}

static u64 record_put(const struct expert_model *x)
{
    size_t bytes;
    uint8_t *r = record_make(x, &bytes);
    u64 at = aid_gpu_put(&g, r, bytes);
    mem_free(r);
    return at;
}

static void expert_init(struct expert_model *x, int bits, int h, int inter)
{
    model_matrix_init(&x->m[0], bits, inter, h);
    model_matrix_init(&x->m[1], bits, inter, h);
    model_matrix_init(&x->m[2], bits, h, inter);
}

static void expert_free(struct expert_model *x)
{
    for (int i = 0; i < 3; i++)
        model_matrix_free(&x->m[i]);
}

/* y[h] of a row of activations. */
static void expert_apply(const struct expert_model *x, const uint8_t *q, float *y)
{
    int inter = x->m[0].rows, h = x->m[0].cols;
    float act[1024];
    uint8_t a[GPU_ACTS_BYTES(1024)];
    for (int i = 0; i < inter; i++)
        act[i] = num_silu(model_product(&x->m[0], i, q)) * model_product(&x->m[1], i, q);
    model_quantise(act, inter, a);
    for (int o = 0; o < h; o++)
        y[o] = model_product(&x->m[2], o, a);
}

struct moe_model {
    int h, R;
    struct expert_model expert[EXPERTS], shared;
    uint8_t *q;
    u64 table[EXPERTS];
    u32 route[MOE_ROWS * K];
    float weight[MOE_ROWS * K], open[MOE_ROWS], *to;
};

/* same: bits of all records; 0: several */
static void moe_init(struct moe_model *m, int h, int inter, int shared_inter, int R, int same)
{
    const int bits[EXPERTS] = {same ? same : 4, same ? same : 3, same ? same : 2, 4,
                               same ? same : 3};
    static const u64 tag[5] = {0, 0, GPU_RECORD_Q2, GPU_RECORD_Q3, 0};
    size_t row = GPU_ACTS_BYTES((size_t)h);
    float *x = mem_array((size_t)h, 4);
    *m = (struct moe_model){.h = h, .R = R};
    m->q = mem_zalloc((size_t)R, row);
    m->to = mem_zalloc((size_t)R * (size_t)h, 4);
    for (int ie = 0; ie < EXPERTS; ie++) {
        expert_init(&m->expert[ie], bits[ie], h, inter);
        m->table[ie] = record_put(&m->expert[ie]) | tag[bits[ie]];
    }
    m->table[3] = 0; /* was cut */
    expert_init(&m->shared, 4, h, shared_inter);
    for (int r = 0; r < R; r++) {
        model_floats(x, (size_t)h);
        model_quantise(x, h, m->q + (size_t)r * row);
        m->open[r] = 0.3f * (float)(r - 2);
        for (int k = 0; k < K; k++) {
            m->route[r * K + k] = (u32)((r * 2 + k * 3) % EXPERTS);
            m->weight[r * K + k] = 0.5f / (float)(k + 1);
        }
    }
    mem_free(x);
}

static void moe_free(struct moe_model *m)
{
    for (int ie = 0; ie < EXPERTS; ie++)
        expert_free(&m->expert[ie]);
    expert_free(&m->shared);
    mem_free(m->q);
    mem_free(m->to);
}

static void moe_model_apply(struct moe_model *m)
{
    float *y = mem_array((size_t)m->h, 4);
    for (int r = 0; r < m->R; r++) {
        const uint8_t *q = m->q + (size_t)r * GPU_ACTS_BYTES((size_t)m->h);
        float *to = m->to + (size_t)r * (size_t)m->h;
        for (int k = 0; k <= K; k++) {
            u32 ie = k < K ? m->route[r * K + k] : 0;
            float w = k < K ? m->weight[r * K + k] : num_sigmoid(m->open[r]);
            if (k < K && m->table[ie] == 0)
                continue;
            expert_apply(k < K ? &m->expert[ie] : &m->shared, q, y);
            for (int o = 0; o < m->h; o++)
                to[o] = to[o] + w * y[o];
        }
    }
    mem_free(y);
}

/* Logits of which the routes are the choice, whose weights then are the model's. */
static void moe_logits(struct moe_model *m, float *logits)
{
    u32 want[K];
    for (int r = 0; r < m->R; r++) {
        float *row = logits + r * EXPERTS;
        for (int ie = 0; ie < EXPERTS; ie++)
            row[ie] = -1 - 0.01f * (float)(r * ie);
        for (int k = 0; k < K; k++)
            row[m->route[r * K + k]] = 2 - 0.7f * (float)k;
        choose(row, EXPERTS, K, want);
        assert_memory_equal(want, m->route + r * K, sizeof want);
        weigh(row, EXPERTS, K, true, want, m->weight + r * K);
    }
}

/* Experts 0, 2 and 4 become outputs that the host has computed, if rows use them. */
static void host_computes(struct moe_model *m, int inter)
{
    const size_t pairs = HOST_MOE_ROWS * K;
    float *to = mem_zalloc(pairs * (size_t)m->h, sizeof *to);
    uint8_t *record[EXPERTS] = {0};
    bool used[EXPERTS] = {0};
    struct host_moe *host;
    struct err e = {0};
    size_t bytes;
    assert_ok(host_moe_open(m->h, inter, K, 3, &host, &e), e);
    host_moe_rows(host, m->q, m->R);
    for (int ie = 0; ie < EXPERTS; ie += 2) {
        int pair[MOE_ROWS * K], n = 0;
        for (int i = 0; i < m->R * K; i++)
            if (m->route[i] == (u32)ie)
                pair[n++] = i;
        record[ie] = record_make(&m->expert[ie], &bytes);
        used[ie] = n > 0;
        if (n)
            host_moe_add(host, record[ie], m->expert[ie].m[0].bits, pair, n);
    }
    host_moe_run(host, to);
    const u64 at = aid_gpu_put(&g, to, pairs * (size_t)m->h * sizeof *to);
    for (int ie = 0; ie < EXPERTS; ie++) {
        m->table[ie] = used[ie] ? GPU_RECORD_HOST | at : m->table[ie];
        mem_free(record[ie]);
    }
    host_moe_close(host);
    mem_free(to);
}

enum moe_way { PLAIN, LATE, SHARED_OUT }; /* LATE: the choice is made on the way */

static void moe_is_right(int h, int inter, int shared_inter, int R, enum moe_way way, int same)
{
    const bool late = way == LATE;
    struct moe_model m;
    struct err e = {0};
    float logits[MOE_ROWS * EXPERTS];
    u32 route[MOE_ROWS * K];
    moe_init(&m, h, inter, shared_inter, R, same);
    size_t rows = (size_t)R, n = rows * (size_t)h;
    if (late)
        moe_logits(&m, logits);
    if (way == SHARED_OUT)
        host_computes(&m, inter);
    for (int i = 0; i < 3; i++)
        model_put(&g, &m.shared.m[i]);
    struct gpu_moe x = {
        .d = g.device,
        .t = g.tape,
        .R = R,
        .E = EXPERTS,
        .K = K,
        .h = h,
        .inter = inter,
        .shared_inter = shared_inter,
        .q = aid_gpu_put(&g, m.q, rows * GPU_ACTS_BYTES((size_t)h)),
        .table = aid_gpu_put(&g, m.table, sizeof m.table),
        .route = late ? aid_gpu_room(&g, rows * K * 4) : aid_gpu_put(&g, m.route, rows * K * 4),
        .weight = late ? aid_gpu_room(&g, rows * K * 4) : aid_gpu_put(&g, m.weight, rows * K * 4),
        .logits = late ? aid_gpu_put(&g, logits, rows * EXPERTS * 4) : 0,
        .open = aid_gpu_put(&g, m.open, rows * 4),
        .act = aid_gpu_room(&g, rows * K * GPU_ACTS_BYTES((size_t)inter)),
        .shared_act = aid_gpu_room(&g, rows * GPU_ACTS_BYTES((size_t)shared_inter)),
        .to = aid_gpu_room(&g, n * 4),
        .gate = matrix_of(&m.shared.m[0]),
        .up = matrix_of(&m.shared.m[1]),
        .down = matrix_of(&m.shared.m[2]),
        .bits = same,
        .host = way == SHARED_OUT,
        .far = R >= 24,
    };
    x.room = aid_gpu_room(&g, gpu_moe_room(&x));
    aid_gpu_begin(&g);
    assert_ok(gpu_moe_record(&x, &e), e);
    aid_gpu_end(&g);
    float *got = mem_array(n, 4);
    aid_gpu_get(&g, x.to, got, n * 4);
    aid_gpu_get(&g, x.route, route, rows * K * 4);
    assert_memory_equal(route, m.route, rows * K * 4);
    moe_model_apply(&m);
    for (size_t i = 0; i < n; i++)
        if (num_bits(got[i]) != num_bits(m.to[i]))
            fail_msg("h %d, inter %d, row %zu, column %zu: %.9g, want %.9g", h, inter,
                     i / (size_t)h, i % (size_t)h, (double)got[i], (double)m.to[i]);
    mem_free(got);
    moe_free(&m);
    aid_gpu_reset(&g);
}

static void experts_are_right(void **state)
{
    (void)state;
    moe_is_right(128, 64, 64, 1, PLAIN, 0);
    moe_is_right(192, 64, 128, 17, PLAIN, 0);
    moe_is_right(1024, 128, 64, 2, PLAIN, 0);
    moe_is_right(1280, 320, 320, 1, PLAIN, 0);
    moe_is_right(128, 64, 64, 1, LATE, 0);
    moe_is_right(192, 64, 128, 17, LATE, 0);
}

/* Some of them by the processor, the others by the device: the same bits. */
static void experts_on_the_host(void **state)
{
    (void)state;
    moe_is_right(192, 64, 128, 8, SHARED_OUT, 0);
    moe_is_right(1280, 320, 320, 3, SHARED_OUT, 0);
}

/* From some rows on they are sorted by expert, and go in tiles. */
static void experts_of_many_rows(void **state)
{
    (void)state;
    moe_is_right(128, 64, 64, 24, PLAIN, 0);
    moe_is_right(1088, 128, 64, 33, PLAIN, 0);
    moe_is_right(192, 192, 320, MOE_ROWS, PLAIN, 0);
    moe_is_right(192, 64, 64, 40, PLAIN, 4);
    moe_is_right(128, 64, 64, 24, PLAIN, 3);
    moe_is_right(128, 64, 64, 25, PLAIN, 2);
}

/* 8,192 rows of ten experts of 2,048 columns took 81,920 workgroups in a line, of which a device
 * promises 65,535: the tape stopped the process. */
static void activations_in_lines(void **state)
{
    (void)state;
    static const size_t rows[] = {1, 8192, 65535, 81920, 524288};
    static const int columns[] = {64, 640, 2048};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (size_t j = 0; j < sizeof columns / sizeof columns[0]; j++) {
            struct grid s = gpu_act_grid(rows[i], columns[j]);
            size_t items = rows[i] * (size_t)columns[j] / 8;
            assert_true(s.x <= 65535 && s.y <= 65535 && s.z == 1);
            assert_true((size_t)s.x * s.y * 256 >= items);
            assert_true((size_t)s.x * s.y * 256 < items + (size_t)(s.y + 1) * 256);
        }
}

/* The kernel with several lines, of which the last is not full. */
static void lines_follow_one_another(void **state)
{
    (void)state;
    enum { R = 11, N = 1024 };
    static float x[R * 2 * N];
    static uint8_t got[R * GPU_ACTS_BYTES(N)], want[R * GPU_ACTS_BYTES(N)];
    float y[N];
    model_floats(x, R * 2 * N);
    for (int r = 0; r < R; r++) {
        for (int i = 0; i < N; i++)
            y[i] = num_silu(x[2 * r * N + i]) * x[(2 * r + 1) * N + i];
        model_quantise(y, N, want + (size_t)r * GPU_ACTS_BYTES(N));
    }
    const struct moe_act_params p = {
        .x = aid_gpu_put(&g, x, sizeof x), .act = aid_gpu_room(&g, sizeof got), .n = N, .rows = R};
    aid_gpu_run(&g, aid_gpu_kernel(&g, "moe_act", NULL, 0), &p, sizeof p, (struct grid){2, 3, 1});
    aid_gpu_get(&g, p.act, got, sizeof got);
    assert_memory_equal(got, want, sizeof want);
    aid_gpu_reset(&g);
}

/* --- the best token --- */

static void best_is_right(int vocab, int limit, u32 want0, u32 want1)
{
    struct err e = {0};
    u32 none = 0xFFFFFFFF, got[2], bad;
    size_t n = (size_t)vocab, parts_bytes = gpu_best_room(2, vocab);
    float *x = mem_array(2 * n, 4);
    void *parts = mem_array(parts_bytes, 1);
    for (size_t i = 0; i < 2 * n; i++)
        x[i] = -3 - (float)(i * 7919 % 1000) / 1000;
    x[want0] = x[want0 + 1] = x[n - 1] = -1; /* a tie, and one that may not be chosen */
    x[n + want1] = 7;
    struct gpu_best b = {.d = g.device,
                         .t = g.tape,
                         .R = 2,
                         .vocab = vocab,
                         .limit = limit,
                         .first = 3,
                         .logits = aid_gpu_put(&g, x, n * 8),
                         .parts = aid_gpu_room(&g, parts_bytes),
                         .best = aid_gpu_room(&g, 8),
                         .bad = aid_gpu_put(&g, &none, 4)};
    for (int round = 0; round < 2; round++) {
        aid_gpu_begin(&g);
        assert_ok(gpu_best_record(&b, &e), e);
        aid_gpu_end(&g);
        aid_gpu_get(&g, b.best, got, 8);
        aid_gpu_get(&g, b.bad, &bad, 4);
        aid_gpu_get(&g, b.parts, parts, parts_bytes);
        for (int r = 0; !round && r < 2; r++) {
            const struct best of = gpu_best_of(parts, r, vocab);
            assert_true(of.hash == engine_logits_hash(x + (size_t)r * n, vocab));
            assert_int_equal(of.token, r ? want1 : want0);
        }
        assert_int_equal(got[0], want0);
        assert_int_equal(bad, round ? 3 + 1 : none);
        if (!round)
            assert_int_equal(got[1], want1);
        x[n - 1] = NAN; /* of row 1, behind the limit */
        aid_gpu_set(&g, b.logits + n * 8 - 4, &x[n - 1], 4);
    }
    mem_free(x);
    mem_free(parts);
    aid_gpu_reset(&g);
}

static void best_of_all_sizes(void **state)
{
    (void)state;
    best_is_right(320, 310, 17, 300);
    best_is_right(HEAD_PART, HEAD_PART - 1, 0, 1);
    best_is_right(301 * HEAD_PART + 4, 301 * HEAD_PART, 2 * HEAD_PART, 300 * HEAD_PART);
    best_is_right(3 * HEAD_PART + 5, 3 * HEAD_PART, HEAD_PART - 1, 2 * HEAD_PART);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(routes_are_right),     cmocka_unit_test(experts_are_right),
        cmocka_unit_test(experts_on_the_host),  cmocka_unit_test(experts_of_many_rows),
        cmocka_unit_test(activations_in_lines), cmocka_unit_test(lines_follow_one_another),
        cmocka_unit_test(best_of_all_sizes),
    };
    aid_gpu_needs_near_buffers();
    aid_gpu_open(&g);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    aid_gpu_close(&g);
    return failed;
}
