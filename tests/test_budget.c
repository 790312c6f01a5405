/* The memory budget: a table of wishes and what they come to. */
#include "tests/aid_test.h"

#include <string.h>

#include "base/os.h"
#include "stream/budget.h"

#define MB ((uint64_t)1000 * 1000)
enum { SLOT = 2 * 1000 * 1000 };

static const struct budget_wish base = {.memory = 2096 * MB, /* the program takes 96 */
                                        .dense = 500 * MB,
                                        .sequence = 100 * MB,
                                        .scratch = 300 * MB,
                                        .n_sequences = 2,
                                        .slot_bytes = SLOT,
                                        .slots_min = 20,
                                        .slots_max = 1000};

static void check(struct budget_wish w, int rc, int slots, const char *says)
{
    struct budget b = {0};
    struct err e = {0};
    int found = budget_make(&w, &b, &e);
    if (found != rc || b.slots != (rc ? 0 : slots) || (says && !strstr(e.msg, says)))
        fail_msg("want %d and %d slots (%s), found %d and %d: %s", rc, slots, says ? says : "",
                 found, b.slots, e.msg);
    if (rc)
        return;
    assert_true(b.fixed + b.pool <= b.memory);
    assert_int_equal(b.pool, (uint64_t)b.slots * w.slot_bytes);
    assert_int_equal(b.left, b.memory - b.fixed - b.pool);
}

static struct budget_wish with_memory(uint64_t memory)
{
    struct budget_wish w = base;
    w.memory = memory;
    return w;
}

static void test_what_is_left_is_pool(void **state)
{
    (void)state;
    check(base, 0, 500, NULL);
    check(with_memory(2097 * MB), 0, 500, NULL); /* half a slot more is none */
    check(with_memory(2098 * MB), 0, 501, NULL);
    check(with_memory(3500 * MB), 0, 1000, NULL); /* one for every record */
    check(with_memory(1136 * MB), 0, 20, NULL);
    check(with_memory(1136 * MB - 1), -E_LIMIT, 0, "1.14 GB are needed");
    check(with_memory(1), -E_LIMIT, 0, "--memory");
    struct budget_wish w = base;
    w.n_sequences = 7;
    check(w, 0, 250, NULL);
    w.n_sequences = 13;
    check(w, -E_LIMIT, 0, "13 sequences");
    check(w, -E_LIMIT, 0, "lower --max-ctx, --prefill-chunk, --sequences or the pool");
}

static void test_what_is_kept_beside_is_no_pool(void **state)
{
    (void)state;
    struct budget_wish w = base;
    w.beside = 100 * MB;
    check(w, 0, 450, NULL);
    w.beside = 961 * MB;
    check(w, -E_LIMIT, 0, "961 MB for states of earlier prompts (--prefix-memory), ");
    check(w, -E_LIMIT, 0, "lower --max-ctx, --prefill-chunk, --prefix-memory, ");
    w.beside = UINT64_MAX;
    check(w, -E_LIMIT, 0, NULL);
    check(with_memory(1), -E_LIMIT, 0, "scratch, 96.0 MB for the program");
}

static void test_pools_asked_for(void **state)
{
    (void)state;
    struct budget_wish w = base;
    w.pool_slots = 100;
    check(w, 0, 100, NULL);
    w.pool_slots = 500;
    check(w, 0, 500, NULL);
    w.pool_slots = 501;
    check(w, -E_LIMIT, 0, "501 experts");
    w.pool_slots = 19;
    check(w, -E_LIMIT, 0, "at least 20");
    w.pool_bytes = 1;
    check(w, -E_ARG, 0, "not both");
    w.pool_slots = 0;
    check(w, -E_LIMIT, 0, "--pool-gb");
    w.pool_bytes = 100 * MB + 1;
    check(w, 0, 50, NULL);
    w.pool_bytes = 1001 * MB;
    check(w, 0, 500, NULL);
    w.pool_bytes = 1002 * MB;
    check(w, -E_LIMIT, 0, NULL);
    w = with_memory(3500 * MB);
    w.pool_slots = 20000; /* more than there are records */
    check(w, 0, 1000, NULL);
}

static void test_no_pool_with_a_mapping(void **state)
{
    (void)state;
    struct budget_wish w = base;
    w.slot_bytes = 0;
    w.slots_min = w.slots_max = 0;
    check(w, 0, 0, NULL);
    w.memory = 1096 * MB;
    check(w, 0, 0, NULL);
    w.memory--;
    check(w, -E_LIMIT, 0, NULL);
}

static void test_absurd_numbers(void **state)
{
    (void)state;
    struct budget_wish w = base;
    w.sequence = UINT64_MAX / 2;
    w.n_sequences = 64;
    check(w, -E_LIMIT, 0, NULL);
    w = base;
    w.dense = w.scratch = UINT64_MAX;
    check(w, -E_LIMIT, 0, NULL);
    w = base;
    w.pool_slots = 2000000000;
    w.slots_max = 2147483647;
    w.slot_bytes = UINT64_MAX / 2;
    check(w, -E_LIMIT, 0, NULL);
}

static void test_the_machine_decides(void **state)
{
    (void)state;
    struct budget b;
    struct err e = {0};
    struct budget_wish w = {.slot_bytes = 4096, .slots_min = 1, .slots_max = 10};
    assert_ok(budget_make(&w, &b, &e), e);
    assert_int_equal(b.slots, 10);
    assert_true(b.memory < os_memory_limit() && b.memory >= os_memory_limit() / 2);
    w.memory = os_memory_limit();
    check(w, 0, 10, NULL);
    w.memory++;
    check(w, -E_LIMIT, 0, "lower it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_left_is_pool),
        cmocka_unit_test(test_what_is_kept_beside_is_no_pool),
        cmocka_unit_test(test_pools_asked_for),
        cmocka_unit_test(test_no_pool_with_a_mapping),
        cmocka_unit_test(test_absurd_numbers),
        cmocka_unit_test(test_the_machine_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
