/* KV8: codes and scales by the definition, what is refused, what comes back. */
#include "aid_test.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "quant/half.h"
#include "quant/kv8.h"

enum { N = 256 };

static void test_known(void **state)
{
    (void)state;
    float v[KV8_GROUP] = {254, -254, 127, 2, 3, 5, -3, 1, 0.999f}, out[KV8_GROUP];
    static const int8_t want[] = {127, -127, 64, 1, 2, 2, -2, 0, 0, 0}; /* ties go to even */
    int8_t codes[KV8_GROUP];
    uint16_t scale;
    assert_int_equal(kv8_encode_row(v, KV8_GROUP, codes, &scale), 0);
    assert_int_equal(scale, 0x4000); /* 2 */
    assert_memory_equal(codes, want, sizeof want);
    kv8_decode_row(codes, &scale, KV8_GROUP, out);
    assert_true(out[0] == 254 && out[1] == -254 && out[2] == 128 && out[4] == 4);
}

static void test_round_trip(void **state)
{
    (void)state;
    float v[N], out[N];
    int8_t codes[N];
    uint16_t scales[N / KV8_GROUP];
    double worst = 0;
    for (int run = 0; run < 200; run++) {
        float size = ldexpf(1, run % 28 - 14);
        for (int i = 0; i < N; i++)
            v[i] = size * (float)(rng_unit_at(3, (uint64_t)(run * N + i)) - 0.5);
        assert_int_equal(kv8_encode_row(v, N, codes, scales), 0);
        kv8_decode_row(codes, scales, N, out);
        for (int i = 0; i < N; i++) {
            double d = (double)f16_to_f32(scales[i / KV8_GROUP]);
            assert_true(out[i] == codes[i] * f16_to_f32(scales[i / KV8_GROUP]));
            /* half a step, and what rounding the scale moves the largest code by; scales this small
             * are denormals of f16 */
            double off = fabs((double)v[i] - (double)out[i]) / (d + 0x1p-25);
            if (size >= 1)
                worst = off > worst ? off : worst;
            else
                assert_true(fabs((double)v[i] - (double)out[i]) <=
                            d / 2 + 128 * (d / 2048 + 0x1p-25));
        }
    }
    print_message("worst: %.4f of a step, allowed 0.57\n", worst);
    assert_true(worst > 0.45 && worst < 0.5 + 127.0 / 2048 + 0.01);
}

static void test_small(void **state)
{
    (void)state;
    float v[KV8_GROUP], out[KV8_GROUP];
    int8_t codes[KV8_GROUP];
    uint16_t scale;
    static const float sizes[] = {0, 1e-45f, 1e-43f, 1e-38f, 1e-9f};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (int i = 0; i < KV8_GROUP; i++)
            v[i] = i % 2 ? sizes[s] : -sizes[s];
        assert_int_equal(kv8_encode_row(v, KV8_GROUP, codes, &scale), 0);
        kv8_decode_row(codes, &scale, KV8_GROUP, out);
        for (int i = 0; i < KV8_GROUP; i++) {
            assert_true(codes[i] >= -127);
            assert_true(out[i] == 0);
        }
    }
}

static void test_refusals(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY, 127 * 65536.0f};
    float v[N] = {1};
    int8_t codes[N];
    uint16_t scales[N / KV8_GROUP];
    for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
        v[77] = bad[b];
        assert_int_equal(kv8_encode_row(v, N, codes, scales), -1);
    }
    v[77] = 127 * 65504.0f;
    assert_int_equal(kv8_encode_row(v, N, codes, scales), 0);
    assert_int_equal(scales[2], 0x7BFF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
