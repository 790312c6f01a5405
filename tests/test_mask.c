/* Token masks: they allow what each token followed by itself would, however much their table has
 * forgotten and whoever shares it. What they take is printed. */
#include "tests/aid_grammar.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"

#define POINT                                                                                      \
    "{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"integer\"},\"y\":{\"type\":"           \
    "[\"string\",\"null\"]},\"z\":{\"type\":\"boolean\"}},\"required\":[\"y\"]}"
#define TOOLS                                                                                      \
    "[{\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"s\":{\"type\":\"string\"},"  \
    "\"i\":{\"type\":\"integer\"}},\"required\":[\"s\"]}}},{\"function\":{\"name\":\"go\"}}]"

/* The bits of a mask, to free with mem_free. */
static uint32_t *fill(struct mask *m)
{
    struct err e = {0};
    bool done;
    uint32_t *bits = mem_zalloc(((size_t)aid_lexicon->n_tokens + 31) / 32, sizeof *bits);
    assert_ok(mask_fill(m, bits, aid_lexicon->n_tokens, &done, &e), e);
    return bits;
}

static void feed(struct mask *m, const char *text)
{
    struct err e = {0};
    assert_ok(mask_feed(m, text, strlen(text), &e), e);
}

/* So many states that a table forgets them: the places of other answers are not among those. */
static void test_a_table_forgets_no_answer(void **state)
{
    static const char *const texts[] = {"{", "{\"a\": [[1, [\"b", "{\"a\": [[1, [\"b\"]], 2"};
    const size_t bytes = ((size_t)aid_lexicon->n_tokens + 31) / 32 * sizeof(uint32_t);
    struct err e = {0};
    struct aid_masks b, fresh;
    struct mask *m[3], *deep, *other;
    (void)state;
    aid_masks_open(&b, 'o', "", NULL, GRAMMAR_ANSWER);
    for (int i = 0; i < 3; i++) {
        assert_ok(mask_open(b.t, &m[i], &e), e);
        feed(m[i], texts[i]);
    }
    assert_ok(mask_open(b.t, &deep, &e), e);
    feed(deep, "{\"a\":");
    for (int i = 0; i < 2 * AUTOMATON_STATES_MAX; i++)
        feed(deep, "[");
    const size_t most = mask_table_bytes(b.t);
    mem_free(fill(deep));
    assert_true(mask_table_bytes(b.t) < most);
    aid_masks_open(&fresh, 'o', "", NULL, GRAMMAR_ANSWER);
    for (int i = 0; i < 3; i++) {
        assert_ok(mask_open(fresh.t, &other, &e), e);
        feed(other, texts[i]);
        uint32_t *is = fill(m[i]), *want = fill(other);
        assert_memory_equal(is, want, bytes);
        mem_free(is);
        mem_free(want);
        mask_close(other);
        mask_close(m[i]);
    }
    feed(deep, "1");
    for (int i = 0; i < 2 * AUTOMATON_STATES_MAX; i++)
        feed(deep, "]");
    feed(deep, "}");
    assert_true(mask_done(deep));
    mask_close(deep);
    aid_masks_close(&fresh);
    aid_masks_close(&b);
}

struct shared {
    struct aid_masks both;
    struct buf texts[64];
};

static int draw_shared(void *ctx, int worker, size_t i, struct err *e)
{
    struct shared *s = ctx;
    struct guide *guide;
    (void)worker;
    (void)e;
    aid_guide_open(s->both.t, false, -1, &guide);
    aid_guide_draw(guide, i % 8, 30, &s->texts[i]);
    guide_close(guide);
    return 0;
}

/* Answers of several threads under one table say what each alone says. */
static void test_threads_share_a_table(void **state)
{
    struct shared *s = mem_zalloc(1, sizeof *s);
    struct err e = {0};
    (void)state;
    aid_masks_open(&s->both, 's', POINT, NULL, GRAMMAR_ANSWER);
    assert_ok(thread_for(4, 64, draw_shared, s, &e), e);
    for (int i = 8; i < 64; i++)
        assert_string_equal(buf_str(&s->texts[i]), buf_str(&s->texts[i % 8]));
    for (int i = 0; i < 64; i++)
        buf_free(&s->texts[i]);
    aid_masks_close(&s->both);
    mem_free(s);
}

/* Whether a token's bytes lead on from a state, byte by byte. */
static bool leads_on(struct automaton *a, int32_t state, int32_t id)
{
    size_t n;
    const char *s = tokenizer_bytes(aid_tokenizer, id, &n);
    for (size_t i = 0; i < n; i++)
        state = automaton_next(a, state, (uint8_t)s[i]);
    return state != STATE_DEAD;
}

/* The mask at every byte of a text is that of each token followed by itself. */
static void expect_exact(char kind, const char *grammar, enum grammar_start start, const char *text)
{
    struct err e = {0};
    struct aid_masks b;
    struct automaton *a;
    struct mask *m;
    aid_masks_open(&b, kind, grammar, NULL, start);
    assert_ok(automaton_open(&b.g->rules, &a, &e), e);
    assert_ok(mask_open(b.t, &m, &e), e);
    int32_t state = automaton_root(a);
    for (const char *p = text; state != STATE_DEAD; p++) {
        uint32_t *bits = fill(m);
        for (int k = 0; k < aid_lexicon->n_ids; k++) {
            const int32_t id = aid_lexicon->ids[k];
            if (leads_on(a, state, id) != (bits[id / 32] >> (id % 32) & 1))
                fail_msg("behind %.*s: token %d", (int)(p - text), text, (int)id);
        }
        mem_free(bits);
        if (!*p)
            break;
        const char byte[] = {*p, '\0'};
        feed(m, byte);
        state = automaton_next(a, state, (uint8_t)*p);
    }
    mask_close(m);
    automaton_close(a);
    aid_masks_close(&b);
}

static void test_masks_are_exact(void **state)
{
    static const char bounded[] =
        "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":40}}";
    (void)state;
    expect_exact('s', bounded, GRAMMAR_ANSWER,
                 "[\"e\xE4\xB8\xADrly\", \"numbers and more of them \\n until the end\"]");
    expect_exact('o', "", GRAMMAR_THINKING,
                 "hm \xF0\x9F\x98\x80 </th </think>\n{\"a\": [1.5, \"\xC3\xA9\"]}");
    expect_exact('g', "root ::= [a-z\xC3\xA9-\xE4\xB8\xAD ]+ \".\"", GRAMMAR_ANSWER,
                 "ab \xC3\xA9\xE3\x81\x82.");
    expect_exact('t', TOOLS, GRAMMAR_ANSWER,
                 "<tool_call>\n<function=f>\n<parameter=s>\nwords\n\n</parameter>\n</function>");
}

static void test_cost(void **state)
{
    (void)state;
    static const char text[] = "{\"name\": \"some words, and more\", \"list\": [1, 2.5, {\"a\": "
                               "null}], \"next\": \"the end\"}";
    struct err e = {0};
    struct aid_masks b;
    struct mask *m;
    size_t words = ((size_t)aid_lexicon->n_tokens + 31) / 32;
    uint32_t *bits = mem_array(words, sizeof *bits);
    uint64_t t = clock_ns();
    aid_masks_open(&b, 'o', "", NULL, GRAMMAR_ANSWER);
    assert_ok(mask_open(b.t, &m, &e), e);
    double open_ms = (double)(clock_ns() - t) * 1e-6;
    for (int pass = 0; pass < 2; pass++) {
        double sum = 0, worst = 0;
        int n = 0;
        bool done;
        if (pass) {
            mask_close(m);
            assert_ok(mask_open(b.t, &m, &e), e);
        }
        for (size_t i = 0; i < sizeof text - 1; i += 3, n++) {
            t = clock_ns();
            memset(bits, 0, words * sizeof *bits);
            assert_ok(mask_fill(m, bits, aid_lexicon->n_tokens, &done, &e), e);
            double ms = (double)(clock_ns() - t) * 1e-6;
            sum += ms;
            worst = ms > worst ? ms : worst;
            size_t len = sizeof text - 1 - i;
            assert_ok(mask_feed(m, text + i, len < 3 ? len : 3, &e), e);
        }
        printf("note: %d tokens: open %.2f ms; %d masks, mean %.3f ms, worst %.2f ms\n",
               aid_lexicon->n_tokens, open_ms, n, sum / n, worst);
    }
    mask_close(m);
    aid_masks_close(&b);
    mem_free(bits);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masks_are_exact),
        cmocka_unit_test(test_a_table_forgets_no_answer),
        cmocka_unit_test(test_threads_share_a_table),
        cmocka_unit_test(test_cost),
    };
    if (argc > 1)
        aid_grammar_folder = argv[1];
    return cmocka_run_group_tests(tests, aid_grammar_open, aid_grammar_close);
}
