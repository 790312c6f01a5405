/* Engine "cpu": the same bits whatever the disk does and however much of the experts is in memory,
 * and a read that fails is a failure of its step alone. */
#include "tests/aid_test.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "stream/reader.h"
#include "stream/stream.h"
#include "tests/aid_cpu.h"
#include "tests/aid_golden.h"

enum { TEXT = 80, CTX = 128, PROMPT = 40, ROUNDS = 20 };

static struct aid_packed packed; /* "micro": 5 record layers of 16 experts */
static int32_t text[TEXT];
static int n_text;

static int set_up(void **state)
{
    (void)state;
    aid_packed_open(&packed, aid_golden("micro"));
    aid_tokens(23, packed.w.config.vocab, TEXT, text);
    n_text = aid_slower() > 1 ? 50 : TEXT;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    aid_packed_close(&packed);
    return 0;
}

/* A pool of the fewest slots, so that every step reads. */
static struct engine_options small_pool(void)
{
    struct engine_options o = aid_run_defaults;
    o.pool_slots = stream_slots_min(packed.store);
    return o;
}

/* The prompt by chunks of 16, the rest by steps of 1 to 3; then drafts and a save. */
static void run(struct aid_run *r, struct buf *out)
{
    struct err e = {0};
    int32_t tokens[2];
    float *logits = mem_array((size_t)r->vocab * 4, sizeof *logits);
    assert_non_null(logits);
    buf_clear(out);
    r->g->ops->sequence_reset(r->seq);
    aid_run_prefill(r, text, PROMPT, 16, logits);
    buf_add(out, logits, (size_t)r->vocab * sizeof *logits);
    for (int i = PROMPT, n; i < n_text; i += n) {
        n = i % 3 + 1 < n_text - i ? i % 3 + 1 : n_text - i;
        aid_run_feed(r, text + i, n, n, logits);
        buf_add(out, logits, (size_t)r->vocab * (size_t)n * sizeof *logits);
    }
    assert_ok(r->g->ops->draft(r->seq, text[1], 2, tokens, logits, &e), e);
    buf_add(out, logits, (size_t)r->vocab * 2 * sizeof *logits);
    assert_ok(r->g->ops->save(r->g, r->seq, out, &e), e);
    mem_free(logits);
}

static void run_with(const struct engine_options *o, struct buf *out)
{
    struct aid_run r;
    aid_run_open(&r, &cpu_engine, &packed.w, o, CTX);
    run(&r, out);
    aid_run_close(&r);
}

static void same_bytes(const struct buf *got, const struct buf *want, const char *what)
{
    struct err e = {0};
    assert_ok(buf_check(got, &e), e);
    if (got->len != want->len || memcmp(got->data, want->data, got->len) != 0)
        fail_msg("%s: other bits than with all experts in memory", what);
}

static void test_pools(void **state)
{
    struct engine_options all = aid_run_defaults, o = small_pool();
    struct buf want = BUF_INIT, got = BUF_INIT;
    (void)state;
    run_with(&all, &want);
    run_with(&o, &got);
    same_bytes(&got, &want, "the smallest pool");
    o.no_lookahead = true;
    run_with(&o, &got);
    same_bytes(&got, &want, "without lookahead");
    o = small_pool();
    o.pool_slots += 7;
    o.threads = 1;
    run_with(&o, &got);
    same_bytes(&got, &want, "a few slots more, one thread");
    o = aid_run_defaults;
    o.pool = ENGINE_POOL_MAP;
    run_with(&o, &got);
    same_bytes(&got, &want, "records used in place");
    buf_free(&want);
    buf_free(&got);
}

static void test_reads(void **state)
{
    static const enum engine_reads reads[] = {ENGINE_READS_AUTO, ENGINE_READS_PREAD};
    struct engine_options all = aid_run_defaults, o = small_pool();
    struct buf want = BUF_INIT, got = BUF_INIT;
    (void)state;
    run_with(&all, &want);
    for (int i = 0; i < 2; i++)
        for (o.read_depth = 1; o.read_depth <= 8; o.read_depth += 7) {
            o.reads = reads[i];
            run_with(&o, &got);
            same_bytes(&got, &want, "io_uring or pread");
        }
    buf_free(&want);
    buf_free(&got);
}

/* An engine whose reads go through a spoiling reader. */
static void open_spoilt(struct aid_run *r, const struct reader_faults *f,
                        struct reader_faults **live)
{
    struct err e = {0};
    struct reader *inner, *outer;
    const struct engine_options o = small_pool();
    assert_ok(reader_pread_open(4, &inner, &e), e);
    assert_ok(reader_fault_open(inner, f, &outer, live, &e), e);
    assert_ok(cpu_open_reader(&packed.w, &o, outer, &r->g, &e), e);
    assert_ok(r->g->ops->sequence_open(r->g, CTX, &r->seq, &e), e);
    r->vocab = packed.w.config.vocab;
}

static void test_a_slow_disk(void **state)
{
    int rounds = aid_slower() > 1 ? 2 : 6;
    struct engine_options all = aid_run_defaults;
    struct buf want = BUF_INIT, got = BUF_INIT;
    (void)state;
    run_with(&all, &want);
    for (int i = 0; i < rounds; i++) {
        struct reader_faults f = {.seed = (uint64_t)i + 1,
                                  .delay = 8,
                                  .shorten = 3,
                                  .interrupt = 3,
                                  .reorder = true},
                             *live;
        struct aid_run r;
        open_spoilt(&r, &f, &live);
        run(&r, &got);
        same_bytes(&got, &want, "delays, short reads, interruptions");
        aid_run_close(&r);
    }
    buf_free(&want);
    buf_free(&got);
}

/* 20 repetitions, each with more or less left in the pool by the one before. */
static void test_repetitions(void **state)
{
    struct engine_options all = aid_run_defaults, o = small_pool();
    struct buf want = BUF_INIT, got = BUF_INIT;
    struct aid_run r;
    int rounds = aid_slower() > 1 ? 3 : ROUNDS;
    (void)state;
    run_with(&all, &want);
    o.pool_slots += 5;
    aid_run_open(&r, &cpu_engine, &packed.w, &o, CTX);
    for (int i = 0; i < rounds; i++) {
        run(&r, &got);
        same_bytes(&got, &want, "a repetition");
    }
    aid_run_close(&r);
    buf_free(&want);
    buf_free(&got);
}

/* Every read fails for a while: steps and chunks fail by name and leave the sequence as it was. */
static void test_a_failing_disk(void **state)
{
    struct engine_options all = aid_run_defaults;
    struct buf want = BUF_INIT, got = BUF_INIT;
    struct reader_faults f = {.seed = 3}, *live;
    struct aid_run r;
    int failed = 0;
    (void)state;
    run_with(&all, &want);
    open_spoilt(&r, &f, &live);
    float *logits = mem_array((size_t)r.vocab, sizeof *logits);
    assert_non_null(logits);
    for (int i = 0; i < PROMPT; i++) {
        struct err e = {0};
        const struct row row = {r.seq, text[i]};
        live->fail = 2;
        int rc = i % 4 == 3 ? r.g->ops->prefill(r.g, r.seq, text + i, 1, NULL, &e)
                            : r.g->ops->step(r.g, &row, 1, NULL, logits, &e);
        live->fail = 0;
        if (rc) {
            assert_int_equal(rc, -E_IO);
            assert_true(strstr(e.msg, "experts.bin") || strstr(e.msg, "ngram.bin"));
            assert_int_equal(r.g->ops->sequence_length(r.seq), i);
            failed++;
            aid_run_feed(&r, text + i, 1, 1, logits);
        } else if (i % 4 != 3) {
            assert_ok(r.g->ops->commit(r.g, r.seq, 1, &e), e);
        }
        assert_int_equal(r.g->ops->sequence_length(r.seq), i + 1);
    }
    assert_in_range(failed, 5, PROMPT);
    run(&r, &got);
    same_bytes(&got, &want, "after failures");
    mem_free(logits);
    aid_run_close(&r);
    buf_free(&want);
    buf_free(&got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pools),          cmocka_unit_test(test_reads),
        cmocka_unit_test(test_a_slow_disk),    cmocka_unit_test(test_repetitions),
        cmocka_unit_test(test_a_failing_disk),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
