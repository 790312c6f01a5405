/* The team: every item once, by one member at a time, and all of them before the call returns. */
#include "tests/aid_test.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "cpu/team.h"

enum { MOST = 300, MEMBERS = 5 };

struct count {
    int stage;
    atomic_int taken[MOST], busy[MEMBERS];
    int seen[MOST]; /* not atomic: written by whoever takes it, read by the caller afterwards */
    atomic_int bad;
};

static void item(void *ctx, int i, int member)
{
    struct count *c = ctx;
    if (atomic_fetch_add(&c->busy[member], 1))
        atomic_fetch_add(&c->bad, 1);
    atomic_fetch_add(&c->taken[i], 1);
    c->seen[i] = c->stage;
    atomic_fetch_sub(&c->busy[member], 1);
}

static void stage(struct team *t, struct count *c, int n)
{
    c->stage++;
    for (int i = 0; i < MOST; i++)
        atomic_store(&c->taken[i], 0);
    team_run(t, n, item, c);
    for (int i = 0; i < MOST; i++) {
        assert_int_equal(atomic_load(&c->taken[i]), i < n);
        if (i < n)
            assert_int_equal(c->seen[i], c->stage);
    }
}

static void test_items(void **state)
{
    (void)state;
    for (int size = 1; size <= MEMBERS; size++) {
        struct err e = {0};
        struct team *t;
        struct count c = {0};
        assert_ok(team_open(size, &t, &e), e);
        assert_int_equal(team_size(t), size);
        for (int round = 0; round < 400; round++)
            stage(t, &c, round * 7 % (MOST + 1));
        assert_int_equal(atomic_load(&c.bad), 0);
        team_close(t);
    }
}

/* Members that went to sleep wake up for the next stage. */
static void test_sleep(void **state)
{
    const struct timespec moment = {0, 3000000};
    struct err e = {0};
    struct team *t;
    struct count c = {0};
    (void)state;
    assert_ok(team_open(3, &t, &e), e);
    for (int round = 0; round < 40; round++) {
        stage(t, &c, 50);
        nanosleep(&moment, NULL);
    }
    team_close(t);
}

static void test_memory(void **state)
{
    (void)state;
    for (long nth = 1; nth <= 2; nth++) {
        struct err e = {0};
        struct team *t = NULL;
        mem_fail_at(nth);
        int rc = team_open(2, &t, &e);
        mem_fail_at(0);
        assert_int_equal(rc, -E_NOMEM);
    }
    team_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_items),
        cmocka_unit_test(test_sleep),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
