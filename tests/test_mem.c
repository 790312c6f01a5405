/* mem: sizes that overflow, the Nth failure, counting; thread_for; the clock. */
#include "tests/aid_test.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"

static void test_sizes(void **state)
{
    (void)state;
    void *none = mem_alloc(0), *one = mem_zalloc(0, 0);
    assert_non_null(none);
    assert_non_null(one);
    assert_ptr_not_equal(none, one);
    mem_free(none);
    mem_free(one);
    mem_free(NULL);
    errno = 0;
    assert_null(mem_array(SIZE_MAX / 2, 3));
    assert_int_equal(errno, ENOMEM);
    errno = 0;
    assert_null(mem_zalloc(SIZE_MAX / 2, 3));
    assert_int_equal(errno, ENOMEM);
    for (size_t align = sizeof(void *); align <= 1 << 20; align *= 2) {
        char *p = mem_aligned(align, 100);
        assert_int_equal((uintptr_t)p % align, 0);
        memset(p, 1, 100);
        mem_free(p);
    }
    unsigned char *z = mem_zalloc(7, 3);
    for (int i = 0; i < 21; i++)
        assert_int_equal(z[i], 0);
    mem_free(z);
    char *s = mem_strndup("abcdef", 3);
    assert_string_equal(s, "abc");
    mem_free(s);
}

static void test_nth_fails_and_all_after(void **state)
{
    (void)state;
    mem_fail_at(2);
    void *a = mem_alloc(8);
    assert_non_null(a);
    errno = 0;
    assert_null(mem_strdup("x"));
    assert_int_equal(errno, ENOMEM);
    assert_null(mem_zalloc(1, 1));
    assert_null(mem_aligned(64, 64));
    assert_null(mem_realloc(a, 16));
    mem_fail_at(0);
    a = mem_realloc(a, 16);
    assert_non_null(a);
    mem_free(a);
}

static void test_count(void **state)
{
    (void)state;
    long before = mem_count();
    mem_free(mem_alloc(1));
    mem_free(mem_strdup("x"));
    assert_int_equal(mem_count() - before, 2);
}

enum { N_ITEMS = 1000, N_WORKERS = 7 };

struct tally {
    atomic_int ran[N_ITEMS], workers[N_WORKERS];
    size_t fail_from; /* items from here on fail */
    bool silent;      /* without a message */
};

static int tally_one(void *ctx, int worker, size_t i, struct err *e)
{
    struct tally *t = ctx;
    atomic_fetch_add(&t->ran[i], 1);
    atomic_fetch_add(&t->workers[worker], 1);
    if (i < t->fail_from)
        return 0;
    return t->silent ? -E_IO : ERR(e, E_FORMAT, "item %zu", i);
}

static void test_thread_for_runs_each_once(void **state)
{
    (void)state;
    for (int threads = -1; threads <= N_WORKERS; threads++) {
        struct err e = {0};
        struct tally t = {.fail_from = N_ITEMS};
        assert_ok(thread_for(threads, N_ITEMS, tally_one, &t, &e), e);
        for (int i = 0; i < N_ITEMS; i++)
            assert_int_equal(t.ran[i], 1);
        for (int w = threads < 1 ? 1 : threads; w < N_WORKERS; w++)
            assert_int_equal(t.workers[w], 0);
    }
    struct err e = {0};
    assert_ok(thread_for(3, 0, tally_one, NULL, &e), e);
}

/* Items are handed out in ascending order, so the lowest that fails always runs, and is reported
 * whichever thread met it. */
static void test_thread_for_reports_lowest(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        struct err e = {0};
        struct tally t = {.fail_from = (size_t)(round * 3)};
        char want[32];
        snprintf(want, sizeof want, "item %d", round * 3);
        assert_int_equal(thread_for(1 + round % N_WORKERS, N_ITEMS, tally_one, &t, &e), -E_FORMAT);
        assert_string_equal(e.msg, want);
        for (int i = round * 3 + N_WORKERS; i < N_ITEMS; i++)
            assert_int_equal(t.ran[i], 0); /* no new item after the failure */
    }
}

static void test_thread_for_failure_without_message(void **state)
{
    (void)state;
    struct err e = {0};
    struct tally t = {.fail_from = 5, .silent = true};
    assert_int_equal(thread_for(2, N_ITEMS, tally_one, &t, &e), -E_IO);
    assert_int_equal(e.code, E_IO);
    assert_true(e.msg[0] != '\0');
}

static void test_thread_for_without_memory(void **state)
{
    (void)state;
    struct err e = {0};
    struct tally t = {.fail_from = N_ITEMS};
    mem_fail_at(1);
    int rc = thread_for(2, N_ITEMS, tally_one, &t, &e);
    mem_fail_at(0);
    assert_int_equal(rc, -E_NOMEM);
    assert_int_equal(t.ran[0], 0);
}

static void test_clock_moves_forward(void **state)
{
    (void)state;
    uint64_t a = clock_ns();
    for (int i = 0; i < 1000; i++) {
        uint64_t b = clock_ns();
        assert_true(b >= a);
        a = b;
    }
    assert_true(clock_seconds_since(a) >= 0 && clock_seconds_since(a) < 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_nth_fails_and_all_after),
        cmocka_unit_test(test_count),
        cmocka_unit_test(test_thread_for_runs_each_once),
        cmocka_unit_test(test_thread_for_reports_lowest),
        cmocka_unit_test(test_thread_for_failure_without_message),
        cmocka_unit_test(test_thread_for_without_memory),
        cmocka_unit_test(test_clock_moves_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
