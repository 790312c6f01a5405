/* Float kernels: every tier gives the bits of the reference tier for every length, an element's
 * bits do not depend on its place, and the reference is as near to exact values as kern.h says. All
 * arrays end at a forbidden page. */
#include "aid_kern.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "quant/half.h"
#include "quant/kv8.h"

enum { N_MAX = 2560 };

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

static float *values(enum aid_values kind, uint64_t seed, int n)
{
    float *x = aid_guarded((size_t)n * sizeof *x);
    aid_values(kind, seed, x, (size_t)n);
    return x;
}

/* Every length a tail can have, and real ones. */
static int next_length(int n)
{
    return n < 140 ? n + 1 : n < 640 ? 640 : n < N_MAX ? N_MAX : N_MAX + 1;
}

/* --- sums --- */

static void test_sums(void **state)
{
    (void)state;
    static const enum aid_values kinds[] = {AID_NORMAL, AID_ENDS, AID_MIXED, AID_ZEROS};
    for (int n = 0; n <= N_MAX; n = next_length(n)) {
        for (size_t kind = 0; kind < COUNT(kinds); kind++) {
            float *a = values(kinds[kind], 1, n), *b = values(kinds[kind], 2, n);
            float dot = tier[0].dot(a, b, n), squares = tier[0].sum_squares(a, n);
            double exact = 0, size = 0;
            for (int i = 0; i < n; i++) {
                exact += (double)a[i] * (double)b[i];
                size += fabs((double)a[i] * (double)b[i]);
            }
            assert_true(fabs((double)dot - exact) <= 3e-6 * size);
            for (int t = 1; t < n_tiers; t++) {
                float got[2] = {tier[t].dot(a, b, n), tier[t].sum_squares(a, n)};
                assert_int_equal(aid_differ(got, (float[]){dot, squares}, 2), -1);
            }
            aid_guarded_free();
        }
    }
}

static void test_max(void **state)
{
    (void)state;
    for (int n = 1; n <= N_MAX; n = next_length(n)) {
        float *x = values(AID_NORMAL, (uint64_t)n, n);
        for (int i = 0; i < n; i++)
            x[i] -= 9; /* a tail filled with zeros would show */
        for (int at = 0; at < n; at += 1 + n / 5) {
            float was = x[at];
            x[at] = -0.5f;
            for (int t = 0; t < n_tiers; t++)
                assert_true(tier[t].max(x, n) == -0.5f);
            x[at] = was;
        }
        aid_guarded_free();
    }
}

/* --- element by element: each in a form that changes x, given y and z --- */

typedef void change(const struct kern *k, float *x, const float *y, const float *z, int n);

static void do_scale_mul(const struct kern *k, float *x, const float *y, const float *z, int n)
{
    k->scale_mul(y, 0.37f, z, n, x);
}

static void do_scale_mul_in_place(const struct kern *k, float *x, const float *y, const float *z,
                                  int n)
{
    (void)z;
    k->scale_mul(x, -3.1f, y, n, x);
}

static void do_add_scaled(const struct kern *k, float *x, const float *y, const float *z, int n)
{
    (void)z;
    k->add_scaled(x, y, 1.0f / 3, n);
}

static void do_add_product(const struct kern *k, float *x, const float *y, const float *z, int n)
{
    k->add_product(x, y, z, n);
}

static void do_sigmoid(const struct kern *k, float *x, const float *y, const float *z, int n)
{
    (void)y;
    (void)z;
    k->sigmoid(x, n);
}

static void do_silu(const struct kern *k, float *x, const float *y, const float *z, int n)
{
    (void)y;
    (void)z;
    k->silu(x, n);
}

static void do_silu_mul(const struct kern *k, float *x, const float *y, const float *z, int n)
{
    (void)z;
    k->silu_mul(x, y, n);
}

static void do_add_gated(const struct kern *k, float *x, const float *y, const float *z, int n)
{
    k->add_gated(x, y, z, n);
}

static void do_exp_sum(const struct kern *k, float *x, const float *y, const float *z, int n)
{
    (void)y;
    (void)z;
    for (int i = 0; i < n; i++) /* at most the largest */
        x[i] = -fabsf(x[i]);
    k->exp_sum(x, 0, n);
}

static const struct {
    const char *name;
    change *run;
} changes[] = {
    {"scale_mul", do_scale_mul},
    {"scale_mul in place", do_scale_mul_in_place},
    {"add_scaled", do_add_scaled},
    {"add_product", do_add_product},
    {"sigmoid", do_sigmoid},
    {"silu", do_silu},
    {"silu_mul", do_silu_mul},
    {"add_gated", do_add_gated},
    {"exp_sum's elements", do_exp_sum},
};

static void test_elements(void **state)
{
    (void)state;
    static const enum aid_values kinds[] = {AID_NORMAL, AID_OUTLIERS, AID_ENDS, AID_MIXED,
                                            AID_TINY};
    for (size_t c = 0; c < COUNT(changes); c++) {
        for (int n = 0; n <= N_MAX; n = next_length(n)) {
            enum aid_values kind = kinds[n % (int)COUNT(kinds)];
            float *want = values(kind, 1, n), *y = values(kind, 2, n), *z = values(kind, 3, n);
            changes[c].run(&tier[0], want, y, z, n);
            for (int t = 1; t < n_tiers; t++) {
                float *got = values(kind, 1, n);
                changes[c].run(&tier[t], got, y, z, n);
                long at = aid_differ(got, want, (size_t)n);
                if (at >= 0)
                    fail_msg("%s, %s: element %ld of %d is %a, want %a", changes[c].name,
                             tier_name[t], at, n, (double)got[at], (double)want[at]);
            }
            aid_guarded_free();
        }
    }
}

/* One at a time, elements have the bits they have together. */
static void test_places(void **state)
{
    (void)state;
    enum { n = 77 };
    for (size_t c = 0; c < COUNT(changes); c++) {
        for (int t = 0; t < n_tiers; t++) {
            float *all = values(AID_NORMAL, 1, n), *one = values(AID_NORMAL, 1, n);
            float *y = values(AID_NORMAL, 2, n), *z = values(AID_NORMAL, 3, n);
            changes[c].run(&tier[t], all, y, z, n);
            for (int i = 0; i < n; i++)
                changes[c].run(&tier[t], one + i, y + i, z + i, 1);
            assert_int_equal(aid_differ(one, all, n), -1);
            aid_guarded_free();
        }
    }
}

/* --- exp --- */

/* How many units in the last place of the exact value v is away from it. */
static double ulps(float v, double exact)
{
    double unit = ldexp(1, ilogb(exact) - 23);
    return fabs((double)v - exact) / unit;
}

static double exact_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* Every 977th float from 2^-30 to 87.3, both signs; results that are not denormal. */
static void test_sigmoid_accuracy(void **state)
{
    (void)state;
    double worst[3] = {0};
    uint32_t from, to;
    memcpy(&from, &(float){0x1p-30f}, sizeof from);
    memcpy(&to, &(float){87.3f}, sizeof to);
    for (uint32_t u = from; u < to; u += 977) {
        float x;
        memcpy(&x, &u, sizeof x);
        for (int sign = 0; sign < 2; sign++, x = -x) {
            float s = x, w = x, e = -fabsf(x);
            tier[n_tiers - 1].sigmoid(&s, 1);
            tier[n_tiers - 1].silu(&w, 1);
            tier[n_tiers - 1].exp_sum(&e, 0, 1);
            double exact = exact_sigmoid((double)x);
            double off[3] = {ulps(s, exact), ulps(w, exact * (double)x),
                             ulps(e, exp(-fabs((double)x)))};
            for (int i = 0; i < 3; i++)
                worst[i] = off[i] > worst[i] ? off[i] : worst[i];
        }
    }
    print_message("worst: sigmoid %.2f, silu %.2f, exp %.2f ulp, allowed 3\n", worst[0], worst[1],
                  worst[2]);
    assert_true(worst[0] < 3 && worst[1] < 3 && worst[2] < 3 && worst[2] > 0.4);
}

static void test_sigmoid_ends(void **state)
{
    (void)state;
    for (int t = 0; t < n_tiers; t++) {
        float x[] = {0, -0.0f, 88, -88, 1e30f, -1e30f, INFINITY, -INFINITY, NAN};
        float w[COUNT(x)], e[] = {0, -87.3f, -87.4f, -1e30f, -INFINITY, NAN};
        memcpy(w, x, sizeof x);
        tier[t].sigmoid(x, COUNT(x));
        tier[t].silu(w, COUNT(x));
        tier[t].exp_sum(e, 0, COUNT(e));
        assert_true(x[0] == 0.5f && x[1] == 0.5f && x[2] == 1 && x[3] == 0 && x[4] == 1);
        assert_true(x[5] == 0 && x[6] == 1 && x[7] == 0 && isnan(x[8]));
        assert_true(w[0] == 0 && w[1] == 0 && w[2] == 88 && w[3] == 0 && w[4] == 1e30f);
        assert_true(w[5] == 0 && isinf(w[6]) && isnan(w[7]) && isnan(w[8]));
        assert_true(e[0] == 1 && e[1] > 0 && e[2] == 0 && e[3] == 0 && e[4] == 0 && isnan(e[5]));
    }
}

static void test_exp_sum(void **state)
{
    (void)state;
    for (int n = 1; n <= N_MAX; n = next_length(n)) {
        float *x = values(AID_OUTLIERS, 4, n), most = tier[0].max(x, n);
        double exact = 0;
        for (int i = 0; i < n; i++)
            exact += exp((double)x[i] - (double)most);
        float want = tier[0].exp_sum(x, most, n);
        assert_true(fabs((double)want - exact) <= 1e-6 * exact);
        for (int t = 1; t < n_tiers; t++) {
            float got = tier[t].exp_sum(values(AID_OUTLIERS, 4, n), most, n);
            assert_int_equal(aid_differ(&got, &want, 1), -1);
        }
        aid_guarded_free();
    }
}

/* --- DeltaNet --- */

struct head {
    struct kern_delta d;
    float *from, *to;
};

static void make_head(struct head *h, int dk, int dv)
{
    h->d = (struct kern_delta){dk,
                               dv,
                               values(AID_NORMAL, 1, dk),
                               values(AID_NORMAL, 2, dk),
                               values(AID_NORMAL, 3, dv),
                               0.93f,
                               0.4f,
                               values(AID_ZEROS, 0, dv),
                               values(AID_ZEROS, 0, dv)};
    h->from = values(AID_NORMAL, 4, dk * dv);
    h->to = values(AID_ZEROS, 0, dk * dv);
}

/* Into another array, in place, and again from the delta that was kept. */
static void check_head(int t, const struct head *want, int dk, int dv)
{
    struct head got;
    size_t n = (size_t)dk * (size_t)dv;
    make_head(&got, dk, dv);
    tier[t].delta_step(got.from, got.to, &got.d);
    if (aid_differ(got.to, want->to, n) >= 0 || aid_differ(got.d.y, want->d.y, (size_t)dv) >= 0 ||
        aid_differ(got.d.delta, want->d.delta, (size_t)dv) >= 0)
        fail_msg("%s, a head of %d x %d", tier_name[t], dk, dv);
    tier[t].delta_replay(got.from, got.to, &got.d);
    assert_int_equal(aid_differ(got.to, want->to, n), -1);
    tier[t].delta_step(got.from, got.from, &got.d);
    assert_int_equal(aid_differ(got.from, want->to, n), -1);
    assert_int_equal(aid_differ(got.d.y, want->d.y, (size_t)dv), -1);
}

/* The equations in f64. */
static double head_error(const struct head *h)
{
    const struct kern_delta *d = &h->d;
    double worst = 0;
    for (int j = 0; j < d->dv; j++) {
        double m = 0, y = 0, size = 0;
        for (int i = 0; i < d->dk; i++)
            m += (double)d->decay * (double)h->from[i * d->dv + j] * (double)d->k[i];
        double delta = (double)d->beta * ((double)d->v[j] - m);
        for (int i = 0; i < d->dk; i++) {
            double st = (double)d->decay * (double)h->from[i * d->dv + j] + (double)d->k[i] * delta;
            y += st * (double)d->q[i];
            size += fabs(st * (double)d->q[i]);
        }
        double off = fabs(y - (double)d->y[j]) / (size + 1e-30);
        worst = off > worst ? off : worst;
    }
    return worst;
}

static void test_delta(void **state)
{
    (void)state;
    double worst = 0;
    for (int dv = 1; dv <= 160; dv = dv < 40 ? dv + 1 : dv + 8) {
        struct head want;
        int dk = dv == 128 ? 128 : 1 + dv % 19;
        make_head(&want, dk, dv);
        tier[0].delta_step(want.from, want.to, &want.d);
        double off = head_error(&want);
        worst = off > worst ? off : worst;
        for (int t = 0; t < n_tiers; t++)
            check_head(t, &want, dk, dv);
        aid_guarded_free();
    }
    print_message("worst: %.2g of the sum of magnitudes, allowed 1e-5\n", worst);
    assert_true(worst < 1e-5);
}

/* --- the 8-bit cache --- */

static void check_kv8(int n, int H)
{
    int8_t *codes = aid_guarded((size_t)n);
    uint16_t *scales = aid_guarded((size_t)n / KV8_GROUP * sizeof *scales);
    struct kern_kv8 row = {codes, scales};
    float *v = values(AID_NORMAL, 1, n), *decoded = values(AID_ZEROS, 0, n);
    float *x = values(AID_OUTLIERS, 2, H * n), *w = values(AID_NORMAL, 3, H);
    float *want = values(AID_ZEROS, 0, H), *sums = values(AID_NORMAL, 4, H * n);
    assert_int_equal(kv8_encode_row(v, (size_t)n, codes, scales), 0);
    kv8_decode_row(codes, scales, (size_t)n, decoded);
    tier[0].dot_kv8(x, H, &row, n, want);
    tier[0].add_kv8(sums, H, w, &row, n);
    for (int h = 0; h < H; h++) {
        double exact = 0, size = 0;
        for (int i = 0; i < n; i++) {
            exact += (double)x[h * n + i] * (double)decoded[i];
            size += fabs((double)x[h * n + i] * (double)decoded[i]);
        }
        assert_true(fabs((double)want[h] - exact) <= 2e-6 * size);
    }
    for (int t = 1; t < n_tiers; t++) {
        float *got = values(AID_ZEROS, 0, H), *to = values(AID_NORMAL, 4, H * n);
        tier[t].dot_kv8(x, H, &row, n, got);
        assert_int_equal(aid_differ(got, want, (size_t)H), -1);
        for (int h = 0; h < H; h++) /* alone */
            tier[t].dot_kv8(x + h * n, 1, &row, n, got + h);
        assert_int_equal(aid_differ(got, want, (size_t)H), -1);
        tier[t].add_kv8(to, H, w, &row, n);
        assert_int_equal(aid_differ(to, sums, (size_t)H * (size_t)n), -1);
    }
    aid_guarded_free();
}

static void test_kv8(void **state)
{
    (void)state;
    for (int n = 32; n <= 288; n += 32)
        for (int H = 1; H <= 13; H++)
            check_kv8(n, H);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_sums, teardown),
        cmocka_unit_test_teardown(test_max, teardown),
        cmocka_unit_test_teardown(test_elements, teardown),
        cmocka_unit_test_teardown(test_places, teardown),
        cmocka_unit_test_teardown(test_sigmoid_accuracy, teardown),
        cmocka_unit_test_teardown(test_sigmoid_ends, teardown),
        cmocka_unit_test_teardown(test_exp_sum, teardown),
        cmocka_unit_test_teardown(test_delta, teardown),
        cmocka_unit_test_teardown(test_kv8, teardown),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
