/* Logits of given tokens and perplexity on the fake engine, against what its rule says directly. */
#include "tests/aid_test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "runner/perplexity.h"
#include "runner/score.h"
#include "tests/aid_engine.h"

enum { V = 60, N = 150 };

struct bench {
    struct aid_fake fake;
    struct model m;
    struct sequence *seq;
    int32_t ids[N];
    size_t next_row, next_draft; /* positions that must come next */
    int fail_row;                /* this one fails */
};

static void bench_open(struct bench *b, int ctx)
{
    struct err e = {0};
    *b = (struct bench){.fail_row = -1};
    aid_model_open(&b->m, &b->fake, V, ctx);
    assert_ok(b->m.engine->ops->sequence_open(b->m.engine, ctx, &b->seq, &e), e);
    for (int i = 0; i < N; i++)
        b->ids[i] = i * i % V;
}

static void bench_close(struct bench *b)
{
    b->m.engine->ops->sequence_close(b->seq);
    aid_model_close(&b->m);
}

static int on_row(void *ctx, size_t pos, const float *logits, struct err *e)
{
    struct bench *b = ctx;
    float want[V];
    assert_int_equal(pos, b->next_row++);
    if ((int)pos == b->fail_row)
        return ERR(e, E_INTERRUPTED, "stopped");
    aid_fake_logits(b->ids, pos + 1, V, want);
    assert_memory_equal(logits, want, sizeof want);
    return 0;
}

static int on_draft(void *ctx, size_t pos, const float *logits, struct err *e)
{
    struct bench *b = ctx;
    float want[V];
    (void)e;
    assert_int_equal(pos, b->next_draft++);
    assert_int_equal(pos, b->next_row - 1); /* right behind its row */
    aid_fake_logits(b->ids, pos + 2, V, want);
    assert_memory_equal(logits, want, sizeof want);
    return 0;
}

static void test_rows(void **state)
{
    (void)state;
    static const size_t lengths[] = {1, 2, 15, 16, 17, 64, 65, N};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        for (size_t last = 1; last <= lengths[i]; last += 1 + last / 2)
            for (int drafts = 0; drafts < 2; drafts++) {
                const size_t n = lengths[i];
                struct err e = {0};
                struct bench b;
                bench_open(&b, N + 1);
                b.next_row = b.next_draft = n - last;
                struct score s = {.engine = b.m.engine,
                                  .seq = b.seq,
                                  .ids = b.ids,
                                  .n = n,
                                  .n_known = n,
                                  .from = n - last,
                                  .drafts = drafts,
                                  .ctx = &b,
                                  .row = on_row,
                                  .draft = on_draft};
                assert_ok(score_run(&s, &e), e);
                assert_int_equal(b.next_row, n);
                assert_int_equal(b.next_draft, drafts ? n - 1 : n - last);
                assert_int_equal(b.fake.n_rows, n);
                bench_close(&b);
            }
}

static void test_row_fails(void **state)
{
    (void)state;
    struct err e = {0};
    struct bench b;
    bench_open(&b, N);
    b.fail_row = 20;
    struct score s = {.engine = b.m.engine,
                      .seq = b.seq,
                      .ids = b.ids,
                      .n = N,
                      .n_known = N,
                      .ctx = &b,
                      .row = on_row};
    assert_int_equal(score_run(&s, &e), -E_INTERRUPTED);
    assert_int_equal(b.next_row, 21);
    bench_close(&b);
    bench_open(&b, 30);
    s.engine = b.m.engine;
    s.seq = b.seq;
    err_clear(&e);
    assert_int_equal(score_run(&s, &e), -E_LIMIT);
    bench_close(&b);
}

static void test_greedy(void **state)
{
    (void)state;
    struct err e = {0};
    struct bench b;
    struct tokens out = {0};
    bench_open(&b, 10);
    assert_ok(score_greedy(b.m.engine, b.seq, 55, 11, &out, &e), e); /* the last is not fed */
    assert_int_equal(out.n, 11);
    for (int i = 0; i < 11; i++)
        assert_int_equal(out.ids[i], (55 + i) % V);
    tokens_free(&out);
    bench_close(&b);
}

static void test_nll(void **state)
{
    (void)state;
    const float logits[4] = {1, 2, 3, 1000};
    assert_true(fabs(score_nll(logits, 3, 1) - 1.40760596444438) < 1e-12);
    assert_true(score_nll(logits, 4, 3) == 0); /* no overflow */
    assert_true(score_nll(logits, 4, 0) == 999);
}

/* By the definition: the window of a token is the first that reaches it. */
static double plain_nll(const int32_t *ids, int window, int stride, int i)
{
    int begin = 0;
    float logits[V];
    while (begin + window <= i)
        begin += stride;
    aid_fake_logits(ids + begin, (size_t)(i - begin), V, logits);
    double sum = 0;
    for (int v = 0; v < V; v++)
        sum += exp(logits[v]);
    return log(sum) - logits[ids[i]];
}

static void test_perplexity(void **state)
{
    (void)state;
    static const int shapes[][2] = {{2, 1},  {3, 2},    {10, 1},  {10, 5},
                                    {10, 9}, {149, 75}, {150, 1}, {400, 200}};
    double worst = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const int window = shapes[i][0], stride = shapes[i][1];
        struct err e = {0};
        struct bench b;
        double nll[N];
        bench_open(&b, window < N ? window : N);
        const struct tokens ids = {b.ids, N, N};
        const struct perplexity_options o = {window, stride, NULL, NULL};
        assert_ok(perplexity_run(b.m.engine, b.seq, &ids, &o, nll, &e), e);
        assert_true(nll[0] == 0);
        for (int t = 1; t < N; t++)
            worst = fmax(worst, fabs(nll[t] - plain_nll(b.ids, window, stride, t)));
        bench_close(&b);
    }
    printf("worst: nll off by %.3g, bound 1e-12\n", worst);
    assert_true(worst < 1e-12);
}

static bool always(void *ctx)
{
    (void)ctx;
    return true;
}

static void test_perplexity_refuses(void **state)
{
    (void)state;
    struct err e = {0};
    struct bench b;
    double nll[N];
    bench_open(&b, N);
    const struct tokens one = {b.ids, 1, 1}, all = {b.ids, N, N};
    struct perplexity_options o = {10, 5, NULL, NULL};
    assert_int_equal(perplexity_run(b.m.engine, b.seq, &one, &o, nll, &e), -E_ARG);
    for (int stride = -1; stride < 30; stride += stride == 0 ? 10 : 1) {
        o.stride = stride;
        err_clear(&e);
        assert_int_equal(perplexity_run(b.m.engine, b.seq, &all, &o, nll, &e), -E_ARG);
    }
    o = (struct perplexity_options){10, 5, NULL, always};
    err_clear(&e);
    assert_int_equal(perplexity_run(b.m.engine, b.seq, &all, &o, nll, &e), -E_INTERRUPTED);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),       cmocka_unit_test(test_row_fails),
        cmocka_unit_test(test_greedy),     cmocka_unit_test(test_nll),
        cmocka_unit_test(test_perplexity), cmocka_unit_test(test_perplexity_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
