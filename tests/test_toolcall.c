/* Calls of tools: one case for each way models write them, read whole and in every cut; and random
 * texts of tags, in which streaming equals reading whole and arguments are always JSON. */
#include "tests/aid_test.h"

#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "text/toolcall.h"

static const char declared[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"s\":{\"type\":\"string\"},\"i\":{\"type\":\"integer\"},"
    "\"n\":{\"type\":[\"number\",\"null\"]},\"b\":{\"type\":\"boolean\"},"
    "\"o\":{\"$ref\":\"#/$defs/o\"},\"a\":{\"anyOf\":[{\"type\":\"array\"},{\"type\":\"null\"}]},"
    "\"m\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]},\"u\":{}},"
    "\"$defs\":{\"o\":{\"type\":\"object\"}}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"none\"}}]";

#define CALL(body)     "<tool_call>\n<function=f>\n" body "</function>\n</tool_call>"
#define P(name, value) "<parameter=" name ">\n" value "\n</parameter>\n"

static const struct {
    const char *text, *says, *calls;
    int deviations;
} cases[] = {
    {"no call at all \n", "no call at all \n", "", 0},
    {CALL(P("s", "x")), "", "f{\"s\":\"x\"}", 0},
    {"Let me see. \n\n" CALL(P("i", "3")), "Let me see.", "f{\"i\":3}", 0},
    {CALL(P("s", "a")) "\n" CALL(P("s", "b")), "", "f{\"s\":\"a\"}f{\"s\":\"b\"}", 0},
    {"<tool_call>\n<function=none>\n</function>\n</tool_call>\n", "", "none{}", 0},
    {CALL(P("s", "\n two\nlines \n")), "", "f{\"s\":\"\\n two\\nlines \\n\"}", 0},
    {CALL(P("s", "3") P("u", "3") P("u2", "tr ue")), "", "f{\"s\":\"3\",\"u\":3,\"u2\":\"tr ue\"}",
     0},
    {CALL(P("i", " 1e5 ") P("n", "2.5") P("b", "TRUE")), "", "f{\"i\":100000,\"n\":2.5,\"b\":true}",
     0},
    {CALL(P("n", "None") P("a", "null") P("m", "null")), "",
     "f{\"n\":null,\"a\":null,\"m\":\"null\"}", 0},
    {CALL(P("i", "") P("a", "[1, {\"x\": 2}]") P("o", "{}")), "", "f{\"a\":[1,{\"x\":2}],\"o\":{}}",
     0},
    {CALL(P("i", "many") P("b", "7")), "", "f{\"i\":\"many\",\"b\":7}", 2},
    {CALL(P("s", "a \"q\" \\ \t\x01")), "", "f{\"s\":\"a \\\"q\\\" \\\\ \\t\\u0001\"}", 0},
    {CALL(P("s", "see\n" P("x", "1") "end")), "",
     "f{\"s\":\"see\\n<parameter=x>\\n1\\n</parameter>\\nend\"}", 0},
    {CALL(P("s", CALL(P("i", "1")))), "",
     "f{\"s\":\"<tool_call>\\n<function=f>\\n<parameter=i>\\n1\\n</parameter>\\n</function>\\n"
     "</tool_call>\"}",
     0},
    {CALL(P("s", "if (a < b) </b>")), "", "f{\"s\":\"if (a < b) </b>\"}", 0},
    /* deviations */
    {"<tool_call>\n<function=g>\n</function>\n</tool_call>",
     "<tool_call>\n<function=g>\n</function>\n</tool_call>", "", 1},
    {"<tool_call>\n<function=f\n<parameter=s>\nx\n</parameter>\n</function>\n</tool_call>", "",
     "f{\"s\":\"x\"}", 1},
    {"So:\n<function=f>\n" P("s", "x") "</function>", "So:", "f{\"s\":\"x\"}", 2},
    {"in a line <function=f> is text", "in a line <function=f> is text", "", 0},
    {CALL("<parameter=s>\nopen\n"), "", "f{\"s\":\"open\"}", 1},
    {CALL("<parameter=s>\nopen\n" P("i", "4")), "", "f{\"s\":\"open\",\"i\":4}", 1},
    {"<tool_call>\n<function=f>\n" P("s", "x") "</tool_call>", "", "f{\"s\":\"x\"}", 1},
    {"<tool_call>\n<function=f>\n" P("s", "x"), "", "f{\"s\":\"x\"}", 1},
    {"<tool_call>\n<function=f>\n" P("s", "x") "</function>", "", "f{\"s\":\"x\"}", 1},
    {"<tool_call>\n<function=f>\n<parameter=s>\nhalf a", "", "f{\"s\":\"half a\"}cut", 1},
    {"<tool_call>\n<function=f>\n<parameter=s>\nx\n</para", "", "f{\"s\":\"x\"}cut", 1},
    {"<tool_call>\n<function=f>\n<parameter=i>\n12", "", "f{\"i\":12}cut", 1},
    {"<tool_call>\n<function=f>\n<parameter=o>\n{\"x\":", "", "f{\"o\":\"{\\\"x\\\":\"}cut", 2},
    {"<tool_call>\n<function=f>\n<param", "<param", "f{}", 2},
    {"<tool_call>\n<func", "<tool_call>\n<func", "", 1},
    {CALL(P("s", "x") P("s", "y")), "", "f{\"s\":\"x\"}", 1},
    {CALL(P("s", "x")) "\nThat was it.", "That was it.", "f{\"s\":\"x\"}", 0},
    {"<tool_call>\n<function=f>\n" P("s", "x") CALL(P("i", "1")), "", "f{\"s\":\"x\"}f{\"i\":1}",
     1},
    {CALL(P("s", "mention of <parameter=zz> here")), "",
     "f{\"s\":\"mention of <parameter=zz> here\\n</parameter>\"}", 1},
};

struct record {
    struct buf text, calls, arguments;
    int open; /* BEGIN without END */
    bool valid;
};

static void note(void *ctx, const struct toolcall_event *event)
{
    struct record *r = ctx;
    struct err e = {0};
    json_t *v;
    if (event->kind == TOOLCALL_TEXT)
        buf_add(&r->text, event->text, event->len);
    if (event->kind == TOOLCALL_BEGIN) {
        assert_int_equal(r->open++, 0);
        buf_add(&r->calls, event->text, event->len);
        buf_clear(&r->arguments);
    }
    if (event->kind == TOOLCALL_ARGUMENTS) {
        assert_int_equal(r->open, 1);
        buf_add(&r->arguments, event->text, event->len);
    }
    if (event->kind == TOOLCALL_END) {
        r->open--;
        r->valid = json_parse(buf_str(&r->arguments), r->arguments.len, "a", &v, &e) == 0 &&
                   json_is_object(v);
        json_decref(v);
        assert_true(r->valid);
        buf_add(&r->calls, r->arguments.data, r->arguments.len);
        buf_puts(&r->calls, event->cut ? "cut" : "");
    }
}

/* step 0: cut at random; else so many bytes a piece. Returns deviations. */
static int read_cut(const struct toolset *t, bool strict, const char *text, size_t step,
                    uint64_t seed, struct record *r)
{
    const struct toolcall_options o = {.tools = t, .strict = strict, .ctx = r, .on_event = note};
    struct err e = {0};
    struct toolcall *c;
    size_t len = strlen(text);
    *r = (struct record){0};
    assert_ok(toolcall_open(&o, &c, &e), e);
    for (size_t at = 0, k = 0; at < len; k++) {
        size_t n = step ? step : 1 + rng_at(seed, k) % 9;
        n = n < len - at ? n : len - at;
        assert_ok(toolcall_push(c, text + at, n, &e), e);
        at += n;
    }
    assert_ok(toolcall_finish(c, &e), e);
    int deviations = toolcall_deviations(c);
    assert_int_equal(r->open, 0);
    toolcall_close(c);
    return deviations;
}

static void record_free(struct record *r)
{
    buf_free(&r->text);
    buf_free(&r->calls);
    buf_free(&r->arguments);
}

static void declare(struct toolset *t)
{
    struct err e = {0};
    json_t *tools;
    assert_ok(json_parse(declared, strlen(declared), "tools", &tools, &e), e);
    assert_ok(toolset_init(t, tools, &e), e);
    json_decref(tools);
}

static void test_cases(void **state)
{
    (void)state;
    struct toolset t;
    struct record r;
    declare(&t);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t len = strlen(cases[i].text);
        for (size_t step = 1; step <= len; step += step < 20 ? 1 : len - step ? len - step : 1) {
            int deviations = read_cut(&t, false, cases[i].text, step, 0, &r);
            if (strcmp(buf_str(&r.text), cases[i].says) || deviations != cases[i].deviations ||
                strcmp(buf_str(&r.calls), cases[i].calls))
                fail_msg("case %zu by %zu: \"%s\" and %s, %d deviations; want \"%s\" and %s, %d", i,
                         step, buf_str(&r.text), buf_str(&r.calls), deviations, cases[i].says,
                         cases[i].calls, cases[i].deviations);
            record_free(&r);
        }
    }
    toolset_free(&t);
}

/* A strict reader gives calls on only where nothing deviates; else the text, byte for byte. */
static void test_strict(void **state)
{
    (void)state;
    struct toolset t;
    struct record r;
    declare(&t);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t step = 1; step < 40; step += 6) {
            bool plain = cases[i].deviations;
            read_cut(&t, true, cases[i].text, step, 0, &r);
            assert_string_equal(buf_str(&r.text), plain ? cases[i].text : cases[i].says);
            assert_string_equal(buf_str(&r.calls), plain ? "" : cases[i].calls);
            record_free(&r);
        }
    toolset_free(&t);
}

/* The longest that a cut answer may leave as text, and as calls. */
static void read_until(const struct toolset *t, const char *text, size_t len, bool only,
                       struct record *r)
{
    const struct toolcall_options o = {.tools = t, .ctx = r, .on_event = note};
    struct err e = {0};
    struct toolcall *c;
    *r = (struct record){0};
    assert_ok(toolcall_open(&o, &c, &e), e);
    assert_ok(toolcall_push(c, text, len, &e), e);
    toolcall_cut(c, only);
    assert_ok(toolcall_finish(c, &e), e);
    assert_int_equal(r->open, 0);
    toolcall_close(c);
}

/* Tags that max_tokens cut in the middle came out as text of the answer: "<tool_call>\n<func". */
static void test_cut_tags_are_no_text(void **state)
{
    static const char calls[] = CALL(P("s", "x") P("i", "7")) "\n" CALL(P("s", "y"));
    static const char said[] = "Is 1 <2? " CALL(P("s", "x"));
    struct toolset t;
    struct record r;
    (void)state;
    declare(&t);
    for (size_t n = 1; n <= strlen(calls); n++) {
        read_until(&t, calls, n, true, &r);
        if (r.text.len)
            fail_msg("cut behind %zu: text %s", n, buf_str(&r.text));
        record_free(&r);
    }
    for (size_t n = 1; n <= strlen(said); n++) {
        read_until(&t, said, n, false, &r);
        if (strstr(buf_str(&r.text), "<tool") || strstr(buf_str(&r.text), "<func"))
            fail_msg("cut behind %zu: text %s", n, buf_str(&r.text));
        if (n <= strlen("Is 1 <2?"))
            assert_int_equal(r.text.len, n);
        record_free(&r);
    }
    toolset_free(&t);
}

/* Texts of tags and scraps in any order. */
static void test_random(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "<tool_call>",
        "</tool_call>",
        "<function=f>",
        "<function=none>",
        "</function>",
        "<parameter=s>",
        "<parameter=i>",
        "</parameter>",
        "\n",
        "\n",
        "\n",
        " ",
        "x",
        "\"",
        "<",
        "3",
        "<parameter=zz>",
        "<function=f",
        "{\"a\":1}",
        "\xC3\xA9",
    };
    struct toolset t;
    declare(&t);
    for (uint64_t seed = 1; seed < 4000; seed++) {
        struct buf text = BUF_INIT;
        struct record whole, cut;
        size_t n = 1 + rng_at(seed, 0) % 24;
        for (size_t i = 0; i < n; i++)
            buf_puts(&text, parts[rng_at(seed, 1 + i) % (sizeof parts / sizeof parts[0])]);
        int a = read_cut(&t, false, text.data, text.len, 0, &whole);
        for (size_t step = 0; step < 4; step++) {
            int b = read_cut(&t, false, text.data, step, seed, &cut);
            if (a != b || strcmp(buf_str(&whole.text), buf_str(&cut.text)) ||
                strcmp(buf_str(&whole.calls), buf_str(&cut.calls)))
                fail_msg("seed %d by %zu: [%s]: [%s] %s (%d), and whole [%s] %s (%d)", (int)seed,
                         step, text.data, buf_str(&cut.text), buf_str(&cut.calls), b,
                         buf_str(&whole.text), buf_str(&whole.calls), a);
            record_free(&cut);
        }
        if (!whole.calls.len)
            assert_string_equal(buf_str(&whole.text), text.data);
        record_free(&whole);
        buf_free(&text);
    }
    toolset_free(&t);
}

static void test_whole(void **state)
{
    (void)state;
    struct toolset t;
    struct err e = {0};
    struct buf text = BUF_INIT, says = BUF_INIT, json = BUF_INIT;
    json_t *calls;
    buf_puts(&text, "Hm.\n" CALL(P("s", "x")));
    declare(&t);
    assert_ok(toolcall_read(&t, false, &text, &says, &calls, &e), e);
    assert_ok(json_print(calls, JSON_COMPACT, &json, &e), e);
    assert_string_equal(buf_str(&says), "Hm.");
    assert_string_equal(buf_str(&json),
                        "[{\"name\":\"f\",\"arguments\":\"{\\\"s\\\":\\\"x\\\"}\",\"cut\":false}]");
    json_decref(calls);
    buf_free(&text);
    buf_free(&says);
    buf_free(&json);
    toolset_free(&t);
}

static void test_tools_refused(void **state)
{
    (void)state;
    static const struct {
        const char *tools, *says;
    } bad[] = {
        {"{}", "tools: want an array, found an empty object"},
        {"[{\"type\":\"web_search\"}]",
         "tools[0].type: want \"function\", found the string \"web_search\""},
        {"[{\"type\":\"function\"}]", "tools[0].function: want an object, found nothing"},
        {"[{\"function\":{}}]", "tools[0].function.name: want a string, found nothing"},
        {"[{\"function\":{\"name\":\"a b\"}}]", "tools[0].function.name is \"a b\""},
        {"[{\"function\":{\"name\":\"a\",\"parameters\":[]}}]",
         "tools[0].function.parameters: want an object, found an empty array"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err e = {0};
        struct toolset t;
        json_t *v;
        assert_ok(json_parse(bad[i].tools, strlen(bad[i].tools), "tools", &v, &e), e);
        assert_int_equal(toolset_init(&t, v, &e), -E_FORMAT);
        assert_non_null(strstr(e.msg, bad[i].says));
        json_decref(v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_strict),
        cmocka_unit_test(test_cut_tags_are_no_text),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_tools_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
