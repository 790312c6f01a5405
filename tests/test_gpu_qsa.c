/* Sparse attention on a device, from the heads of rows to the gated output, against the equations
 * in double; rows together as rows one by one, whatever chunks filled the cache, to the bit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gpu/mix.h"
#include "quant/kv8.h"
#include "tests/aid_gpu.h"
#include "tests/aid_gpu_model.h"
#include "tests/aid_test.h"

static struct aid_gpu g;

enum { ROWS = 17, SEQUENCES = 3, CACHE = 1, TOKENS = 330 };

struct shape {
    int n_heads, n_kv, head_dim, rot, index_heads, index_dim, ratio, budget;
    bool codes;
};

/* Inputs of all positions of all sequences, and the device's buffers. */
struct case_of {
    struct config c;
    bool codes;
    size_t q, k, index, cache, to; /* floats of a row; bytes of a cache; bytes of an output */
    float *in_q, *in_k, *in_v, *in_index; /* [SEQUENCES][TOKENS] rows */
    float *norm[4];                       /* q, k, index_q, index_k */
    struct gpu_segment base[SEQUENCES];
    struct qsa_prepare_params prepare;
    struct select_params select;
    struct attend_params attend;
    u64 rows, segments, bad;
};

static float *made_up(size_t n, u64 *at)
{
    float *x = mem_array(n, sizeof *x);
    model_floats(x, n);
    for (size_t i = 0; i < n; i++)
        x[i] = fmaxf(-3, fminf(3, x[i]));
    if (at)
        *at = aid_gpu_put(&g, x, n * sizeof *x);
    return x;
}

static void caches_init(struct case_of *x)
{
    const struct config *c = &x->c;
    u64 cells = TOKENS, k = cells * x->k, blocks = TOKENS / (u64)c->index_ratio + 1;
    u64 dim = (u64)c->index_dim;
    struct gpu_segment s = {.v = k, .k_scale = 2 * k, .cells = TOKENS, .blocks = (u32)blocks};
    s.v_scale = s.k_scale + k / 16;
    s.index = (s.v_scale + k / 16 + 15) / 16 * 16;
    s.block = s.index + cells * dim * 4;
    s.cache_bytes = s.block + blocks * dim * 4;
    x->cache = s.cache_bytes;
    for (int is = 0; is < SEQUENCES; is++) {
        s.cache = aid_gpu_room(&g, (CACHE + 1) * s.cache_bytes);
        s.score = aid_gpu_room(&g, ROWS * blocks * 4);
        x->base[is] = s;
    }
}

static void case_init(struct case_of *x, const struct shape *s)
{
    struct config *c = &x->c;
    *x = (struct case_of){.codes = s->codes};
    c->n_heads = s->n_heads, c->n_kv = s->n_kv, c->head_dim = s->head_dim, c->rot = s->rot;
    c->index_heads = s->index_heads, c->index_dim = s->index_dim;
    c->index_ratio = s->ratio, c->index_budget = s->budget;
    size_t heads = (size_t)s->n_heads, dim = (size_t)s->head_dim, all = SEQUENCES * TOKENS;
    x->q = 2 * heads * dim;
    x->k = (size_t)s->n_kv * dim;
    x->index = (size_t)(s->index_heads + 1) * (size_t)s->index_dim;
    x->to = s->codes ? GPU_ACTS_BYTES(heads * dim) : heads * dim * 4;
    x->in_q = made_up(all * x->q, NULL);
    x->in_k = made_up(all * x->k, NULL);
    x->in_v = made_up(all * x->k, NULL);
    x->in_index = made_up(all * x->index, NULL);
    struct qsa_prepare_params *p = &x->prepare;
    x->norm[0] = made_up(dim, &p->q_norm);
    x->norm[1] = made_up(dim, &p->k_norm);
    x->norm[2] = made_up((size_t)s->index_dim, &p->index_q_norm);
    x->norm[3] = made_up((size_t)s->index_dim, &p->index_k_norm);
    caches_init(x);
    size_t parts = ROWS * heads * (size_t)attend_parts(c) * 4;
    p->rows = x->rows = aid_gpu_room(&g, ROWS * sizeof(struct gpu_row));
    p->segments = x->segments = aid_gpu_room(&g, SEQUENCES * sizeof(struct gpu_segment));
    p->q = aid_gpu_room(&g, ROWS * x->q * 4);
    p->k = aid_gpu_room(&g, ROWS * x->k * 4);
    p->v = aid_gpu_room(&g, ROWS * x->k * 4);
    p->index = aid_gpu_room(&g, ROWS * x->index * 4);
    p->rope = aid_gpu_room(&g, ROWS * (size_t)s->rot * 4);
    p->rope_block = aid_gpu_room(&g, ROWS * (size_t)s->rot * 4);
    p->bad = x->bad = aid_gpu_put(&g, &(u32){UINT32_MAX}, 4);
    p->cache = CACHE, p->eps = 1e-6f;
    u64 chosen = aid_gpu_room(&g, ROWS * (size_t)(s->budget / s->ratio) * 4);
    x->select = (struct select_params){p->rows, p->segments, p->index, chosen, CACHE, 0};
    x->attend = (struct attend_params){.rows = p->rows,
                                       .segments = p->segments,
                                       .q = p->q,
                                       .chosen = chosen,
                                       .part_max = aid_gpu_room(&g, parts),
                                       .part_sum = aid_gpu_room(&g, parts),
                                       .part_out = aid_gpu_room(&g, parts * dim),
                                       .to = aid_gpu_room(&g, ROWS * x->to),
                                       .cache = CACHE};
}

static void case_free(struct case_of *x)
{
    float *all[] = {x->in_q,    x->in_k,    x->in_v,    x->in_index,
                    x->norm[0], x->norm[1], x->norm[2], x->norm[3]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        mem_free(all[i]);
    aid_gpu_reset(&g);
}

static double angle(int pos, int i, int rot)
{
    return pos * pow(10000, -2.0 * i / rot);
}

static void set_rope(const struct case_of *x, u64 to, int r, int pos)
{
    float rope[512];
    int half = x->c.rot / 2;
    for (int i = 0; i < half; i++) {
        rope[i] = (float)cos(angle(pos, i, x->c.rot));
        rope[half + i] = (float)sin(angle(pos, i, x->c.rot));
    }
    aid_gpu_set(&g, to + (u64)(r * x->c.rot) * 4, rope, (size_t)x->c.rot * 4);
}

/* A batch: the next n[is] tokens of each sequence from pos[is] on. */
struct rows {
    int pos[SEQUENCES], n[SEQUENCES];
};

static int set_rows(const struct case_of *x, const struct rows *b)
{
    const struct qsa_prepare_params *p = &x->prepare;
    struct gpu_segment segments[SEQUENCES];
    struct gpu_row rows[ROWS];
    int R = 0;
    for (int is = 0; is < SEQUENCES; is++) {
        segments[is] = x->base[is];
        segments[is].first = (u32)R, segments[is].n = (u32)b->n[is];
        for (int r = 0; r < b->n[is]; r++, R++) {
            int pos = b->pos[is] + r, ratio = x->c.index_ratio;
            size_t at = (size_t)(is * TOKENS + pos), to = (size_t)R * 4;
            rows[R] = (struct gpu_row){.pos = pos, .segment = (u32)is, .nth = (u32)r};
            aid_gpu_set(&g, p->q + to * x->q, x->in_q + at * x->q, x->q * 4);
            aid_gpu_set(&g, p->k + to * x->k, x->in_k + at * x->k, x->k * 4);
            aid_gpu_set(&g, p->v + to * x->k, x->in_v + at * x->k, x->k * 4);
            aid_gpu_set(&g, p->index + to * x->index, x->in_index + at * x->index, x->index * 4);
            set_rope(x, p->rope, R, pos);
            set_rope(x, p->rope_block, R, pos / ratio * ratio);
        }
    }
    aid_gpu_set(&g, x->rows, rows, (size_t)R * sizeof rows[0]);
    aid_gpu_set(&g, x->segments, segments, sizeof segments);
    return R;
}

static void fill(const struct case_of *x, const struct rows *b)
{
    struct err e = {0};
    const struct mix m = {g.device, g.tape, &x->c};
    int R = set_rows(x, b);
    aid_gpu_begin(&g);
    assert_ok(qsa_prepare(&m, &x->prepare, R, false, &e), e);
    aid_gpu_end(&g);
}

/* Tokens 0 .. len[is] - 1 into the caches, ROWS or fewer at a time. */
static void fill_up(const struct case_of *x, const int len[SEQUENCES], int chunk)
{
    for (int is = 0; is < SEQUENCES; is++)
        for (int pos = 0; pos < len[is]; pos += chunk) {
            struct rows b = {{0}, {0}};
            b.pos[is] = pos;
            b.n[is] = len[is] - pos < chunk ? len[is] - pos : chunk;
            fill(x, &b);
        }
}

static void attend(const struct case_of *x, const struct rows *b)
{
    struct err e = {0};
    const struct mix m = {g.device, g.tape, &x->c};
    int R = set_rows(x, b);
    aid_gpu_begin(&g);
    assert_ok(qsa_prepare(&m, &x->prepare, R, true, &e), e);
    tape_barrier(g.tape);
    assert_ok(select_blocks(&m, &x->select, R, TOKENS / x->c.index_ratio, &e), e);
    tape_barrier(g.tape);
    assert_ok(attend_rows(&m, &x->attend, R, TOKENS, x->codes, &e), e);
    aid_gpu_end(&g);
}

/* --- the equations --- */

/* rms, then rotation at pos. */
static void prepare_head(const struct case_of *x, const float *gamma, int n, int pos, double *v)
{
    double sum = 0;
    int half = x->c.rot / 2;
    for (int i = 0; i < n; i++)
        sum += v[i] * v[i];
    for (int i = 0; i < n; i++)
        v[i] = v[i] / sqrt(sum / n + x->prepare.eps) * gamma[i];
    for (int i = 0; i < half; i++) {
        double a = v[i], b = v[i + half], w = angle(pos, i, x->c.rot);
        v[i] = a * cos(w) - b * sin(w);
        v[i + half] = b * cos(w) + a * sin(w);
    }
}

static void widen(const float *from, int n, double *to)
{
    for (int i = 0; i < n; i++)
        to[i] = from[i];
}

/* Score of a block for the row at pos. */
static double score_of(const struct case_of *x, int is, int pos, int block)
{
    const struct config *c = &x->c;
    int n = c->index_dim;
    double key[512] = {0}, q[512], all = 0;
    for (int t = 0; t < c->index_ratio; t++) {
        const float *row =
            x->in_index + (size_t)(is * TOKENS + block * c->index_ratio + t) * x->index;
        for (int i = 0; i < n; i++)
            key[i] += (double)row[c->index_heads * n + i] / c->index_ratio;
    }
    prepare_head(x, x->norm[3], n, block * c->index_ratio, key);
    for (int ih = 0; ih < c->index_heads; ih++) {
        double dot = 0;
        widen(x->in_index + (size_t)(is * TOKENS + pos) * x->index + ih * n, n, q);
        prepare_head(x, x->norm[2], n, pos, q);
        for (int i = 0; i < n; i++)
            dot += q[i] * key[i];
        all += dot > 0 ? dot : 0;
    }
    return all / sqrt(n);
}

/* Checks what a row chose, and lists what it sees. */
static int visible_of(const struct case_of *x, int is, int pos, const u32 *chosen, int *visible)
{
    const struct config *c = &x->c;
    int complete = (pos + 1) / c->index_ratio, most = c->index_budget / c->index_ratio, n = 0;
    bool taken[TOKENS] = {false};
    double least = INFINITY;
    if (complete > most) {
        for (int i = 0; i < most; i++) {
            assert_true(chosen[i] < (u32)complete && (!i || chosen[i] > chosen[i - 1]));
            taken[chosen[i]] = true;
            least = fmin(least, score_of(x, is, pos, (int)chosen[i]));
            for (int t = 0; t < c->index_ratio; t++)
                visible[n++] = (int)chosen[i] * c->index_ratio + t;
        }
        for (int ib = 0; ib < complete; ib++)
            assert_true(taken[ib] || score_of(x, is, pos, ib) <= least + 1e-4);
    }
    for (int p = n ? complete * c->index_ratio : 0; p <= pos; p++)
        visible[n++] = p;
    return n;
}

/* A head of the cache, as its bytes have it, and how far they may be from what went in. */
static void cell_of(const struct case_of *x, const uint8_t *cache, bool key, int pos, int ik,
                    float *out)
{
    const struct gpu_segment *s = &x->base[0];
    size_t at = (size_t)pos * x->k + (size_t)(ik * x->c.head_dim);
    const void *scales = cache + (key ? s->k_scale : s->v_scale) + at / 16;
    kv8_decode_row((const int8_t *)cache + (key ? 0 : s->v) + at, scales, (size_t)x->c.head_dim,
                   out);
}

static void check_cell(const struct case_of *x, const uint8_t *cache, int is, int pos)
{
    float got[512];
    double want[512];
    int n = x->c.head_dim;
    for (int ik = 0; ik < 2 * x->c.n_kv; ik++) {
        bool key = ik < x->c.n_kv;
        int of = ik % x->c.n_kv;
        widen((key ? x->in_k : x->in_v) + (size_t)(is * TOKENS + pos) * x->k + of * n, n, want);
        if (key)
            prepare_head(x, x->norm[1], n, pos, want);
        cell_of(x, cache, key, pos, of, got);
        for (int i = 0; i < n; i++) {
            double most = 0;
            for (int j = i / 32 * 32; j < i / 32 * 32 + 32; j++)
                most = fmax(most, fabs(want[j]));
            assert_true(fabs(got[i] - want[i]) <= most * (0.501 / 127 + 0x1p-11));
        }
    }
}

/* What a row sees, in the cache of its sequence. */
struct view {
    const uint8_t *cache;
    int is, pos, n, visible[TOKENS];
};

/* out [head_dim] of one head of one row. */
static void attend_head(const struct case_of *x, const struct view *v, int head, double *out)
{
    const struct config *c = &x->c;
    int dim = c->head_dim, ik = head / (c->n_heads / c->n_kv);
    const float *in = x->in_q + (size_t)(v->is * TOKENS + v->pos) * x->q + head * 2 * dim;
    double q[512], sum = 0;
    float cell[512];
    widen(in, dim, q);
    prepare_head(x, x->norm[0], dim, v->pos, q);
    memset(out, 0, (size_t)dim * sizeof *out);
    for (int i = 0; i < v->n; i++) {
        double dot = 0;
        cell_of(x, v->cache, true, v->visible[i], ik, cell);
        for (int j = 0; j < dim; j++)
            dot += q[j] * cell[j];
        double w = exp(dot / sqrt(dim));
        cell_of(x, v->cache, false, v->visible[i], ik, cell);
        sum += w;
        for (int j = 0; j < dim; j++)
            out[j] += w * cell[j];
    }
    for (int j = 0; j < dim; j++)
        out[j] = out[j] / sum / (1 + exp(-(double)in[dim + j]));
}

static double output(const struct case_of *x, const uint8_t *row, int i)
{
    int n = x->c.n_heads * x->c.head_dim;
    return x->codes ? model_value(row, n, i) : ((const float *)(const void *)row)[i];
}

/* The worst difference of a row's output, but for its rounding. */
static double check_row(const struct case_of *x, const uint8_t *cache, int is, int pos,
                        const u32 *chosen, const uint8_t *to)
{
    struct view v = {.cache = cache, .is = is, .pos = pos};
    int dim = x->c.head_dim;
    v.n = visible_of(x, is, pos, chosen, v.visible);
    double worst = 0, want[512];
    for (int head = 0; head < x->c.n_heads; head++) {
        attend_head(x, &v, head, want);
        for (int j = 0; j < dim; j++) {
            int at = head * dim + j;
            double most = 0;
            for (int i = at / 64 * 64; x->codes && i < at / 64 * 64 + 64; i++)
                most = fmax(most, fabs(output(x, to, i)));
            worst = fmax(worst, fabs(output(x, to, at) - want[j]) - most / 32000);
        }
    }
    return worst;
}

/* --- tests --- */

static const struct shape shapes[] = {
    {4, 2, 64, 16, 4, 32, 4, 16, true},     {12, 1, 32, 8, 4, 32, 2, 32, true},
    {6, 2, 96, 48, 3, 48, 8, 64, true},     {5, 1, 256, 64, 16, 128, 4, 200, false},
    {24, 2, 256, 64, 4, 128, 4, 160, true}, {2, 2, 128, 128, 1, 200, 5, 300, true},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static const struct rows batch = {{320, 75, 0}, {9, 5, 3}};

struct left {
    uint8_t *cache[SEQUENCES], *to;
    u32 *chosen;
};

static struct left left_of(const struct case_of *x)
{
    size_t chosen = ROWS * (size_t)(x->c.index_budget / x->c.index_ratio);
    struct left l = {{NULL}, mem_array(ROWS, x->to), mem_array(chosen, 4)};
    aid_gpu_get(&g, x->attend.to, l.to, ROWS * x->to);
    aid_gpu_get(&g, x->select.chosen, l.chosen, chosen * 4);
    for (int is = 0; is < SEQUENCES; is++) {
        l.cache[is] = mem_array(1, x->cache);
        aid_gpu_get(&g, x->base[is].cache + CACHE * x->cache, l.cache[is], x->cache);
    }
    return l;
}

static void left_free(struct left *l)
{
    mem_free(l->to);
    mem_free(l->chosen);
    for (int is = 0; is < SEQUENCES; is++)
        mem_free(l->cache[is]);
}

static void rows_follow_the_equations(void **state)
{
    (void)state;
    double worst = 0;
    for (int i = 0; i < SHAPES; i++) {
        struct case_of x;
        u32 bad;
        case_init(&x, &shapes[i]);
        fill_up(&x, batch.pos, ROWS);
        attend(&x, &batch);
        struct left l = left_of(&x);
        for (int is = 0, R = 0; is < SEQUENCES; is++) {
            for (int pos = 0; pos < batch.pos[is] + batch.n[is]; pos++)
                check_cell(&x, l.cache[is], is, pos);
            for (int r = 0; r < batch.n[is]; r++, R++)
                worst = fmax(worst, check_row(&x, l.cache[is], is, batch.pos[is] + r,
                                              l.chosen + R * (x.c.index_budget / x.c.index_ratio),
                                              l.to + (size_t)R * x.to));
        }
        aid_gpu_get(&g, x.bad, &bad, sizeof bad);
        assert_int_equal(bad, UINT32_MAX);
        left_free(&l);
        case_free(&x);
    }
    printf("worst: %.2g from the equations (may be 2e-5)\n", worst);
    assert_true(worst < 2e-5);
}

static void same(const void *a, const void *b, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++)
        if (((const uint8_t *)a)[i] != ((const uint8_t *)b)[i])
            fail_msg("%s: byte %zu of %zu differs", what, i, n);
}

static void rows_alone_are_the_same(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        struct case_of x;
        case_init(&x, &shapes[i]);
        fill_up(&x, batch.pos, ROWS);
        attend(&x, &batch);
        struct left all = left_of(&x);
        for (int is = 0; is < SEQUENCES; is++) {
            uint8_t *zeros = mem_zalloc(CACHE + 1, x.cache);
            aid_gpu_set(&g, x.base[is].cache, zeros, (CACHE + 1) * x.cache);
            mem_free(zeros);
        }
        fill_up(&x, batch.pos, 4);
        for (int is = 0, R = 0; is < SEQUENCES; is++)
            for (int r = 0; r < batch.n[is]; r++, R++) {
                struct rows one = {{0}, {0}};
                one.pos[is] = batch.pos[is] + r;
                one.n[is] = 1;
                attend(&x, &one);
                struct left l = left_of(&x);
                same(l.to, all.to + (size_t)R * x.to, x.to, "output");
                left_free(&l);
            }
        struct left l = left_of(&x);
        for (int is = 0; is < SEQUENCES; is++)
            same(l.cache[is], all.cache[is], x.cache, "cache");
        left_free(&all);
        left_free(&l);
        case_free(&x);
    }
}

static void what_is_not_finite_is_noted(void **state)
{
    (void)state;
    struct case_of x;
    u32 bad;
    case_init(&x, &shapes[0]);
    x.in_v[(size_t)(TOKENS + 75 + 1) * x.k + 3] = NAN;
    x.in_v[(size_t)(TOKENS + 75 + 2) * x.k + 3] = INFINITY;
    fill(&x, &batch);
    aid_gpu_get(&g, x.bad, &bad, sizeof bad);
    assert_int_equal(bad, batch.n[0] + 1);
    case_free(&x);
}

/* --- choosing alone, from made-up scores --- */

static const float *ranked;

static int better(const void *a, const void *b)
{
    u32 i = *(const u32 *)a, j = *(const u32 *)b;
    return ranked[i] > ranked[j] ? -1 : ranked[i] < ranked[j] ? 1 : i < j ? -1 : 1;
}

static int ascending(const void *a, const void *b)
{
    u32 i = *(const u32 *)a, j = *(const u32 *)b;
    return i < j ? -1 : i > j;
}

/* n blocks whose scores have `levels` different values. */
static void choice_is_right(int n, int levels, u32 want)
{
    const u32 constants[] = {4, 4 * want};
    float *score = mem_array((size_t)n, 4);
    u32 *order = mem_array((size_t)n, 4), *got = mem_array(want, 4), seed = 1;
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        score[i] = (float)((seed >> 8) % (u32)levels) * 0.37f;
        order[i] = (u32)i;
    }
    const struct gpu_row row = {.pos = 4 * n + 1};
    const struct gpu_segment s = {.score = aid_gpu_put(&g, score, (size_t)n * 4), .blocks = (u32)n};
    const struct select_params p = {.rows = aid_gpu_put(&g, &row, sizeof row),
                                    .segments = aid_gpu_put(&g, &s, sizeof s),
                                    .chosen = aid_gpu_room(&g, want * 4)};
    aid_gpu_run(&g, aid_gpu_kernel(&g, "select", constants, 2), &p, sizeof p,
                (struct grid){1, 1, 1});
    aid_gpu_get(&g, p.chosen, got, want * 4);
    ranked = score;
    qsort(order, (size_t)n, sizeof *order, better);
    qsort(order, want, sizeof *order, ascending);
    same(got, order, want * 4, "chosen blocks");
    mem_free(score);
    mem_free(order);
    mem_free(got);
    aid_gpu_reset(&g);
}

static void ties_go_to_the_lower(void **state)
{
    (void)state;
    choice_is_right(9, 1, 8);
    choice_is_right(33, 3, 32);
    choice_is_right(1000, 5, 100);
    choice_is_right(4097, 1 << 20, 512);
    choice_is_right(65600, 40, 512); /* more than are marked at once */
    choice_is_right(140000, 1 << 22, 512);
    choice_is_right(70000, 1, 512);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ties_go_to_the_lower),
        cmocka_unit_test(rows_follow_the_equations),
        cmocka_unit_test(rows_alone_are_the_same),
        cmocka_unit_test(what_is_not_finite_is_noted),
    };
    aid_gpu_open(&g);
    int bad = cmocka_run_group_tests(tests, NULL, NULL);
    aid_gpu_close(&g);
    return bad;
}
