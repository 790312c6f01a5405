/* Number formats: every 16- and 8-bit float against arithmetic, the vectors that MLX's rule was
 * worked out on, and the fast quantiser against the rule written down step by step. */
#include "tests/aid_test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/rng.h"
#include "quant/half.h"
#include "quant/lowbit.h"
#include "quant/q4.h"

#define GROUP_MAX 64

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* The value of a float of e exponent and m mantissa bits, from the definition. */
static double value_of(uint32_t h, int e, int m)
{
    int bias = (1 << (e - 1)) - 1, exponent = (int)(h >> m) & ((1 << e) - 1);
    double fraction = (double)(h & ((1u << m) - 1)) / (double)(1 << m);
    double v = exponent ? ldexp(1 + fraction, exponent - bias) : ldexp(fraction, 1 - bias);
    return h >> (e + m) & 1 ? -v : v;
}

static void test_half_widening(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float bf16, f16 = f16_to_f32((uint16_t)h);
        uint16_t one = (uint16_t)h;
        bf16_widen(&one, 1, &bf16);
        assert_int_equal(bits_of(bf16), bits_of(bf16_to_f32(one)));
        if ((h & 0x7F80) != 0x7F80)
            assert_int_equal(bits_of(bf16), bits_of((float)value_of(h, 8, 7)));
        else
            assert_true(h & 0x7F ? isnan(bf16) : isinf(bf16) && !!signbit(bf16) == (int)(h >> 15));
        if ((h & 0x7C00) != 0x7C00)
            assert_int_equal(bits_of(f16), bits_of((float)value_of(h, 5, 10)));
        else
            assert_true(h & 0x3FF ? isnan(f16) : isinf(f16) && !!signbit(f16) == (int)(h >> 15));
    }
    for (uint32_t b = 0; b < 0x100; b++) {
        float f = fp8_e4m3_to_f32((uint8_t)b);
        if ((b & 0x7F) == 0x7F)
            assert_true(isnan(f));
        else
            assert_int_equal(bits_of(f), bits_of((float)value_of(b, 4, 3)));
    }
    assert_true(fp8_e4m3_to_f32(0x7E) == 448);
}

/* Every value comes back; between neighbours, the middle goes to the even one and its two f32
 * neighbours to their own side. `inf` is the pattern after the largest finite one. */
static void check_narrowing(uint16_t (*narrow)(float), int e, int m, uint32_t inf)
{
    for (uint32_t h = 0; h < inf; h++) {
        float v = (float)value_of(h, e, m), up = (float)value_of(h + 1, e, m);
        float middle = (float)(((double)v + (double)up) / 2);
        uint32_t even = h & 1 ? h + 1 : h, sign = 0x8000;
        if (h + 1 == inf) /* the next power of two stands for infinity; for bf16 no f32 holds it */
            middle = e == 8 ? float_of(0x7F7F8000) : middle;
        assert_int_equal(narrow(v), h);
        assert_int_equal(narrow(-v), h | sign);
        assert_int_equal(narrow(middle), even);
        assert_int_equal(narrow(-middle), even | sign);
        assert_int_equal(narrow(nextafterf(middle, 0)), h);
        assert_int_equal(narrow(nextafterf(middle, INFINITY)), h + 1);
    }
    assert_int_equal(narrow(INFINITY), inf);
    assert_int_equal(narrow(-INFINITY), inf | 0x8000);
    assert_int_equal(narrow(3.4e38f), e == 8 ? 0x7F80 : inf);
    for (uint32_t u = 0x7F800001; u < 0x7F900000; u += 0x101) { /* NaNs, low payloads among them */
        assert_true((narrow(float_of(u)) & 0x7FFF) > inf);
        assert_true((narrow(float_of(u | 0x80000000)) & 0x7FFF) > inf);
    }
}

static void test_half_narrowing(void **state)
{
    (void)state;
    check_narrowing(bf16_from_f32, 8, 7, 0x7F80);
    check_narrowing(f16_from_f32, 5, 10, 0x7C00);
}

/* The rule as the format page words it, with the library's rounding. */
static int encode_by_the_book(const float *w, size_t n, uint8_t *q, uint16_t *scale, uint16_t *bias)
{
    float lo = w[0], hi = w[0], b = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(w[i]))
            return -1;
        lo = fminf(lo, w[i]);
        hi = fmaxf(hi, w[i]);
    }
    float s = fmaxf((hi - lo) / 15, 1e-7f), edge = lo;
    if (!(fabsf(lo) > fabsf(hi))) {
        edge = hi;
        s = -s;
    }
    float q0 = rintf(edge / s);
    if (q0 != 0) {
        s = edge / q0;
        b = edge;
    }
    if (!isfinite(bf16_to_f32(bf16_from_f32(s))) || !isfinite(bf16_to_f32(bf16_from_f32(b))))
        return -1;
    for (size_t i = 0; i < n; i++)
        q[i] = (uint8_t)fminf(fmaxf(rintf((w[i] - b) / s), 0), 15);
    *scale = bf16_from_f32(s);
    *bias = bf16_from_f32(b);
    return 0;
}

static void check_group(const float *w, size_t n)
{
    uint8_t q[256] = {0}, codes[128];
    uint16_t s, b, want_s, want_b;
    int want = encode_by_the_book(w, n, q, &want_s, &want_b);
    memset(codes, 0xAA, sizeof codes);
    s = b = 0x1234;
    assert_int_equal(q4_encode_group(w, n, codes, &s, &b), want);
    if (want) {
        assert_int_equal(codes[0], 0xAA);
        assert_true(s == 0x1234 && b == 0x1234);
        return;
    }
    assert_int_equal(s, want_s);
    assert_int_equal(b, want_b);
    for (size_t k = 0; k < n / 2; k++)
        assert_int_equal(codes[k], q[2 * k] | q[2 * k + 1] << 4);
    assert_int_equal(codes[n / 2], 0xAA);
}

/* One value of a kind of group: ties, clamps, tiny ranges, constants, all powers of two. */
static float draw(int kind, uint64_t seed, float middle, int power)
{
    float x = (float)rng_unit_at(seed, 0) - 0.5f;
    switch (kind) {
    case 0: /* bf16 values, as weights are: many ties */
        return bf16_to_f32(bf16_from_f32(x));
    case 1: /* a narrow range off zero, or a constant */
        return middle + ldexpf(x, power);
    case 2: /* whole multiples of half a step: exact ties */
        return ldexpf(rintf(x * 60) / 2, power);
    case 3:
        return ldexpf(x, power);
    case 4: /* ranges around the one that gives the smallest scale */
        return x * 4e-6f;
    default: /* any bits; NaN and infinity often enough */
        return float_of((uint32_t)rng_at(seed, 1) & (power & 1 ? 0xFFFFFFFF : 0xBFFFFFFF));
    }
}

static void test_q4_against_the_rule(void **state)
{
    (void)state;
    static const size_t sizes[] = {2, 8, 16, 30, 32, 34, 64, 66, 128, 200};
    const uint64_t seed = 20250607;
    uint64_t at = 0;
    printf("seed: %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 40000; round++) {
        float w[200] = {0};
        size_t n = sizes[rng_at(seed, at++) % (sizeof sizes / sizeof sizes[0])];
        int kind = (int)(rng_at(seed, at++) % 6), power = (int)(rng_at(seed, at++) % 250) - 140;
        float middle = ldexpf((float)rng_unit_at(seed, at++) - 0.5f, power + 10);
        for (size_t i = 0; i < n; i++)
            w[i] = draw(kind, seed + at++, middle, power);
        check_group(w, n);
    }
}

static void test_q4_extremes(void **state)
{
    (void)state;
    static const float cases[][4] = {
        {0, 0, 0, 0},
        {-0.0f, -0.0f, -0.0f, -0.0f},
        {-0.0f, 0, -1, -0.0f},
        {3e38f, 3e38f, 3e38f, 3e38f}, /* edge / smallest scale overflows: scale 0, still exact */
        {-3e38f, -3e38f, -3e38f, -3e38f},
        {3e38f, -3e38f, 1, 0},          /* the range overflows: refused */
        {3.4028235e38f, 3.4e38f, 0, 1}, /* the bias is no finite bf16: refused */
        {0x1p-149f, 0, 0, 0x1p-149f},
        {NAN, 0, 0, 0},
        {0, 0, 0, -NAN},
        {0, INFINITY, 0, 0},
        {0, 0, -INFINITY, 0},
        {5e-8f, 5e-8f, 5.1e-8f, 4.9e-8f}, /* |edge / scale| on both sides of one half */
        {-5e-8f, -4.9e-8f, -5.1e-8f, 1e-7f},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        float w[GROUP_MAX];
        for (size_t i = 0; i < GROUP_MAX; i++)
            w[i] = cases[c][i % 4];
        check_group(w, 64);
        check_group(w, 32);
    }
}

static size_t unhex(const char *s, uint8_t *out)
{
    size_t n = 0;
    for (unsigned v; s[0] && sscanf(s, "%2x", &v) == 1; s += 2)
        out[n++] = (uint8_t)v;
    return n;
}

static void check_low_bits(int bits, const json_t *c, const uint8_t *codes, size_t n, uint16_t s,
                           uint16_t b)
{
    uint8_t want[GROUP_MAX], got[GROUP_MAX];
    float values[GROUP_MAX];
    size_t len =
        unhex(json_string_value(json_object_get(c, bits == 3 ? "q3_hex" : "q2_hex")), want);
    assert_int_equal(len, lowbit_bytes(bits, n));
    lowbit_from_q4(bits, codes, n, got);
    assert_memory_equal(got, want, len);
    (bits == 3 ? q3_decode_row : q2_decode_row)(got, &s, &b, n, n, values);
    for (size_t i = 0; i < n; i++) {
        int q4 = codes[i / 2] >> 4 * (i % 2) & 15;
        float middle = bits == 3 ? (float)(q4 >> 1) * 2 + 0.5f : (float)(q4 >> 2) * 4 + 1.5f;
        assert_int_equal(bits_of(values[i]), bits_of(middle * bf16_to_f32(s) + bf16_to_f32(b)));
    }
}

static void check_case(const json_t *c)
{
    uint8_t raw[2 * GROUP_MAX], want[GROUP_MAX], codes[GROUP_MAX];
    float w[GROUP_MAX], back[GROUP_MAX];
    uint16_t s, b;
    size_t n = (size_t)json_integer_value(json_object_get(c, "group"));
    assert_int_equal(unhex(json_string_value(json_object_get(c, "values_bf16_hex")), raw), 2 * n);
    for (size_t i = 0; i < n; i++)
        w[i] = bf16_to_f32((uint16_t)(raw[2 * i] << 8 | raw[2 * i + 1]));
    assert_int_equal(unhex(json_string_value(json_object_get(c, "packed_hex")), want), n / 2);
    assert_int_equal(q4_encode_group(w, n, codes, &s, &b), 0);
    assert_memory_equal(codes, want, n / 2);
    assert_int_equal(s, strtoul(json_string_value(json_object_get(c, "scale_bf16")), NULL, 16));
    assert_int_equal(b, strtoul(json_string_value(json_object_get(c, "bias_bf16")), NULL, 16));
    q4_decode_row(codes, &s, &b, n, n, back);
    for (size_t i = 0; i < n; i++) {
        json_int_t q = json_integer_value(json_array_get(json_object_get(c, "codes"), i));
        assert_int_equal(codes[i / 2] >> 4 * (i % 2) & 15, q);
        assert_int_equal(bits_of(back[i]), bits_of((float)q * bf16_to_f32(s) + bf16_to_f32(b)));
    }
    check_low_bits(3, c, codes, n, s, b);
    check_low_bits(2, c, codes, n, s, b);
}

static void test_vectors(void **state)
{
    (void)state;
    struct err e = {0};
    json_t *v, *c;
    size_t i;
    assert_ok(json_read_file(DATA "vectors/quant_vectors.json", 1 << 20, &v, &e), e);
    json_array_foreach(json_object_get(v, "cases"), i, c)
        check_case(c);
    assert_int_equal(i, 8);
    json_decref(v);
}

/* Rows of several groups: each group has its own line, for every precision and group size. */
static void test_rows(void **state)
{
    (void)state;
    enum { N = 192 };
    static const size_t groups[] = {16, 32, 64};
    for (size_t k = 0; k < 3; k++) {
        uint8_t codes[N / 2], low[N];
        uint16_t s[N / 16], b[N / 16];
        float row[N];
        for (size_t i = 0; i < N / 2; i++)
            codes[i] = (uint8_t)(rng_at(7, i));
        for (size_t g = 0; g < N / groups[k]; g++) {
            s[g] = bf16_from_f32(0.25f + (float)g);
            b[g] = bf16_from_f32(-3.5f * (float)g);
        }
        for (int bits = 4; bits >= (groups[k] >= 32 ? 2 : 4); bits--) {
            if (bits == 4)
                q4_decode_row(codes, s, b, N, groups[k], row);
            else
                lowbit_from_q4(bits, codes, N, low),
                    (bits == 3 ? q3_decode_row : q2_decode_row)(low, s, b, N, groups[k], row);
            for (size_t i = 0; i < N; i++) {
                int q = codes[i / 2] >> 4 * (i % 2) & 15;
                float mid = bits == 4   ? (float)q
                            : bits == 3 ? (float)(q / 2) * 2 + 0.5f
                                        : (float)(q / 4) * 4 + 1.5f;
                float want = mid * bf16_to_f32(s[i / groups[k]]) + bf16_to_f32(b[i / groups[k]]);
                assert_int_equal(bits_of(row[i]), bits_of(want));
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half_widening), cmocka_unit_test(test_half_narrowing),
        cmocka_unit_test(test_vectors),       cmocka_unit_test(test_q4_against_the_rule),
        cmocka_unit_test(test_q4_extremes),   cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
