/* The team: every item once, by one member at a time, and all of them before the call returns. */
#include "tests/aid_test.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/team.h"

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

/* One of two kinds of stage: each has its function and its context, and neither may meet the
 * other's. */
struct kind {
    team_fn *fn;
    long items; /* of all its stages so far */
    atomic_long taken, strange;
};

static void of_kind(struct kind *k, team_fn *fn)
{
    if (k->fn != fn)
        atomic_fetch_add(&k->strange, 1);
    atomic_fetch_add(&k->taken, 1);
}

static void even_item(void *ctx, int i, int member)
{
    (void)i, (void)member;
    of_kind(ctx, even_item);
}

static void odd_item(void *ctx, int i, int member)
{
    (void)i, (void)member;
    of_kind(ctx, odd_item);
}

/* Short stages that differ in all that a stage has, by more threads than most machines have
 * processors: members are often put aside between their look at a stage and their taking of an
 * item, and come back in another one. */
static void test_changes(void **state)
{
    enum { STAGES = 150000 };
    static const int sizes[] = {2, 40, 3, 7, 2, 2, 19, 64};
    struct err e = {0};
    struct team *t;
    struct kind kinds[2] = {{.fn = even_item}, {.fn = odd_item}};
    (void)state;
    assert_ok(team_open(8, &t, &e), e);
    for (int s = 0; s < STAGES; s++) {
        struct kind *k = &kinds[s % 2];
        int n = sizes[s % 8];
        k->items += n;
        team_run(t, n, k->fn, k);
        if (atomic_load(&k->taken) != k->items || atomic_load(&k->strange))
            fail_msg("stage %d: %ld items taken, want %ld; %ld by the other kind's function", s,
                     atomic_load(&k->taken), k->items, atomic_load(&k->strange));
    }
    team_close(t);
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
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_sleep),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
