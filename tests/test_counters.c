/* Counters: taken and given back whole, and read by one thread while another counts. */
#include "tests/aid_test.h"

#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "base/thread.h"
#include "model/counters.h"

enum { LAYERS = 3, EXPERTS = 5, ROUNDS = 20000 };

static void open_ok(struct counters *c)
{
    struct err e = {0};
    assert_ok(counters_open(c, LAYERS, EXPERTS, &e), e);
}

static void test_open_fails_whole(void **state)
{
    (void)state;
    int n = 1;
    for (;; n++) {
        struct counters c = {.scratch_bytes = 7};
        struct err e = {0};
        mem_fail_at(n);
        const int rc = counters_open(&c, LAYERS, EXPERTS, &e);
        mem_fail_at(0);
        if (!rc) {
            assert_int_equal(c.scratch_bytes, 7);
            counters_close(&c);
            break;
        }
        assert_int_equal(rc, -E_NOMEM);
        assert_null(c.layer);
        assert_null(c.expert);
    }
    assert_int_equal(n, 3);
}

static void test_reading_copies_all_but_experts(void **state)
{
    (void)state;
    struct counters c = {0}, to = {0};
    struct expert_counters x[EXPERTS];
    open_ok(&c);
    open_ok(&to);
    counters_add(&c.layer[2].read_bytes, 3);
    counters_add(&c.layer[2].read_bytes, 4);
    counters_add(&c.expert[2 * EXPERTS + 1].selected, 5);
    counters_add(&c.steps, 1);
    c.budget_bytes = 9;
    counters_read(&c, &to);
    assert_int_equal(to.layer[2].read_bytes, 7);
    assert_int_equal(to.layer[1].read_bytes, 0);
    assert_int_equal(to.steps, 1);
    assert_int_equal(to.budget_bytes, 9);
    assert_int_equal(to.expert[2 * EXPERTS + 1].selected, 0);
    counters_experts(&c, 2, x);
    assert_int_equal(x[1].selected, 5);
    assert_int_equal(x[0].selected, 0);
    counters_close(&c);
    counters_close(&to);
}

struct race {
    struct counters c;
    atomic_bool done;
};

static void count(void *ctx)
{
    struct race *r = ctx;
    for (int i = 0; i < ROUNDS; i++) {
        counters_add(&r->c.layer[i % LAYERS].hits, 1);
        counters_add(&r->c.expert[i % (LAYERS * EXPERTS)].hits, 1);
        counters_add(&r->c.bytes[CAUSE_DEMAND], 10);
    }
    atomic_store(&r->done, true);
}

/* Under tsan this is a race, if reading or adding is not what it should be. */
static void test_read_while_counting(void **state)
{
    (void)state;
    struct race r = {0};
    struct counters to = {0};
    struct expert_counters x[EXPERTS];
    struct thread t;
    struct err e = {0};
    uint64_t last = 0;
    open_ok(&r.c);
    open_ok(&to);
    assert_ok(thread_start(&t, count, &r, &e), e);
    while (!atomic_load(&r.done)) {
        counters_read(&r.c, &to);
        counters_experts(&r.c, 1, x);
        assert_true(to.bytes[CAUSE_DEMAND] >= last);
        last = to.bytes[CAUSE_DEMAND];
    }
    thread_join(&t);
    counters_read(&r.c, &to);
    assert_int_equal(counters_sum(&to).hits, ROUNDS);
    assert_int_equal(to.bytes[CAUSE_DEMAND], 10 * ROUNDS);
    counters_close(&r.c);
    counters_close(&to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_fails_whole),
        cmocka_unit_test(test_reading_copies_all_but_experts),
        cmocka_unit_test(test_read_while_counting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
