/* Infinities and NaNs are found wherever they are, and nothing else is. */
#include "tests/aid_test.h"

#include <string.h>

#include "base/mem.h"
#include "quant/finite.h"

enum { N = 9000 };

static void check_type(enum dtype type, const uint32_t *bad, size_t n_bad, const uint32_t *good,
                       size_t n_good)
{
    size_t bytes = dtype_bytes(type);
    static const size_t places[] = {0, 1, 4095, 4096, 5000, N - 1};
    uint8_t *v = mem_zalloc(N, bytes);
    assert_int_equal(finite_find(type, v, N), N);
    for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
        uint8_t *at = v + places[p] * bytes;
        for (size_t i = 0; i < n_good; i++) {
            memcpy(at, &good[i], bytes);
            assert_int_equal(finite_find(type, v, N), N);
        }
        for (size_t i = 0; i < n_bad; i++) {
            memcpy(at, &bad[i], bytes);
            assert_int_equal(finite_find(type, v, N), places[p]);
            assert_int_equal(finite_find(type, v, places[p]), places[p]);
        }
        memset(at, 0, bytes);
    }
    mem_free(v);
}

static void test_every_type(void **state)
{
    (void)state;
    check_type(DTYPE_BF16, (uint32_t[]){0x7F80, 0xFF80, 0x7FC0, 0x7F81}, 4,
               (uint32_t[]){0x7F7F, 0xFF7F, 0x8000, 0x0001}, 4);
    check_type(DTYPE_F16, (uint32_t[]){0x7C00, 0xFC00, 0x7E00, 0xFFFF}, 4,
               (uint32_t[]){0x7BFF, 0xFBFF, 0x8000, 0x0001}, 4);
    check_type(DTYPE_F32, (uint32_t[]){0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001}, 4,
               (uint32_t[]){0x7F7FFFFF, 0xFF7FFFFF, 0x80000000, 1}, 4);
    check_type(DTYPE_U32, NULL, 0, (uint32_t[]){0xFFFFFFFF}, 1);
    assert_int_equal(finite_find(DTYPE_F32, NULL, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_type)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
