/* The stream against its header: visits of every kind and length deliver the store's own records,
 * whatever the pool's size, the order of reads and what is read beside them; counters add up. */
#include "tests/aid_test.h"

#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "tests/aid_stream.h"

static void check_counters(const struct aid_stream *a)
{
    uint64_t misses = 0, prefetched = 0, accounted = 0;
    const struct counters *c = &a->counters;
    for (int il = 0; il < c->n_layers; il++) {
        const struct layer_counters *x = &c->layer[il];
        assert_int_equal(x->uses, x->hits + x->misses);
        assert_true(x->selected >= x->uses);
        assert_true(x->prefetched <= x->predicted);
        misses += x->misses;
        prefetched += x->prefetched;
        accounted += x->prefetch_used + x->prefetch_late + x->prefetch_wasted;
        misses -= x->prefetch_late;
    }
    assert_true(accounted <= prefetched);
    assert_int_equal(c->reads[CAUSE_LOOKAHEAD][4], prefetched);
    uint64_t reads = c->reads[CAUSE_DEMAND][4] + c->reads[CAUSE_PREFILL][4];
    assert_true(reads <= misses); /* fewer when a read was under way already */
}

/* Random visits of a model of this shape; lookahead guesses half right. */
static void wander(struct aid_stream *a, int n_visits, int hold, uint64_t seed)
{
    const struct expert_layout *x = &a->store->manifest.experts;
    struct stream_use uses[64], next[64];
    struct err e = {0};
    int n = 1 + (int)(rng_at(seed, 0) % (uint64_t)x->E);
    aid_stream_uses(a, seed, n, uses);
    for (int v = 0; v < n_visits; v++) {
        uint64_t s = rng_at(seed, (uint64_t)v + 1);
        enum cause cause = s % 4 ? CAUSE_DEMAND : CAUSE_PREFILL;
        int il = v % x->n_layers, guess[64], n_next = 1 + (int)(s / 4 % (uint64_t)x->E);
        aid_stream_uses(a, s, n_next, next);
        for (int i = 0; i < n_next; i++)
            guess[i] = i % 2 ? next[i].expert : (int)((next[i].expert + s) % (uint64_t)x->E);
        if (s / 64 % 2)
            stream_predict(a->stream, (il + 1) % x->n_layers, guess, n_next);
        assert_ok(aid_stream_visit(a, il, uses, n, cause, hold, s, &e), e);
        memcpy(uses, next, sizeof uses);
        n = n_next;
    }
    check_counters(a);
}

static void test_visits_deliver_the_records(void **state)
{
    (void)state;
    struct aid_stream a;
    aid_stream_open(&a, "micro");
    int least = stream_slots_min(a.store);
    const int slots[] = {least, least + 1, 40, 80, 1000};
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        for (int depth = 1; depth <= 8; depth += 7) {
            aid_stream_start(&a, &(struct stream_options){.slots = slots[i], .depth = depth});
            wander(&a, 200, 1 + (int)i * 4, (uint64_t)slots[i] + (uint64_t)depth);
            aid_stream_stop(&a);
        }
    aid_stream_close(&a);
}

static void test_map_delivers_the_mapping(void **state)
{
    (void)state;
    struct aid_stream a;
    aid_stream_open(&a, "micro");
    aid_stream_start(&a, &(struct stream_options){.pool = ENGINE_POOL_MAP});
    wander(&a, 50, 16, 1);
    assert_int_equal(a.counters.bytes[CAUSE_DEMAND], 0);
    assert_int_equal(a.counters.layer[0].misses, 0);
    aid_stream_close(&a);
}

static void test_rows_are_the_tables(void **state)
{
    (void)state;
    struct aid_stream a;
    struct err e = {0};
    uint64_t rows[200];
    aid_stream_open(&a, "micro");
    const struct ngram_layout *g = &a.store->manifest.ngram;
    aid_stream_start(&a, &(struct stream_options){
                             .slots = stream_slots_min(a.store), .depth = 4, .rows_max = 200});
    for (uint64_t round = 0; round < 40; round++) {
        int n = (int)(rng_at(7, round) % 201);
        for (int i = 0; i < n; i++)
            rows[i] = rng_at(round, (uint64_t)i) % (round % 2 ? g->rows : g->rows < 50 ? 1 : 50);
        if (n)
            rows[0] = g->rows - 1; /* the end of the file */
        assert_ok(stream_rows_begin(a.stream, rows, n, &e), e);
        if (round % 5 == 4)
            continue; /* the next begin takes over */
        assert_ok(stream_rows_wait(a.stream, &e), e);
        for (int i = 0; i < n; i++)
            assert_memory_equal(stream_row(a.stream, i), store_ngram_row(a.store, rows[i]),
                                (size_t)g->row_bytes);
    }
    aid_stream_close(&a);
}

static void test_nothing_allocates_after_open(void **state)
{
    (void)state;
    struct aid_stream a;
    aid_stream_open(&a, "micro");
    aid_stream_start(&a, &(struct stream_options){.slots = stream_slots_min(a.store), .depth = 4});
    long before = mem_count();
    wander(&a, 100, 4, 3);
    stream_forget(a.stream);
    assert_int_equal(mem_count(), before);
    aid_stream_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_visits_deliver_the_records),
        cmocka_unit_test(test_map_delivers_the_mapping),
        cmocka_unit_test(test_rows_are_the_tables),
        cmocka_unit_test(test_nothing_allocates_after_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
