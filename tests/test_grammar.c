/* Grammars and their token masks: texts that are allowed and texts that are not, with the masks
 * agreeing with what may be fed at every byte; random answers under masks are what their schema
 * says; what cannot be kept to is refused by name, and soon. */
#include "tests/aid_grammar.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/toolcall.h"

/* Whether text is allowed whole; with each token of the vocabulary asked at each byte of it. */
static bool allowed(char kind, const char *grammar, const char *text, bool slowly)
{
    struct err e = {0};
    struct aid_masks b;
    struct mask *m;
    bool good = true, done = false;
    size_t words = ((size_t)aid_lexicon->n_tokens + 31) / 32, len = strlen(text);
    uint32_t *bits = mem_array(words, sizeof *bits);
    aid_masks_open(&b, kind, grammar, NULL, GRAMMAR_ANSWER);
    assert_ok(mask_open(b.t, &m, &e), e);
    for (size_t i = 0; i <= len && good; i++) {
        memset(bits, 0, words * sizeof *bits);
        assert_ok(mask_fill(m, bits, aid_lexicon->n_tokens, &done, &e), e);
        for (int k = 0; slowly && k < aid_lexicon->n_ids; k++) {
            int32_t id = aid_lexicon->ids[k];
            size_t n;
            const char *s = tokenizer_bytes(aid_tokenizer, id, &n);
            struct mask *other;
            if ((k + (int)i) % 97) /* some of it: each of these starts over */
                continue;
            struct err why = {0};
            assert_ok(mask_open(b.t, &other, &e), e);
            assert_ok(mask_feed(other, text, i, &e), e);
            bool fits = mask_feed(other, s, n, &why) == 0;
            mask_close(other);
            if (fits != (bits[id / 32] >> (id % 32) & 1))
                fail_msg("behind \"%.*s\" the token \"%.*s\": %d, but the mask says not so", (int)i,
                         text, (int)n, s, fits);
        }
        if (i < len)
            good = mask_feed(m, text + i, 1, &e) == 0;
    }
    good = good && mask_done(m);
    mask_close(m);
    aid_masks_close(&b);
    mem_free(bits);
    return good;
}

#define POINT                                                                                      \
    "{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"integer\"},\"y\":{\"type\":"           \
    "[\"string\",\"null\"]},\"z\":{\"type\":\"boolean\"}},\"required\":[\"y\"]}"
#define TREE                                                                                       \
    "{\"$ref\":\"#/$defs/t\",\"$defs\":{\"t\":{\"type\":\"object\",\"properties\":{\"k\":{"        \
    "\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/t\"}}}}}}"
#define TOOLS                                                                                      \
    "[{\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"s\":{\"type\":\"string\"},"  \
    "\"i\":{\"type\":\"integer\"}},\"required\":[\"s\"]}}},{\"function\":{\"name\":\"go\"}}]"

#define STRICT                                                                                     \
    "[{\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"w\":{\"enum\":[\"yes\","     \
    "\"no\""                                                                                       \
    ",\"maybe\"],\"maxLength\":3},\"t\":{\"type\":\"string\",\"maxLength\":3},\"n\":{\"anyOf\":["  \
    "{\"type\":\"string\"},{\"type\":\"null\"}]},\"i\":{\"$ref\":\"#/$defs/i\"}},\"required\":["   \
    "\"w\",\"t\"],\"$defs\":{\"i\":{\"type\":\"integer\",\"maximum\":7}}}}}]"
#define STRICT_OF(schema)                                                                          \
    "[{\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"a\":" schema "}}}}]"

static const struct {
    char kind;
    const char *grammar, *yes, *no;
} cases[] = {
    {'g', "root ::= \"a\" [b-d]* | \"x\"{2,3}", "abcd", "xxxx"},
    {'g', "root ::= \"a\" [b-d]* | \"x\"{2,3}", "xx", "x"},
    {'g', "root ::= item (\",\" item)*\nitem ::= [^,]+", "a,\xC3\xA9", "a,,b"},
    {'g', "# note\nroot ::= e\ne ::= \"(\" e \")\" |\n  \"i\"", "((i))", "((i)"},
    {'g', "root ::= ([a]*)* \"\\x41\\u00e9\"", "aaA\xC3\xA9", "aaA"},
    {'g', "root ::= . . ", "\xF0\x9F\x98\x80\n", "abc"},
    {'o', "", "{}", "[]"},
    {'o', "", "{\"a\": [1, {\"b\": null}]}", "{\"a\": [1, {\"b\": null}}"},
    {'o', "", "{\n  \"a\": \"\\u00e9\\n\\ud83d\\ude00\"\n}", "{\"a\": \"\\ud83d\"}"},
    {'o', "", "{\"a\":-0.5e+10}", "{\"a\":01}"},
    {'s', POINT, "{\"x\":3,\"y\":\"a\",\"z\":true}", "{\"x\":3}"},
    {'s', POINT, "{\"y\":null}", "{\"y\":3}"},
    {'s', POINT, "{\"y\":\"q\",\"z\":false}", "{\"y\":\"q\",\"w\":1}"},
    {'s', TREE, "{\"k\":[{},{\"k\":[]}]}", "{\"k\":[1]}"},
    {'s', "{\"enum\":[\"a\\\"\",2,null]}", "\"a\\\"\"", "\"b\""},
    {'s', "{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", "\"ab\xC3\xA9\"", "\"a\""},
    {'s', "{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", "\"ab\"", "\"abcd\""},
    {'s', "{\"type\":\"array\",\"items\":{\"const\":1},\"minItems\":1,\"maxItems\":2}", "[1,1]",
     "[1,1,1]"},
    {'s', "{\"type\":\"array\",\"items\":{\"const\":1},\"minItems\":1}", "[1,1,1]", "[]"},
    {'s', "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"null\"}}", "{\"a\":null}",
     "{\"a\":1}"},
    {'s', "{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"array\"}]}", "[[true]]", "1.5"},
    {'t', TOOLS, "<tool_call>\n<function=go>\n</function>\n</tool_call>", "hello"},
    {'t', TOOLS,
     "<tool_call>\n<function=f>\n<parameter=s>\na <b>\n\n</parameter>\n<parameter=i>\n3\n"
     "</parameter>\n</function>\n</tool_call>\n"
     "<tool_call>\n<function=go>\n</function>\n</tool_call>",
     "<tool_call>\n<function=f>\n</function>\n</tool_call>"},
    {'f', TOOLS, "if a < b, <tool or <fun", "a <function=go>"},
    {'f', TOOLS, "so:\n<<tool_call>\n<function=go>\n</function>\n</tool_call>",
     "so:\n<tool_call>\n<function=gone>\n</function>\n</tool_call>"},
    {'f', TOOLS, "", "<tool_call>"},
    {'f', STRICT,
     "<tool_call>\n<function=f>\n<parameter=w>\nno\n</parameter>\n<parameter=t>\nabc\n"
     "</parameter>\n</function>\n</tool_call>",
     "<tool_call>\n<function=f>\n<parameter=w>\nmaybe\n</parameter>\n<parameter=t>\nabc\n"
     "</parameter>\n</function>\n</tool_call>"},
    {'f', STRICT,
     "<tool_call>\n<function=f>\n<parameter=w>\nno\n</parameter>\n<parameter=t>\nabc\n"
     "</parameter>\n<parameter=n>\n\n</parameter>\n<parameter=i>\n7\n</parameter>\n</function>\n"
     "</tool_call>",
     "<tool_call>\n<function=f>\n<parameter=w>\nno\n</parameter>\n<parameter=t>\nabcd\n"
     "</parameter>\n</function>\n</tool_call>"},
};

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool slowly = aid_lexicon->n_ids < 10000 && i % 4 == 0;
        if (!allowed(cases[i].kind, cases[i].grammar, cases[i].yes, slowly) ||
            allowed(cases[i].kind, cases[i].grammar, cases[i].no, false))
            fail_msg("case %zu: %s", i, cases[i].grammar);
    }
}

/* A symptom: of parts in parentheses inside one another each level read the inner ones twice, so
 * that a score of them was "too large". */
static void test_parentheses_in_parentheses(void **state)
{
    (void)state;
    struct buf text = BUF_INIT;
    buf_puts(&text, "root ::= ");
    for (int i = 0; i < 60; i++)
        buf_puts(&text, "(\"a\" ");
    for (int i = 0; i < 60; i++)
        buf_puts(&text, ")?");
    assert_true(allowed('g', buf_str(&text), "aaa", false));
    buf_free(&text);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        char kind;
        const char *text, *says;
    } bad[] = {
        {'g', "root ::= root \"a\" | \"b\"", "root begins with itself"},
        {'g', "root ::= a root | \"x\"\na ::= \"\"", "begins with itself"},
        {'g', "root ::= \"a\" root", "root never ends"},
        {'g', "root ::= missing", "missing is used but not defined"},
        {'g', "a ::= \"x\"", "root is used but not defined"},
        {'g', "root ::= \"a", "does not end"},
        {'g', "root ::= [b-a]", "line 1, column 14: the range ends before"},
        {'g', "root ::= \"a\"{3,2}", "the most is less"},
        {'g', "root ::= [^\\x00-\\U0010FFFF]", "no character is in this set"},
        {'g', "root ::= (\"a\"", "want )"},
        {'g', "root ::= \"a\"\nroot ::= \"b\"", "defined before"},
        {'g', "root ::= x.y", "x is used but not defined"},
        {'g', "root ::= ((((\"a\"{9999}){9999}){9999}){9999})", "too large"},
        {'s', "{\"type\":\"string\",\"pattern\":\"a\"}", "root: pattern cannot be kept to"},
        {'s', "{\"properties\":{\"a\":{\"multipleOf\":1}}}", "root/a: multipleOf cannot"},
        {'s', "{\"type\":\"text\"}", "type: want string"},
        {'s', "{\"$ref\":\"#/nowhere\"}", "$ref: want"},
        {'s', "{\"type\":\"object\",\"required\":[\"a\"]}", "required with a name"},
        {'s', "{\"$ref\":\"#\"}", "schema: a $ref leads a part back to itself, so that no value"},
        {'s', "{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"string\"}]}",
         "schema: a $ref leads a part back to itself before anything"},
        {'f', STRICT_OF("{\"type\":\"string\",\"pattern\":\"x\"}"), "a parameter that may be text"},
        {'f', STRICT_OF("{\"type\":\"integer\",\"multipleOf\":2}"), "multipleOf cannot"},
        {'f', STRICT_OF("{\"type\":\"string\",\"maxLength\":\"9\"}"),
         "maxLength: want a whole number from 0 to 10000, found the string \"9\""},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err e = {0};
        struct grammar *g;
        if (aid_grammar_make(bad[i].kind, bad[i].text, NULL, GRAMMAR_ANSWER, &g, &e) == 0)
            fail_msg("case %zu is not refused: %s", i, bad[i].text);
        if (!strstr(e.msg, bad[i].says))
            fail_msg("case %zu says: %s", i, e.msg);
    }
}

/* Whatever is drawn is JSON with the properties that the schema asks for. */
static void test_random_answers(void **state)
{
    (void)state;
    static const char *const schemas[] = {POINT, TREE, "{\"type\":\"object\"}",
                                          "{\"type\":\"array\",\"items\":" POINT "}"};
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct aid_masks b;
        struct guide *guide;
        struct buf out = BUF_INIT;
        json_t *v = NULL;
        aid_masks_open(&b, 's', schemas[seed % 4], NULL, GRAMMAR_ANSWER);
        aid_guide_open(b.t, false, -1, &guide);
        aid_guide_draw(guide, seed, 30, &out);
        v = json_loadb(out.data, out.len, JSON_DECODE_ANY, NULL);
        if (!v)
            fail_msg("seed %d: not JSON: %s", (int)seed, buf_str(&out));
        if (seed % 4 == 0)
            assert_non_null(json_object_get(v, "y"));
        json_decref(v);
        guide_close(guide);
        aid_masks_close(&b);
        buf_free(&out);
    }
}

/* The budget ends the thinking, then the grammar holds, and calls are what the reader reads. */
static void test_thinking_then_calls(void **state)
{
    (void)state;
    static const char numbers[] =
        "[{\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"i\":{\"type\":"
        "\"integer\"},\"w\":{\"enum\":[\"a\",\"b\"]}},\"required\":[\"i\"]}}},"
        "{\"function\":{\"name\":\"go\"}}]";
    for (uint64_t seed = 0; seed < 10; seed++) {
        struct err e = {0};
        struct aid_masks b;
        struct guide *guide;
        struct toolset t;
        struct buf out = BUF_INIT, answer = BUF_INIT, says = BUF_INIT;
        json_t *tools, *calls;
        assert_ok(json_parse(numbers, sizeof numbers - 1, "t", &tools, &e), e);
        assert_ok(toolset_init(&t, tools, &e), e);
        aid_masks_open(&b, 't', numbers, seed % 2 ? "f" : "go", GRAMMAR_THINKING);
        aid_guide_open(b.t, true, 5, &guide);
        aid_guide_draw(guide, seed, 40, &out);
        const char *end = strstr(buf_str(&out), "</think>");
        assert_non_null(end);
        buf_puts(&answer, end + 8);
        assert_ok(toolcall_read(&t, false, &answer, &says, &calls, &e), e);
        assert_int_equal(json_array_size(calls), 1);
        assert_int_equal(says.len, 0);
        json_decref(calls);
        json_decref(tools);
        toolset_free(&t);
        guide_close(guide);
        aid_masks_close(&b);
        buf_free(&out);
        buf_free(&answer);
        buf_free(&says);
    }
}

/* Whether a required call of the tool "f" may have this text. */
static void expect_call(const char *tools, const char *text, bool good)
{
    struct aid_masks b;
    struct mask *m;
    struct err e = {0};
    aid_masks_open(&b, 't', tools, "f", GRAMMAR_ANSWER);
    assert_ok(mask_open(b.t, &m, &e), e);
    if ((mask_feed(m, text, strlen(text), &e) == 0) != good)
        fail_msg("%s: %s", text, e.msg);
    mask_close(m);
    aid_masks_close(&b);
}

/* Words of an enum hold in required calls of tools that are not strict: with alternatives that are
 * no text, or other values beside them, any text was taken. */
static void test_words_hold_in_any_call(void **state)
{
    static const char tools[] =
        "[{\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"w\":{\"anyOf\":[{"
        "\"enum\":"
        "[\"left\",\"right\"]},{\"type\":\"null\"}]},\"v\":{\"type\":\"string\",\"enum\":[\"x\",1,"
        "null]}},\"required\":[\"w\",\"v\"]}}}]";
    static const struct {
        const char *w, *v;
        bool good;
    } texts[] = {
        {"left", "x", true}, {"right", "x", true}, {"up", "x", false}, {"left", "1", false}};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct buf text = BUF_INIT;
        buf_printf(&text,
                   "<tool_call>\n<function=f>\n<parameter=w>\n%s\n</parameter>\n<parameter=v>\n%s\n"
                   "</parameter>\n</function>\n</tool_call>",
                   texts[i].w, texts[i].v);
        expect_call(tools, buf_str(&text), texts[i].good);
        buf_free(&text);
    }
}

/* A string of JSON within a call held </parameter>, and its reader took the value to end there. */
static void test_strings_in_calls_hold_no_tags(void **state)
{
    static const char tools[] =
        "[{\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"l\":"
        "{\"type\":\"array\",\"items\":{\"type\":\"string\"}}}}}}]";
    static const struct {
        const char *text;
        bool good;
    } texts[] = {{"a <b> c<", true},          {"<p>x<\\/p>", true},   {"<<param>", true},
                 {"</parameter>", false},     {"<</b>", false},       {"<parameter=l>", false},
                 {"x<<parameter=", false},    {"<parameters=", true}, {"\\u003c/parameter>", true},
                 {"<par\\\"ameter=</", false}};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct buf text = BUF_INIT;
        buf_printf(&text,
                   "<tool_call>\n<function=f>\n<parameter=l>\n[\"%s\"]\n</parameter>\n</function>\n"
                   "</tool_call>",
                   texts[i].text);
        expect_call(tools, buf_str(&text), texts[i].good);
        buf_free(&text);
    }
}

/* A grammar with as many ways as there are: an error, and soon. */
static void test_ambiguous(void **state)
{
    (void)state;
    struct buf text = BUF_INIT;
    struct err e = {0};
    struct aid_masks b;
    struct mask *m;
    for (int i = 0; i < 30; i++)
        buf_printf(&text, "%s%d ::= r%d \"a\" | r%d \"b\"\n", "r", i, i + 1, i + 1);
    buf_puts(&text, "r30 ::= \"x\"\nroot ::= r0");
    aid_masks_open(&b, 'g', buf_str(&text), NULL, GRAMMAR_ANSWER);
    uint64_t t = clock_ns();
    assert_int_equal(mask_open(b.t, &m, &e), -E_LIMIT);
    assert_non_null(strstr(e.msg, "too ambiguous"));
    assert_true((double)(clock_ns() - t) * 1e-9 < aid_slower());
    aid_masks_close(&b);
    buf_free(&text);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_parentheses_in_parentheses),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_random_answers),
        cmocka_unit_test(test_thinking_then_calls),
        cmocka_unit_test(test_words_hold_in_any_call),
        cmocka_unit_test(test_strings_in_calls_hold_no_tags),
        cmocka_unit_test(test_ambiguous),
    };
    if (argc > 1)
        aid_grammar_folder = argv[1];
    return cmocka_run_group_tests(tests, aid_grammar_open, aid_grammar_close);
}
