/* Several answers in one step, on the fake engine: each is what it is alone, whoever joins, leaves,
 * drafts or fails beside it. */
#include "tests/aid_test.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "runner/generate.h"
#include "tests/aid_engine.h"

enum { V = 40, CTX = 120 };

struct answer {
    struct sequence *seq;
    struct tokens prompt;
    struct generate_options o;
    struct generation *g;
    struct generate_result alone, shared;
};

struct bench {
    struct aid_fake fake;
    struct model m;
    struct answer a[BATCH_MAX];
    struct batch *batch;
};

static void answer_open(struct bench *b, int i)
{
    struct answer *a = &b->a[i];
    struct err e = {0};
    assert_ok(b->m.engine->ops->sequence_open(b->m.engine, CTX, &a->seq, &e), e);
    for (int t = 0; t < 1 + 5 * i; t++)
        assert_ok(tokens_push(&a->prompt, (i + t * 7) % V, &e), e);
    a->o = (struct generate_options){.sample = SAMPLE_GREEDY, .max_tokens = 1 + i * i % 31};
    a->o.sample.temperature = i % 3;
    a->o.sample.presence = i % 2;
    a->o.sample.seed = (uint64_t)i;
    a->o.draft = (struct draft_options){.most = i % 4, .always = i % 5 > 1};
}

static void bench_open(struct bench *b, int prompt_rows)
{
    struct err e = {0};
    *b = (struct bench){.fake.prompt_rows = prompt_rows};
    aid_model_open(&b->m, &b->fake, V, CTX);
    assert_ok(batch_open(&b->m, BATCH_MAX, ENGINE_DRAFTS_MAX, &b->batch, &e), e);
    for (int i = 0; i < BATCH_MAX; i++)
        answer_open(b, i);
}

static void bench_close(struct bench *b)
{
    for (int i = 0; i < BATCH_MAX; i++) {
        tokens_free(&b->a[i].prompt);
        tokens_free(&b->a[i].alone.ids);
        tokens_free(&b->a[i].shared.ids);
        b->m.engine->ops->sequence_close(b->a[i].seq);
    }
    batch_close(b->batch);
    aid_model_close(&b->m);
}

/* The answers alone, without drafts. */
static void run_alone(struct bench *b)
{
    struct err e = {0};
    for (int i = 0; i < BATCH_MAX; i++) {
        struct generate_options o = b->a[i].o;
        o.draft = (struct draft_options){0};
        assert_ok(generate(&b->m, b->a[i].seq, &b->a[i].prompt, &o, &b->a[i].alone, &e), e);
        b->m.engine->ops->sequence_reset(b->a[i].seq);
    }
}

/* Gives all that waits; 0, or the failure. */
static int take_all(struct generation *g, bool *over, struct err *e)
{
    const char *text = "";
    size_t len;
    do
        if (generation_next(g, &text, &len, e))
            return -e->code;
    while (text && generation_waiting(g));
    *over = !text;
    return 0;
}

static void open_shared(struct bench *b, int i)
{
    struct err e = {0};
    struct answer *a = &b->a[i];
    a->o.batch = b->batch;
    assert_ok(generation_open(&b->m, a->seq, &a->prompt, &a->o, &a->g, &e), e);
}

static void close_shared(struct bench *b, int i)
{
    struct err e = {0};
    struct answer *a = &b->a[i];
    assert_ok(generation_result(a->g, &a->shared, &e), e);
    generation_close(a->g);
    a->g = NULL;
    assert_int_equal(a->shared.finish, a->alone.finish);
    assert_int_equal(a->shared.n_generated, a->alone.n_generated);
    assert_memory_equal(a->shared.ids.ids, a->alone.ids.ids,
                        a->alone.ids.n * sizeof *a->alone.ids.ids);
    assert_true(a->shared.logits_hash == a->alone.logits_hash);
    assert_int_equal(b->m.engine->ops->sequence_length(a->seq), a->prompt.n + a->alone.ids.n - 1);
}

/* Answer i joins in round 3 * (i % 4), and leaves when it is over. Returns how many steps and
 * prefills there were. */
static int join_and_leave(int prompt_rows)
{
    struct bench b;
    int n_over = 0, n_steps;
    bench_open(&b, prompt_rows);
    run_alone(&b);
    n_steps = b.fake.n_steps;
    b.fake.n_steps = 0;
    for (int round = 0; n_over < BATCH_MAX; round++) {
        struct generation *now[BATCH_MAX];
        int who[BATCH_MAX], n = 0;
        for (int i = 0; i < BATCH_MAX; i++) {
            if (round == 3 * (i % 4))
                open_shared(&b, i);
            if (b.a[i].g) {
                who[n] = i;
                now[n++] = b.a[i].g;
            }
        }
        batch_run(b.batch, now, n);
        for (int k = 0; k < n; k++) {
            struct err e = {0};
            bool over = false;
            assert_ok(take_all(now[k], &over, &e), e);
            if (over) {
                close_shared(&b, who[k]);
                n_over++;
            }
        }
    }
    printf("note: %d steps alone, %d together\n", n_steps, b.fake.n_steps);
    assert_true(b.fake.n_steps < n_steps / 3);
    n_steps = b.fake.n_steps;
    bench_close(&b);
    return n_steps;
}

/* Prompts that fit share the steps of others, and of each other. */
static void test_alone_or_together(void **state)
{
    (void)state;
    const int each = join_and_leave(0), some = join_and_leave(20), most = join_and_leave(64);
    assert_true(some < each);
    assert_true(most < some);
}

/* An answer that comes to a bad token fails, and no other. */
static void fail_one(int prompt_rows)
{
    for (int bad = 1; bad < V; bad += 6) {
        struct bench b;
        struct generation *now[BATCH_MAX];
        int n_failed = 0, n_over = 0;
        bench_open(&b, prompt_rows);
        run_alone(&b);
        b.fake.bad_token = bad;
        for (int i = 0; i < BATCH_MAX; i++) {
            open_shared(&b, i);
            now[i] = b.a[i].g;
        }
        for (bool gone[BATCH_MAX] = {false}; n_failed + n_over < BATCH_MAX;) {
            batch_run(b.batch, now, BATCH_MAX);
            for (int i = 0; i < BATCH_MAX; i++) {
                const struct generate_result *alone = &b.a[i].alone;
                struct err e = {0};
                bool fed = false;
                for (size_t t = 0; t + 1 < alone->ids.n; t++)
                    fed |= alone->ids.ids[t] == bad;
                if (gone[i])
                    continue;
                if (take_all(now[i], &gone[i], &e)) {
                    assert_true(fed);
                    assert_int_equal(e.code, E_NONFINITE);
                    gone[i] = true;
                    n_failed++;
                } else if (gone[i]) {
                    assert_false(fed);
                    n_over++;
                }
            }
        }
        for (int i = 0; i < BATCH_MAX; i++)
            generation_close(b.a[i].g);
        assert_true(n_over > 0);
        bench_close(&b);
    }
}

static void test_one_fails(void **state)
{
    (void)state;
    fail_one(0);
    fail_one(64);
}

/* The disk fails for one step: each answer is tried again alone, and none ends. */
static void fail_a_step(int prompt_rows, int fail_step)
{
    struct bench b;
    struct generation *now[3];
    bench_open(&b, prompt_rows);
    for (int i = 0; i < 3; i++) {
        b.a[i].o.max_tokens = 9;
        open_shared(&b, i);
        now[i] = b.a[i].g;
    }
    b.fake.fail_step = fail_step;
    for (int round = 0; round < 6; round++) {
        batch_run(b.batch, now, 3);
        for (int i = 0; i < 3; i++) {
            struct err e = {0};
            bool over = false;
            assert_ok(take_all(now[i], &over, &e), e);
        }
    }
    for (int i = 0; i < 3; i++)
        generation_close(now[i]);
    bench_close(&b);
}

static void test_step_fails(void **state)
{
    (void)state;
    fail_a_step(0, 3 + 2); /* behind the prompts and a step */
    fail_a_step(64, 1);    /* that of the prompts */
    fail_a_step(64, 3);
}

/* Two answers in turn, token by token, each with a batch of its own: nothing stays pending while
 * the other steps, and one that is ended early leaves a sequence that can be fed again. */
static void test_turns(void **state)
{
    (void)state;
    for (int n = 1; n < 30; n++) {
        struct bench b;
        struct err e = {0};
        bench_open(&b, 0);
        for (int i = 0; i < 2; i++)
            b.a[i].o.max_tokens = 30;
        run_alone(&b);
        for (int i = 0; i < 2; i++) {
            b.a[i].o.draft = (struct draft_options){.most = 3, .always = true};
            assert_ok(generation_open(&b.m, b.a[i].seq, &b.a[i].prompt, &b.a[i].o, &b.a[i].g, &e),
                      e);
        }
        for (int t = 0; t < n; t++)
            for (int i = 0; i < 2; i++) {
                const char *text;
                size_t len;
                assert_ok(generation_next(b.a[i].g, &text, &len, &e), e);
            }
        for (int i = 0; i < 2; i++) {
            struct answer *a = &b.a[i];
            assert_ok(generation_end(a->g, &e), e);
            assert_ok(generation_result(a->g, &a->shared, &e), e);
            generation_close(a->g);
            assert_int_equal(a->shared.n_generated, n);
            assert_memory_equal(a->shared.ids.ids, a->alone.ids.ids, (size_t)n * sizeof(int32_t));
            const int held = b.m.engine->ops->sequence_length(a->seq);
            assert_true(held == 0 || held == (int)a->prompt.n + n - 1);
        }
        bench_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone_or_together),
        cmocka_unit_test(test_one_fails),
        cmocka_unit_test(test_step_fails),
        cmocka_unit_test(test_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
