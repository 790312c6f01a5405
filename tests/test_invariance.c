/* Engine "cpu": the same bits, whatever the way to them. Each test compares logits, drafts and the
 * bytes of a save, all exactly, with a run of single steps. */
#include "tests/aid_test.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cpuid.h"
#include "base/mem.h"
#include "tests/aid_cpu.h"
#include "tests/aid_golden.h"

enum { TEXT = 200, CTX = 256, TAIL = 5, DEPTH = 3 };

static struct aid_packed packed; /* "micro": a QSA budget of 16 tokens */
static int32_t text[TEXT];
static int n_text; /* fewer in slow builds */

static int set_up(void **state)
{
    (void)state;
    aid_packed_open(&packed, aid_golden("micro"));
    aid_tokens(11, packed.w.config.vocab, TEXT, text);
    n_text = aid_slower() > 1 ? 40 : 100;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    aid_packed_close(&packed);
    return 0;
}

static void add_save(struct aid_run *r, struct buf *out)
{
    struct err e = {0};
    assert_ok(r->g->ops->save(r->g, r->seq, out, &e), e);
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

static void same_bytes(const struct buf *got, const struct buf *want, const char *what, int which)
{
    struct err e = {0};
    assert_ok(buf_check(got, &e), e);
    if (got->len != want->len || memcmp(got->data, want->data, got->len) != 0)
        fail_msg("%s %d: other bits than single steps give", what, which);
}

/* What single steps give. */
static void truth(struct buf *out)
{
    struct aid_run r;
    buf_clear(out);
    aid_run_open(&r, &cpu_engine, &packed.w, &aid_run_defaults, CTX);
    aid_run_feed(&r, text, n_text - TAIL, 1, NULL);
    add_tail(&r, out);
    aid_run_close(&r);
}

static void test_chunks(void **state)
{
    static const int chunks[] = {1, 2, 3, 7, 64, TEXT};
    struct engine_options o = aid_run_defaults;
    struct buf want = BUF_INIT, got = BUF_INIT;
    struct aid_run r;
    (void)state;
    truth(&want);
    o.chunk = TEXT;
    aid_run_open(&r, &cpu_engine, &packed.w, &o, CTX);
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        buf_clear(&got);
        r.g->ops->sequence_reset(r.seq);
        aid_run_prefill(&r, text, n_text - TAIL, chunks[i], NULL);
        add_tail(&r, &got);
        same_bytes(&got, &want, "chunks of", chunks[i]);
    }
    aid_run_close(&r);
    buf_free(&want);
    buf_free(&got);
}

static void test_step_sizes(void **state)
{
    static const int sizes[] = {2, 3, 5, 16, 64};
    struct buf want = BUF_INIT, got = BUF_INIT;
    struct aid_run r;
    (void)state;
    truth(&want);
    aid_run_open(&r, &cpu_engine, &packed.w, &aid_run_defaults, CTX);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        buf_clear(&got);
        r.g->ops->sequence_reset(r.seq);
        aid_run_feed(&r, text, n_text - TAIL, sizes[i], NULL);
        add_tail(&r, &got);
        same_bytes(&got, &want, "steps of", sizes[i]);
    }
    aid_run_close(&r);
    buf_free(&want);
    buf_free(&got);
}

static void test_threads(void **state)
{
    struct engine_options o = aid_run_defaults;
    struct buf want = BUF_INIT, got = BUF_INIT;
    (void)state;
    truth(&want);
    for (int threads = 1; threads <= 4; threads++) {
        struct aid_run r;
        o.threads = threads;
        buf_clear(&got);
        aid_run_open(&r, &cpu_engine, &packed.w, &o, CTX);
        aid_run_feed(&r, text, 24, 1, NULL);
        aid_run_prefill(&r, text + 24, n_text - TAIL - 24, 64, NULL);
        add_tail(&r, &got);
        aid_run_close(&r);
        same_bytes(&got, &want, "threads:", threads);
    }
    buf_free(&want);
    buf_free(&got);
}

/* Kernels of every kind that this processor has. */
static void test_tiers(void **state)
{
    static const char *const tiers[] = {"ref", "avx2", "avx512", "neon"};
    struct buf want = BUF_INIT, got = BUF_INIT;
    const char *was = getenv("CHERENKOV_CPU");
    char *kept = was ? mem_strdup(was) : NULL;
    int n = 0;
    (void)state;
    truth(&want);
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
    buf_free(&want);
    buf_free(&got);
}

/* One of `n` sequences in a step; the others have rows before and behind it, one to three each. */
static void feed_among(struct aid_run *r, struct sequence *const *others, int n, int i,
                       float *logits)
{
    struct err e = {0};
    struct row rows[ENGINE_ROWS_MAX];
    bool want[ENGINE_ROWS_MAX] = {0};
    int R = 0, at = 0, each[8];
    float *all = mem_array((size_t)r->vocab * ENGINE_ROWS_MAX, sizeof *all);
    assert_non_null(all);
    for (int j = 0; j <= n; j++) {
        if (j == n / 2) {
            at = R;
            want[R] = true;
            rows[R++] = (struct row){r->seq, text[i]};
        }
        if (j == n)
            break;
        each[j] = 1 + (i + j) % 3;
        for (int k = 0; k < each[j]; k++)
            rows[R++] = (struct row){others[j], text[(i * 7 + j * 13 + k) % n_text]};
    }
    assert_ok(r->g->ops->step(r->g, rows, R, want, all, &e), e);
    memcpy(logits, all + (size_t)at * (size_t)r->vocab, (size_t)r->vocab * sizeof *logits);
    assert_ok(r->g->ops->commit(r->g, r->seq, 1, &e), e);
    for (int j = 0; j < n; j++)
        assert_ok(r->g->ops->commit(r->g, others[j], (i + j) % (each[j] + 1), &e), e);
    mem_free(all);
}

static void test_neighbours(void **state)
{
    enum { N = 7, STEPS = 30 };
    struct aid_run r;
    struct sequence *others[N];
    struct err e = {0};
    struct buf want = BUF_INIT, got = BUF_INIT;
    (void)state;
    aid_run_open(&r, &cpu_engine, &packed.w, &aid_run_defaults, CTX);
    float *logits = mem_array((size_t)r.vocab * STEPS, sizeof *logits);
    float *one = mem_array((size_t)r.vocab, sizeof *one);
    assert_true(logits && one);
    aid_run_feed(&r, text, STEPS, 1, logits);
    add_save(&r, &want);
    for (int i = 0; i < N; i++)
        assert_ok(r.g->ops->sequence_open(r.g, CTX, &others[i], &e), e);
    for (int n = 1; n <= N; n++) {
        r.g->ops->sequence_reset(r.seq);
        for (int i = 0; i < STEPS; i++) {
            feed_among(&r, others, n, i, one);
            aid_same_floats(one, logits + (size_t)i * (size_t)r.vocab, (size_t)r.vocab,
                            "among neighbours");
        }
        buf_clear(&got);
        add_save(&r, &got);
        same_bytes(&got, &want, "neighbours:", n);
        for (int i = 0; i < N; i++)
            r.g->ops->sequence_reset(others[i]);
    }
    for (int i = 0; i < N; i++)
        r.g->ops->sequence_close(others[i]);
    mem_free(logits);
    mem_free(one);
    aid_run_close(&r);
    buf_free(&want);
    buf_free(&got);
}

/* Rows that are taken back leave nothing: R wrong or right rows, n of which are kept. */
static void test_rollback(void **state)
{
    struct err e = {0};
    struct buf want = BUF_INIT, got = BUF_INIT;
    struct aid_run r;
    (void)state;
    truth(&want);
    aid_run_open(&r, &cpu_engine, &packed.w, &aid_run_defaults, CTX);
    float *logits = mem_array((size_t)r.vocab * ENGINE_ROWS_MAX, sizeof *logits);
    assert_non_null(logits);
    for (int at = 0, i = 0; at < n_text - TAIL; i++) {
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
    buf_free(&want);
    buf_free(&got);
}

/* At every position of a text that crosses the budget: saved, restored elsewhere, and on. */
static void test_save(void **state)
{
    int n = aid_slower() > 1 ? 30 : TEXT;
    struct err e = {0};
    struct buf save = BUF_INIT, again = BUF_INIT;
    struct aid_run r;
    struct sequence *other;
    (void)state;
    aid_run_open(&r, &cpu_engine, &packed.w, &aid_run_defaults, CTX);
    assert_ok(r.g->ops->sequence_open(r.g, CTX, &other, &e), e);
    float *logits = mem_array((size_t)r.vocab * 2, sizeof *logits), *second = logits + r.vocab;
    assert_non_null(logits);
    for (int i = 0; i < n; i++) {
        const struct row row = {other, text[i]};
        buf_clear(&save);
        buf_clear(&again);
        add_save(&r, &save);
        assert_ok(r.g->ops->restore(r.g, other, save.data, save.len, &e), e);
        assert_ok(r.g->ops->save(r.g, other, &again, &e), e);
        same_bytes(&again, &save, "save at", i);
        assert_ok(r.g->ops->step(r.g, &row, 1, NULL, second, &e), e);
        aid_run_feed(&r, text + i, 1, 1, logits);
        aid_same_floats(second, logits, (size_t)r.vocab, "after a restore");
    }
    r.g->ops->sequence_close(other);
    mem_free(logits);
    aid_run_close(&r);
    buf_free(&save);
    buf_free(&again);
}

/* Drafting between steps changes neither the state nor what follows. */
static void test_drafts(void **state)
{
    struct buf want = BUF_INIT, got = BUF_INIT, drafts = BUF_INIT;
    struct aid_run r;
    (void)state;
    truth(&want);
    aid_run_open(&r, &cpu_engine, &packed.w, &aid_run_defaults, CTX);
    for (int i = 0; i < n_text - TAIL; i++) {
        aid_run_feed(&r, text + i, 1, 1, NULL);
        buf_clear(&drafts);
        add_drafts(&r, text[(i * 3) % n_text], &drafts);
    }
    add_tail(&r, &got);
    same_bytes(&got, &want, "drafts", DEPTH);
    aid_run_close(&r);
    buf_free(&want);
    buf_free(&got);
    buf_free(&drafts);
}

static void test_allocates_nothing(void **state)
{
    struct err e = {0};
    int32_t tokens[DEPTH];
    struct aid_run r;
    (void)state;
    aid_run_open(&r, &cpu_engine, &packed.w, &aid_run_defaults, CTX);
    float *logits = mem_array((size_t)r.vocab * 16, sizeof *logits);
    assert_non_null(logits);
    long before = mem_count();
    aid_run_prefill(&r, text, 60, 60, logits);
    aid_run_feed(&r, text, 16, 4, logits);
    assert_ok(r.g->ops->draft(r.seq, 3, DEPTH, tokens, logits, &e), e);
    assert_int_equal(mem_count(), before);
    mem_free(logits);
    aid_run_close(&r);
}

int main(void)
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
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
