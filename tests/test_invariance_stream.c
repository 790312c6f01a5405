/* Engine "cpu": the same bits whatever the disk does, whatever leaves the pool and however much of
 * the experts is in memory, and a read that fails is a failure of its step alone. All of it on
 * "micro" and on the demonstration model, with texts that cross the budget of their indexers. */
#include "tests/aid_test.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "stream/reader.h"
#include "stream/stream.h"
#include "tests/aid_cpu.h"

enum { TEXT = 160, CTX = 192 };

/* A model and a text: so much of it is a prompt, the rest comes step by step. */
struct subject {
    const char *name, *checkpoint;
    int n_prompt, n_text, n_text_slow;
    int rounds, rounds_slow; /* of what is repeated */
};

static const struct subject subjects[] = {
    {"micro", GOLDENS "micro/mlx4", 40, 80, 50, 20, 5}, /* 5 record layers of 16 experts */
    {"demo", DEMO, 124, 140, 134, 20, 2},               /* 9 of 32 */
};

static const struct subject *subject;
static const struct engine_ops *engine;
static struct aid_packed packed;
static int32_t text[TEXT];
static int n_text, n_rounds;
static struct buf want; /* what an engine with all experts in memory gives */

static void run_with(const struct engine_options *o, struct buf *out);

static int set_up(void **state)
{
    (void)state;
    bool slow = aid_slower() > 1 || engine != &cpu_engine;
    aid_packed_open(&packed, subject->checkpoint);
    aid_tokens(23, packed.w.config.vocab, TEXT, text);
    n_text = slow ? subject->n_text_slow : subject->n_text;
    n_rounds = slow ? subject->rounds_slow : subject->rounds;
    assert_in_range(packed.w.config.index_budget, 1, n_text - 6);
    want = BUF_INIT;
    run_with(&aid_run_defaults, &want);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_free(&want);
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
    aid_run_prefill(r, text, subject->n_prompt, 16, logits);
    buf_add(out, logits, (size_t)r->vocab * sizeof *logits);
    for (int i = subject->n_prompt, n; i < n_text; i += n) {
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
    aid_run_open(&r, engine, &packed.w, o, CTX);
    run(&r, out);
    aid_run_close(&r);
}

static void same_bytes(const struct buf *got, const char *what)
{
    struct err e = {0};
    assert_ok(buf_check(got, &e), e);
    if (got->len != want.len || memcmp(got->data, want.data, got->len) != 0)
        fail_msg("%s: %s: other bits than with all experts in memory", subject->name, what);
}

static void test_pools(void **state)
{
    struct engine_options o = small_pool();
    struct buf got = BUF_INIT;
    (void)state;
    run_with(&o, &got);
    same_bytes(&got, "the smallest pool");
    o.no_lookahead = true;
    run_with(&o, &got);
    same_bytes(&got, "without lookahead");
    o = small_pool();
    o.pool_slots += 7;
    o.threads = 1;
    run_with(&o, &got);
    same_bytes(&got, "a few slots more, one thread");
    if (engine != &cpu_engine) { /* a device cannot use a file's pages in place */
        buf_free(&got);
        return;
    }
    o = aid_run_defaults;
    o.pool = ENGINE_POOL_MAP;
    run_with(&o, &got);
    same_bytes(&got, "records used in place");
    buf_free(&got);
}

/* Experts in the memory of a device, of which a step needs more than there is room for, or a visit,
 * or nothing but the first layers; the pool behind it is the smallest. Once the pool
 * has room for what leaves the device; last for all experts, from which those of the next layer are
 * copied ahead of time. The host computes all, none, or some of what is not on the device. */
static void test_device_tiers(void **state)
{
    static const int slots[] = {1, 9, 30, 20};
    static const enum engine_host host[] = {ENGINE_HOST_ON, ENGINE_HOST_OFF, ENGINE_HOST_AUTO,
                                            ENGINE_HOST_ON};
    struct engine_options o = small_pool();
    struct buf got = BUF_INIT;
    struct aid_run r;
    (void)state;
    if (engine == &cpu_engine)
        skip();
    aid_run_open(&r, engine, &packed.w, &o, CTX);
    const uint64_t fixed = engine->counters(r.g)->device_fixed_bytes;
    const uint64_t slot = stream_slot_bytes(packed.store, 4, 0);
    aid_run_close(&r);
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
        const bool last = i + 1 == sizeof slots / sizeof slots[0];
        const int least = stream_slots_min(packed.store);
        const struct expert_layout *x = &packed.store->manifest.experts;
        o.device_memory = fixed + (uint64_t)slots[i] * slot;
        o.pool_slots = last ? x->n_layers * x->E : slots[i] == 9 ? least + 20 : least;
        o.host_experts = host[i];
        aid_run_open(&r, engine, &packed.w, &o, CTX);
        run(&r, &got);
        const struct counters *c = engine->counters(r.g);
        const struct counters_sum sum = counters_sum(c);
        assert_int_equal(c->device_slots, slots[i]);
        printf("note: %d slots on the device: %llu hits there, %llu in the pool, %llu missed\n",
               slots[i], (unsigned long long)sum.device_hits, (unsigned long long)sum.hits,
               (unsigned long long)sum.misses);
        printf("note: %llu computed by the host\n", (unsigned long long)c->host_experts);
        assert_true(host[i] == ENGINE_HOST_AUTO ||
                    (c->host_experts > 9) == (host[i] == ENGINE_HOST_ON));
        assert_true(c->copied_bytes > 0 && c->copied_bytes % slot == 0);
        printf("note: %llu records copied ahead, %llu of them used\n",
               (unsigned long long)c->brought, (unsigned long long)c->brought_used);
        assert_true(c->brought_used <= c->brought && (!last || c->brought_used > 9));
        aid_run_close(&r);
        same_bytes(&got, "few slots on the device");
    }
    buf_free(&got);
}

static void test_reads(void **state)
{
    static const enum engine_reads reads[] = {ENGINE_READS_AUTO, ENGINE_READS_PREAD};
    struct engine_options o = small_pool();
    struct buf got = BUF_INIT;
    (void)state;
    for (int i = 0; i < 2; i++)
        for (o.read_depth = 1; o.read_depth <= 8; o.read_depth += 7) {
            o.reads = reads[i];
            run_with(&o, &got);
            same_bytes(&got, "io_uring or pread");
        }
    buf_free(&got);
}

/* An engine whose reads go through a spoiling reader, and whose records leave the pool at random if
 * evict_seed is not 0. */
static void open_spoilt(struct aid_run *r, const struct reader_faults *f, uint64_t evict_seed,
                        struct reader_faults **live)
{
    struct err e = {0};
    struct reader *inner, *outer;
    const struct engine_options o = small_pool();
    assert_ok(reader_pread_open(4, &inner, &e), e);
    assert_ok(reader_fault_open(inner, f, &outer, live, &e), e);
    aid_open_tampered(engine, &packed.w, &o, outer, evict_seed, r);
    assert_ok(r->g->ops->sequence_open(r->g, CTX, &r->seq, &e), e);
    r->vocab = packed.w.config.vocab;
}

/* A disk that is slow now and then, and gives everything in pieces and in any order. */
static void run_slowly(uint64_t seed, uint64_t evict_seed, struct buf *out)
{
    struct reader_faults f = {.seed = seed,
                              .delay = 8,
                              .shorten = 3,
                              .interrupt = 3,
                              .reorder = true},
                         *live;
    struct aid_run r;
    open_spoilt(&r, &f, evict_seed, &live);
    run(&r, out);
    aid_run_close(&r);
}

static void test_a_slow_disk(void **state)
{
    struct buf got = BUF_INIT;
    (void)state;
    for (int i = 0; i < n_rounds / 5 + 1; i++) {
        run_slowly((uint64_t)i + 1, 0, &got);
        same_bytes(&got, "delays, short reads, interruptions");
    }
    buf_free(&got);
}

static void test_random_eviction(void **state)
{
    struct buf got = BUF_INIT;
    (void)state;
    for (int i = 0; i < n_rounds / 5 + 1; i++) {
        run_slowly((uint64_t)i + 100, (uint64_t)i + 1, &got);
        same_bytes(&got, "random eviction under delays");
    }
    buf_free(&got);
}

/* 20 repetitions, each with more or less left in the pool by the one before. */
static void test_repetitions(void **state)
{
    struct engine_options o = small_pool();
    struct buf got = BUF_INIT;
    struct aid_run r;
    (void)state;
    o.pool_slots += 5;
    aid_run_open(&r, engine, &packed.w, &o, CTX);
    for (int i = 0; i < n_rounds; i++) {
        run(&r, &got);
        same_bytes(&got, "a repetition");
    }
    aid_run_close(&r);
    buf_free(&got);
}

/* Every read fails for a while: steps and chunks fail by name and leave the sequence as it was. */
static void test_a_failing_disk(void **state)
{
    struct buf got = BUF_INIT;
    struct reader_faults f = {.seed = 3}, *live;
    struct aid_run r;
    int failed = 0;
    (void)state;
    open_spoilt(&r, &f, 0, &live);
    float *logits = mem_array((size_t)r.vocab, sizeof *logits);
    assert_non_null(logits);
    for (int i = 0; i < subject->n_prompt; i++) {
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
    assert_in_range(failed, 5, subject->n_prompt);
    run(&r, &got);
    same_bytes(&got, "after failures");
    mem_free(logits);
    aid_run_close(&r);
    buf_free(&got);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pools),           cmocka_unit_test(test_device_tiers),
        cmocka_unit_test(test_reads),           cmocka_unit_test(test_a_slow_disk),
        cmocka_unit_test(test_random_eviction), cmocka_unit_test(test_repetitions),
        cmocka_unit_test(test_a_failing_disk),
    };
    int failed = 0;
    engine = aid_engine_chosen(argc, argv);
    size_t n = engine == &cpu_engine ? sizeof subjects / sizeof subjects[0] : 1;
    for (size_t i = 0; i < n; i++) {
        subject = &subjects[i];
        failed += cmocka_run_group_tests_name(subject->name, tests, set_up, tear_down);
    }
    return failed;
}
