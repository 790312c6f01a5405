/* The pool by itself: which slot goes next (the oldest round, then the least used of it, never a
 * pinned one or one that is being read), and random transitions against a plain model of it. */
#include "tests/aid_test.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "stream/pool.h"

enum { SLOTS = 6, KEYS = 20 };

static void open_pool(struct pool *p)
{
    struct err e = {0};
    assert_ok(pool_open(p, SLOTS, 4096, KEYS, &e), e);
    assert_int_equal(p->n_free, SLOTS);
}

/* Reads a key into a free slot. */
static int bring(struct pool *p, int key)
{
    int slot = pool_vacancy(p);
    assert_int_equal(p->slot[slot].state, SLOT_FREE);
    pool_reserve(p, slot, key);
    assert_int_equal(p->where[key], slot);
    pool_arrived(p, slot);
    return slot;
}

static int next_key(const struct pool *p)
{
    int slot = pool_vacancy(p);
    return slot == POOL_NONE ? POOL_NONE : p->slot[slot].key;
}

static void test_recency_leads_and_frequency_breaks_ties(void **state)
{
    (void)state;
    struct pool p;
    open_pool(&p);
    pool_count(&p, 1, 5);
    pool_count(&p, 2, 3); /* the least used of the oldest round */
    pool_count(&p, 3, 4);
    for (int key = 1; key <= 3; key++)
        bring(&p, key);
    p.round++;
    for (int key = 4; key <= 6; key++) /* never counted, but more recent */
        bring(&p, key);
    const int order[] = {2, 3, 1, 4, 5, 6};
    for (int i = 0; i < SLOTS; i++) {
        int slot = p.where[order[i]];
        assert_int_equal(p.n_free, 0);
        assert_int_equal(next_key(&p), order[i]);
        p.slot[slot].pin = 0; /* out of the way */
    }
    assert_int_equal(next_key(&p), POOL_NONE);
    for (int i = 0; i < SLOTS; i++)
        p.slot[i].pin = POOL_NONE;
    pool_touch(&p, p.where[2]); /* used in this round: last but by its count */
    assert_int_equal(next_key(&p), 3);
    pool_demote(&p, p.where[6]);
    assert_int_equal(next_key(&p), 6);
    pool_drop(&p, p.where[6]);
    assert_int_equal(p.where[6], POOL_NONE);
    assert_int_equal(p.n_free, 1);
    pool_close(&p);
}

/* With a seed, what goes next is drawn from all that may: each comes up, and pinned ones do not. */
static void test_random_eviction(void **state)
{
    (void)state;
    struct pool p;
    int drawn[SLOTS] = {0};
    open_pool(&p);
    p.evict_seed = 5;
    for (int key = 0; key < SLOTS; key++)
        bring(&p, key);
    p.slot[2].pin = 0;
    for (int i = 0; i < 200; i++) {
        int slot = pool_vacancy(&p);
        assert_int_equal(pool_vacancy(&p), slot); /* asking changes nothing */
        drawn[slot]++;
        pool_drop(&p, slot);
        int key = 0;
        while (p.where[key] != POOL_NONE)
            key++;
        pool_reserve(&p, slot, key);
        pool_arrived(&p, slot);
    }
    for (int i = 0; i < SLOTS; i++)
        assert_true(i == 2 ? !drawn[i] : drawn[i] > 20);
    pool_close(&p);
}

static void test_counts_decay(void **state)
{
    (void)state;
    struct pool p;
    open_pool(&p);
    pool_count(&p, 0, 8);
    assert_true(pool_frequency(&p, 0) == 8);
    p.round += POOL_HALF_LIFE;
    assert_true(pool_frequency(&p, 0) == 4);
    pool_count(&p, 0, 1);
    assert_true(pool_frequency(&p, 0) == 5);
    p.round += 2 * POOL_HALF_LIFE;
    assert_true(pool_frequency(&p, 0) == 1.25f);
    assert_true(pool_frequency(&p, 1) == 0);
    pool_close(&p);
}

/* What must hold after every step. */
static void check(const struct pool *p)
{
    int n_free = 0, n_ready = 0, n_listed = 0;
    for (int i = 0; i < p->n; i++) {
        const struct slot *s = &p->slot[i];
        n_free += s->state == SLOT_FREE;
        n_ready += s->state == SLOT_READY;
        if (s->state != SLOT_FREE)
            assert_int_equal(p->where[s->key], i);
    }
    assert_int_equal(p->n_free, n_free);
    uint32_t round = 0;
    for (int i = p->oldest, before = POOL_NONE; i != POOL_NONE; before = i, i = p->slot[i].next) {
        assert_int_equal(p->slot[i].state, SLOT_READY);
        assert_int_equal(p->slot[i].prev, before);
        assert_true(p->slot[i].round >= round);
        round = p->slot[i].round;
        n_listed++;
    }
    assert_int_equal(n_listed, n_ready);
    int next = pool_vacancy(p);
    if (next != POOL_NONE)
        assert_true(p->slot[next].state == SLOT_FREE ||
                    (p->slot[next].state == SLOT_READY && p->slot[next].pin == POOL_NONE));
    assert_true(!n_free || p->slot[next].state == SLOT_FREE);
}

static void test_random_transitions(void **state)
{
    (void)state;
    struct pool p;
    open_pool(&p);
    for (uint64_t step = 0; step < 20000; step++) {
        uint64_t x = rng_at(9, step);
        int slot = (int)(x % SLOTS), key = (int)(x / 64 % KEYS);
        struct slot *s = &p.slot[slot];
        p.round += x / 4096 % 16 == 0;
        if (p.where[key] == POOL_NONE && x / 8192 % 2 && (slot = pool_vacancy(&p)) != POOL_NONE) {
            if (p.slot[slot].state == SLOT_READY)
                pool_drop(&p, slot);
            pool_reserve(&p, slot, key);
        } else if (s->state == SLOT_READING) {
            (x / 16384 % 4 ? pool_arrived : pool_failed)(&p, (int)(x % SLOTS));
        } else if (s->state == SLOT_READY) {
            (x / 16384 % 4 ? pool_touch : pool_demote)(&p, (int)(x % SLOTS));
            s->pin = x / 65536 % 3 ? POOL_NONE : 1;
        }
        pool_count(&p, key, 1);
        check(&p);
    }
    pool_close(&p);
}

/* A pool that is large and hardly used costs what is used of it: the system clears memory as it is
 * first touched, and a run that waited for all of that at start would have its text late. */
static void test_slots_take_memory_when_filled(void **state)
{
    (void)state;
    enum { MANY = 256, SLOT = 1 << 20 };
    struct pool p;
    struct err e = {0};
    uint64_t before = os_rss_bytes();
    assert_ok(pool_open(&p, MANY, SLOT, MANY, &e), e);
    uint64_t opened = os_rss_bytes() - before;
    for (int key = 0; key < 4; key++)
        memset(pool_bytes(&p, bring(&p, key)), 1, SLOT);
    uint64_t filled = os_rss_bytes() - before;
    printf("note: a pool of %d MB takes %.1f MB when open, %.1f MB with 4 filled\n", MANY,
           (double)opened / SLOT, (double)filled / SLOT);
    assert_true(opened < 8 * SLOT);
    assert_true(filled >= 4 * SLOT && filled < 16 * SLOT);
    pool_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recency_leads_and_frequency_breaks_ties),
        cmocka_unit_test(test_random_eviction),
        cmocka_unit_test(test_counts_decay),
        cmocka_unit_test(test_random_transitions),
        cmocka_unit_test(test_slots_take_memory_when_filled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
