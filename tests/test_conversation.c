/* Conversations on the packed demonstration model: a turn that reuses the state computes what a
 * turn from nothing does, ids of earlier turns are kept as they were, reasoning is split off. */
#include "tests/aid_demo.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "runner/conversation.h"
#include "runner/generate.h"

/* History under this template only grows. */
static const char linear_template[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}</think>\n{% endif %}"
    "{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking %}<think>\n{% endif %}{% endif %}";

static char *model, *linear;

static int setup(void **state)
{
    (void)state;
    model = aid_demo_pack();
    char *store = file_join(model, "packed");
    linear = aid_demo_with(store, "chat_template.jinja", linear_template);
    mem_free(store);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    aid_rmdir(model);
    aid_rmdir(linear);
    return 0;
}

struct bench {
    struct model *m;
    struct sequence *seq;
    struct conversation c;
    struct generate_result r;
};

static void bench_open(struct bench *b, const char *path)
{
    struct err e = {0};
    *b = (struct bench){0};
    assert_ok(model_open(path, &MODEL_OPTIONS, &b->m, &e), e);
    assert_ok(b->m->engine->ops->sequence_open(b->m->engine, 512, &b->seq, &e), e);
    b->m->ctx = 512;
    assert_ok(conversation_init(&b->c, b->m, b->seq, &e), e);
}

static void bench_close(struct bench *b)
{
    conversation_free(&b->c);
    tokens_free(&b->r.ids);
    b->m->engine->ops->sequence_close(b->seq);
    model_close(b->m);
}

static int keep_text(void *ctx, const char *text, size_t len)
{
    buf_add(ctx, text, len);
    return 0;
}

/* One message and its answer of at most max_tokens; the prompt is left in c.ids until then. */
static void turn(struct bench *b, const char *message, int max_tokens, struct tokens *prompt)
{
    struct err e = {0};
    struct buf text = BUF_INIT;
    const struct generate_options o = {
        .sample = SAMPLE_GREEDY, .max_tokens = max_tokens, .ctx = &text, .on_text = keep_text};
    assert_ok(conversation_say(&b->c, "user", message, strlen(message), &e), e);
    assert_ok(conversation_prompt(&b->c, NULL, &e), e);
    prompt->n = 0;
    for (size_t i = 0; i < b->c.ids.n; i++)
        assert_ok(tokens_push(prompt, b->c.ids.ids[i], &e), e);
    tokens_free(&b->r.ids);
    assert_ok(generate(b->m, b->seq, &b->c.ids, &o, &b->r, &e), e);
    assert_ok(conversation_answer(&b->c, &b->r.ids, buf_str(&text), text.len, &e), e);
    buf_free(&text);
}

static void test_reuse_equals_cold(void **state)
{
    (void)state;
    static const char *const messages[] = {"Hello!", "Tell me a story.", "And then?"};
    static const int lengths[] = {100, 7, 9}; /* the first ends by itself, the others are cut */
    struct bench b;
    struct tokens prompt = {0}, before = {0};
    bench_open(&b, linear);
    for (int i = 0; i < 3; i++) {
        struct err e = {0};
        struct sequence *cold;
        struct generate_result r;
        turn(&b, messages[i], lengths[i], &prompt);
        if (i) { /* all but the last token of the turn before was in the state */
            assert_int_equal(b.r.n_cached, (int)before.n - 1);
            assert_memory_equal(prompt.ids, before.ids, before.n * sizeof *before.ids);
        }
        const struct generate_options o = {.sample = SAMPLE_GREEDY, .max_tokens = lengths[i]};
        assert_ok(b.m->engine->ops->sequence_open(b.m->engine, 512, &cold, &e), e);
        assert_ok(generate(b.m, cold, &prompt, &o, &r, &e), e);
        assert_int_equal(r.n_cached, 0);
        assert_int_equal(r.ids.n, b.r.ids.n);
        assert_memory_equal(r.ids.ids, b.r.ids.ids, r.ids.n * sizeof *r.ids.ids);
        assert_true(r.logits_hash == b.r.logits_hash);
        b.m->engine->ops->sequence_close(cold);
        tokens_free(&r.ids);
        before.n = 0;
        for (size_t k = 0; k < b.c.ids.n; k++)
            assert_ok(tokens_push(&before, b.c.ids.ids[k], &e), e);
    }
    tokens_free(&before);
    tokens_free(&prompt);
    bench_close(&b);
}

/* The released model's template lets every turn reuse the one before, with reasoning too. */
static void test_released_template(void **state)
{
    (void)state;
    struct err e = {0};
    struct buf source = BUF_INIT;
    assert_ok(file_read_all(DATA "vectors/chat_template.jinja", 1 << 20, &source, &e), e);
    char *store = file_join(model, "packed");
    char *dir = aid_demo_with(store, "chat_template.jinja", source.data);
    for (int thinking = 0; thinking < 2; thinking++) {
        static const char *const answers[] = {"Yes.<|im_end|>",
                                              "I think so.\n</think>\n\nYes.<|im_end|>"};
        json_t *set = json_pack("{s:b}", "enable_thinking", thinking);
        const char *text = answers[thinking];
        struct bench b;
        struct tokens ids = {0};
        bench_open(&b, dir);
        assert_ok(conversation_say(&b.c, "user", "Is it?", 6, &e), e);
        assert_ok(conversation_prompt(&b.c, set, &e), e);
        assert_int_equal(b.c.thinking, thinking);
        assert_ok(tokenizer_encode(b.m->tokenizer, text, strlen(text), false, &ids, &e), e);
        assert_ok(conversation_answer(&b.c, &ids, text, strlen(text) - 10, &e), e);
        const size_t known = b.c.ids.n, n_text = b.c.text.len;
        assert_ok(conversation_say(&b.c, "user", "Why?", 4, &e), e);
        b.c.ids.ids[known - 1] = 77; /* a mark that encoding the text again would wipe out */
        assert_ok(conversation_prompt(&b.c, set, &e), e);
        assert_true(b.c.ids.n > known && b.c.text.len > n_text);
        assert_int_equal(b.c.ids.ids[known - 1], 77);
        tokens_free(&ids);
        bench_close(&b);
        json_decref(set);
    }
    aid_rmdir(dir);
    mem_free(store);
    buf_free(&source);
}

/* What was generated need not be how its text would be encoded: the ids stay as they were. */
static void test_keeps_odd_ids(void **state)
{
    (void)state;
    struct err e = {0};
    struct bench b;
    struct tokens odd = {0};
    bench_open(&b, linear);
    assert_ok(conversation_say(&b.c, "user", "Spell it.", 9, &e), e);
    assert_ok(conversation_prompt(&b.c, NULL, &e), e);
    const size_t start = b.c.ids.n;
    const char letters[] = "king"; /* one token as a word, four as letters */
    for (int i = 0; i < 4; i++)
        assert_ok(tokenizer_encode(b.m->tokenizer, letters + i, 1, false, &odd, &e), e);
    assert_int_equal(odd.n, 4);
    assert_ok(conversation_answer(&b.c, &odd, letters, 4, &e), e);
    assert_ok(conversation_say(&b.c, "user", "Again.", 6, &e), e);
    assert_ok(conversation_prompt(&b.c, NULL, &e), e);
    assert_memory_equal(b.c.ids.ids + start, odd.ids, 4 * sizeof odd.ids[0]);
    tokens_free(&odd);
    bench_close(&b);
}

static const char *field(const struct bench *b, size_t message, const char *name)
{
    return json_string_value(json_object_get(json_array_get(b->c.messages, message), name));
}

static void test_reasoning(void **state)
{
    (void)state;
    static const struct {
        const char *text, *reasoning, *content;
    } cases[] = {{"I think.\n</think>\n\nYes.", "I think.\n", "Yes."},
                 {"</think>Yes.", "", "Yes."},
                 {"I think, and was cut", "I think, and was cut", ""},
                 {"a</think>b</think>c", "a", "b</think>c"},
                 {"", "", ""}};
    json_t *set = json_pack("{s:b}", "enable_thinking", 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err e = {0};
        struct bench b;
        const struct tokens none = {0};
        bench_open(&b, linear);
        assert_ok(conversation_say(&b.c, "user", "Is it?", 6, &e), e);
        assert_ok(conversation_prompt(&b.c, set, &e), e);
        assert_true(b.c.thinking);
        assert_ok(conversation_answer(&b.c, &none, cases[i].text, strlen(cases[i].text), &e), e);
        assert_string_equal(field(&b, 1, "reasoning_content"), cases[i].reasoning);
        assert_string_equal(field(&b, 1, "content"), cases[i].content);
        bench_close(&b);
    }
    json_decref(set);
    struct err e = {0};
    struct bench b;
    const struct tokens none = {0};
    bench_open(&b, linear);
    assert_ok(conversation_say(&b.c, "user", "Is it?", 6, &e), e);
    assert_ok(conversation_prompt(&b.c, NULL, &e), e);
    assert_ok(conversation_answer(&b.c, &none, "a</think>b", 10, &e), e);
    assert_null(field(&b, 1, "reasoning_content")); /* nothing was opened: all is content */
    assert_string_equal(field(&b, 1, "content"), "a</think>b");
    bench_close(&b);
}

/* A failure leaves ids and messages as they were; what was fed stays usable. */
static void test_failures(void **state)
{
    (void)state;
    struct err e = {0};
    struct bench b;
    struct tokens prompt = {0};
    bench_open(&b, model); /* its template refuses a system message that comes late */
    turn(&b, "Hello!", 3, &prompt);
    const size_t n = b.c.ids.n;
    assert_int_equal(conversation_say(&b.c, "user", "a\xff", 2, &e), -E_FORMAT);
    assert_int_equal(json_array_size(b.c.messages), 2);
    err_clear(&e);
    assert_ok(conversation_say(&b.c, "system", "late", 4, &e), e);
    assert_int_equal(conversation_prompt(&b.c, NULL, &e), -E_FORMAT);
    assert_non_null(strstr(e.msg, "a system message must come first"));
    assert_int_equal(b.c.ids.n, n);
    conversation_unsay(&b.c);
    for (long k = 1, rc = -1; rc; k++) {
        err_clear(&e);
        assert_ok(conversation_say(&b.c, "user", "Go on.", 6, &e), e);
        mem_fail_at(k);
        rc = conversation_prompt(&b.c, NULL, &e);
        mem_fail_at(0);
        assert_true(rc == 0 || (rc == -E_NOMEM && b.c.ids.n == n));
        conversation_unsay(&b.c);
    }
    turn(&b, "Hello!", 3, &prompt);
    conversation_reset(&b.c);
    assert_int_equal(b.m->engine->ops->sequence_length(b.seq), 0);
    turn(&b, "Hello!", 3, &prompt);
    assert_int_equal(b.r.n_cached, 0);
    tokens_free(&prompt);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reuse_equals_cold), cmocka_unit_test(test_released_template),
        cmocka_unit_test(test_keeps_odd_ids),     cmocka_unit_test(test_reasoning),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
