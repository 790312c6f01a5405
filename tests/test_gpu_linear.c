/* Activations and products on a device, bit for bit as the same chains of operations in C. */
#include "gpu/linear.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "gpu/numbers.h"
#include "tests/aid_gpu_model.h"
#include "tests/aid_test.h"

static struct aid_gpu g;

static struct gpu_linear linear_of(u64 x, u64 q, int R)
{
    return (struct gpu_linear){g.device, g.tape, x, q, R, 0};
}

static void numbers_are_near(void **state)
{
    (void)state;
    double worst[3] = {0}, u = ldexp(1, -24);
    for (int i = 1; i <= 200000; i++) {
        float x = -87.3f * (float)i / 200000, y = 1 + (float)i / 50000;
        double off[3] = {num_exp(x) / exp((double)x) - 1, num_reciprocal(y) * (double)y - 1,
                         num_rsqrt(y) * sqrt((double)y) - 1};
        for (int k = 0; k < 3; k++)
            worst[k] = fmax(worst[k], fabs(off[k]) / u);
    }
    printf("worst: exp %.2f, reciprocal %.2f, rsqrt %.2f of 2^-24 (may be 2)\n", worst[0], worst[1],
           worst[2]);
    for (int k = 0; k < 3; k++)
        assert_true(worst[k] <= 2);
    assert_true(isnan(num_sigmoid(NAN)) && isnan(num_silu(NAN)) && !isfinite(num_silu(INFINITY)));
    assert_true(fabsf(num_sigmoid(200) - 1) < 2e-7f && num_sigmoid(-200) == 0);
    assert_true(num_order(-1) < num_order(-0.0f) && num_order(-0.0f) == num_order(0));
    assert_true(num_order(0) < num_order(1e-30f) && num_order(1) < num_order(INFINITY));
}

/* What is odd in a group: nothing, tiny, huge, a code at the edge of two bytes, not finite. */
static void odd_groups(float *x, int n)
{
    for (int i = 0; i < 64; i++) {
        x[i] *= 1e-32f;
        if (n >= 320) {
            x[128 + i] *= 1e30f;
            x[192 + i] = i == 5 ? 1.984375f : i == 6 ? -1.984375f : 0.0078125f * (float)i;
        }
        if (n >= 640)
            x[320 + i] = i == 63 ? INFINITY : 1;
    }
}

static void rows_are_quantised(void **state)
{
    (void)state;
    static const int sizes[] = {64, 128, 320, 640, 2560, 10240};
    double worst = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        int n = sizes[s], R = 3;
        size_t bytes = GPU_ACTS_BYTES((size_t)n), row = (size_t)n;
        float *x = mem_array(row * 3, 4);
        uint8_t *want = mem_zalloc(3, bytes), *got = mem_array(3, bytes);
        model_floats(x, row * 3);
        odd_groups(x + row, n);
        struct gpu_linear l =
            linear_of(aid_gpu_put(&g, x, row * 12), aid_gpu_room(&g, 3 * bytes), R);
        struct err e = {0};
        aid_gpu_begin(&g);
        assert_ok(gpu_linear_quantise(&l, n, &e), e);
        aid_gpu_end(&g);
        aid_gpu_get(&g, l.q, got, 3 * bytes);
        for (int r = 0; r < R; r++)
            model_quantise(x + (size_t)r * row, n, want + (size_t)r * bytes);
        for (int i = 0; i < n; i++) { /* the model itself: half a step of 2^-14 of the largest */
            float most = 0;
            for (int k = i / 64 * 64; k < i / 64 * 64 + 64; k++)
                most = fmaxf(most, fabsf(x[k]));
            if (most > 0)
                worst = fmax(worst, fabs(model_value(want, n, i) - x[i]) / most * 32512);
        }
        for (size_t i = 0; i < 3 * bytes; i++)
            if (got[i] != want[i] && !isnan(*(float *)(want + i / 4 * 4)))
                fail_msg("%d elements: byte %zu is %d, want %d", n, i, got[i], want[i]);
        mem_free(x);
        mem_free(want);
        mem_free(got);
        aid_gpu_reset(&g);
    }
    printf("worst: an element is off by %.3f of 1/32512 of its group's largest (may be 1)\n",
           worst);
    assert_true(worst <= 1);
}

enum { ROWS_MAX = 70 }; /* of inputs, or as many as are multiplied */

static enum matrix_format format_of(int bits)
{
    return bits == 32   ? MATRIX_F32
           : bits == 16 ? MATRIX_BF16
           : bits == 4  ? MATRIX_Q4
           : bits == 3  ? MATRIX_Q3
                        : MATRIX_Q2;
}

/* A list of matrices times R rows, all of them against the model; form: NULL or how. */
static void list_is_right_as(const int *bits, const int *rows, int n, int cols, int R,
                             const struct gpu_linear_form *form)
{
    const int n_rows = R > ROWS_MAX ? R : ROWS_MAX;
    const size_t all = (size_t)n_rows;
    struct model_matrix m[5];
    struct gpu_product p[5];
    struct err e = {0};
    size_t row = GPU_ACTS_BYTES((size_t)cols);
    float *x = mem_array((size_t)cols * all, 4), *y = mem_array((size_t)R * 700, 4);
    uint8_t *q = mem_zalloc(row * all, 1);
    model_floats(x, (size_t)cols * all);
    for (int r = 0; r < n_rows && cols % 64 == 0; r++)
        model_quantise(x + (size_t)r * (size_t)cols, cols, q + (size_t)r * row);
    struct gpu_linear l =
        linear_of(aid_gpu_put(&g, x, (size_t)cols * all * 4), aid_gpu_put(&g, q, row * all), R);
    for (int i = 0; i < n; i++) {
        model_matrix_init(&m[i], bits[i], rows[i], cols);
        model_put(&g, &m[i]);
        p[i] = (struct gpu_product){
            {format_of(bits[i]), rows[i], cols, m[i].at_w, m[i].at_scales, m[i].at_biases},
            aid_gpu_room(&g, (size_t)R * (size_t)(rows[i] + i) * 4 - (size_t)i * 4),
            rows[i] + i};
    }
    aid_gpu_begin(&g);
    assert_ok(gpu_linear_record_as(&l, p, n, form, &e), e);
    aid_gpu_end(&g);
    for (int i = 0; i < n; i++) {
        size_t stride = (size_t)p[i].stride;
        aid_gpu_get(&g, p[i].to, y, ((size_t)(R - 1) * stride + (size_t)rows[i]) * 4);
        for (int r = 0; r < R; r++)
            for (int o = 0; o < rows[i]; o++) {
                const void *from = bits[i] > 4 ? (void *)(x + (size_t)r * (size_t)cols)
                                               : (void *)(q + (size_t)r * row);
                float want = model_product(&m[i], o, from), got = y[(size_t)r * stride + (size_t)o];
                if (num_bits(want) != num_bits(got))
                    fail_msg("%d bits, %d x %d, row %d of %d, output %d: %.9g, want %.9g", bits[i],
                             rows[i], cols, r, R, o, (double)got, (double)want);
            }
        for (int r = 0; r + 1 < R; r++) /* between rows */
            for (int k = 0; k < i; k++)
                assert_true(y[(size_t)r * stride + (size_t)(rows[i] + k)] == 0);
        model_matrix_free(&m[i]);
    }
    mem_free(x);
    mem_free(y);
    mem_free(q);
    aid_gpu_reset(&g);
}

static void list_is_right(const int *bits, const int *rows, int n, int cols, int R)
{
    list_is_right_as(bits, rows, n, cols, R, NULL);
}

static void products_of_every_format(void **state)
{
    (void)state;
    static const int cols[] = {64, 128, 320, 640, 2560, 10240}, bits[] = {4, 3, 2, 16, 32};
    static const int rows[] = {1, 33, 130, 67, 5};
    for (size_t c = 0; c < sizeof cols / sizeof cols[0]; c++)
        list_is_right(bits, rows, 5, cols[c], c % 2 ? 1 : 2);
}

/* In passes of up to eight. */
static void products_of_one_to_seventeen_rows(void **state)
{
    (void)state;
    static const int bits[] = {4, 4, 4, 4, 4}, rows[] = {65, 1, 48, 17, 9};
    static const int low[] = {3, 2, 16};
    for (int R = 1; R <= 17; R += R < 5 ? 1 : 4) {
        list_is_right(bits, rows, 1 + R % 5, R % 2 ? 1280 : 192, R);
        list_is_right(low, rows, 3, 128, R);
    }
}

static void products_in_tiles(void **state)
{
    (void)state;
    static const int bits[] = {4, 4, 3, 2}, rows[] = {66, 1, 65, 64};
    static const struct gpu_linear_form tiles[] = {{0, 16, 0}, {0, 32, 0}, {0, 64, 0}};
    list_is_right_as(bits, rows, 4, 192, 13, &tiles[0]);
    list_is_right_as(bits, rows, 4, 1088, 16, &tiles[0]);
    list_is_right_as(bits, rows, 4, 192, 33, &tiles[1]);
    list_is_right_as(bits, rows, 4, 192, 70, &tiles[2]);
    list_is_right_as(bits + 3, rows + 1, 1, 4160, 12, &tiles[0]);
    list_is_right_as(bits, rows, 4, 64, 24, &tiles[1]);
}

/* What fills the device goes in tiles by itself: 699 outputs in 58 passes. */
static void products_of_many_rows(void **state)
{
    (void)state;
    static const int bits[] = {4, 16, 32}, rows[] = {699, 5, 3};
    list_is_right(bits, rows, 1, 64, 460);
    list_is_right(bits + 1, rows + 1, 2, 64, 49);
}

/* Forms that a software device does not take by itself, more or fewer rows than they are for. */
static void products_in_every_form(void **state)
{
    (void)state;
    static const int bits[] = {4, 3}, rows[] = {67, 2};
    static const struct gpu_linear_form forms[] = {{1, 1, 5}, {2, 1, 2}, {2, 4, 1}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        list_is_right_as(bits, rows, 1 + (i == 1), i == 1 ? 320 : 1408, 3, &forms[i]);
}

static void floats_of_any_length(void **state)
{
    (void)state;
    static const int cols[] = {1, 7, 8, 9, 33, 255, 260, 1003}, bits[] = {16, 32}, rows[] = {37, 3};
    for (size_t c = 0; c < sizeof cols / sizeof cols[0]; c++)
        list_is_right(bits, rows, 2, cols[c], 3);
}

int main(void)
{
    aid_gpu_needs_near_buffers();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_near),
        cmocka_unit_test(rows_are_quantised),
        cmocka_unit_test(products_of_every_format),
        cmocka_unit_test(products_of_one_to_seventeen_rows),
        cmocka_unit_test(products_in_tiles),
        cmocka_unit_test(products_of_many_rows),
        cmocka_unit_test(products_in_every_form),
        cmocka_unit_test(floats_of_any_length),
    };
    aid_gpu_open(&g);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    aid_gpu_close(&g);
    return failed;
}
