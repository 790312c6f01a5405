/* The generation loop on the fake engine: what is fed, when it stops, what it costs, what it
 * refuses. */
#include "tests/aid_test.h"

#include <string.h>

#include "base/mem.h"
#include "runner/generate.h"
#include "tests/aid_engine.h"

enum { V = 300, CTX = 400 };

struct bench {
    struct aid_fake fake;
    struct model m;
    struct sequence *seq;
    struct generate_options o;
    struct generate_result out;
    struct tokens prompt;
};

static void bench_open(struct bench *b, int n_prompt)
{
    struct err e = {0};
    *b = (struct bench){.o = {.sample = SAMPLE_GREEDY}};
    aid_model_open(&b->m, &b->fake, V, CTX);
    assert_ok(b->m.engine->ops->sequence_open(b->m.engine, CTX, &b->seq, &e), e);
    for (int i = 0; i < n_prompt; i++)
        assert_ok(tokens_push(&b->prompt, i * 37 % V, &e), e);
}

static void bench_close(struct bench *b)
{
    tokens_free(&b->prompt);
    tokens_free(&b->out.ids);
    b->m.engine->ops->sequence_close(b->seq);
    aid_model_close(&b->m);
}

static int run(struct bench *b, struct err *e)
{
    tokens_free(&b->out.ids);
    b->out = (struct generate_result){0};
    return generate(&b->m, b->seq, &b->prompt, &b->o, &b->out, e);
}

static void test_counts_upwards(void **state)
{
    (void)state;
    struct bench b;
    struct err e = {0};
    bench_open(&b, 130);
    b.o.max_tokens = 10;
    assert_ok(run(&b, &e), e);
    assert_int_equal(b.out.finish, FINISH_LENGTH);
    assert_int_equal(b.out.n_prompt, 130);
    assert_int_equal(b.out.n_generated, 10);
    for (int i = 0; i < 10; i++)
        assert_int_equal(b.out.ids.ids[i], (b.prompt.ids[129] + 1 + i) % V);
    assert_int_equal(b.fake.n_rows, 139);    /* the last token is not fed */
    assert_int_equal(b.fake.n_steps, 3 + 9); /* chunks of 64, 64 and 2; 9 answers */
    assert_int_equal(b.m.engine->ops->sequence_length(b.seq), 139);
    bench_close(&b);
}

/* The state may hold any part of the prompt already: same tokens, same logits. */
static void test_reuse(void **state)
{
    (void)state;
    struct bench b;
    struct err e = {0};
    bench_open(&b, 90);
    b.o.sample.temperature = 1;
    b.o.max_tokens = 5;
    assert_ok(run(&b, &e), e);
    const uint64_t hash = b.out.logits_hash;
    int32_t ids[5];
    memcpy(ids, b.out.ids.ids, sizeof ids);
    for (int n_cached = 0; n_cached < 90; n_cached += 11) {
        b.m.engine->ops->sequence_reset(b.seq);
        for (int i = 0; i < n_cached; i++) {
            float logits[V];
            struct row row = {b.seq, b.prompt.ids[i]};
            assert_ok(b.m.engine->ops->step(b.m.engine, &row, 1, NULL, logits, &e), e);
            assert_ok(b.m.engine->ops->commit(b.m.engine, b.seq, 1, &e), e);
        }
        assert_ok(run(&b, &e), e);
        assert_int_equal(b.out.n_cached, n_cached);
        assert_memory_equal(b.out.ids.ids, ids, sizeof ids);
        assert_true(b.out.logits_hash == hash);
    }
    bench_close(&b);
}

static void test_stop_ids(void **state)
{
    (void)state;
    struct bench b;
    struct err e = {0};
    bench_open(&b, 1); /* token 0, so the answer is 1, 2, 3, ... */
    b.m.stop_ids[0] = 4;
    b.m.n_stop_ids = 1;
    assert_ok(run(&b, &e), e);
    assert_int_equal(b.out.finish, FINISH_STOP);
    assert_int_equal(b.out.n_generated, 4);
    assert_int_equal(b.out.ids.ids[3], 4);
    b.m.engine->ops->sequence_reset(b.seq);
    b.o.ignore_stop_ids = true;
    b.o.max_tokens = 6;
    assert_ok(run(&b, &e), e);
    assert_int_equal(b.out.finish, FINISH_LENGTH);
    assert_int_equal(b.out.ids.ids[5], 6);
    bench_close(&b);
}

static void test_context_fills(void **state)
{
    (void)state;
    struct bench b;
    struct err e = {0};
    bench_open(&b, CTX - 3);
    b.o.max_tokens = 1000;
    assert_ok(run(&b, &e), e);
    assert_int_equal(b.out.finish, FINISH_LENGTH);
    assert_int_equal(b.out.n_generated, 3);
    bench_close(&b);
}

static void test_refused_before_computing(void **state)
{
    (void)state;
    struct bench b;
    struct err e = {0};
    bench_open(&b, 0);
    assert_int_equal(run(&b, &e), -E_ARG);
    assert_non_null(strstr(e.msg, "no tokens"));
    bench_close(&b);

    bench_open(&b, CTX);
    err_clear(&e);
    assert_int_equal(run(&b, &e), -E_LIMIT);
    assert_non_null(strstr(e.msg, "400 tokens and the context holds 400"));
    b.prompt.n = 10;
    const int32_t wrong_id[] = {-1, V};
    for (int i = 0; i < 2; i++) {
        err_clear(&e);
        b.prompt.ids[9] = wrong_id[i];
        assert_int_equal(run(&b, &e), -E_ARG);
        assert_non_null(strstr(e.msg, "token 9 has the id"));
    }
    b.prompt.ids[9] = 1;
    err_clear(&e);
    b.o.sample.top_p = 2;
    assert_int_equal(run(&b, &e), -E_ARG);
    const char *const words[] = {"end"};
    b.o = (struct generate_options){.sample = SAMPLE_GREEDY, .stop = words, .n_stop = 1};
    err_clear(&e);
    assert_int_equal(run(&b, &e), -E_ARG);
    assert_int_equal(b.fake.n_steps, 0);
    bench_close(&b);

    bench_open(&b, 10);
    b.o.max_tokens = 1;
    err_clear(&e);
    assert_ok(run(&b, &e), e);
    assert_int_equal(run(&b, &e), -E_ARG); /* the state holds all of the prompt */
    bench_close(&b);
}

static bool cancel_at(void *ctx)
{
    return --*(int *)ctx < 0;
}

static void test_cancel(void **state)
{
    (void)state;
    for (int n = 0; n < 9; n++) {
        struct bench b;
        struct err e = {0};
        int left = n;
        bench_open(&b, 200); /* four chunks */
        b.o.cancelled = cancel_at;
        b.o.ctx = &left;
        assert_ok(run(&b, &e), e);
        assert_int_equal(b.out.finish, FINISH_INTERRUPTED);
        assert_int_equal(b.out.n_generated, n < 4 ? 0 : n - 3);
        assert_int_equal(b.m.engine->ops->sequence_length(b.seq), n < 4 ? 64 * n : 200 + n - 4);
        assert_int_equal(b.out.logits_hash != 0, n >= 4);
        bench_close(&b);
    }
}

static void test_engine_fails(void **state)
{
    (void)state;
    for (int step = 1; step < 8; step++) {
        struct bench b;
        struct err e = {0};
        bench_open(&b, 100);
        b.fake.fail_step = step;
        assert_int_equal(run(&b, &e), -E_IO);
        assert_non_null(strstr(e.msg, "disk is gone"));
        bench_close(&b);
    }
    struct bench b;
    struct err e = {0};
    bench_open(&b, 10);
    b.fake.nan_step = 4;
    assert_int_equal(run(&b, &e), -E_NONFINITE);
    assert_non_null(strstr(e.msg, "position 12"));
    bench_close(&b);
}

/* Whoever wants logprobs makes steps whose logits are wanted; the others ask for the best token.
 * The answer is the same. */
static void test_best_is_greedy(void **state)
{
    (void)state;
    struct bench b;
    struct err e = {0};
    int32_t ids[20];
    bench_open(&b, 70);
    b.o.max_tokens = 20;
    assert_ok(run(&b, &e), e);
    const uint64_t hash = b.out.logits_hash;
    memcpy(ids, b.out.ids.ids, sizeof ids);
    b.m.engine->ops->sequence_reset(b.seq);
    b.o.logprobs = true;
    assert_ok(run(&b, &e), e);
    assert_memory_equal(b.out.ids.ids, ids, sizeof ids);
    assert_true(b.out.logits_hash == hash);
    bench_close(&b);
}

/* Penalties see the prompt: with frequency 5 no token of it or of the answer comes again soon. */
static void test_penalties_see_the_prompt(void **state)
{
    (void)state;
    struct bench b;
    struct err e = {0};
    bench_open(&b, 2);
    b.prompt.ids[0] = 8;
    b.prompt.ids[1] = 7; /* 8 would follow */
    b.o.sample.frequency = 5;
    b.o.max_tokens = 40;
    assert_ok(run(&b, &e), e);
    bool seen[V] = {[7] = true, [8] = true};
    for (size_t i = 0; i < b.out.ids.n; i++) {
        assert_false(seen[b.out.ids.ids[i]]);
        seen[b.out.ids.ids[i]] = true;
    }
    bench_close(&b);
}

static void test_memory(void **state)
{
    (void)state;
    struct bench b;
    struct err e = {0};
    struct generation *g = NULL;
    const char *text;
    size_t len;
    long n = 1;
    bench_open(&b, 20);
    for (;; n++) {
        err_clear(&e);
        mem_fail_at(n);
        int rc = generation_open(&b.m, b.seq, &b.prompt, &b.o, &g, &e);
        mem_fail_at(0);
        if (!rc)
            break;
        assert_int_equal(rc, -E_NOMEM);
    }
    assert_true(n > 5);
    long before = mem_count();
    for (int i = 0; i < 30; i++) {
        assert_ok(generation_next(g, &text, &len, &e), e);
        assert_non_null(text);
    }
    assert_int_equal(mem_count(), before);
    generation_close(g);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_upwards),
        cmocka_unit_test(test_reuse),
        cmocka_unit_test(test_stop_ids),
        cmocka_unit_test(test_context_fills),
        cmocka_unit_test(test_refused_before_computing),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_engine_fails),
        cmocka_unit_test(test_best_is_greedy),
        cmocka_unit_test(test_penalties_see_the_prompt),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
