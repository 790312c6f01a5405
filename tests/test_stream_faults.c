/* Streams over a disk that delays, interrupts, reorders and fails: what is delivered is right or
 * the visit fails by name, and the stream lives on. Deadlines and closing under such a disk. */
#include "tests/aid_test.h"

#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "tests/aid_stream.h"

static struct reader_faults *start(struct aid_stream *a, struct stream_options o,
                                   const struct reader_faults *f, enum engine_reads how)
{
    struct err e = {0};
    struct reader *inner;
    struct reader_faults *live;
    assert_ok(reader_open(how, o.depth ? o.depth : 4, &inner, &e), e);
    assert_ok(reader_fault_open(inner, f, &o.reader, &live, &e), e);
    aid_stream_start(a, &o);
    return live;
}

/* Visits of all layers in turn; returns how many failed. */
static int walk(struct aid_stream *a, int n_visits, uint64_t seed)
{
    const struct expert_layout *x = &a->store->manifest.experts;
    int n_failed = 0;
    for (int v = 0; v < n_visits; v++) {
        struct err e = {0};
        struct stream_use uses[64];
        uint64_t s = rng_at(seed, (uint64_t)v);
        int n = 1 + (int)(s % (uint64_t)x->E), guess[4];
        aid_stream_uses(a, s, n, uses);
        for (int i = 0; i < 4; i++)
            guess[i] = (int)((s >> i) % (uint64_t)x->E);
        stream_predict(a->stream, (v + 1) % x->n_layers, guess, 4);
        a->hold = 1 + (int)(s % 16);
        int rc = aid_stream_visit(a, v % x->n_layers, uses, n,
                                  s & 64 ? CAUSE_DEMAND : CAUSE_PREFILL, &e);
        if (!rc)
            continue;
        n_failed++;
        assert_int_equal(rc, -E_IO);
        assert_non_null(strstr(e.msg, "experts.bin: record "));
        assert_non_null(strstr(e.msg, "Input/output error"));
    }
    return n_failed;
}

static void test_a_slow_disk_out_of_order(void **state)
{
    (void)state;
    struct aid_stream a;
    const struct reader_faults f = {
        .seed = 1, .delay = 3, .shorten = 3, .interrupt = 3, .reorder = true};
    aid_stream_open(&a, "micro");
    int least = stream_slots_min(a.store);
    for (int slots = least; slots <= 80; slots += 32) {
        start(&a, (struct stream_options){.slots = slots, .depth = 6}, &f,
              slots == least ? ENGINE_READS_PREAD : ENGINE_READS_AUTO);
        assert_int_equal(walk(&a, 60, (uint64_t)slots), 0);
        aid_stream_stop(&a);
    }
    aid_stream_close(&a);
}

static void test_the_nth_read_fails(void **state)
{
    (void)state;
    struct aid_stream a;
    bool reached = true;
    int n = 0;
    aid_stream_open(&a, "micro");
    while (reached) {
        const struct reader_faults f = {.seed = 2, .fail_at = ++n};
        struct reader_faults *live = start(
            &a, (struct stream_options){.slots = stream_slots_min(a.store), .no_lookahead = true},
            &f, ENGINE_READS_AUTO);
        int n_failed = walk(&a, 6, 9);
        assert_true(n_failed <= 1);
        reached = n_failed == 1;
        live->fail_at = 0;
        assert_int_equal(walk(&a, 6, 9), 0); /* the stream lives on, with the right bytes */
        aid_stream_stop(&a);
    }
    assert_true(n > 10);
    printf("note: %d reads were made to fail\n", n - 1);
    aid_stream_close(&a);
}

static void test_many_reads_fail(void **state)
{
    (void)state;
    struct aid_stream a;
    aid_stream_open(&a, "micro");
    struct reader_faults *live =
        start(&a, (struct stream_options){.slots = 20, .depth = 5},
              &(struct reader_faults){.seed = 3, .fail = 10, .delay = 4, .reorder = true},
              ENGINE_READS_AUTO);
    int n_failed = walk(&a, 100, 4);
    assert_true(n_failed > 5 && n_failed < 100);
    live->fail = 0;
    assert_int_equal(walk(&a, 50, 5), 0);
    aid_stream_close(&a);
}

static void test_rows_fail_and_come_back(void **state)
{
    (void)state;
    struct aid_stream a;
    struct err e = {0};
    const uint64_t rows[] = {0, 100, 1, 0};
    aid_stream_open(&a, "micro");
    struct reader_faults *live = start(&a, (struct stream_options){.slots = 16, .rows_max = 4},
                                       &(struct reader_faults){.fail_at = 1}, ENGINE_READS_AUTO);
    assert_ok(stream_rows_begin(a.stream, rows, 4, &e), e);
    assert_int_equal(stream_rows_wait(a.stream, &e), -E_IO);
    assert_non_null(strstr(e.msg, "ngram.bin"));
    live->fail_at = 0;
    err_clear(&e);
    assert_ok(stream_rows_begin(a.stream, rows, 4, &e), e);
    assert_ok(stream_rows_wait(a.stream, &e), e);
    for (int i = 0; i < 4; i++)
        assert_memory_equal(stream_row(a.stream, i), store_ngram_row(a.store, rows[i]),
                            (size_t)a.store->manifest.ngram.row_bytes);
    aid_stream_close(&a);
}

/* Tables that are held, on a disk where one read in three fails: a list is right or fails by name,
 * and what is held at the end is right. */
static void test_tables_on_a_failing_disk(void **state)
{
    (void)state;
    struct aid_stream a;
    int n_failed = 0;
    aid_stream_open(&a, "micro");
    const struct ngram_layout *g = &a.store->manifest.ngram;
    struct reader_faults *live =
        start(&a,
              (struct stream_options){
                  .slots = 16, .rows_max = 20, .table_room = stream_table_bytes(a.store)},
              &(struct reader_faults){.seed = 5, .fail = 3, .delay = 2, .reorder = true},
              ENGINE_READS_AUTO);
    for (uint64_t round = 0; round < 100; round++) {
        struct err e = {0};
        uint64_t rows[20];
        live->fail = round < 60 ? 3 : 0;
        if (round % 3 == 0)
            stream_forget(a.stream);
        for (int i = 0; i < 20; i++)
            rows[i] = rng_at(round, (uint64_t)i) % g->rows;
        assert_ok(stream_rows_begin(a.stream, rows, 20, &e), e);
        if (stream_rows_wait(a.stream, &e)) {
            assert_non_null(strstr(e.msg, "ngram.bin"));
            n_failed++;
            continue;
        }
        for (int i = 0; i < 20; i++)
            assert_memory_equal(stream_row(a.stream, i), store_ngram_row(a.store, rows[i]),
                                (size_t)g->row_bytes);
    }
    print_message("note: %d of 60 lists failed\n", n_failed);
    assert_true(n_failed > 2 && n_failed < 60);
    aid_stream_close(&a);
}

static void test_close_half_way(void **state)
{
    (void)state;
    struct aid_stream a;
    struct err e = {0};
    struct stream_use uses[12];
    struct stream_entry got[3];
    int n;
    aid_stream_open(&a, "micro");
    aid_stream_uses(&a, 1, 12, uses);
    for (int how = 0; how < 3; how++) {
        start(&a, (struct stream_options){.slots = 16, .depth = 4, .rows_max = 2},
              &(struct reader_faults){.seed = 1, .delay = 1}, ENGINE_READS_AUTO);
        stream_predict(a.stream, 1, (const int[]){1, 2, 3}, 3);
        assert_ok(stream_rows_begin(a.stream, (const uint64_t[]){5, 500}, 2, &e), e);
        if (how > 0)
            assert_ok(stream_begin(a.stream, 0, uses, 12, CAUSE_DEMAND, &e), e);
        if (how > 1) {
            assert_ok(stream_ready(a.stream, true, got, 3, &n, &e), e);
            stream_end(a.stream); /* given up; the next visit is whole again */
            assert_ok(aid_stream_visit(&a, 0, uses, 12, CAUSE_DEMAND, &e), e);
        }
        aid_stream_stop(&a);
    }
    aid_stream_close(&a);
}

/* Weak experts that are late are dropped, strong ones never; what was read for them is kept. */
static void test_late_and_weak_is_cut(void **state)
{
    (void)state;
    struct aid_stream a;
    struct err e = {0};
    struct stream_use uses[6];
    aid_stream_open(&a, "micro");
    for (int i = 0; i < 6; i++)
        uses[i] = (struct stream_use){.expert = i, .rows = 1, .weight = i % 2 ? 0.3f : 0.01f};
    for (int off = 0; off < 2; off++) {
        int n_cut = 0, n_strong = 0, n;
        struct stream_entry got[6];
        start(&a, (struct stream_options){.slots = 16, .depth = 1, .cut_weak = off ? 0 : 0.1},
              &(struct reader_faults){.seed = 1, .delay = 1}, ENGINE_READS_AUTO);
        assert_ok(stream_begin(a.stream, 0, uses, 6, CAUSE_DEMAND, &e), e);
        do {
            assert_ok(stream_ready(a.stream, true, got, 1, &n, &e), e);
            if (n) {
                n_strong += got[0].i % 2;
                stream_done(a.stream, got[0].i);
            }
        } while (n);
        for (int i = 0; i < 6; i++) {
            n_cut += stream_was_cut(a.stream, i);
            assert_false(i % 2 && stream_was_cut(a.stream, i));
        }
        assert_int_equal(n_strong, 3);
        assert_int_equal(a.counters.layer[0].cut, n_cut);
        assert_true(off ? n_cut == 0 : n_cut >= 1);
        stream_end(a.stream);
        assert_ok(aid_stream_visit(&a, 1, uses, 6, CAUSE_PREFILL, &e), e);
        assert_int_equal(a.counters.layer[1].cut, 0);
        aid_stream_stop(&a);
    }
    aid_stream_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_slow_disk_out_of_order),
        cmocka_unit_test(test_the_nth_read_fails),
        cmocka_unit_test(test_many_reads_fail),
        cmocka_unit_test(test_rows_fail_and_come_back),
        cmocka_unit_test(test_tables_on_a_failing_disk),
        cmocka_unit_test(test_close_half_way),
        cmocka_unit_test(test_late_and_weak_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
