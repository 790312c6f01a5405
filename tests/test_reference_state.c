/* Engine "reference": what it refuses, what it leaves behind when something fails, what it
 * allocates, what it tells an observer. */
#include "tests/aid_test.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "tests/aid_reference.h"
#include "tests/aid_witness.h"

#define MICRO GOLDENS "micro/mlx4"

static void test_refused_options(void **state)
{
    static const struct {
        struct engine_options o;
        int code;
    } bad[] = {
        {{.expert_bits = 5, .mtp_norm = -1}, E_ARG},
        {{.expert_bits = 1, .mtp_norm = -1}, E_ARG},
        {{.expert_bits = 4, .mtp_norm = 2}, E_ARG},
        {{.expert_bits = 4, .mtp_norm = -2}, E_ARG},
    };
    struct aid_weights m;
    struct engine *g = NULL;
    (void)state;
    aid_weights_open(&m, MICRO);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err e = {0};
        assert_int_equal(reference_engine.open(&m.w, &bad[i].o, &g, &e), -bad[i].code);
        assert_null(g);
    }
    aid_weights_close(&m);
}

/* Experts that are not 4-bit have no codes to cut. */
static void test_bits_of_unquantised_experts(void **state)
{
    const struct engine_options o = {.expert_bits = 3, .mtp_norm = -1};
    struct aid_weights m;
    struct engine *g = NULL;
    struct err e = {0};
    (void)state;
    aid_weights_open(&m, GOLDENS "micro/bf16");
    assert_int_equal(reference_engine.open(&m.w, &o, &g, &e), -E_UNSUPPORTED);
    assert_non_null(strstr(e.msg, "16 bits"));
    aid_weights_close(&m);
}

static void test_refused_contexts(void **state)
{
    struct bench b;
    struct sequence *s = NULL;
    (void)state;
    bench_open(&b, MICRO, &bench_defaults);
    const int bad[] = {0, -1, b.m.w.config.max_pos + 1};
    for (size_t i = 0; i < 3; i++) {
        struct err e = {0};
        assert_int_equal(b.g->ops->sequence_open(b.g, bad[i], &s, &e), -E_ARG);
        assert_null(s);
    }
    bench_close(&b);
}

static void test_refused_rows(void **state)
{
    struct bench b, other;
    struct sequence *second;
    struct err e = {0};
    struct buf before = BUF_INIT;
    (void)state;
    bench_open(&b, MICRO, &bench_defaults);
    bench_open(&other, GOLDENS "v-silu/mlx4", &bench_defaults);
    assert_ok(b.g->ops->sequence_open(b.g, BENCH_CTX, &second, &e), e);
    bench_feed(&b, 6);
    bench_save(&b, &before);
    const struct {
        struct row rows[3];
        int n, code;
    } bad[] = {
        {{{b.seq, 1}}, 0, E_ARG},
        {{{b.seq, 1}}, ENGINE_ROWS_MAX + 1, E_ARG},
        {{{b.seq, 1}, {b.seq, -1}}, 2, E_ARG},
        {{{b.seq, b.m.w.config.vocab}}, 1, E_ARG},
        {{{b.seq, 1}, {second, 1}, {b.seq, 2}}, 3, E_ARG},
        {{{b.seq, 1}, {other.seq, 1}}, 2, E_ARG},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        err_clear(&e);
        assert_int_equal(b.g->ops->step(b.g, bad[i].rows, bad[i].n, NULL, b.logits, &e),
                         -bad[i].code);
        assert_true(e.msg[0] != 0);
        bench_same_save(&b, &before);
    }
    err_clear(&e);
    assert_int_equal(bench_step(&b, BENCH_CTX - 5, &e), -E_LIMIT); /* one row too many */
    bench_feed(&b, BENCH_CTX - 6);
    b.g->ops->sequence_close(second);
    buf_free(&before);
    bench_close(&other);
    bench_close(&b);
}

static void test_refused_commits(void **state)
{
    struct bench b;
    struct err e = {0};
    (void)state;
    bench_open(&b, MICRO, &bench_defaults);
    assert_int_equal(b.g->ops->commit(b.g, b.seq, 1, &e), -E_ARG);
    err_clear(&e);
    assert_ok(bench_step(&b, 3, &e), e);
    assert_int_equal(bench_step(&b, 1, &e), -E_ARG); /* rows are pending */
    err_clear(&e);
    assert_int_equal(b.g->ops->commit(b.g, b.seq, 4, &e), -E_ARG);
    err_clear(&e);
    assert_int_equal(b.g->ops->commit(b.g, b.seq, -1, &e), -E_ARG);
    err_clear(&e);
    assert_ok(b.g->ops->commit(b.g, b.seq, 2, &e), e); /* the refusals changed nothing */
    assert_int_equal(b.g->ops->sequence_length(b.seq), 2);
    bench_close(&b);
}

static int draft_code(struct bench *b, int32_t next, int depth)
{
    struct err e = {0};
    int32_t tokens[ENGINE_DRAFTS_MAX + 1];
    int rc = b->g->ops->draft(b->seq, next, depth, tokens, b->logits, &e);
    assert_int_equal(rc, -e.code);
    return e.code;
}

static void test_refused_drafts(void **state)
{
    const struct engine_options off = {.mtp_norm = -1};
    struct bench b;
    struct err e = {0};
    (void)state;
    bench_open(&b, MICRO, &bench_defaults);
    assert_int_equal(draft_code(&b, 1, 1), E_ARG); /* nothing to start from */
    bench_feed(&b, 2);
    assert_int_equal(draft_code(&b, 1, 0), E_ARG);
    assert_int_equal(draft_code(&b, 1, ENGINE_DRAFTS_MAX + 1), E_ARG);
    assert_int_equal(draft_code(&b, -1, 1), E_ARG);
    assert_int_equal(draft_code(&b, b.m.w.config.vocab, 1), E_ARG);
    assert_int_equal(draft_code(&b, 1, 1), 0);
    assert_ok(bench_step(&b, 1, &e), e);
    assert_int_equal(draft_code(&b, 1, 1), E_ARG); /* pending rows */
    bench_close(&b);
    bench_open(&b, MICRO, &off);
    bench_feed(&b, 2);
    assert_int_equal(draft_code(&b, 1, 1), E_UNSUPPORTED);
    bench_close(&b);
    bench_open(&b, GOLDENS "v-nople/mlx4", &bench_defaults); /* no head */
    struct row row = {b.seq, 5};
    assert_ok(b.g->ops->step(b.g, &row, 1, NULL, b.logits, &e), e);
    assert_ok(b.g->ops->commit(b.g, b.seq, 1, &e), e);
    assert_int_equal(draft_code(&b, 1, 1), E_UNSUPPORTED);
    bench_close(&b);
}

static void test_steps_allocate_nothing(void **state)
{
    struct bench b;
    struct err e = {0};
    int32_t tokens[3];
    (void)state;
    bench_open(&b, MICRO, &bench_defaults);
    bench_feed(&b, 30); /* the test's source reads tensors when they are first asked for */
    assert_ok(b.g->ops->draft(b.seq, 1, 3, tokens, b.logits, &e), e);
    b.g->ops->sequence_reset(b.seq);
    long before = mem_count();
    bench_feed(&b, 30);
    assert_ok(b.g->ops->draft(b.seq, 1, 3, tokens, b.logits, &e), e);
    assert_ok(bench_step(&b, 4, &e), e);
    assert_ok(b.g->ops->commit(b.g, b.seq, 1, &e), e);
    b.g->ops->sequence_reset(b.seq);
    assert_int_equal(mem_count(), before);
    bench_close(&b);
}

/* Fails the nth allocation of opening, then of a save, until all succeed. */
static void test_no_memory(void **state)
{
    struct bench b;
    struct buf out = BUF_INIT;
    long n = 1;
    (void)state;
    bench_open(&b, MICRO, &bench_defaults);
    for (int done = 0; !done; n++) {
        struct err e = {0};
        struct engine *g = NULL;
        struct sequence *s = NULL;
        mem_fail_at(n);
        int rc = reference_engine.open(&b.m.w, &bench_defaults, &g, &e);
        rc = rc ? rc : g->ops->sequence_open(g, BENCH_CTX, &s, &e);
        mem_fail_at(0);
        done = rc == 0;
        assert_true(done || rc == -E_NOMEM);
        if (g) {
            g->ops->sequence_close(s);
            g->ops->close(g);
        }
    }
    assert_true(n > 4);
    struct err e = {0};
    bench_feed(&b, 3);
    mem_fail_at(1);
    assert_int_equal(b.g->ops->save(b.g, b.seq, &out, &e), -E_NOMEM);
    mem_fail_at(0);
    bench_save(&b, &out);
    buf_free(&out);
    bench_close(&b);
}

/* A context that no machine has room for: an error that says how much it would take. */
static void test_enormous_context(void **state)
{
    struct bench b;
    struct err e = {0};
    struct sequence *s = NULL;
    (void)state;
    bench_open(&b, MICRO, &bench_defaults);
    b.m.w.config.max_pos = INT32_MAX - ENGINE_DRAFTS_MAX;
    mem_fail_at(3); /* the first two are small; overcommitting systems would grant the third */
    int rc = b.g->ops->sequence_open(b.g, b.m.w.config.max_pos, &s, &e);
    mem_fail_at(0);
    assert_int_equal(rc, -E_NOMEM);
    assert_non_null(strstr(e.msg, "MiB"));
    bench_close(&b);
}

/* A source that fails, or hands out a poisoned expert, at the nth call. */
struct broken {
    struct weight_source real;
    long calls, expert_fails, ngram_fails, expert_poisoned;
    uint16_t *poison;
};

static int broken_find(void *ctx, const char *name, struct tensor_view *out, struct err *e)
{
    struct broken *k = ctx;
    return k->real.find(k->real.ctx, name, out, e);
}

static int broken_expert(void *ctx, int il, int ie, struct expert *out, struct err *e)
{
    struct broken *k = ctx;
    if (++k->calls == k->expert_fails)
        return ERR(e, E_IO, "a disk that fails");
    int rc = k->real.expert(k->real.ctx, il, ie, out, e);
    if (!rc && k->calls == k->expert_poisoned)
        out->down.scales = k->poison;
    return rc;
}

static int broken_ngram_row(void *ctx, int m, uint64_t row, float *out, struct err *e)
{
    struct broken *k = ctx;
    if (++k->calls == k->ngram_fails)
        return ERR(e, E_IO, "a disk that fails");
    return k->real.ngram_row(k->real.ctx, m, row, out, e);
}

static void break_source(struct bench *b, struct broken *k)
{
    k->real = b->m.w.source;
    b->m.w.source = (struct weight_source){k, broken_find, broken_expert, broken_ngram_row, NULL};
}

/* After a failed step nothing is pending, the state is what it was, and the same step then gives
 * what it would have given. */
static void check_recovers(struct bench *b, struct broken *k, int code, const char *words)
{
    struct err e = {0};
    struct buf before = BUF_INIT, after = BUF_INIT;
    size_t bytes = 5 * (size_t)b->m.w.config.vocab * sizeof(float);
    float *logits = mem_alloc(bytes);
    assert_non_null(logits);
    bench_save(b, &before);
    assert_int_equal(bench_step(b, 5, &e), -code);
    assert_non_null(strstr(e.msg, words));
    bench_same_save(b, &before);
    err_clear(&e);
    assert_int_equal(b->g->ops->commit(b->g, b->seq, 1, &e), -E_ARG);
    k->expert_fails = k->ngram_fails = k->expert_poisoned = 0;
    bench_feed(b, 5);
    memcpy(logits, b->logits, bytes);
    bench_save(b, &after);
    err_clear(&e);
    assert_ok(b->g->ops->restore(b->g, b->seq, before.data, before.len, &e), e);
    bench_feed(b, 5);
    assert_memory_equal(logits, b->logits, bytes);
    bench_same_save(b, &after);
    mem_free(logits);
    buf_free(&before);
    buf_free(&after);
}

static void test_failed_steps(void **state)
{
    struct bench b;
    uint16_t poison[8192];
    struct broken k = {.poison = poison};
    (void)state;
    bench_open(&b, MICRO, &bench_defaults);
    break_source(&b, &k);
    bench_feed(&b, 20);
    memset(poison, 0x7F, sizeof poison); /* 0x7F7F, 3.4e38 in bf16: overflows */
    /* A row asks for 8 n-gram rows and 4 layers of 4 experts; the second of them in the third
     * row. */
    long third_row = 2 * (8 + 16);
    k.calls = 0, k.expert_fails = third_row + 8 + 5;
    check_recovers(&b, &k, E_IO, "a disk");
    k.calls = 0, k.ngram_fails = third_row + 4 + 4;
    check_recovers(&b, &k, E_IO, "a disk");
    k.calls = 0, k.expert_poisoned = third_row + 8 + 5;
    check_recovers(&b, &k, E_NONFINITE, "position 32");
    bench_close(&b);
}

/* An output head whose products overflow: the row whose logits were wanted fails, with its
 * position. */
static void test_logits_that_are_not_finite(void **state)
{
    static const bool none[1] = {false};
    struct bench b;
    struct err e = {0};
    (void)state;
    bench_open(&b, MICRO, &bench_defaults);
    struct matrix *head = &b.m.w.head, good = *head;
    size_t n = (size_t)head->rows * head->cols;
    float *damaged = mem_zalloc(n, sizeof *damaged);
    assert_non_null(damaged);
    damaged[n - 1] = NAN;
    bench_feed(&b, 4);
    *head =
        (struct matrix){.format = MATRIX_F32, .rows = good.rows, .cols = good.cols, .w = damaged};
    assert_int_equal(bench_step(&b, 1, &e), -E_NONFINITE);
    assert_non_null(strstr(e.msg, "position 4"));
    assert_int_equal(draft_code(&b, 1, 1), E_NONFINITE);
    err_clear(&e);
    const struct row row = {b.seq, bench_text[4]};
    assert_ok(b.g->ops->step(b.g, &row, 1, none, b.logits, &e), e);
    assert_ok(b.g->ops->commit(b.g, b.seq, 1, &e), e);
    *head = good;
    bench_feed(&b, 1);
    mem_free(damaged);
    bench_close(&b);
}

/* The option overrides the config, and changes drafts only. */
static void test_mtp_norm(void **state)
{
    const struct engine_options all = {.mtp_norm = MTP_NORM_ALL, .drafts = true};
    const struct engine_options stream = {.mtp_norm = MTP_NORM_STREAM, .drafts = true};
    const struct engine_options *const use[] = {&bench_defaults, &stream, &all};
    float *trunk[3], *draft[3];
    size_t bytes = 0;
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct bench b;
        struct err e = {0};
        int32_t token;
        bench_open(&b, MICRO, use[i]); /* whose config says stream */
        bytes = (size_t)b.m.w.config.vocab * sizeof(float);
        trunk[i] = mem_alloc(bytes);
        draft[i] = mem_alloc(bytes);
        bench_feed(&b, 1);
        memcpy(trunk[i], b.logits, bytes);
        assert_ok(b.g->ops->draft(b.seq, 3, 1, &token, draft[i], &e), e);
        bench_close(&b);
    }
    assert_memory_equal(trunk[0], trunk[2], bytes);
    assert_memory_equal(draft[0], draft[1], bytes);
    assert_true(memcmp(draft[0], draft[2], bytes) != 0);
    for (int i = 0; i < 3; i++) {
        mem_free(trunk[i]);
        mem_free(draft[i]);
    }
}

/* An observer sees everything once a row, and computing is not changed by being watched. */
static void test_observer(void **state)
{
    static const struct {
        enum seen what;
        int steps, drafts; /* told in 3 rows of a step, and in 2 chained drafts */
    } want[] = {
        {SEEN_EMBED, 3, 0},      {SEEN_PLE, 3, 0},       {SEEN_MIXER, 12, 2},
        {SEEN_MOE, 12, 2},       {SEEN_RESIDUAL, 12, 0}, {SEEN_HIDDEN, 3, 0},
        {SEEN_LOGITS, 2, 0},     {SEEN_ROUTE, 12, 2},    {SEEN_ROUTE_WEIGHT, 12, 2},
        {SEEN_SELECTED, 3, 2},   {SEEN_NGRAM, 3, 0},     {SEEN_MTP_RESIDUAL, 0, 2},
        {SEEN_MTP_LOGITS, 0, 2},
    };
    static const bool wanted[3] = {true, false, true};
    struct bench b, blind;
    struct witness w;
    struct err e = {0};
    int32_t tokens[2];
    (void)state;
    _Static_assert(sizeof want / sizeof want[0] == SEEN_COUNT, "each kind is checked");
    witness_init(&w, 4);
    const struct engine_options o = {.mtp_norm = -1, .drafts = true, .observe = &w.observer};
    bench_open(&b, MICRO, &o);
    bench_open(&blind, MICRO, &bench_defaults);
    const struct row rows[3] = {
        {b.seq, bench_text[0]}, {b.seq, bench_text[1]}, {b.seq, bench_text[2]}};
    assert_ok(b.g->ops->step(b.g, rows, 3, wanted, b.logits, &e), e);
    assert_ok(b.g->ops->commit(b.g, b.seq, 3, &e), e);
    for (size_t i = 0; i < SEEN_COUNT; i++)
        assert_int_equal(w.told[want[i].what], want[i].steps);
    size_t vocab = (size_t)b.m.w.config.vocab;
    const float *last = witness_floats(&w, SEEN_LOGITS, -1, 2, vocab);
    assert_memory_equal(last, b.logits + 2 * vocab, vocab * sizeof(float));
    bench_feed(&blind, 3);
    assert_memory_equal(last, blind.logits + 2 * vocab, vocab * sizeof(float));
    assert_ok(b.g->ops->draft(b.seq, 9, 2, tokens, b.logits, &e), e);
    for (size_t i = 0; i < SEEN_COUNT; i++)
        assert_int_equal(w.told[want[i].what], want[i].steps + want[i].drafts);
    last = witness_floats(&w, SEEN_MTP_LOGITS, 4, 3, vocab);
    assert_memory_equal(last, b.logits + vocab, vocab * sizeof(float));
    bench_close(&b);
    bench_close(&blind);
    witness_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_options),
        cmocka_unit_test(test_bits_of_unquantised_experts),
        cmocka_unit_test(test_refused_contexts),
        cmocka_unit_test(test_refused_rows),
        cmocka_unit_test(test_refused_commits),
        cmocka_unit_test(test_refused_drafts),
        cmocka_unit_test(test_steps_allocate_nothing),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_enormous_context),
        cmocka_unit_test(test_failed_steps),
        cmocka_unit_test(test_logits_that_are_not_finite),
        cmocka_unit_test(test_mtp_norm),
        cmocka_unit_test(test_observer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
