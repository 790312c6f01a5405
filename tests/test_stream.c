/* The stream against its header: visits of every kind and length deliver the store's own records,
 * whatever the pool's size, the order of reads and what is read beside them; counters add up. */
#include "tests/aid_test.h"

#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "tests/aid_stream.h"

static uint64_t reads_of(const struct counters *c, enum cause cause)
{
    return c->reads[cause][2] + c->reads[cause][3] + c->reads[cause][4];
}

/* What the experts of a layer add up to is what the layer says. */
static void check_experts(const struct counters *c, int il)
{
    const struct layer_counters *x = &c->layer[il];
    struct expert_counters all = {0}, one[64];
    assert_true(c->n_experts <= 64);
    counters_experts(c, il, one);
    for (int ie = 0; ie < c->n_experts; ie++) {
        all.selected += one[ie].selected;
        all.hits += one[ie].hits;
        all.misses += one[ie].misses;
        all.prefetched += one[ie].prefetched;
        all.reads += one[ie].reads;
        all.read_bytes += one[ie].read_bytes;
    }
    assert_int_equal(all.selected, x->selected);
    assert_int_equal(all.hits, x->hits);
    assert_int_equal(all.misses, x->misses);
    assert_int_equal(all.prefetched, x->prefetched);
    assert_int_equal(all.reads, x->reads);
    assert_int_equal(all.read_bytes, x->read_bytes);
}

static void check_counters(const struct aid_stream *a)
{
    uint64_t records = 0, bytes = 0;
    uint64_t misses = 0, prefetched = 0, accounted = 0;
    const struct counters *c = &a->counters;
    for (int il = 0; il < c->n_layers; il++) {
        const struct layer_counters *x = &c->layer[il];
        assert_int_equal(x->uses, x->hits + x->misses);
        assert_true(x->selected >= x->uses);
        assert_true(x->prefetched <= x->predicted);
        misses += x->misses;
        prefetched += x->prefetched;
        records += x->reads;
        bytes += x->read_bytes;
        check_experts(c, il);
        accounted += x->prefetch_used + x->prefetch_late + x->prefetch_wasted;
        misses -= x->prefetch_late;
    }
    assert_true(accounted <= prefetched);
    assert_int_equal(reads_of(c, CAUSE_LOOKAHEAD), prefetched);
    uint64_t reads = reads_of(c, CAUSE_DEMAND) + reads_of(c, CAUSE_PREFILL);
    assert_int_equal(records, reads + prefetched + reads_of(c, CAUSE_WARM));
    assert_int_equal(bytes, counters_sum(c).read_bytes - c->bytes[CAUSE_NGRAM]);
    assert_true(reads <= misses); /* fewer when a read was under way already */
}

/* Random visits of a model of this shape; lookahead guesses half right. */
static void wander(struct aid_stream *a, int n_visits, int hold, uint64_t seed)
{
    const struct expert_layout *x = &a->store->manifest.experts;
    struct stream_use uses[64], next[64];
    struct err e = {0};
    a->hold = hold;
    a->seed = seed;
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
        assert_ok(aid_stream_visit(a, il, uses, n, cause, &e), e);
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

static void test_precisions(void **state)
{
    (void)state;
    struct aid_stream a;
    const struct counters *c = &a.counters;
    aid_stream_open(&a, "micro");
    for (int bits = 2; bits <= 4; bits++)
        for (int miss = 0; miss < bits; miss += miss ? 1 : 2) {
            int demand = miss ? miss : bits;
            aid_stream_start(&a, &(struct stream_options){
                                     .slots = 24, .bits = bits, .miss_bits = miss, .depth = 4});
            wander(&a, 100, 8, (uint64_t)(bits * 8 + miss));
            assert_true(c->reads[CAUSE_DEMAND][demand] && c->reads[CAUSE_LOOKAHEAD][bits]);
            assert_int_equal(reads_of(c, CAUSE_DEMAND), c->reads[CAUSE_DEMAND][demand]);
            assert_int_equal(reads_of(c, CAUSE_LOOKAHEAD), c->reads[CAUSE_LOOKAHEAD][bits]);
            assert_int_equal(reads_of(c, CAUSE_PREFILL), c->reads[CAUSE_PREFILL][bits]);
            aid_stream_stop(&a);
        }
    aid_stream_close(&a);
}

static void test_options_that_make_no_sense(void **state)
{
    (void)state;
    struct aid_stream a;
    static const struct {
        struct stream_options o;
        int rc;
        const char *says;
    } cases[] = {
        {{.slots = 15}, -E_LIMIT, "15 slots"},
        {{.slots = 16, .bits = 5}, -E_ARG, "5 bits"},
        {{.slots = 16, .bits = 3, .miss_bits = 3}, -E_ARG, "--miss-experts 3"},
        {{.slots = 16, .miss_bits = 1}, -E_ARG, "1 bits"},
        {{.slots = 16, .depth = 65}, -E_ARG, "65 reads"},
        {{.pool = ENGINE_POOL_MAP, .bits = 3}, -E_UNSUPPORTED, "--pool map"},
        {{.pool = ENGINE_POOL_MAP, .miss_bits = 2}, -E_UNSUPPORTED, "--pool map"},
    };
    aid_stream_open(&a, "micro");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err e = {0};
        struct stream *st;
        assert_int_equal(stream_open(a.store, &cases[i].o, &st, &e), cases[i].rc);
        assert_null(st);
        if (!strstr(e.msg, cases[i].says))
            fail_msg("%s", e.msg);
    }
    aid_stream_close(&a);
}

/* Waits until nothing is in flight: what lookahead was to read is there. */
static void settle(struct aid_stream *a)
{
    for (int i = 0; i < 200; i++) {
        struct err e = {0};
        assert_ok(stream_rows_begin(a->stream, NULL, 0, &e), e); /* takes what has ended */
        usleep(500);
    }
}

static void test_lookahead_is_counted(void **state)
{
    (void)state;
    struct aid_stream a;
    struct err e = {0};
    struct stream_use uses[16];
    const struct layer_counters *c;
    aid_stream_open(&a, "micro");
    aid_stream_start(&a, &(struct stream_options){.slots = 16, .depth = 8});
    aid_stream_uses(&a, 1, 16, uses);
    stream_predict(a.stream, 1, (const int[]){3, 4, 5}, 3);
    settle(&a);
    for (int i = 0; i < 16; i++)
        uses[i].expert = i;
    assert_ok(aid_stream_visit(&a, 1, &uses[4], 4, CAUSE_DEMAND, &e), e);
    c = &a.counters.layer[1];
    assert_int_equal(c->predicted, 3);
    assert_int_equal(c->prefetched, 3);
    assert_int_equal(c->prefetch_used, 2); /* 4 and 5; 3 was not asked for */
    assert_int_equal(c->hits, 2);
    assert_int_equal(c->misses, 2);
    stream_forget(a.stream);
    assert_int_equal(c->prefetch_wasted, 1);
    assert_int_equal(a.counters.bytes[CAUSE_LOOKAHEAD], 3 * 16384);
    aid_stream_close(&a);
}

/* A prompt goes through every expert of every layer; what decoding had in the pool stays, but for
 * the few slots that the prompt's records pass through and its most used ones. */
static void test_a_prefill_does_not_empty_the_pool(void **state)
{
    (void)state;
    struct aid_stream a;
    struct err e = {0};
    struct stream_use uses[16];
    aid_stream_open(&a, "micro");
    aid_stream_start(&a, &(struct stream_options){.slots = 70, .depth = 4, .no_lookahead = true});
    for (int i = 0; i < 16; i++)
        uses[i] = (struct stream_use){.expert = i, .rows = 1};
    for (int il = 0; il < 5; il++) /* 50 of 70 slots */
        assert_ok(aid_stream_visit(&a, il, uses, 10, CAUSE_DEMAND, &e), e);
    for (int il = 0; il < 5; il++)
        assert_ok(aid_stream_visit(&a, il, uses, 16, CAUSE_PREFILL, &e), e);
    assert_int_equal(a.counters.reads[CAUSE_PREFILL][4], 30);
    for (int il = 0; il < 5; il++) {
        uint64_t before = a.counters.layer[il].hits;
        assert_ok(aid_stream_visit(&a, il, uses, 10, CAUSE_DEMAND, &e), e);
        assert_int_equal(a.counters.layer[il].hits - before, 10);
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

/* Lists of rows, of all of them or of a few blocks, some given up before they are waited for. */
static void ask_rows(const struct aid_stream *a)
{
    struct err e = {0};
    uint64_t rows[200];
    const struct ngram_layout *g = &a->store->manifest.ngram;
    for (uint64_t round = 0; round < 40; round++) {
        int n = (int)(rng_at(7, round) % 201);
        for (int i = 0; i < n; i++)
            rows[i] = rng_at(round, (uint64_t)i) % (round % 2 ? g->rows : g->rows < 50 ? 1 : 50);
        if (n)
            rows[0] = g->rows - 1; /* the end of the file */
        assert_ok(stream_rows_begin(a->stream, rows, n, &e), e);
        if (round % 5 == 4)
            continue; /* the next begin takes over */
        assert_ok(stream_rows_wait(a->stream, &e), e);
        for (int i = 0; i < n; i++)
            assert_memory_equal(stream_row(a->stream, i), store_ngram_row(a->store, rows[i]),
                                (size_t)g->row_bytes);
    }
}

static void test_rows_are_the_tables(void **state)
{
    (void)state;
    struct aid_stream a;
    aid_stream_open(&a, "micro");
    aid_stream_start(&a, &(struct stream_options){.slots = stream_slots_min(a.store),
                                                  .depth = 4,
                                                  .rows_max = 200,
                                                  .table_room = stream_table_bytes(a.store) - 1});
    ask_rows(&a);
    assert_int_equal(a.counters.table_bytes, 0);
    aid_stream_close(&a);
}

/* With room for the tables each block is read once, when it is asked for or before; when all were
 * forgotten, once more. */
static void test_tables_that_fit_are_held(void **state)
{
    (void)state;
    struct aid_stream a;
    aid_stream_open(&a, "micro");
    const uint64_t blocks = (a.store->ngram.size + READER_ALIGN - 1) / READER_ALIGN;
    for (int fills = 0; fills < 2; fills++) {
        aid_stream_start(&a, &(struct stream_options){.slots = stream_slots_min(a.store),
                                                      .depth = 4,
                                                      .rows_max = 200,
                                                      .table_room = stream_table_bytes(a.store),
                                                      .no_lookahead = !fills});
        assert_int_equal(a.counters.table_bytes, stream_table_bytes(a.store));
        ask_rows(&a);
        const uint64_t *wanted = a.counters.bytes + CAUSE_NGRAM;
        const uint64_t *filled = a.counters.bytes + CAUSE_WARM;
        assert_int_equal(*wanted + *filled, blocks * READER_ALIGN);
        assert_true(fills || !*filled);
        ask_rows(&a);
        assert_int_equal(*wanted + *filled, blocks * READER_ALIGN);
        stream_forget(a.stream);
        ask_rows(&a);
        assert_int_equal(*wanted + *filled, 2 * blocks * READER_ALIGN);
        aid_stream_stop(&a);
    }
    aid_stream_close(&a);
}

/* A record that is held stays; one that was given is there as if it had been read, one whose
 * writing failed is not. */
static void test_records_are_held_and_given(void **state)
{
    (void)state;
    struct aid_stream a;
    struct err e = {0};
    struct stream_use uses[4];
    aid_stream_open(&a, "micro");
    aid_stream_start(&a, &(struct stream_options){.slots = stream_slots_min(a.store), .depth = 4});
    aid_stream_uses(&a, 1, 4, uses);
    assert_null(stream_hold(a.stream, 1, uses[0].expert));
    assert_ok(aid_stream_visit(&a, 1, uses, 4, CAUSE_DEMAND, &e), e);
    const uint8_t *held = stream_hold(a.stream, 1, uses[0].expert);
    assert_non_null(held);
    wander(&a, 50, 4, 3);
    assert_ptr_equal(stream_hold(a.stream, 1, uses[0].expert), held);
    assert_memory_equal(held, store_record(a.store, 1, uses[0].expert), 1024);
    stream_release(a.stream, held);
    stream_release(a.stream, held);
    stream_forget(a.stream);
    assert_null(stream_hold(a.stream, 1, uses[0].expert));

    for (int written = 0; written < 2; written++) {
        const struct layer_counters before = a.counters.layer[2];
        uint8_t *to = stream_give(a.stream, 2, 5 + written);
        assert_non_null(to);
        assert_null(stream_give(a.stream, 2, 5 + written));
        assert_null(stream_hold(a.stream, 2, 5 + written));
        memcpy(to, store_record(a.store, 2, 5 + written),
               a.counters.pool_bytes / a.counters.pool_slots);
        stream_given(a.stream, to, written);
        uses[0] = (struct stream_use){.expert = 5 + written, .rows = 1};
        assert_ok(aid_stream_visit(&a, 2, uses, 1, CAUSE_DEMAND, &e), e);
        assert_int_equal(a.counters.layer[2].hits - before.hits, written);
        assert_int_equal(a.counters.layer[2].misses - before.misses, !written);
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
        cmocka_unit_test(test_precisions),
        cmocka_unit_test(test_options_that_make_no_sense),
        cmocka_unit_test(test_lookahead_is_counted),
        cmocka_unit_test(test_a_prefill_does_not_empty_the_pool),
        cmocka_unit_test(test_map_delivers_the_mapping),
        cmocka_unit_test(test_rows_are_the_tables),
        cmocka_unit_test(test_tables_that_fit_are_held),
        cmocka_unit_test(test_records_are_held_and_given),
        cmocka_unit_test(test_nothing_allocates_after_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
