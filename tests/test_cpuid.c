/* Processor features: what a mask leaves of them, and what it says of names it cannot follow. */
#include "aid_test.h"

#include <string.h>

#include "base/cpuid.h"

enum { ALL_X86 = CPU_AVX2 | CPU_AVX_VNNI | CPU_AVX512 };

static unsigned masked(unsigned found, const char *tier)
{
    struct err e = {0};
    unsigned cpu = 12345;
    assert_ok(cpuid_mask(found, tier, &cpu, &e), e);
    return cpu;
}

static void test_names(void **state)
{
    (void)state;
    assert_int_equal(masked(ALL_X86, "ref"), 0);
    assert_int_equal(masked(ALL_X86, "avx2"), CPU_AVX2 | CPU_AVX_VNNI);
    assert_int_equal(masked(CPU_AVX2, "avx2"), CPU_AVX2);
    assert_int_equal(masked(ALL_X86, "avx512"), ALL_X86);
    assert_int_equal(masked(ALL_X86, "best"), ALL_X86);
    assert_int_equal(masked(ALL_X86, NULL), ALL_X86);
    assert_int_equal(masked(CPU_NEON, "neon"), CPU_NEON);
    assert_int_equal(masked(0, NULL), 0);
}

static void test_refusals(void **state)
{
    (void)state;
    struct err e = {0};
    unsigned cpu = 7;
    assert_true(cpuid_mask(CPU_AVX2, "avx512", &cpu, &e) < 0);
    assert_int_equal(e.code, E_ARG);
    assert_non_null(strstr(e.msg, "avx512"));
    e = (struct err){0};
    assert_true(cpuid_mask(ALL_X86, "sse9", &cpu, &e) < 0);
    assert_int_equal(e.code, E_ARG);
    assert_non_null(strstr(e.msg, "sse9"));
    assert_non_null(strstr(e.msg, "CHERENKOV_CPU"));
    assert_int_equal(cpu, 7);
}

/* The wider tier rests on the narrower one. */
static void test_found(void **state)
{
    (void)state;
    unsigned cpu = cpuid_found();
    if (cpu & (CPU_AVX512 | CPU_AVX_VNNI))
        assert_true(cpu & CPU_AVX2);
    print_message("note: this processor has avx2 %d, avx-vnni %d, avx512 %d, neon %d\n",
                  !!(cpu & CPU_AVX2), !!(cpu & CPU_AVX_VNNI), !!(cpu & CPU_AVX512),
                  !!(cpu & CPU_NEON));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
