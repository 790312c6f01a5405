/* Drafts on the fake engine, whose logits show every token of the state: whatever is guessed, and
 * however much of it is right, text, state and figures are those of plain decoding. */
#include "tests/aid_test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "runner/generate.h"
#include "tests/aid_engine.h"

enum { V = 40, CTX = 120, PROMPT = 12, AWAY = 20 }; /* AWAY: in no short answer */

/* Guesses from the true text, right but where `wrong` has a bit (bit 0 is the first). */
struct oracle {
    const struct tokens *text; /* prompt and answer */
    unsigned wrong;
    int most;
};

static int oracle_guess(void *ctx, const int32_t *tokens, int n, int most, int32_t *out)
{
    const struct oracle *o = ctx;
    int k = most < o->most ? most : o->most;
    (void)tokens;
    for (int i = 0; i < k; i++) {
        const size_t at = (size_t)(n + i);
        out[i] = at < o->text->n ? o->text->ids[at] : AWAY;
        if (o->wrong >> i & 1)
            out[i] = (out[i] + 1) % V;
    }
    return k;
}

/* Guesses at random, out of a few likely tokens. */
static int random_guess(void *ctx, const int32_t *tokens, int n, int most, int32_t *out)
{
    uint64_t *seed = ctx;
    for (int i = 0; i < most; i++)
        out[i] =
            (int32_t)((uint64_t)tokens[n - 1] + 1 + (uint64_t)i + rng_at((*seed)++, 0) % 2) % V;
    return most;
}

struct bench {
    struct aid_fake fake;
    struct model m;
    struct sequence *seq;
    struct generate_options o;
    struct generate_result out;
    struct tokens prompt;
};

static void bench_open(struct bench *b)
{
    struct err e = {0};
    *b = (struct bench){.o = {.sample = SAMPLE_GREEDY, .max_tokens = 60}};
    aid_model_open(&b->m, &b->fake, V, CTX);
    assert_ok(b->m.engine->ops->sequence_open(b->m.engine, CTX, &b->seq, &e), e);
    for (int i = 0; i < PROMPT; i++)
        assert_ok(tokens_push(&b->prompt, i * 7 % V, &e), e);
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
    b->m.engine->ops->sequence_reset(b->seq);
    return generate(&b->m, b->seq, &b->prompt, &b->o, &b->out, e);
}

/* The logits after the state show whether its tokens are prompt and answer but the last one. */
static void check_state(struct bench *b)
{
    struct engine *g = b->m.engine;
    struct err e = {0};
    int32_t text[CTX + 1];
    float got[V], want[V];
    const size_t n_prompt = b->prompt.n, n = n_prompt + b->out.ids.n;
    memcpy(text, b->prompt.ids, n_prompt * sizeof *text);
    memcpy(text + n_prompt, b->out.ids.ids, b->out.ids.n * sizeof *text);
    assert_int_equal(g->ops->sequence_length(b->seq), n - 1);
    const struct row row = {b->seq, text[n - 1]};
    assert_ok(g->ops->step(g, &row, 1, NULL, got, &e), e);
    aid_fake_logits(text, n, V, want);
    assert_memory_equal(got, want, sizeof want);
}

static void same(const struct generate_result *a, const struct generate_result *b)
{
    assert_int_equal(a->finish, b->finish);
    assert_int_equal(a->n_generated, b->n_generated);
    assert_memory_equal(a->ids.ids, b->ids.ids, a->ids.n * sizeof *a->ids.ids);
    assert_true(a->logits_hash == b->logits_hash);
}

/* Settings whose answers differ in what a draft could spoil. */
static void set_case(struct bench *b, int i)
{
    static const int lengths[] = {1, 2, 3, 4, 5, 6, 60};
    b->o.sample = SAMPLE_GREEDY;
    b->o.max_tokens = lengths[i % 7];
    b->m.n_stop_ids = i % 3 == 1;
    b->m.stop_ids[0] = (int32_t)(PROMPT * 7 % V + i) % V;
    if (i % 2) {
        b->o.sample.temperature = 0.5 + i % 4;
        b->o.sample.top_k = i % 5 ? 0 : 3;
        b->o.sample.seed = (uint64_t)i;
    }
    if (i % 4 > 1) {
        b->o.sample.presence = 0.5;
        b->o.sample.frequency = 0.3;
        b->o.sample.repetition = 1.1;
    }
}

static void test_same_text(void **state)
{
    (void)state;
    uint64_t seed = 1;
    const struct draft_hook hook = {&seed, random_guess};
    long drafted = 0, accepted = 0;
    for (int i = 0; i < 84; i++) {
        struct bench b;
        struct err e = {0};
        bench_open(&b);
        set_case(&b, i);
        assert_ok(run(&b, &e), e);
        const struct generate_result plain = b.out;
        check_state(&b);
        b.out = (struct generate_result){0};
        for (int most = 0; most <= ENGINE_DRAFTS_MAX; most++)
            for (int how = 0; how < 8; how++) {
                b.o.draft = (struct draft_options){.most = most,
                                                   .source = (enum draft_source)(how % 3),
                                                   .always = how & 1,
                                                   .hook = how > 5 ? &hook : NULL};
                assert_ok(run(&b, &e), e);
                same(&b.out, &plain);
                check_state(&b);
                drafted += b.out.n_drafted;
                accepted += b.out.n_accepted;
            }
        struct tokens ids = plain.ids;
        tokens_free(&ids);
        bench_close(&b);
    }
    printf("note: %ld drafts, %ld right\n", drafted, accepted);
    assert_true(accepted > drafted / 10 && accepted < drafted);
}

/* Right for the first k drafts of each step and wrong then: so many rows count, and no more. */
static void test_forced_accepts(void **state)
{
    (void)state;
    for (int most = 1; most <= ENGINE_DRAFTS_MAX; most++)
        for (int right = 0; right <= most; right++) {
            struct bench b;
            struct err e = {0};
            struct oracle oracle = {.wrong = ~0u << right, .most = most};
            const struct draft_hook hook = {&oracle, oracle_guess};
            struct tokens text = {0};
            bench_open(&b);
            b.o.sample.temperature = 1;
            b.o.max_tokens = 1 + 12; /* the first comes with the prompt; 12 is divisible by 1..4 */
            assert_ok(run(&b, &e), e);
            for (size_t i = 0; i < b.prompt.n + b.out.ids.n; i++)
                assert_ok(tokens_push(
                              &text,
                              i < b.prompt.n ? b.prompt.ids[i] : b.out.ids.ids[i - b.prompt.n], &e),
                          e);
            oracle.text = &text;
            b.o.draft = (struct draft_options){.most = most, .hook = &hook};
            b.fake.n_steps = 0;
            assert_ok(run(&b, &e), e);
            assert_memory_equal(b.out.ids.ids, text.ids + b.prompt.n,
                                b.out.ids.n * sizeof *text.ids);
            check_state(&b);
            assert_int_equal(b.out.n_steps, 12 / (1 + right));
            assert_int_equal(b.out.n_accepted, 12 - 12 / (1 + right));
            assert_int_equal(b.fake.n_steps, 1 + b.out.n_steps + 1); /* check_state steps once */
            tokens_free(&text);
            bench_close(&b);
        }
}

static bool cancel_at(void *ctx)
{
    return --*(int *)ctx < 0;
}

static int refuse_text(void *ctx, const char *text, size_t len)
{
    (void)ctx, (void)text, (void)len;
    return 1;
}

/* Stopped anywhere, also while tokens wait that nobody has seen. */
static void test_cancelled_midway(void **state)
{
    (void)state;
    for (int n = 0; n < 20; n++) {
        struct generate_result plain = {0};
        for (int most = 0; most <= ENGINE_DRAFTS_MAX; most++) {
            struct bench b;
            struct err e = {0};
            int left = n;
            bench_open(&b);
            b.o.draft = (struct draft_options){.most = most, .always = true};
            b.o.cancelled = cancel_at;
            b.o.on_text = refuse_text; /* without a tokenizer there is never any */
            b.o.ctx = &left;
            assert_ok(run(&b, &e), e);
            if (n)
                check_state(&b);
            if (most)
                same(&b.out, &plain);
            else
                plain = b.out;
            if (!most)
                b.out.ids = (struct tokens){0};
            assert_int_equal(b.out.n_generated, n);
            bench_close(&b);
        }
        tokens_free(&plain.ids);
    }
}

/* The same for a caller who goes token by token and then ends it, or just closes. */
static void test_ended_by_the_caller(void **state)
{
    (void)state;
    for (int n = 1; n < 9; n++)
        for (int end = 0; end < 2; end++) {
            struct bench b;
            struct err e = {0};
            struct generation *g;
            const char *text;
            size_t len;
            bench_open(&b);
            b.o.draft = (struct draft_options){.most = 3, .always = true};
            assert_ok(generation_open(&b.m, b.seq, &b.prompt, &b.o, &g, &e), e);
            for (int i = 0; i < n; i++)
                assert_ok(generation_next(g, &text, &len, &e), e);
            assert_int_equal(generation_waiting(g), (4 - (n - 1) % 4) % 4);
            if (end) {
                assert_ok(generation_end(g, &e), e);
                assert_int_equal(generation_waiting(g), 0);
                assert_ok(generation_next(g, &text, &len, &e), e);
                assert_null(text);
            }
            assert_ok(generation_result(g, &b.out, &e), e);
            assert_int_equal(b.out.n_generated, n);
            generation_close(g);
            check_state(&b);
            bench_close(&b);
        }
}

/* A draft that the engine cannot compute is no part of the text; a token of the text is. */
static void test_bad_rows(void **state)
{
    (void)state;
    struct oracle oracle = {.most = 3};
    const struct draft_hook hook = {&oracle, oracle_guess};
    struct tokens none = {0};
    oracle.text = &none; /* all guesses are AWAY */
    for (int right = 0; right < 2; right++) {
        struct bench b;
        struct err e = {0};
        bench_open(&b);
        b.o.max_tokens = 5;
        assert_ok(run(&b, &e), e);
        const struct generate_result plain = b.out;
        b.out = (struct generate_result){0};
        b.o.draft = (struct draft_options){.most = 3, .hook = &hook};
        b.fake.bad_token = right ? plain.ids.ids[3] : AWAY;
        if (right) {
            assert_int_equal(run(&b, &e), -E_NONFINITE);
            assert_int_equal(b.m.engine->ops->sequence_length(b.seq), PROMPT + 3);
        } else {
            assert_ok(run(&b, &e), e);
            same(&b.out, &plain);
            check_state(&b);
        }
        struct tokens ids = plain.ids;
        tokens_free(&ids);
        bench_close(&b);
    }
}

static void test_refused(void **state)
{
    (void)state;
    struct bench b;
    struct err e = {0};
    bench_open(&b);
    b.o.draft.most = ENGINE_DRAFTS_MAX + 1;
    assert_int_equal(run(&b, &e), -E_ARG);
    assert_non_null(strstr(e.msg, "want 0 to 3"));
    err_clear(&e);
    b.o.draft = (struct draft_options){.most = 1, .source = DRAFTS_HEAD};
    b.m.drafts = false;
    assert_int_equal(run(&b, &e), -E_UNSUPPORTED);
    assert_non_null(strstr(e.msg, "no draft head"));
    assert_int_equal(b.fake.n_steps, 0);
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
    bench_open(&b);
    b.o.draft = (struct draft_options){.most = 3};
    for (long n = 1;; n++) {
        err_clear(&e);
        mem_fail_at(n);
        int rc = generation_open(&b.m, b.seq, &b.prompt, &b.o, &g, &e);
        mem_fail_at(0);
        if (!rc)
            break;
        assert_int_equal(rc, -E_NOMEM);
    }
    long before = mem_count();
    for (int i = 0; i < 50; i++)
        assert_ok(generation_next(g, &text, &len, &e), e);
    assert_int_equal(mem_count(), before);
    generation_close(g);
    bench_close(&b);
}

/* --- the distribution --- */

enum { SMALL = 6, ANSWERS = 6000, DEEP = 4 };

/* What the sampler draws from after these tokens, temperature t, by the definition. */
static void distribution(const int32_t *tokens, size_t n, double t, double *p)
{
    float logits[SMALL];
    double sum = 0;
    aid_fake_logits(tokens, n, SMALL, logits);
    for (int i = 0; i < SMALL; i++)
        sum += p[i] = exp(logits[i] / t);
    for (int i = 0; i < SMALL; i++)
        p[i] /= sum;
}

/* Sampled under drafts, each token follows the target's distribution given the tokens before it:
 * over all answers, chi-square of the counts of a token at each depth of the first step. The
 * histories are those of the answers themselves. */
static void test_chi_square(void **state)
{
    (void)state;
    struct bench b;
    struct err e = {0};
    double seen[DEEP][SMALL] = {{0}}, want[DEEP][SMALL] = {{0}}, variance[DEEP][SMALL] = {{0}};
    long accepted = 0;
    bench_open(&b);
    b.m.weights.config.vocab = SMALL;
    for (size_t i = 0; i < b.prompt.n; i++)
        b.prompt.ids[i] %= SMALL;
    b.o.max_tokens = 1 + DEEP;
    b.o.sample.temperature = 2.5;
    b.o.draft = (struct draft_options){.most = 3, .source = DRAFTS_HEAD, .always = true};
    for (int a = 0; a < ANSWERS; a++) {
        int32_t text[PROMPT + 1 + DEEP];
        b.o.sample.seed = (uint64_t)a;
        assert_ok(run(&b, &e), e);
        accepted += b.out.n_accepted;
        memcpy(text, b.prompt.ids, PROMPT * sizeof *text);
        memcpy(text + PROMPT, b.out.ids.ids, (1 + DEEP) * sizeof *text);
        for (int d = 0; d < DEEP; d++) {
            double p[SMALL];
            distribution(text, (size_t)(PROMPT + 1 + d), b.o.sample.temperature, p);
            seen[d][text[PROMPT + 1 + d]]++;
            for (int i = 0; i < SMALL; i++) {
                want[d][i] += p[i];
                variance[d][i] += p[i] * (1 - p[i]);
            }
        }
    }
    double worst = 0;
    for (int d = 0; d < DEEP; d++)
        for (int i = 0; i < SMALL; i++)
            worst = fmax(worst, pow(seen[d][i] - want[d][i], 2) / variance[d][i]);
    printf("worst: chi-square of one cell %.2f (1 degree of freedom, %d cells), bound 14\n", worst,
           DEEP * SMALL);
    printf("note: %ld of %d drafts right\n", accepted, ANSWERS * 3);
    assert_true(accepted > ANSWERS / 4);
    assert_true(worst < 14); /* one in 5,000 by chance for a cell */
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_text),        cmocka_unit_test(test_forced_accepts),
        cmocka_unit_test(test_cancelled_midway), cmocka_unit_test(test_ended_by_the_caller),
        cmocka_unit_test(test_bad_rows),         cmocka_unit_test(test_refused),
        cmocka_unit_test(test_memory),           cmocka_unit_test(test_chi_square),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
