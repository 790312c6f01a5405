/* Drafts on every engine there is, with the packed demonstration model: its own draft head and
 * prompt lookup at every depth give the text of plain decoding; a save does not know what follows
 * it.
 * Runs in release alone. */
#include "tests/aid_demo.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "runner/engines.h"
#include "runner/generate.h"
#include "tests/aid_cpu.h"

enum { CTX = 128, TOKENS = 14, CASES = 3 };

struct bench {
    struct model *m;
    struct engine *g;
    struct sequence *seq;
    struct tokens prompt;
    struct buf text;
    struct generate_result out;
};

static void bench_open(struct bench *b, const struct engine_ops *ops)
{
    struct model_options o = MODEL_OPTIONS;
    struct err e = {0};
    *b = (struct bench){0};
    o.engine = ops->name;
    o.engine_options.drafts = true;
    o.engine_options.n_sequences = 2;
    o.ctx = CTX;
    assert_ok(model_open(aid_demo_store, &o, &b->m, &e), e);
    b->g = b->m->engine;
    assert_ok(b->g->ops->sequence_open(b->g, CTX, &b->seq, &e), e);
    static const char text[] = "said the king. said the king. said the";
    assert_ok(tokenizer_encode(b->m->tokenizer, text, strlen(text), false, &b->prompt, &e), e);
}

static void bench_close(struct bench *b)
{
    tokens_free(&b->prompt);
    tokens_free(&b->out.ids);
    buf_free(&b->text);
    b->g->ops->sequence_close(b->seq);
    model_close(b->m);
}

static int keep(void *ctx, const char *text, size_t len)
{
    struct bench *b = ctx;
    buf_add(&b->text, text, len);
    return 0;
}

static void run(struct bench *b, struct generate_options o)
{
    struct err e = {0};
    o.on_text = keep;
    o.ctx = b;
    buf_clear(&b->text);
    tokens_free(&b->out.ids);
    b->g->ops->sequence_reset(b->seq);
    assert_ok(generate(b->m, b->seq, &b->prompt, &o, &b->out, &e), e);
}

/* The words of the text that a stop string is made of, over two tokens at least. */
static struct generate_options make_case(int i, const char *const *stop)
{
    struct generate_options o = {.sample = SAMPLE_GREEDY, .max_tokens = TOKENS};
    if (i > 0) {
        o.sample.temperature = 1;
        o.sample.top_k = 40;
        o.sample.seed = 3;
    }
    if (i >= 2) {
        o.sample.frequency = 0.4;
        o.sample.repetition = 1.2;
    }
    o.stop = stop;
    o.n_stop = *stop != NULL;
    return o;
}

static void check_drafts(struct bench *b, const struct generate_options *plain_o, const char *name)
{
    struct buf saved = BUF_INIT, again = BUF_INIT;
    struct err e = {0};
    struct generate_options o = *plain_o;
    run(b, o);
    const struct generate_result plain = b->out;
    char *text = mem_strdup(buf_str(&b->text));
    b->out = (struct generate_result){0};
    assert_ok(b->g->ops->save(b->g, b->seq, &saved, &e), e);
    for (int source = DRAFTS_HEAD; source <= DRAFTS_LOOKUP; source++)
        for (int most = source == DRAFTS_HEAD ? 1 : 3; most <= ENGINE_DRAFTS_MAX; most++) {
            o.draft = (struct draft_options){most, (enum draft_source)source, true, NULL};
            run(b, o);
            assert_string_equal(buf_str(&b->text), text);
            assert_int_equal(b->out.n_generated, plain.n_generated);
            assert_memory_equal(b->out.ids.ids, plain.ids.ids, plain.ids.n * sizeof *plain.ids.ids);
            assert_int_equal(b->out.finish, plain.finish);
            assert_true(b->out.logits_hash == plain.logits_hash);
            buf_clear(&again);
            assert_ok(b->g->ops->save(b->g, b->seq, &again, &e), e);
            assert_int_equal(again.len, saved.len);
            assert_memory_equal(again.data, saved.data, saved.len);
            if (most == ENGINE_DRAFTS_MAX)
                printf("note: %s, %s, %s: %d of %d drafts right, %d tokens in %d steps\n",
                       b->g->ops->name, name, source == DRAFTS_HEAD ? "head" : "lookup",
                       b->out.n_accepted, b->out.n_drafted, b->out.n_generated, b->out.n_steps);
        }
    struct tokens ids = plain.ids;
    tokens_free(&ids);
    mem_free(text);
    buf_free(&saved);
    buf_free(&again);
}

static void test_same_text(void **state)
{
    (void)state;
    static const char *const names[CASES] = {"greedy", "sampled", "sampled with penalties"};
    for (int i = 0; aid_engine_at(i); i++) {
        struct bench b;
        bench_open(&b, aid_engine_at(i));
        const char *stop = NULL;
        for (int c = 0; c < CASES; c++) {
            struct generate_options o = make_case(c, &stop);
            check_drafts(&b, &o, names[c]);
        }
        bench_close(&b);
    }
}

/* Each stretch of the greedy answer that begins somewhere in a token as a stop string: it is found
 * across tokens of one step and of two, and the state ends where plain decoding ends. */
static void test_stop_strings(void **state)
{
    (void)state;
    for (int i = 0; aid_engine_at(i); i++) {
        struct bench b;
        const char *none = NULL;
        bench_open(&b, aid_engine_at(i));
        run(&b, make_case(0, &none));
        char *text = mem_strdup(buf_str(&b.text));
        for (size_t at = 8; at + 7 < strlen(text) && at < 30; at += 11) {
            char *word = mem_strndup(text + at, 7);
            const char *stop = word;
            struct generate_options o = make_case(0, &stop);
            check_drafts(&b, &o, "stop string");
            assert_int_equal(b.out.finish, FINISH_STOP);
            mem_free(word);
        }
        mem_free(text);
        bench_close(&b);
    }
}

/* Saved in the middle of an answer, restored elsewhere, gone on: the answer as if never stopped. */
static void test_saved_midway(void **state)
{
    (void)state;
    for (int i = 0; aid_engine_at(i); i++) {
        struct bench b;
        struct err e = {0};
        struct buf save = BUF_INIT;
        struct sequence *other;
        const char *none = NULL;
        struct generate_options o = make_case(2, &none);
        bench_open(&b, aid_engine_at(i));
        run(&b, o);
        const struct generate_result plain = b.out;
        b.out = (struct generate_result){0};
        assert_ok(b.g->ops->sequence_open(b.g, CTX, &other, &e), e);
        for (int n = 1; n < TOKENS; n += 6) {
            o.draft = (struct draft_options){.most = 3, .always = true};
            o.max_tokens = n;
            run(&b, o);
            buf_clear(&save);
            assert_ok(b.g->ops->save(b.g, b.seq, &save, &e), e);
            assert_ok(b.g->ops->restore(b.g, other, save.data, save.len, &e), e);
            struct tokens longer = {0};
            for (size_t t = 0; t < b.prompt.n; t++)
                assert_ok(tokens_push(&longer, b.prompt.ids[t], &e), e);
            for (int t = 0; t < n; t++)
                assert_ok(tokens_push(&longer, b.out.ids.ids[t], &e), e);
            struct generate_result rest;
            o.max_tokens = TOKENS - n;
            assert_ok(generate(b.m, other, &longer, &o, &rest, &e), e);
            assert_int_equal(rest.n_cached, longer.n - 1);
            assert_memory_equal(rest.ids.ids, plain.ids.ids + n,
                                (size_t)(TOKENS - n) * sizeof(int32_t));
            assert_true(rest.logits_hash == plain.logits_hash);
            tokens_free(&rest.ids);
            tokens_free(&longer);
        }
        struct tokens ids = plain.ids;
        tokens_free(&ids);
        buf_free(&save);
        b.g->ops->sequence_close(other);
        bench_close(&b);
    }
}

/* What the draft head remembers of a position depends on the token behind it. A save of n tokens
 * holds no such thing of its last one: whatever follows after a restore, drafts and logits are
 * those of a sequence that was never saved. */
static void test_save_knows_no_following_token(void **state)
{
    (void)state;
    for (int i = 0; aid_engine_at(i); i++) {
        struct bench b;
        struct err e = {0};
        struct buf save = BUF_INIT;
        bench_open(&b, aid_engine_at(i));
        const size_t vocab = (size_t)b.m->weights.config.vocab;
        const int n = (int)b.prompt.n;
        float *cold = mem_array(ENGINE_DRAFTS_MAX * vocab, sizeof *cold);
        float *warm = mem_array(ENGINE_DRAFTS_MAX * vocab, sizeof *warm);
        int32_t guess[ENGINE_DRAFTS_MAX], guess_warm[ENGINE_DRAFTS_MAX];
        assert_true(cold && warm);
        assert_ok(b.g->ops->prefill(b.g, b.seq, b.prompt.ids, n, NULL, &e), e);
        /* drafts behind one token and a step with it, before and after the save */
        assert_ok(b.g->ops->draft(b.seq, 7, 3, guess, cold, &e), e);
        assert_ok(b.g->ops->save(b.g, b.seq, &save, &e), e);
        assert_ok(b.g->ops->prefill(b.g, b.seq, (int32_t[]){7, 8}, 2, NULL, &e), e);
        for (int32_t next = 5; next < 600; next += 331) {
            const int32_t two[] = {next, next + 1};
            b.g->ops->sequence_reset(b.seq);
            assert_ok(b.g->ops->prefill(b.g, b.seq, b.prompt.ids, n, NULL, &e), e);
            assert_ok(b.g->ops->prefill(b.g, b.seq, two, 1, NULL, &e), e);
            assert_ok(b.g->ops->draft(b.seq, two[1], 3, guess, cold, &e), e);
            assert_ok(b.g->ops->restore(b.g, b.seq, save.data, save.len, &e), e);
            assert_ok(b.g->ops->prefill(b.g, b.seq, two, 1, NULL, &e), e);
            assert_ok(b.g->ops->draft(b.seq, two[1], 3, guess_warm, warm, &e), e);
            assert_memory_equal(cold, warm, ENGINE_DRAFTS_MAX * vocab * sizeof *cold);
            assert_memory_equal(guess, guess_warm, sizeof guess);
        }
        mem_free(cold);
        mem_free(warm);
        buf_free(&save);
        bench_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_text),
        cmocka_unit_test(test_stop_strings),
        cmocka_unit_test(test_saved_midway),
        cmocka_unit_test(test_save_knows_no_following_token),
    };
    return cmocka_run_group_tests(tests, aid_demo_open, aid_demo_close);
}
