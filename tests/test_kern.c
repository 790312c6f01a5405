/* Quantised products: every tier gives the bits of the reference tier, whatever the shape, the
 * number of rows, the range of outputs or the rows chosen; and the reference stays within the
 * quantisation error of the exact product. All arrays end at a forbidden page. */
#include "aid_kern.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "quant/half.h"
#include "quant/lowbit.h"
#include "quant/q4.h"

enum { R_MAX = 64, ROWS_MAX = 13 };

static const int all_cols[] = {64, 128, 192, 256, 320, 448, 512, 640, 704, 832, 1088, 2560};
static const int all_R[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 31, 64};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static struct kern tier[AID_TIERS_MAX];
static const char *tier_name[AID_TIERS_MAX];
static int n_tiers;

static int setup(void **state)
{
    (void)state;
    n_tiers = aid_kern_tiers(tier, tier_name);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    aid_guarded_free();
    return 0;
}

static void init_acts(struct kern_acts *a, int R, int n)
{
    a->n = n;
    a->records = aid_guarded((size_t)R * kern_acts_bytes(n));
    memset(a->records, 0, (size_t)R * kern_acts_bytes(n));
    a->sum = aid_guarded((size_t)R * n / KERN_GROUP * sizeof *a->sum);
}

/* Acts of R rows of n values, as the reference quantises them. */
static void make_acts(struct kern_acts *a, int R, int n, enum aid_values kind)
{
    float *x = aid_guarded((size_t)R * n * sizeof *x);
    aid_values(kind, (uint64_t)(n + 7 * R), x, (size_t)R * n);
    init_acts(a, R, n);
    tier[0].quantise(x, 0, R, a);
}

/* Any codes; weights of about `size`. */
static void make_matrix(struct kern_matrix *m, int bits, int rows, int cols, float size)
{
    size_t bytes = (size_t)rows * cols / 8 * bits, groups = (size_t)rows * cols / KERN_GROUP;
    uint8_t *codes = aid_guarded(bytes);
    uint16_t *scales = aid_guarded(groups * sizeof *scales);
    uint16_t *biases = aid_guarded(groups * sizeof *biases);
    uint64_t seed = (uint64_t)(bits * 1000003 + cols);
    for (size_t i = 0; i < bytes; i++)
        codes[i] = (uint8_t)(i % 97 < 16 ? 0xFF : rng_at(seed, i)); /* also runs of the largest */
    for (size_t g = 0; g < groups; g++) {
        double s = rng_unit_at(seed + 1, g) - 0.4;
        scales[g] = bf16_from_f32((float)(s * size / 4));
        biases[g] = bf16_from_f32((float)(-s * size * (1 + rng_unit_at(seed + 2, g))));
    }
    *m = (struct kern_matrix){bits, rows, cols, codes, scales, biases};
}

static void test_quantise(void **state)
{
    (void)state;
    for (int n = 64; n <= 1344; n += 64) {
        for (int kind = 0; kind < AID_VALUES; kind++) {
            struct kern_acts want, got;
            float *x = aid_guarded((size_t)3 * n * sizeof *x);
            aid_values(kind, (uint64_t)n, x, (size_t)3 * n);
            init_acts(&want, 3, n);
            init_acts(&got, 3, n);
            tier[0].quantise(x, 0, 3, &want);
            for (int t = 0; t < n_tiers; t++) {
                size_t row = kern_acts_bytes(n);
                memset(got.records, 0, 3 * row);
                memset(got.records, 0x55, kern_record_at(n));
                tier[t].quantise(x, 1, 3, &got); /* the first row on its own: rows do not meet */
                assert_int_equal(got.records[kern_record_at(n) - 1], 0x55);
                tier[t].quantise(x, 0, 1, &got);
                assert_memory_equal(got.records, want.records, 3 * row);
                assert_int_equal(aid_differ(got.sum, want.sum, (size_t)3 * n / KERN_GROUP), -1);
            }
            aid_guarded_free();
        }
    }
}

/* Codes times scales are the values again, within half a step. */
static void test_quantise_error(void **state)
{
    (void)state;
    enum { n = 704 };
    double worst = 0;
    for (int kind = 0; kind < AID_VALUES; kind++) {
        struct kern_acts a;
        float x[n];
        aid_values(kind, 5, x, n);
        init_acts(&a, 1, n);
        tier[0].quantise(x, 0, 1, &a);
        for (int i = 0; i < n; i++) {
            double scale = (double)*kern_scale(&a, 0, i);
            double off = fabs((double)x[i] - *kern_code(&a, 0, i) * scale);
            if (scale == 0) {
                assert_true(fabsf(x[i]) < 0x1p-100f);
                continue;
            }
            worst = off / scale > worst ? off / scale : worst;
        }
    }
    print_message("worst: %.7f of a step, allowed 0.50002\n", worst);
    assert_true(worst <= 0.50002 && worst > 0.49);
}

/* All rows and outputs in one call, against the reference. */
static void check_product(const struct kern_matrix *m, const struct kern_acts *a, int R)
{
    size_t n = (size_t)R * m->rows;
    float *want = aid_guarded(n * sizeof *want), *got = aid_guarded(n * sizeof *got);
    struct kern_input x = {a, NULL, R};
    struct kern_output to = {want, (size_t)m->rows, 0, m->rows};
    tier[0].product(m, &x, &to);
    to.to = got;
    for (int t = 1; t < n_tiers; t++) {
        memset(got, 0xFF, n * sizeof *got);
        tier[t].product(m, &x, &to);
        long at = aid_differ(got, want, n);
        if (at >= 0)
            fail_msg("%s, %d bits, %d columns, %d rows: row %ld output %ld is %a, want %a",
                     tier_name[t], m->bits, m->cols, R, at / m->rows, at % m->rows, (double)got[at],
                     (double)want[at]);
    }
}

static void test_product_shapes(void **state)
{
    (void)state;
    for (int bits = 2; bits <= 4; bits++) {
        for (size_t c = 0; c < COUNT(all_cols); c++) {
            for (size_t r = 0; r < COUNT(all_R); r++) {
                struct kern_matrix m;
                struct kern_acts a;
                int rows = 1 + (int)((c + r) % 9);
                make_matrix(&m, bits, rows, all_cols[c], 0.1f);
                make_acts(&a, all_R[r], all_cols[c], AID_NORMAL);
                check_product(&m, &a, all_R[r]);
                aid_guarded_free();
            }
        }
    }
}

static void test_product_extremes(void **state)
{
    (void)state;
    static const float sizes[] = {0, 1e-38f, 1e-20f, 1, 1e6f};
    for (int bits = 2; bits <= 4; bits++) {
        for (int kind = 0; kind < AID_VALUES; kind++) {
            for (size_t s = 0; s < COUNT(sizes); s++) {
                struct kern_matrix m;
                struct kern_acts a;
                make_matrix(&m, bits, 6, 448, sizes[s]);
                make_acts(&a, 9, 448, kind);
                check_product(&m, &a, 9);
                aid_guarded_free();
            }
        }
    }
}

/* One call for a range of outputs and some of the rows: must leave what one call for all gives,
 * and touch nothing else. */
static void check_part(const struct kern *k, const struct kern_matrix *m, const struct kern_acts *a,
                       const float *want, uint64_t seed)
{
    enum { untouched = 0x5A5A5A5A };
    int rows[R_MAX], R = 1 + (int)(rng_at(seed, 0) % R_MAX);
    int o0 = (int)(rng_at(seed, 1) % m->rows),
        o1 = o0 + (int)(rng_at(seed, 2) % (m->rows - o0 + 1));
    int listed = seed % 4 != 0;
    size_t stride = (size_t)m->rows + seed % 3, n = (size_t)(R - 1) * stride + m->rows;
    uint32_t *got = aid_guarded(n * sizeof *got);
    for (size_t i = 0; i < n; i++)
        got[i] = untouched;
    for (int j = 0; j < R; j++)
        rows[j] = listed ? (int)(rng_at(seed, (uint64_t)(10 + j)) % R_MAX) : j;
    struct kern_input x = {a, listed ? rows : NULL, R};
    k->product(m, &x, &(struct kern_output){(float *)got, stride, o0, o1});
    for (int j = 0; j < R; j++) {
        for (int o = 0; o < m->rows; o++) {
            uint32_t u = untouched;
            if (o >= o0 && o < o1)
                memcpy(&u, &want[rows[j] * m->rows + o], sizeof u);
            assert_int_equal(got[j * stride + o], u);
        }
    }
}

static void test_product_parts(void **state)
{
    (void)state;
    static const int cols[] = {64, 640, 896, 1280};
    for (int t = 0; t < n_tiers; t++) {
        for (int bits = 2; bits <= 4; bits++) {
            for (size_t c = 0; c < COUNT(cols); c++) {
                struct kern_matrix m;
                struct kern_acts a;
                float want[R_MAX * ROWS_MAX];
                make_matrix(&m, bits, ROWS_MAX, cols[c], 0.1f);
                make_acts(&a, R_MAX, cols[c], AID_OUTLIERS);
                tier[t].product(&m, &(struct kern_input){&a, NULL, R_MAX},
                                &(struct kern_output){want, ROWS_MAX, 0, ROWS_MAX});
                for (uint64_t seed = 0; seed < (t ? 40 : 4); seed++)
                    check_part(&tier[t], &m, &a, want, seed);
                aid_guarded_free();
            }
        }
    }
}

/* --- activations of 16 bits --- */

/* Any codes, among them the largest; scales are powers of two. */
static void make_acts16(struct kern_acts16 *x, int n, int lanes, uint64_t seed)
{
    const size_t groups = (size_t)n / KERN_GROUP;
    int8_t *codes = aid_guarded(kern_acts16_bytes(n));
    float *scale = aid_guarded(groups * sizeof *scale), *sum = aid_guarded(groups * sizeof *sum);
    memset(codes, 0, kern_acts16_bytes(n));
    for (int i = 0; i < n; i++) {
        const uint64_t any = rng_at(seed, (uint64_t)i);
        codes[kern_code16_at(i)] = (int8_t)(any % 5 ? (int)(any >> 8 & 255) % 255 - 127 : 127);
        codes[kern_code16_at(i) + KERN_PART] = (int8_t)(any % 5 ? (int)(any >> 16 & 255) : -128);
    }
    for (size_t g = 0; g < groups; g++) {
        scale[g] = ldexpf(1, (int)(rng_at(seed + 1, g) % 9) - 14);
        sum[g] = (float)(rng_unit_at(seed + 2, g) - 0.5) * (g % 7 ? 30 : 0);
    }
    *x = (struct kern_acts16){n, lanes, codes, scale, sum};
}

static void check_product16(const struct kern_matrix *m, const struct kern_acts16 *x)
{
    const int o0 = m->rows / 3;
    float *want = aid_guarded((size_t)m->rows * sizeof *want);
    float *got = aid_guarded((size_t)(m->rows - o0) * sizeof *got);
    tier[0].product16(m, x, 0, m->rows, want);
    for (int t = 0; t < n_tiers; t++) {
        memset(got, 0xFF, (size_t)(m->rows - o0) * sizeof *got);
        tier[t].product16(m, x, o0, m->rows, got);
        if (memcmp(got, want + o0, (size_t)(m->rows - o0) * sizeof *got) != 0)
            fail_msg("%s, %d bits, %d columns, %d lanes: other bits than the reference",
                     tier_name[t], m->bits, m->cols, x->lanes);
    }
}

static void test_product16(void **state)
{
    (void)state;
    for (int bits = 2; bits <= 4; bits++)
        for (size_t c = 0; c < COUNT(all_cols); c++)
            for (int lanes = 2; lanes <= 32; lanes *= 4) {
                struct kern_matrix m;
                struct kern_acts16 x;
                make_matrix(&m, bits, 1 + (int)(c % 9), all_cols[c], 0.1f);
                make_acts16(&x, all_cols[c], lanes, c);
                check_product16(&m, &x);
                aid_guarded_free();
            }
}

/* --- against exact products --- */

static void decode_row(const struct kern_matrix *m, int o, float *w)
{
    size_t n = (size_t)m->cols, row = (size_t)o * n / KERN_GROUP;
    const uint8_t *codes = m->codes + (size_t)o * n / 8 * m->bits;
    if (m->bits == 4)
        q4_decode_row(codes, m->scales + row, m->biases + row, n, KERN_GROUP, w);
    else if (m->bits == 3)
        q3_decode_row(codes, m->scales + row, m->biases + row, n, KERN_GROUP, w);
    else
        q2_decode_row(codes, m->scales + row, m->biases + row, n, KERN_GROUP, w);
}

/* What quantised activations may add to an output: half a step for each, times its weight; plus the
 * rounding of f32 sums of code * scale and bias apart. */
static double allowed_error(const struct kern_matrix *m, int o, const float *w, const float *x,
                            const struct kern_acts *a, int r)
{
    double step = 0, size = 0;
    for (int i = 0; i < m->cols; i++) {
        double bias = (double)bf16_to_f32(m->biases[(o * m->cols + i) / KERN_GROUP]);
        double coded = fabs((double)w[i] - bias);
        step += fabs((double)w[i]) * 0.5001 * (double)*kern_scale(a, r, i);
        size += (coded + fabs(bias)) * fabs((double)x[i]);
    }
    return step + 4e-6 * size;
}

/* The worst share of what is allowed, over some outputs. */
static double exact_share(int bits, int cols, enum aid_values kind)
{
    enum { R = 3, rows = 5 };
    struct kern_matrix m;
    struct kern_acts a;
    float x[R * 2560], w[2560], out[R * rows];
    double worst = 0;
    make_matrix(&m, bits, rows, cols, 0.1f);
    aid_values(kind, (uint64_t)cols, x, (size_t)R * cols);
    init_acts(&a, R, cols);
    tier[0].quantise(x, 0, R, &a);
    tier[0].product(&m, &(struct kern_input){&a, NULL, R},
                    &(struct kern_output){out, rows, 0, rows});
    for (int o = 0; o < rows; o++) {
        decode_row(&m, o, w);
        for (int r = 0; r < R; r++) {
            double exact = 0;
            for (int i = 0; i < cols; i++)
                exact += (double)w[i] * (double)x[r * cols + i];
            double off = fabs((double)out[r * rows + o] - exact);
            double allowed = allowed_error(&m, o, w, x + r * cols, &a, r);
            worst = off / allowed > worst ? off / allowed : worst;
        }
    }
    return worst;
}

static void test_product_exact(void **state)
{
    (void)state;
    static const enum aid_values kinds[] = {AID_NORMAL, AID_OUTLIERS, AID_ENDS, AID_MIXED};
    double worst = 0;
    for (int bits = 2; bits <= 4; bits++) {
        for (size_t c = 0; c < COUNT(all_cols); c++) {
            for (size_t i = 0; i < COUNT(kinds); i++) {
                double share = exact_share(bits, all_cols[c], kinds[i]);
                worst = share > worst ? share : worst;
                aid_guarded_free();
            }
        }
    }
    print_message("worst: %.3f of the activations' quantisation error allowed\n", worst);
    assert_true(worst < 1 && worst > 0);
}

/* A value that is not finite makes every output of its row so, and no other row's. */
static void test_product_not_finite(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t b = 0; b < COUNT(bad); b++) {
        for (int at = 0; at < 320; at += 37) {
            float x[3 * 320], out[3 * 6];
            struct kern_matrix m;
            struct kern_acts a;
            make_matrix(&m, 4, 6, 320, 0.1f);
            aid_values(AID_NORMAL, 3, x, 3 * 320);
            x[320 + at] = bad[b];
            init_acts(&a, 3, 320);
            struct kern_acts want;
            init_acts(&want, 3, 320);
            tier[0].quantise(x, 0, 3, &want);
            for (int t = 0; t < n_tiers; t++) {
                tier[t].quantise(x, 0, 3, &a);
                assert_memory_equal(a.records, want.records, 3 * kern_acts_bytes(320));
                tier[t].product(&m, &(struct kern_input){&a, NULL, 3},
                                &(struct kern_output){out, 6, 0, 6});
                for (int i = 0; i < 3 * 6; i++)
                    assert_int_equal(!isfinite(out[i]), i / 6 == 1);
            }
            aid_guarded_free();
        }
    }
}

/* --- bf16 --- */

static void check_bf16(int n, int rows, int R)
{
    uint16_t *w = aid_guarded((size_t)rows * n * sizeof *w);
    float *x = aid_guarded((size_t)R * n * sizeof *x), out[R_MAX * ROWS_MAX],
          want[R_MAX * ROWS_MAX];
    struct kern_output to = {want, (size_t)rows, 0, rows};
    aid_values(AID_OUTLIERS, (uint64_t)n, x, (size_t)R * n);
    for (size_t i = 0; i < (size_t)rows * n; i++)
        w[i] = bf16_from_f32((float)(rng_unit_at(8, i) - 0.5));
    tier[0].product_bf16(w, n, x, R, &to);
    for (int t = 1; t < n_tiers; t++) {
        to.to = out;
        tier[t].product_bf16(w, n, x, R, &to);
        if (aid_differ(out, want, (size_t)R * rows) >= 0)
            fail_msg("%s: bf16, %d columns, %d rows", tier_name[t], n, R);
        for (int r = 0; r < R; r++) /* row by row, output by output */
            for (int o = 0; o < rows; o++)
                tier[t].product_bf16(w, n, x + (size_t)r * n, 1,
                                     &(struct kern_output){out + r * rows, 0, o, o + 1});
        assert_int_equal(aid_differ(out, want, (size_t)R * rows), -1);
    }
    for (int i = 0; i < R * rows; i++) {
        double exact = 0, size = 0;
        for (int j = 0; j < n; j++) {
            double p = (double)bf16_to_f32(w[i % rows * n + j]) * (double)x[i / rows * n + j];
            exact += p;
            size += fabs(p);
        }
        assert_true(fabs((double)want[i] - exact) <= 4e-6 * size);
    }
    aid_guarded_free();
}

static void test_bf16(void **state)
{
    (void)state;
    for (int n = 1; n < 70; n++)
        check_bf16(n, 1 + n % ROWS_MAX, 1 + n % 9);
    for (size_t r = 0; r < COUNT(all_R); r++)
        check_bf16(640 + 16 * (int)r, ROWS_MAX, all_R[r]);
    check_bf16(2560, 4, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_quantise, teardown),
        cmocka_unit_test_teardown(test_quantise_error, teardown),
        cmocka_unit_test_teardown(test_product_shapes, teardown),
        cmocka_unit_test_teardown(test_product_extremes, teardown),
        cmocka_unit_test_teardown(test_product_parts, teardown),
        cmocka_unit_test_teardown(test_product16, teardown),
        cmocka_unit_test_teardown(test_product_exact, teardown),
        cmocka_unit_test_teardown(test_product_not_finite, teardown),
        cmocka_unit_test_teardown(test_bf16, teardown),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
