/* Threads that stay: what they are given, and that joining waits for their end. */
#include "tests/aid_test.h"

#include <stdatomic.h>

#include "base/os.h"
#include "base/thread.h"

struct work {
    atomic_bool go;
    int done;
};

static void run(void *ctx)
{
    struct work *w = ctx;
    while (!atomic_load(&w->go))
        ;
    w->done++;
}

static void test_join_waits_for_the_end(void **state)
{
    struct work w = {0};
    struct thread t;
    struct err e = {0};
    (void)state;
    assert_ok(thread_start(&t, run, &w, &e), e);
    atomic_store(&w.go, true);
    thread_join(&t);
    assert_int_equal(w.done, 1);
}

static void test_random_bytes_differ(void **state)
{
    unsigned char a[32] = {0}, b[32] = {0};
    (void)state;
    os_random(a, sizeof a);
    os_random(b, sizeof b);
    assert_memory_not_equal(a, b, sizeof a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_join_waits_for_the_end),
        cmocka_unit_test(test_random_bytes_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
