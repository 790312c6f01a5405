/* include/cherenkov.h: text and chat on the packed demonstration model, and every misuse an
 * error. */
#include "tests/aid_demo.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cherenkov.h"

static const cherenkov_sampling greedy = {.size = sizeof greedy};

/* A pool of -1 experts was one of all experts. */
static void test_refused_options(void **state)
{
    (void)state;
    cherenkov *m = NULL;
    const cherenkov_options o = {.size = sizeof o, .engine = "cpu", .pool_slots = -1};
    assert_int_not_equal(cherenkov_open(aid_demo_store, &o, &m), 0);
    assert_non_null(strstr(cherenkov_error(NULL), "a pool of -1 experts: want 1 or more"));
}

static cherenkov *open_store(int max_ctx)
{
    cherenkov *m = NULL;
    const cherenkov_options o = {.size = sizeof o, .max_ctx = max_ctx};
    if (cherenkov_open(aid_demo_store, &o, &m))
        fail_msg("%s", cherenkov_error(NULL));
    assert_string_equal(cherenkov_error(m), "");
    return m;
}

static cherenkov_sequence *open_sequence(cherenkov *m, const cherenkov_sampling *o)
{
    cherenkov_sequence *s = NULL;
    if (cherenkov_sequence_open(m, o, &s))
        fail_msg("%s", cherenkov_error(m));
    return s;
}

/* At most n tokens of the answer, appended. */
static void answer(cherenkov *m, cherenkov_sequence *s, int n, struct buf *out)
{
    const char *text = "";
    while (n-- > 0 && text) {
        if (cherenkov_next(s, &text))
            fail_msg("%s", cherenkov_error(m));
        buf_puts(out, text ? text : "");
    }
}

static void test_chat(void **state)
{
    (void)state;
    cherenkov *m = open_store(0);
    cherenkov_sequence *s = open_sequence(m, &greedy);
    struct buf out = BUF_INIT;
    const char *text;
    assert_int_equal(cherenkov_feed_chat(s, "user", "Hello!"), 0);
    answer(m, s, 100, &out);
    assert_string_equal(buf_str(&out), "Hello! Shall I tell you a story?");
    assert_int_equal(cherenkov_next(s, &text), 0); /* complete stays complete */
    assert_null(text);
    buf_clear(&out);
    assert_int_equal(cherenkov_feed_chat(s, "user", "Yes."), 0);
    answer(m, s, 5, &out);
    assert_true(out.len > 0);
    assert_int_equal(cherenkov_feed_chat(s, "user", "Stop."), 0); /* in the middle of an answer */
    answer(m, s, 5, &out);
    cherenkov_sequence_close(s);
    cherenkov_close(m);
    buf_free(&out);
}

/* In pieces or at once, interrupted or not: the same tokens give the same text. */
static void test_text(void **state)
{
    (void)state;
    json_t *goldens = aid_demo_goldens();
    const json_t *raw = json_array_get(json_object_get(goldens, "greedy"), 5);
    assert_true(aid_is_raw(raw));
    cherenkov *m = open_store(256);
    cherenkov_sequence *a = open_sequence(m, &greedy), *b = open_sequence(m, &greedy);
    struct buf one = BUF_INIT, two = BUF_INIT;
    assert_int_equal(cherenkov_feed(a, "Once upon a time"), 0);
    assert_int_equal(cherenkov_feed(b, "Once upon"), 0);
    assert_int_equal(cherenkov_feed(b, " a time"), 0);
    for (int i = 0; i < 48; i++) { /* two sequences of one model in turn */
        answer(m, a, 1, &one);
        answer(m, b, 1, &two);
    }
    assert_string_equal(buf_str(&one), json_string_value(json_object_get(raw, "text")));
    assert_string_equal(buf_str(&two), buf_str(&one));
    assert_int_equal(cherenkov_feed(a, ""), 0); /* feeds nothing: the text goes on */
    answer(m, a, 10, &one);
    answer(m, b, 10, &two);
    assert_string_equal(buf_str(&two), buf_str(&one));
    cherenkov_close(m); /* before its sequences: they keep it alive */
    answer(m, a, 1, &one);
    cherenkov_sequence_close(a);
    cherenkov_sequence_close(b);
    buf_free(&one);
    buf_free(&two);
    json_decref(goldens);
}

static void test_sampling(void **state)
{
    (void)state;
    cherenkov *m = open_store(128);
    struct buf out[3] = {BUF_INIT, BUF_INIT, BUF_INIT};
    const cherenkov_sampling o[3] = {{.size = sizeof o[0], .temperature = -1, .seed = 5},
                                     {.size = sizeof o[0], .temperature = -1, .seed = 6},
                                     {.size = sizeof o[0],
                                      .temperature = .7,
                                      .top_k = 20,
                                      .top_p = .8,
                                      .seed = 5}}; /* generation_config.json */
    for (int i = 0; i < 3; i++) {
        cherenkov_sequence *s = open_sequence(m, &o[i]);
        assert_int_equal(cherenkov_feed(s, "The king said"), 0);
        answer(m, s, 20, &out[i]);
        cherenkov_sequence_close(s);
    }
    assert_string_equal(buf_str(&out[0]), buf_str(&out[2]));
    assert_string_not_equal(buf_str(&out[0]), buf_str(&out[1]));
    for (int i = 0; i < 3; i++)
        buf_free(&out[i]);
    cherenkov_close(m);
}

static void test_context_full(void **state)
{
    (void)state;
    cherenkov *m = open_store(16);
    cherenkov_sequence *s = open_sequence(m, &greedy);
    struct buf out = BUF_INIT;
    const char *text = "";
    int n = 0;
    assert_int_equal(cherenkov_feed(s, "Once upon a time"), 0); /* four tokens */
    while (cherenkov_next(s, &text) == 0 && text)
        n++;
    assert_int_equal(n, 12);
    assert_int_equal(cherenkov_feed(s, " there"), 0);
    assert_int_not_equal(cherenkov_next(s, &text), 0);
    assert_non_null(strstr(cherenkov_error(m), "the context holds 16"));
    cherenkov_sequence_close(s);
    cherenkov_close(m);
    buf_free(&out);
}

#define REFUSED(call, m, words)                                                                    \
    do {                                                                                           \
        assert_true((call) < 0);                                                                   \
        if (!strstr(cherenkov_error(m), words))                                                    \
            fail_msg("%s: %s", #call, cherenkov_error(m));                                         \
    } while (0)

static void test_misuse(void **state)
{
    (void)state;
    cherenkov *m = (void *)1;
    cherenkov_sequence *s = (void *)1;
    const char *text = "x";
    assert_string_equal(cherenkov_version(), CHERENKOV_VERSION);
    cherenkov_close(NULL);
    cherenkov_sequence_close(NULL);
    REFUSED(cherenkov_open(NULL, NULL, &m), NULL, "must not be NULL");
    REFUSED(cherenkov_open(aid_demo_store, NULL, NULL), NULL, "must not be NULL");
    REFUSED(cherenkov_open("/no/such/store", NULL, &m), NULL, "/no/such/store");
    assert_null(m);
    cherenkov_options o = {.size = 0};
    REFUSED(cherenkov_open(aid_demo_store, &o, &m), NULL, "cherenkov_options.size is 0");
    o.size = sizeof o + 8;
    REFUSED(cherenkov_open(aid_demo_store, &o, &m), NULL, "one version");
    o = (cherenkov_options){.size = sizeof o, .engine = "quantum"};
    REFUSED(cherenkov_open(aid_demo_store, &o, &m), NULL, "no engine 'quantum'");
    o = (cherenkov_options){.size = sizeof o, .max_ctx = -1};
    REFUSED(cherenkov_open(aid_demo_store, &o, &m), NULL, "-1 tokens");

    m = open_store(64);
    assert_string_equal(cherenkov_error(NULL), ""); /* of the last open */
    REFUSED(cherenkov_sequence_open(NULL, NULL, &s), NULL, "must not be NULL");
    REFUSED(cherenkov_sequence_open(m, NULL, NULL), m, "must not be NULL");
    cherenkov_sampling bad = {.size = 3};
    REFUSED(cherenkov_sequence_open(m, &bad, &s), m, "cherenkov_sampling.size is 3");
    assert_null(s);
    bad = (cherenkov_sampling){.size = sizeof bad, .temperature = NAN};
    REFUSED(cherenkov_sequence_open(m, &bad, &s), m, "temperature");
    bad = (cherenkov_sampling){.size = sizeof bad, .top_p = 2};
    REFUSED(cherenkov_sequence_open(m, &bad, &s), m, "top-p");

    s = open_sequence(m, NULL);
    REFUSED(cherenkov_next(s, &text), m, "nothing was fed");
    assert_null(text);
    REFUSED(cherenkov_next(s, NULL), m, "must not be NULL");
    REFUSED(cherenkov_next(NULL, &text), NULL, "must not be NULL");
    REFUSED(cherenkov_feed(NULL, "x"), NULL, "must not be NULL");
    REFUSED(cherenkov_feed(s, NULL), m, "must not be NULL");
    REFUSED(cherenkov_feed(s, "a\xff"), m, "UTF-8");
    REFUSED(cherenkov_feed_chat(s, "robot", "x"), m, "the role is 'robot'");
    REFUSED(cherenkov_feed_chat(s, NULL, "x"), m, "must not be NULL");
    REFUSED(cherenkov_feed_chat(s, "user", NULL), m, "must not be NULL");
    REFUSED(cherenkov_feed_chat(s, "user", "a\xff"), m, "UTF-8");
    assert_int_equal(cherenkov_feed_chat(s, "system", "Be kind."), 0);
    REFUSED(cherenkov_next(s, &text), m, "nothing was fed");
    assert_int_equal(cherenkov_feed_chat(s, "user", "Hello!"), 0);
    REFUSED(cherenkov_feed_chat(s, "system", "late"), m, "must come first");
    REFUSED(cherenkov_feed(s, "x"), m, "is a chat");
    assert_int_equal(cherenkov_next(s, &text), 0); /* none of that did harm */
    cherenkov_sequence_close(s);

    s = open_sequence(m, NULL);
    assert_int_equal(cherenkov_feed(s, ""), 0);
    REFUSED(cherenkov_next(s, &text), m, "nothing was fed");
    REFUSED(cherenkov_feed_chat(s, "user", "x"), m, "is a text");
    cherenkov_sequence_close(s);
    cherenkov_close(m);
}

/* The nth allocation fails, for every n: an error, and what was open can be closed. */
static void test_memory(void **state)
{
    (void)state;
    cherenkov *m = NULL;
    long n = 1;
    for (;; n += 1 + n / 8) {
        mem_fail_at(n);
        int rc = cherenkov_open(aid_demo_store, NULL, &m);
        mem_fail_at(0);
        if (!rc)
            break;
        if (!strstr(cherenkov_error(NULL), "memory"))
            fail_msg("allocation %ld: %s", n, cherenkov_error(NULL));
        assert_null(m);
    }
    printf("note: opening makes up to %ld allocations\n", n);
    for (long k = 1, rc = -1; rc; k++) {
        const char *text = NULL;
        cherenkov_sequence *s = NULL;
        mem_fail_at(k);
        rc = cherenkov_sequence_open(m, &greedy, &s);
        rc = rc ? rc : cherenkov_feed_chat(s, "user", "Hello!");
        rc = rc ? rc : cherenkov_next(s, &text);
        rc = rc ? rc : cherenkov_feed_chat(s, "user", "Yes.");
        rc = rc ? rc : cherenkov_next(s, &text);
        mem_fail_at(0);
        cherenkov_sequence_close(s);
    }
    cherenkov_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_options),
        cmocka_unit_test(test_chat),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_sampling),
        cmocka_unit_test(test_context_full),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, aid_demo_open, aid_demo_close);
}
