/* Reads of the residual on a device, bit for bit as the same chains of operations in C. */
#include "gpu/hyper.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "gpu/numbers.h"
#include "tests/aid_gpu_model.h"
#include "tests/aid_test.h"

static struct aid_gpu g;

/* One read of R rows, on the host. */
struct model {
    int R, S, h, low;
    float *hyper, *add, *inj, *gamma, *norm, *u, *mixed;
    uint8_t *norm_q, *low_q, *mixed_q;
    struct model_matrix down, up, inject;
};

static void model_init(struct model *m, int R, int S, int h, int low)
{
    const size_t rows = (size_t)R;
    size_t wide = (size_t)S * (size_t)h;
    *m = (struct model){.R = R, .S = S, .h = h, .low = low};
    m->hyper = mem_array(rows * wide, 4);
    m->add = mem_array(rows * (size_t)h, 4);
    m->inj = mem_array(rows * (size_t)S, 4);
    m->gamma = mem_array(wide, 4);
    m->norm = mem_array(wide, 4);
    m->u = mem_array(wide, 4);
    m->mixed = mem_array(rows * (size_t)h, 4);
    m->norm_q = mem_zalloc(1, GPU_ACTS_BYTES(wide));
    m->low_q = mem_zalloc(1, GPU_ACTS_BYTES((size_t)low));
    m->mixed_q = mem_zalloc(rows, GPU_ACTS_BYTES((size_t)h));
    model_floats(m->hyper, rows * wide);
    model_floats(m->add, rows * (size_t)h);
    model_floats(m->inj, rows * (size_t)S);
    model_floats(m->gamma, wide);
    model_matrix_init(&m->down, 4, low, (int)wide);
    model_matrix_init(&m->up, 4, (int)wide, low);
    model_matrix_init(&m->inject, 4, S, (int)wide);
}

static void model_free(struct model *m)
{
    void *all[] = {m->hyper, m->add,   m->inj,    m->gamma, m->norm,
                   m->u,     m->mixed, m->norm_q, m->low_q, m->mixed_q};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        mem_free(all[i]);
    model_matrix_free(&m->down);
    model_matrix_free(&m->up);
    model_matrix_free(&m->inject);
}

static float sum_squares(const float *x, int n)
{
    float lane[512] = {0};
    for (int i = 0; i < n; i++)
        lane[i / 8 % 512] += x[i] * x[i];
    for (int k = 256; k > 0; k /= 2)
        for (int i = 0; i < k; i++)
            lane[i] = lane[2 * i] + lane[2 * i + 1];
    return lane[0];
}

/* Row r: what the kernels do, one after another. */
static void model_read(struct model *m, int r)
{
    int S = m->S, h = m->h;
    size_t wide = (size_t)S * (size_t)h;
    float *hyper = m->hyper + (size_t)r * wide, *inj = m->inj + r * S, d[2048], by_S = 1 / (float)S;
    for (int ig = 0; ig < S; ig++) {
        float by = 2 * num_sigmoid(inj[ig] * by_S), *x = hyper + ig * h;
        for (int i = 0; i < h; i++)
            x[i] = x[i] + by * m->add[r * h + i];
        float scale = num_rsqrt(sum_squares(x, h) * (1 / (float)h) + 1e-6f);
        for (int i = 0; i < h; i++)
            m->norm[ig * h + i] = x[i] * scale * m->gamma[ig * h + i];
    }
    model_quantise(m->norm, (int)wide, m->norm_q);
    for (int o = 0; o < m->low; o++)
        d[o] = num_silu(model_product_runs(&m->down, o, m->norm_q, S) * by_S);
    for (int ig = 0; ig < S; ig++)
        inj[ig] = model_product_runs(&m->inject, ig, m->norm_q, S);
    model_quantise(d, m->low, m->low_q);
    for (int i = 0; i < h; i++) {
        float sum = 0;
        for (int ig = 0; ig < S; ig++) {
            float u = model_product(&m->up, ig * h + i, m->low_q);
            float y = num_sigmoid(u) * m->norm[ig * h + i];
            sum = ig ? sum + y : y;
        }
        m->mixed[r * h + i] = sum * by_S;
    }
    model_quantise(m->mixed + r * h, h, m->mixed_q + (size_t)r * GPU_ACTS_BYTES((size_t)h));
}

static void same(const char *what, u64 at, const void *want, size_t bytes)
{
    uint8_t *got = mem_array(bytes, 1);
    aid_gpu_get(&g, at, got, bytes);
    for (size_t i = 0; i < bytes; i++)
        if (got[i] != ((const uint8_t *)want)[i])
            fail_msg("%s: byte %zu is %d, want %d", what, i, got[i], ((const uint8_t *)want)[i]);
    mem_free(got);
}

/* Where they are so small that a device may have zeros, it may. */
static void same_floats(const char *what, u64 at, const float *want, size_t n)
{
    float *got = mem_array(n, 4);
    aid_gpu_get(&g, at, got, n * 4);
    for (size_t i = 0; i < n; i++)
        if (num_bits(got[i]) != num_bits(want[i]) && !(fabsf(got[i] - want[i]) < 1e-37f))
            fail_msg("%s: element %zu is %g, want %g", what, i, (double)got[i], (double)want[i]);
    mem_free(got);
}

static struct gpu_matrix matrix_of(const struct model_matrix *m)
{
    return (struct gpu_matrix){MATRIX_Q4, m->rows, m->cols, m->at_w, m->at_scales, m->at_biases};
}

static struct gpu_hyper hyper_of(struct model *m, struct gpu_matrix *inject)
{
    size_t rows = (size_t)m->R, h = (size_t)m->h, wide = (size_t)m->S * h;
    const u32 none = 0xFFFFFFFF;
    model_put(&g, &m->down);
    model_put(&g, &m->up);
    model_put(&g, &m->inject);
    *inject = matrix_of(&m->inject);
    return (struct gpu_hyper){
        .d = g.device,
        .t = g.tape,
        .R = m->R,
        .S = m->S,
        .h = m->h,
        .low = m->low,
        .first = 5,
        .eps = 1e-6f,
        .hyper = aid_gpu_put(&g, m->hyper, rows * wide * 4),
        .add = aid_gpu_put(&g, m->add, rows * h * 4),
        .inj = aid_gpu_put(&g, m->inj, rows * (size_t)m->S * 4),
        .gamma = aid_gpu_put(&g, m->gamma, wide * 4),
        .norm_x = aid_gpu_room(&g, rows * wide * 4),
        .norm_q = aid_gpu_room(&g, rows * GPU_ACTS_BYTES(wide)),
        .low_x = aid_gpu_room(&g, gpu_hyper_low_floats(m->R, m->S, m->low) * 4),
        .to_x = aid_gpu_room(&g, rows * h * 4),
        .to_q = aid_gpu_room(&g, rows * GPU_ACTS_BYTES(h)),
        .bad = aid_gpu_put(&g, &none, 4),
        .down = matrix_of(&m->down),
        .up = matrix_of(&m->up),
        .inject = inject,
    };
}

static void read_as(bool many, int R, int S, int h, int low)
{
    struct model m;
    struct gpu_matrix inject;
    struct err e = {0};
    const u32 none = 0xFFFFFFFF;
    model_init(&m, R, S, h, low);
    const size_t rows = (size_t)R;
    struct gpu_hyper x = hyper_of(&m, &inject);
    x.many = many;
    x.room = aid_gpu_room(&g, gpu_hyper_room(&x));
    aid_gpu_begin(&g);
    assert_ok(gpu_hyper_record(&x, &e), e);
    aid_gpu_end(&g);
    for (int r = 0; r < R; r++)
        model_read(&m, r);
    same("hyper", x.hyper, m.hyper, rows * (size_t)S * (size_t)h * 4);
    same("inj", x.inj, m.inj, rows * (size_t)S * 4);
    same_floats("mixed", x.to_x, m.mixed, rows * (size_t)h);
    same("mixed, as activations", x.to_q, m.mixed_q, rows * GPU_ACTS_BYTES((size_t)h));
    same("bad", x.bad, &none, 4);
    model_free(&m);
    aid_gpu_reset(&g);
}

static void read_is_right(int R, int S, int h, int low)
{
    read_as(false, R, S, h, low);
}

static void reads_of_all_shapes(void **state)
{
    (void)state;
    read_is_right(1, 4, 128, 64);
    read_is_right(3, 2, 64, 128);
    read_is_right(2, 3, 320, 192);
    read_is_right(3, 4, 640, 320);
    read_is_right(2, 5, 960, 64);
}

/* Norms and products have dispatches of their own, in tiles. */
static void reads_of_many_rows(void **state)
{
    (void)state;
    read_as(true, 2, 3, 576, 64);
    read_as(true, 17, 3, 192, 64);
    read_as(true, 35, 4, 320, 320);
    read_is_right(17, 2, 128, 64);
    read_is_right(65, 2, 64, 64);
}

static void streams_of_more_eights_than_lanes(void **state)
{
    (void)state;
    read_as(false, 1, 2, 4160, 64);
    read_as(true, 1, 2, 4160, 64);
}

/* The add alone; rows with something that is not finite are noted, the lowest of them. */
static void what_is_not_finite_is_noted(void **state)
{
    (void)state;
    struct model m;
    struct gpu_matrix inject;
    struct err e = {0};
    u32 bad;
    model_init(&m, 3, 2, 128, 64);
    m.add[1 * 128 + 77] = INFINITY;
    m.add[2 * 128 + 3] = NAN;
    struct gpu_hyper x = hyper_of(&m, &inject);
    aid_gpu_begin(&g);
    assert_ok(gpu_hyper_record_add(&x, &e), e);
    aid_gpu_end(&g);
    model_read(&m, 0);
    same("hyper", x.hyper, m.hyper, 2 * 128 * 4);
    aid_gpu_get(&g, x.bad, &bad, 4);
    assert_int_equal(bad, 5 + 1);
    model_free(&m);
    aid_gpu_reset(&g);
}

int main(void)
{
    aid_gpu_needs_near_buffers();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_of_all_shapes),
        cmocka_unit_test(reads_of_many_rows),
        cmocka_unit_test(streams_of_more_eights_than_lanes),
        cmocka_unit_test(what_is_not_finite_is_noted),
    };
    aid_gpu_open(&g);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    aid_gpu_close(&g);
    return failed;
}
