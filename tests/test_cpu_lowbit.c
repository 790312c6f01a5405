/* Engine "cpu" with experts of 3 and 2 bits: near the reference on the same bits, and the same bits
 * however it gets to them. With --miss-experts answers depend on the cache, but for three cases
 * that are exact: everything is missed, nothing is missed, and one engine says what it reads. */
#include "tests/aid_test.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "reference/reference.h"
#include "stream/stream.h"
#include "tests/aid_cpu.h"
#include "tests/aid_demo.h"

enum { TEXT = 160, CTX = 192, N_SIZES = 3 };

/* A model, how many tokens its tests take here and in slow builds, and how far predictions may be
 * from the reference's: as far as with 4 bits (test_cpu.c). */
struct subject {
    const char *name, *checkpoint;
    int n_text, n_text_slow;
    double kl;
};

static const struct subject subjects[] = {
    {"micro", GOLDENS "micro/mlx4", 80, 40, 0.05},
    {"demo", DEMO, 140, 40, 1e-3},
};

static const struct subject *subject;
static struct aid_packed packed;
static int32_t text[TEXT];
static int n_text;

/* The longest text of the demo's goldens: a trained model has things to say of no other. */
static void demo_text(void)
{
    json_t *goldens = aid_demo_goldens(), *one;
    size_t i;
    json_array_foreach(json_object_get(goldens, "sequences"), i, one) {
        const json_t *tokens = json_object_get(one, "tokens");
        if (json_array_size(tokens) < TEXT)
            continue;
        for (int k = 0; k < TEXT; k++)
            text[k] = (int32_t)json_integer_value(json_array_get(tokens, (size_t)k));
        json_decref(goldens);
        return;
    }
    fail_msg("the demo's goldens have no text of %d tokens", TEXT);
}

static int set_up(void **state)
{
    (void)state;
    aid_packed_open_experts(&packed, subject->checkpoint, "4,3,2");
    n_text = aid_slower() > 1 ? subject->n_text_slow : subject->n_text;
    if (strcmp(subject->name, "demo") == 0)
        demo_text();
    else
        aid_tokens(31, packed.w.config.vocab, TEXT, text);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    aid_packed_close(&packed);
    return 0;
}

static struct engine_options with_bits(int bits, int miss_bits)
{
    struct engine_options o = aid_run_defaults;
    o.expert_bits = bits;
    o.miss_bits = miss_bits;
    return o;
}

static void test_near_the_reference(void **state)
{
    (void)state;
    for (int bits = 3; bits >= 2; bits--) {
        const struct engine_options o = with_bits(bits, 0);
        struct aid_run ref, cpu;
        struct aid_score s = {0};
        aid_run_open(&ref, &reference_engine, &packed.w, &o, CTX);
        aid_run_open(&cpu, &cpu_engine, &packed.w, &o, CTX);
        aid_run_compare(&ref, &cpu, text, n_text, &s);
        print_message("worst: %s, %d bits: best token the same in %ld of %ld, KL %.2e, largest "
                      "%.2e; want %.0e\n",
                      subject->name, bits, s.same, s.n, s.kl / (double)s.n, s.kl_worst,
                      subject->kl);
        assert_true(s.kl / (double)s.n <= subject->kl);
        aid_run_close(&cpu);
        aid_run_close(&ref);
    }
}

/* Logits of all tokens of the text, one by one, and the state behind them. `prefilled` tokens come
 * in chunks before, and their logits are left out. */
static void run(struct aid_run *r, int prefilled, int chunk, struct buf *out)
{
    struct err e = {0};
    float *logits = mem_array((size_t)r->vocab, sizeof *logits);
    assert_non_null(logits);
    buf_clear(out);
    r->g->ops->sequence_reset(r->seq);
    aid_run_prefill(r, text, prefilled, chunk, NULL);
    for (int i = prefilled; i < n_text; i++) {
        aid_run_feed(r, text + i, 1, 1, logits);
        buf_add(out, logits, (size_t)r->vocab * sizeof *logits);
    }
    assert_ok(buf_check(out, &e), e);
    mem_free(logits);
}

static void run_with(const struct engine_options *o, int prefilled, int chunk, struct buf *out)
{
    struct aid_run r;
    aid_run_open(&r, &cpu_engine, &packed.w, o, CTX);
    run(&r, prefilled, chunk, out);
    aid_run_close(&r);
}

static bool same(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

/* The tail of `want` that is as long as `got`: logits behind a prefill. */
static void assert_tail(const struct buf *got, const struct buf *want, const char *what, int which)
{
    assert_true(got->len && got->len <= want->len);
    if (memcmp(got->data, want->data + want->len - got->len, got->len) != 0)
        fail_msg("%s: %s %d: other bits", subject->name, what, which);
}

static void test_same_bits(void **state)
{
    static const int chunks[N_SIZES] = {1, 7, 64};
    struct buf want = BUF_INIT, got = BUF_INIT, other = BUF_INIT;
    (void)state;
    run_with(&aid_run_defaults, 0, 1, &other);
    for (int bits = 3; bits >= 2; bits--) {
        struct engine_options o = with_bits(bits, 0);
        run_with(&o, 0, 1, &want);
        assert_false(same(&want, &other)); /* fewer bits are other answers */
        for (int i = 0; i < N_SIZES; i++) {
            o.threads = i + 1;
            o.pool_slots = i ? stream_slots_min(packed.store) : 0;
            run_with(&o, n_text - 20, chunks[i], &got);
            assert_tail(&got, &want, "chunks of", chunks[i]);
        }
        struct buf swap = other;
        other = want;
        want = swap;
    }
    buf_free(&want);
    buf_free(&got);
    buf_free(&other);
}

/* Without a prefill and without lookahead every record is waited for, so that all are small: in a
 * pool that forgets and in one that keeps. */
static void test_all_is_missed(void **state)
{
    struct buf want = BUF_INIT, got = BUF_INIT;
    (void)state;
    for (int bits = 3; bits >= 2; bits--) {
        struct engine_options small = with_bits(bits, 0), o = with_bits(4, bits);
        run_with(&small, 0, 1, &want);
        o.no_lookahead = true;
        for (int all = 0; all < 2; all++) {
            o.pool_slots = all ? 0 : stream_slots_min(packed.store);
            run_with(&o, 0, 1, &got);
            assert_tail(&got, &want, "all are missed, bits", bits);
        }
    }
    buf_free(&want);
    buf_free(&got);
}

/* What a prefill brought is whole, and stays so: while nothing is missed answers are those of 4
 * bits. */
static void test_nothing_is_missed(void **state)
{
    const struct engine_options plain = with_bits(4, 0), o = with_bits(4, 2);
    struct buf want = BUF_INIT, got = BUF_INIT;
    struct aid_run r;
    (void)state;
    run_with(&plain, 0, 1, &want);
    aid_run_open(&r, &cpu_engine, &packed.w, &o, CTX);
    const struct counters *c = r.g->ops->counters(r.g);
    aid_run_prefill(&r, text, n_text, 64, NULL); /* all that the text needs comes in chunks */
    run(&r, n_text / 2, 64, &got);
    assert_int_equal(c->reads[CAUSE_DEMAND][4] + c->reads[CAUSE_DEMAND][2], 0);
    assert_tail(&got, &want, "nothing is missed", 0);
    aid_run_close(&r);
    buf_free(&want);
    buf_free(&got);
}

/* A pool that forgets: what is waited for comes small, what lookahead brings comes whole. */
static void test_what_is_read(void **state)
{
    struct engine_options o = with_bits(4, 3);
    struct buf want = BUF_INIT, got = BUF_INIT;
    struct aid_run r;
    (void)state;
    run_with(&aid_run_defaults, 0, 1, &want);
    o.pool_slots = stream_slots_min(packed.store);
    aid_run_open(&r, &cpu_engine, &packed.w, &o, CTX);
    run(&r, n_text / 2, 64, &got);
    const struct counters *c = r.g->ops->counters(r.g);
    assert_true(c->reads[CAUSE_DEMAND][3] > 0 && c->reads[CAUSE_LOOKAHEAD][4] > 0);
    assert_true(c->reads[CAUSE_PREFILL][4] > 0);
    assert_int_equal(c->reads[CAUSE_DEMAND][4] + c->reads[CAUSE_LOOKAHEAD][3], 0);
    assert_int_equal(c->reads[CAUSE_PREFILL][3], 0);
    assert_int_equal(got.len, (size_t)(n_text - n_text / 2) * (size_t)r.vocab * sizeof(float));
    assert_memory_not_equal(got.data, want.data + want.len - got.len, got.len);
    aid_run_close(&r);
    buf_free(&want);
    buf_free(&got);
}

static void refused(int bits, int miss_bits, enum engine_pool pool, int code, const char *why)
{
    struct engine_options o = with_bits(bits, miss_bits);
    struct engine *g = NULL;
    struct err e = {0};
    o.pool = pool;
    int rc = cpu_engine.open(&packed.w, &o, &g, &e);
    if (rc != code || !strstr(e.msg, why))
        fail_msg("%d bits, %d of misses: %d (%s), want %d and '%s'", bits, miss_bits, rc, e.msg,
                 code, why);
    assert_null(g);
}

static void test_wrong_bits(void **state)
{
    (void)state;
    refused(5, 0, ENGINE_POOL_COPY, -E_ARG, "experts of 5 bits");
    refused(1, 0, ENGINE_POOL_COPY, -E_ARG, "experts of 1 bits");
    refused(4, 1, ENGINE_POOL_COPY, -E_ARG, "experts of 1 bits");
    refused(4, 4, ENGINE_POOL_COPY, -E_ARG, "want fewer bits than --experts 4");
    refused(2, 3, ENGINE_POOL_COPY, -E_ARG, "want fewer bits than --experts 2");
    refused(3, 0, ENGINE_POOL_MAP, -E_UNSUPPORTED, "4 bits alone");
    refused(4, 2, ENGINE_POOL_MAP, -E_UNSUPPORTED, "4 bits alone");
}

static void test_a_store_without_them(void **state)
{
    const struct engine_options small = with_bits(3, 0), misses = with_bits(4, 2);
    struct aid_packed plain;
    struct engine *g = NULL;
    struct err e = {0};
    (void)state;
    aid_packed_open(&plain, subject->checkpoint);
    assert_true(cpu_engine.open(&plain.w, &small, &g, &e) < 0);
    assert_non_null(strstr(e.msg, "--experts 3"));
    err_clear(&e);
    assert_true(cpu_engine.open(&plain.w, &misses, &g, &e) < 0);
    assert_non_null(strstr(e.msg, "--experts 2"));
    assert_null(g);
    aid_packed_close(&plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_near_the_reference),   cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_all_is_missed),        cmocka_unit_test(test_nothing_is_missed),
        cmocka_unit_test(test_what_is_read),         cmocka_unit_test(test_wrong_bits),
        cmocka_unit_test(test_a_store_without_them),
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++) {
        subject = &subjects[i];
        failed += cmocka_run_group_tests_name(subject->name, tests, set_up, tear_down);
    }
    return failed;
}
