/* As much of cmocka as the tests of kernels use, for a machine without that library:
 * tests/test_kern_arm64.sh compiles them against this file. The first failure ends the program. */
#ifndef TESTS_ARM64_CMOCKA_H
#define TESTS_ARM64_CMOCKA_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
    int (*teardown)(void **state);
};

#define cmocka_unit_test(f)                                                                        \
    {                                                                                              \
#f, f, NULL                                                                                \
    }
#define cmocka_unit_test_teardown(f, t)                                                            \
    {                                                                                              \
#f, f, t                                                                                   \
    }

__attribute__((format(printf, 3, 4), noreturn)) static inline void
fail_at(const char *file, int line, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    printf("%s:%d: ", file, line);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
    exit(1);
}

#define print_message(...) printf(__VA_ARGS__)
#define fail_msg(...)      fail_at(__FILE__, __LINE__, __VA_ARGS__)
#define assert_true(x)     ((x) ? (void)0 : fail_msg("%s is false", #x))
#define assert_non_null(x) assert_true((x) != NULL)
#define assert_int_equal(a, b)                                                                     \
    ((long long)(a) == (long long)(b)                                                              \
         ? (void)0                                                                                 \
         : fail_msg("%s is %lld, want %lld", #a, (long long)(a), (long long)(b)))
#define assert_in_range(x, lo, hi)   assert_true((x) >= (lo) && (x) <= (hi))
#define assert_ptr_not_equal(a, b)   assert_true((void *)(a) != (void *)(b))
#define assert_memory_equal(a, b, n) assert_true(memcmp(a, b, n) == 0)

#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    run_tests(tests, sizeof(tests) / sizeof *(tests), setup, teardown)

static inline int run_tests(const struct CMUnitTest *test, size_t n, int (*setup)(void **),
                            int (*teardown)(void **))
{
    void *state = NULL;
    if (setup && setup(&state))
        return 1;
    for (size_t i = 0; i < n; i++) {
        test[i].run(&state);
        if (test[i].teardown)
            test[i].teardown(&state);
        printf("[       OK ] %s\n", test[i].name);
    }
    return teardown ? teardown(&state) : 0;
}

#endif
