/* An engine ("cpu", or the one that argv names): the same bits, whatever the way to them. Each test
 * compares logits, drafts and the bytes of a save, all exactly, with a run of single steps. The
 * whole list runs on two models: "micro" at every position, and the demonstration model around its
 * QSA budget; of other engines on the first alone.
 * Runs in release alone. */
#include "tests/aid_test.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cpuid.h"
#include "base/mem.h"
#include "base/os.h"
#include "tests/aid_cpu.h"

enum { TEXT = 200, CTX = 256, TAIL = 5, DEPTH = 3, NEAR = 6 };

/* A model, and how much of a text leads past its budget. */
struct stretch {
    int n_base;  /* tokens that every run begins with: restored from one save */
    int n_text;  /* with those */
    int n_saves; /* positions up to which there are saves ... */
    int every;   /* ... at each of so many, and at all near the budget */
};

struct subject {
    const char *name, *checkpoint;
    int budget;
    struct stretch quick, slow; /* in builds of this speed or that, and on a GPU */
    struct stretch brief;       /* on a GPU that the processor plays */
};

static const struct subject subjects[] = {
    {"micro", GOLDENS "micro/mlx4", 16, {0, 100, TEXT, 1}, {0, 40, 30, 1}, {0, 28, 20, 1}},
    {"demo", DEMO, 128, {0, 144, TEXT, 9}, {112, 136, 136, 9}, {112, 136, 136, 9}},
};

static const struct subject *subject;
static const struct engine_ops *engine;
static struct aid_packed packed;
static int32_t text[TEXT];
static int n_base, n_text, n_steps; /* n_steps: behind n_base and before the tail */
static const struct stretch *stretch;
static struct buf base; /* a save of n_base tokens, if they are not 0 */
static struct buf want; /* what single steps give */

static void make_base(void);
static void truth(struct buf *out);

static int set_up(void **state)
{
    (void)state;
    aid_packed_open(&packed, subject->checkpoint);
    assert_int_equal(packed.w.config.index_budget, subject->budget);
    aid_tokens(11, packed.w.config.vocab, TEXT, text);
    stretch = aid_slower() > 1 || engine != &cpu_engine ? &subject->slow : &subject->quick;
    if (engine != &cpu_engine && !os_may_have_gpu())
        stretch = &subject->brief;
    n_base = stretch->n_base;
    n_text = stretch->n_text;
    n_steps = n_text - TAIL - n_base;
    want = base = BUF_INIT;
    make_base();
    truth(&want);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_free(&want);
    buf_free(&base);
    aid_packed_close(&packed);
    return 0;
}

static void add_save(struct aid_run *r, struct buf *out)
{
    struct err e = {0};
    assert_ok(r->g->ops->save(r->g, r->seq, out, &e), e);
}

static void make_base(void)
{
    struct aid_run r;
    aid_run_open(&r, engine, &packed.w, &aid_run_defaults, CTX);
    aid_run_prefill(&r, text, n_base, 64, NULL);
    add_save(&r, &base);
    aid_run_close(&r);
}

/* Back to where the text has n_base tokens. */
static void begin(struct aid_run *r)
{
    struct err e = {0};
    r->g->ops->sequence_reset(r->seq);
    if (n_base)
        assert_ok(r->g->ops->restore(r->g, r->seq, base.data, base.len, &e), e);
}

static void add_drafts(struct aid_run *r, int32_t next, struct buf *out)
{
    struct err e = {0};
    int32_t tokens[DEPTH];
    float *logits = mem_array((size_t)r->vocab * DEPTH, sizeof *logits);
    assert_non_null(logits);
    assert_ok(r->g->ops->draft(r->seq, next, DEPTH, tokens, logits, &e), e);
    buf_add(out, tokens, sizeof tokens);
    buf_add(out, logits, (size_t)r->vocab * DEPTH * sizeof *logits);
    mem_free(logits);
}

/* Logits of the TAIL last tokens, one by one, then drafts and a save: out is what all of them were
 * computed from. */
static void add_tail(struct aid_run *r, struct buf *out)
{
    float *logits = mem_array((size_t)r->vocab, sizeof *logits);
    assert_non_null(logits);
    for (int i = n_text - TAIL; i < n_text; i++) {
        aid_run_feed(r, text + i, 1, 1, logits);
        buf_add(out, logits, (size_t)r->vocab * sizeof *logits);
    }
    add_drafts(r, text[3], out);
    add_save(r, out);
    mem_free(logits);
}

static void same_bytes(const struct buf *got, const struct buf *as, const char *what, int which)
{
    struct err e = {0};
    assert_ok(buf_check(got, &e), e);
    if (got->len != as->len || memcmp(got->data, as->data, got->len) != 0)
        fail_msg("%s: %s %d: other bits than single steps give", subject->name, what, which);
}

static void truth(struct buf *out)
{
    struct aid_run r;
    buf_clear(out);
    aid_run_open(&r, engine, &packed.w, &aid_run_defaults, CTX);
    begin(&r);
    aid_run_feed(&r, text + n_base, n_steps, 1, NULL);
    add_tail(&r, out);
    aid_run_close(&r);
}

static void test_chunks(void **state)
{
    static const int chunks[] = {1, 2, 3, 7, 64, TEXT};
    struct engine_options o = aid_run_defaults;
    struct buf got = BUF_INIT;
    struct aid_run r;
    (void)state;
    o.chunk = TEXT;
    aid_run_open(&r, engine, &packed.w, &o, CTX);
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        buf_clear(&got);
        begin(&r);
        aid_run_prefill(&r, text + n_base, n_steps, chunks[i], NULL);
        add_tail(&r, &got);
        same_bytes(&got, &want, "chunks of", chunks[i]);
    }
    aid_run_close(&r);
    buf_free(&got);
}

static void test_step_sizes(void **state)
{
    static const int sizes[] = {2, 3, 5, 16, 64};
    struct buf got = BUF_INIT;
    struct aid_run r;
    (void)state;
    aid_run_open(&r, engine, &packed.w, &aid_run_defaults, CTX);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        buf_clear(&got);
        begin(&r);
        aid_run_feed(&r, text + n_base, n_steps, sizes[i], NULL);
        add_tail(&r, &got);
        same_bytes(&got, &want, "steps of", sizes[i]);
    }
    aid_run_close(&r);
    buf_free(&got);
}

static void test_threads(void **state)
{
    struct engine_options o = aid_run_defaults;
    struct buf got = BUF_INIT;
    (void)state;
    if (engine != &cpu_engine)
        skip();
    for (int threads = 1; threads <= 4; threads++) {
        struct aid_run r;
        o.threads = threads;
        buf_clear(&got);
        aid_run_open(&r, engine, &packed.w, &o, CTX);
        begin(&r);
        aid_run_feed(&r, text + n_base, n_steps / 3, 1, NULL);
        aid_run_prefill(&r, text + n_base + n_steps / 3, n_steps - n_steps / 3, 64, NULL);
        add_tail(&r, &got);
        aid_run_close(&r);
        same_bytes(&got, &want, "threads:", threads);
    }
    buf_free(&got);
}

/* Kernels of every kind that this processor has. */
static void test_tiers(void **state)
{
    static const char *const tiers[] = {"ref", "avx2", "avx512", "neon"};
    struct buf got = BUF_INIT;
    const char *was = getenv("CHERENKOV_CPU");
    char *kept = was ? mem_strdup(was) : NULL;
    int n = 0;
    (void)state;
    if (engine != &cpu_engine)
        skip();
    for (size_t i = 0; i < sizeof tiers / sizeof tiers[0]; i++) {
        struct err e = {0};
        unsigned cpu;
        if (cpuid_mask(cpuid_found(), tiers[i], &cpu, &e))
            continue;
        assert_int_equal(setenv("CHERENKOV_CPU", tiers[i], 1), 0);
        truth(&got);
        same_bytes(&got, &want, "tier", (int)i);
        n++;
    }
    if (kept)
        setenv("CHERENKOV_CPU", kept, 1);
    else
        unsetenv("CHERENKOV_CPU");
    print_message("note: %d tiers give the same bits\n", n);
    mem_free(kept);
    buf_free(&got);
}

/* One of `n` sequences in a step; the others have rows before and behind it, one to three each. */
static void feed_among(struct aid_run *r, struct sequence *const *others, int n, int i,
                       float *logits)
{
    struct err e = {0};
    struct row rows[ENGINE_ROWS_MAX];
    bool shown[ENGINE_ROWS_MAX] = {0};
    int R = 0, at = 0, each[8];
    float *all = mem_array((size_t)r->vocab * ENGINE_ROWS_MAX, sizeof *all);
    assert_non_null(all);
    for (int j = 0; j <= n; j++) {
        if (j == n / 2) {
            at = R;
            shown[R] = true;
            rows[R++] = (struct row){r->seq, text[i]};
        }
        if (j == n)
            break;
        each[j] = 1 + (i + j) % 3;
        for (int k = 0; k < each[j]; k++)
            rows[R++] = (struct row){others[j], text[(i * 7 + j * 13 + k) % n_text]};
    }
    assert_ok(r->g->ops->step(r->g, rows, R, shown, all, &e), e);
    memcpy(logits, all + (size_t)at * (size_t)r->vocab, (size_t)r->vocab * sizeof *logits);
    assert_ok(r->g->ops->commit(r->g, r->seq, 1, &e), e);
    for (int j = 0; j < n; j++)
        assert_ok(r->g->ops->commit(r->g, others[j], (i + j) % (each[j] + 1), &e), e);
    mem_free(all);
}

/* Across the budget, in company. */
static void test_neighbours(void **state)
{
    enum { N = 7, STEPS = 16 };
    const int from = subject->budget - 10, stride = engine == &cpu_engine ? 1 : 3;
    struct aid_run r;
    struct sequence *others[N];
    struct err e = {0};
    struct buf alone = BUF_INIT, got = BUF_INIT;
    (void)state;
    aid_run_open(&r, engine, &packed.w, &aid_run_defaults, CTX);
    float *logits = mem_array((size_t)r.vocab * STEPS, sizeof *logits);
    float *one = mem_array((size_t)r.vocab, sizeof *one);
    assert_true(logits && one);
    aid_run_prefill(&r, text, from, 64, NULL);
    aid_run_feed(&r, text + from, STEPS, 1, logits);
    add_save(&r, &alone);
    for (int i = 0; i < N; i++)
        assert_ok(r.g->ops->sequence_open(r.g, CTX, &others[i], &e), e);
    for (int n = 1; n <= N; n += stride) {
        r.g->ops->sequence_reset(r.seq);
        aid_run_prefill(&r, text, from, 64, NULL);
        for (int i = 0; i < STEPS; i++) {
            feed_among(&r, others, n, from + i, one);
            aid_same_floats(one, logits + (size_t)i * (size_t)r.vocab, (size_t)r.vocab,
                            "among neighbours");
        }
        buf_clear(&got);
        add_save(&r, &got);
        same_bytes(&got, &alone, "neighbours:", n);
        for (int i = 0; i < N; i++)
            r.g->ops->sequence_reset(others[i]);
    }
    for (int i = 0; i < N; i++)
        r.g->ops->sequence_close(others[i]);
    mem_free(logits);
    mem_free(one);
    aid_run_close(&r);
    buf_free(&alone);
    buf_free(&got);
}

/* Rows that are taken back leave nothing: R wrong or right rows, n of which are kept. */
static void test_rollback(void **state)
{
    struct err e = {0};
    struct buf got = BUF_INIT;
    struct aid_run r;
    (void)state;
    aid_run_open(&r, engine, &packed.w, &aid_run_defaults, CTX);
    float *logits = mem_array((size_t)r.vocab * ENGINE_ROWS_MAX, sizeof *logits);
    assert_non_null(logits);
    begin(&r);
    for (int at = n_base, i = 0; at < n_text - TAIL; i++) {
        struct row rows[ENGINE_ROWS_MAX];
        int R = i % 9 == 8 ? 40 : 1 + i % 5, n = i % (R + 1), left = n_text - TAIL - at;
        n = n < left ? n : left;
        for (int k = 0; k < R; k++)
            rows[k] = (struct row){r.seq, k < n ? text[at + k] : text[(i + k) % n_text]};
        assert_ok(r.g->ops->step(r.g, rows, R, NULL, logits, &e), e);
        assert_ok(r.g->ops->commit(r.g, r.seq, n, &e), e);
        at += n;
    }
    add_tail(&r, &got);
    same_bytes(&got, &want, "rollback", 0);
    mem_free(logits);
    aid_run_close(&r);
    buf_free(&got);
}

/* Whether a save is tried at this position: at all of them, or not far from the budget. */
static bool saves_at(int i)
{
    return i % stretch->every == 0 || abs(i - subject->budget) <= NEAR;
}

/* Saved, restored elsewhere, and on: at positions of a text that crosses the budget. */
static void test_save(void **state)
{
    struct err e = {0};
    struct buf save = BUF_INIT, again = BUF_INIT;
    struct aid_run r;
    struct sequence *other;
    (void)state;
    aid_run_open(&r, engine, &packed.w, &aid_run_defaults, CTX);
    assert_ok(r.g->ops->sequence_open(r.g, CTX, &other, &e), e);
    float *logits = mem_array((size_t)r.vocab * 2, sizeof *logits), *second = logits + r.vocab;
    assert_non_null(logits);
    begin(&r);
    for (int i = n_base; i < stretch->n_saves; i++) {
        const struct row row = {other, text[i]};
        bool saved = saves_at(i);
        if (saved) {
            buf_clear(&save);
            buf_clear(&again);
            add_save(&r, &save);
            assert_ok(r.g->ops->restore(r.g, other, save.data, save.len, &e), e);
            assert_ok(r.g->ops->save(r.g, other, &again, &e), e);
            same_bytes(&again, &save, "save at", i);
            assert_ok(r.g->ops->step(r.g, &row, 1, NULL, second, &e), e);
        }
        aid_run_feed(&r, text + i, 1, 1, logits);
        if (saved)
            aid_same_floats(second, logits, (size_t)r.vocab, "after a restore");
    }
    r.g->ops->sequence_close(other);
    mem_free(logits);
    aid_run_close(&r);
    buf_free(&save);
    buf_free(&again);
}

/* The next step of a run with drafts, of which the first `accept` rows are kept: those are what the
 * text says, the first one in any case; the others are what the draft head says. */
static void verify(struct aid_run *r, int at, int depth, int accept)
{
    struct err e = {0};
    struct row rows[DEPTH + 1] = {{r->seq, text[at]}};
    const bool none[DEPTH + 1] = {0};
    int32_t guess[DEPTH] = {1, 2, 3};
    float *logits = mem_array((size_t)r->vocab * DEPTH, sizeof *logits);
    assert_non_null(logits);
    if (depth && at) /* the head wants something to go on from */
        assert_ok(r->g->ops->draft(r->seq, text[at], depth, guess, logits, &e), e);
    for (int i = 1; i <= depth; i++)
        rows[i] = (struct row){r->seq, i < accept ? text[at + i] : guess[i - 1]};
    assert_ok(r->g->ops->step(r->g, rows, depth + 1, none, NULL, &e), e);
    assert_ok(r->g->ops->commit(r->g, r->seq, accept, &e), e);
    mem_free(logits);
}

/* Drafts of every depth, and every count of accepted ones, none and all among them: neither what is
 * drafted nor what is taken back shows in the state or in what follows. */
static void test_drafts(void **state)
{
    struct buf got = BUF_INIT;
    struct aid_run r;
    (void)state;
    aid_run_open(&r, engine, &packed.w, &aid_run_defaults, CTX);
    for (int depth = 0; depth <= DEPTH; depth++) {
        buf_clear(&got);
        begin(&r);
        for (int at = n_base, i = 0; at < n_text - TAIL; i++) {
            int left = n_text - TAIL - at, accept = i % (depth + 2);
            accept = accept < left ? accept : left;
            verify(&r, at, depth, accept);
            at += accept;
        }
        add_tail(&r, &got);
        same_bytes(&got, &want, "drafts", depth);
    }
    aid_run_close(&r);
    buf_free(&got);
}

static void test_allocates_nothing(void **state)
{
    struct err e = {0};
    int32_t tokens[DEPTH];
    struct aid_run r;
    (void)state;
    aid_run_open(&r, engine, &packed.w, &aid_run_defaults, CTX);
    float *logits = mem_array((size_t)r.vocab * 16, sizeof *logits);
    assert_non_null(logits);
    if (engine != &cpu_engine) { /* a device makes its kernels when they are first used */
        aid_run_prefill(&r, text, 60, 60, logits);
        aid_run_feed(&r, text, 16, 4, logits);
        assert_ok(r.g->ops->draft(r.seq, 3, DEPTH, tokens, logits, &e), e);
        r.g->ops->sequence_reset(r.seq);
    }
    long before = mem_count();
    aid_run_prefill(&r, text, 60, 60, logits);
    aid_run_feed(&r, text, 16, 4, logits);
    assert_ok(r.g->ops->draft(r.seq, 3, DEPTH, tokens, logits, &e), e);
    assert_int_equal(mem_count(), before);
    mem_free(logits);
    aid_run_close(&r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_step_sizes),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_tiers),
        cmocka_unit_test(test_neighbours),
        cmocka_unit_test(test_rollback),
        cmocka_unit_test(test_save),
        cmocka_unit_test(test_drafts),
        cmocka_unit_test(test_allocates_nothing),
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
