/* The small arithmetic of the reference engine against long double, and at its edges. */
#include "tests/aid_test.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "quant/lowbit.h"
#include "reference/arith.h"
#include "model/matrix.h"
#include "reference/linear.h"

enum { MOST = 300 };

static void fill(float *x, int n, uint64_t seed)
{
    for (int i = 0; i < n; i++)
        x[i] = (float)(rng_unit_at(seed, (uint64_t)i) * 8 - 4);
}

/* Products of floats are exact in f64, so a dot of n terms is off by less than n roundings of
 * it. */
static void test_dot(void **state)
{
    float a[MOST], b[MOST];
    (void)state;
    for (int n = 0; n < MOST; n++) {
        long double want = 0, size = 0;
        fill(a, n, 2 * (uint64_t)n);
        fill(b, n, 2 * (uint64_t)n + 1);
        for (int i = 0; i < n; i++) {
            want += (long double)a[i] * (long double)b[i];
            size += fabsl((long double)a[i] * (long double)b[i]);
        }
        assert_true(fabsl(arith_dot(a, b, n) - want) <= (long double)n * DBL_EPSILON * size);
    }
}

/* The order is fixed: element i goes to sum i % 8, and the sums are added as a tree. With terms
 * that absorb one another every other order gives another value. */
static void test_dot_order(void **state)
{
    float a[11], ones[11];
    double s[8] = {0};
    (void)state;
    for (int i = 0; i < 11; i++) {
        a[i] = ldexpf(1.5F, (i * 37 % 11) * 20 - 100);
        ones[i] = i % 2 ? -1 : 1;
    }
    for (int i = 0; i < 11; i++)
        s[i % 8] += (double)a[i] * (double)ones[i];
    double want = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
    double got = arith_dot(a, ones, 11);
    assert_memory_equal(&got, &want, sizeof got);
}

static void test_activations(void **state)
{
    static const float at[] = {-1e30F, -200, -89, -20, -1,  -1e-8F, 0,
                               1e-8F,  0.5F, 20,  89,  200, 1e30F};
    (void)state;
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        long double x = at[i], e = expl(-x), sigmoid = 1 / (1 + e);
        long double soft = x > 100 ? x : log1pl(expl(x));
        assert_true(fabsl(arith_sigmoid(at[i]) - sigmoid) <= sigmoid * FLT_EPSILON + FLT_MIN);
        assert_true(fabsl(arith_softplus(at[i]) - soft) <= soft * FLT_EPSILON + FLT_MIN);
        assert_true(fabsl(arith_silu(at[i]) - x * sigmoid) <=
                    fabsl(x * sigmoid) * FLT_EPSILON + FLT_MIN);
        assert_true(isfinite(arith_silu(at[i])));
    }
}

static void test_softmax(void **state)
{
    float x[MOST], far[3] = {-3e38F, 3e38F, 0}, one[1] = {-5};
    double sum = 0;
    (void)state;
    fill(x, MOST, 5);
    arith_softmax(x, MOST);
    for (int i = 0; i < MOST; i++)
        sum += (double)x[i];
    assert_true(fabs(sum - 1) < 1e-6);
    arith_softmax(far, 3);
    assert_true(far[0] == 0 && far[1] == 1 && far[2] == 0);
    arith_softmax(one, 1);
    assert_true(one[0] == 1);
}

static void test_norms(void **state)
{
    float x[6] = {3, 4, 0, 0, -1, 1}, gamma[6] = {1, 2, 3, 4, 5, 6}, out[6], l2[2] = {3, 4};
    const struct norm each = {gamma, 2, 3, 0, 0}, shared = {gamma, 2, 3, 1, 0};
    double first = 1 / sqrt(25.0 / 3), second = 1 / sqrt(2.0 / 3);
    (void)state;
    arith_rms(&each, x, out);
    assert_true(fabs((double)out[1] - 4 * first * 2) < 1e-6);
    assert_true(fabs((double)out[5] - 1 * second * 6) < 1e-6);
    arith_rms(&shared, x, out);
    assert_true(fabs((double)out[5] - 1 * second * 3) < 1e-6);
    arith_rms(&each, x, x);
    assert_true(fabs((double)x[4] + second * 5) < 1e-6);
    arith_l2(l2, 2, 10);
    assert_true(fabs((double)l2[0] - 6) < 1e-5 && fabs((double)l2[1] - 8) < 1e-5);
}

/* A rotation keeps lengths, does nothing at position 0, and two rotations of the same vector differ
 * by an angle that depends on the distance alone; dims behind rot stay as they are. */
static void test_rope(void **state)
{
    enum { ROT = 8, DIM = 12 };
    float freq[ROT / 2], x[DIM], a[DIM], b[DIM], c[DIM], d[DIM];
    (void)state;
    arith_rope_freq(10000, ROT, freq);
    assert_true(freq[0] == 1 && fabs((double)freq[1] - 0.1) < 1e-8);
    fill(x, DIM, 9);
    memcpy(a, x, sizeof x);
    arith_rope(freq, ROT, 0, a);
    assert_memory_equal(a, x, sizeof x);
    memcpy(b, x, sizeof x);
    memcpy(c, x, sizeof x);
    memcpy(d, x, sizeof x);
    arith_rope(freq, ROT, 3, a);
    arith_rope(freq, ROT, 10, b);
    arith_rope(freq, ROT, 103, c);
    arith_rope(freq, ROT, 110, d);
    assert_true(fabs(arith_dot(a, a, DIM) - arith_dot(x, x, DIM)) < 1e-4);
    assert_true(fabs(arith_dot(a, b, DIM) - arith_dot(c, d, DIM)) < 1e-3);
    assert_memory_equal(a + ROT, x + ROT, (DIM - ROT) * sizeof *x);
}

static void test_top(void **state)
{
    static const float x[] = {2, 5, 5, -1, 5, 0};
    uint8_t taken[6];
    int best[6];
    (void)state;
    arith_top(x, 6, 4, taken, best);
    assert_true(best[0] == 1 && best[1] == 2 && best[2] == 4 && best[3] == 0);
    assert_true(taken[0] && taken[1] && taken[2] && !taken[3] && taken[4] && !taken[5]);
    arith_top(x, 6, 6, taken, best);
    assert_true(best[4] == 5 && best[5] == 3);
    arith_top(x, 6, 0, taken, best);
    assert_true(!taken[1]);
}

static void test_finite(void **state)
{
    float x[9] = {0};
    (void)state;
    assert_true(arith_finite(x, 9) && arith_finite(x, 0));
    x[8] = INFINITY;
    assert_true(!arith_finite(x, 9) && arith_finite(x, 8));
    x[8] = NAN;
    assert_false(arith_finite(x, 9));
}

/* Rows of a matrix in each form: the values that the form says, also when it is asked for one
 * row. */
static void test_rows(void **state)
{
    enum { ROWS = 3, COLS = 64 };
    static const struct {
        enum matrix_format format;
        float value; /* of code 7, with scale 2 and bias -1 */
    } forms[] = {{MATRIX_Q4, 13}, {MATRIX_Q3, 12}, {MATRIX_Q2, 10}};
    uint8_t codes[ROWS * COLS / 2];
    uint16_t scales[ROWS], biases[ROWS], bf16[ROWS * COLS];
    float room[COLS], f32[ROWS * COLS], x[COLS], out[ROWS];
    (void)state;
    memset(codes, 0x77, sizeof codes);
    for (int r = 0; r < ROWS; r++) {
        scales[r] = 0x4000;
        biases[r] = 0xBF80;
    }
    for (size_t i = 0; i < 3; i++) {
        uint8_t low[sizeof codes];
        struct matrix m = {forms[i].format, ROWS, COLS, codes, scales, biases, COLS};
        if (forms[i].format != MATRIX_Q4) {
            lowbit_from_q4(forms[i].format == MATRIX_Q3 ? 3 : 2, codes, ROWS * COLS, low);
            m.w = low;
        }
        for (int j = 0; j < COLS; j++)
            assert_true(matrix_row(&m, ROWS - 1, room)[j] == forms[i].value);
    }
    for (int i = 0; i < ROWS * COLS; i++) {
        bf16[i] = (uint16_t)(0x3F80 + (i / COLS) * 0x80); /* 1, 2, 4 */
        f32[i] = (float)(i / COLS);
    }
    struct matrix wide = {.format = MATRIX_BF16, .rows = ROWS, .cols = COLS, .w = bf16};
    assert_true(matrix_row(&wide, 2, room)[COLS - 1] == 4);
    wide = (struct matrix){.format = MATRIX_F32, .rows = ROWS, .cols = COLS, .w = f32};
    for (int j = 0; j < COLS; j++)
        x[j] = 1;
    linear_apply(&wide, x, room, out);
    assert_true(out[0] == 0 && out[1] == COLS && out[2] == 2 * COLS);
    linear_rows(&wide, 2, 1, x, room, out);
    assert_true(out[0] == 2 * COLS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dot),         cmocka_unit_test(test_dot_order),
        cmocka_unit_test(test_activations), cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_norms),       cmocka_unit_test(test_rope),
        cmocka_unit_test(test_top),         cmocka_unit_test(test_finite),
        cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
