/* Grammars and their token masks: texts that are allowed and texts that are not, with the masks
 * agreeing with what may be fed at every byte; random answers under masks are what their schema
 * says; what cannot be kept to is refused by name; nothing takes long. */
#include "tests/aid_test.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/thread.h"
#include "text/guide.h"
#include "text/toolcall.h"

static const char *folder = DEMO; /* of a tokenizer; the first argument, if there is one */
static struct tokenizer *tokenizer;
static struct lexicon *lexicon;

static int open_all(void **state)
{
    (void)state;
    struct err e = {0};
    assert_ok(tokenizer_open(folder, &tokenizer, &e), e);
    uint64_t t = clock_ns();
    assert_ok(lexicon_open(tokenizer, &lexicon, &e), e);
    printf("note: tree of %d tokens: %d nodes in %.1f ms\n", lexicon->n_ids, lexicon->n_nodes,
           (double)(clock_ns() - t) * 1e-6);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    lexicon_close(lexicon);
    tokenizer_close(tokenizer);
    return 0;
}

/* kind g: GBNF, s: a schema, o: any object; tools: t calls, f free text with strict calls at its
 * end. */
static int make_for(char kind, const char *text, const char *only, enum grammar_start start,
                    struct grammar **g, struct err *e)
{
    struct grammar_spec spec = {.start = start, .only = only, .several = !only};
    struct toolset t;
    json_t *v = NULL, *strict = NULL;
    *g = NULL;
    spec.object = kind == 'o';
    spec.gbnf = kind == 'g' ? text : NULL;
    spec.gbnf_len = strlen(text);
    if (kind != 'g' && kind != 'o' && json_parse(text, strlen(text), "test", &v, e))
        return -e->code;
    int rc = toolset_init(&t, kind == 't' || kind == 'f' ? v : NULL, e);
    if (!rc && json_object_size(t.tools)) {
        spec.tools = &t;
        spec.must_call = kind == 't';
        strict = json_pack("{s:b}", "f", kind == 'f');
        spec.strict = strict;
    } else {
        spec.schema = v;
    }
    if (!rc) {
        rc = grammar_open(&spec, g, e);
        toolset_free(&t);
    }
    json_decref(strict);
    json_decref(v);
    return rc;
}

static int make(char kind, const char *text, enum grammar_start start, struct grammar **g,
                struct err *e)
{
    return make_for(kind, text, NULL, start, g, e);
}

/* A grammar and its table. */
struct both {
    struct grammar *g;
    struct mask_table *t;
};

static void open_both(struct both *b, char kind, const char *text, const char *only,
                      enum grammar_start start)
{
    struct err e = {0};
    if (make_for(kind, text, only, start, &b->g, &e))
        fail_msg("%s: %s", text, e.msg);
    assert_ok(mask_table_open(b->g, lexicon, &b->t, &e), e);
}

static void close_both(struct both *b)
{
    mask_table_close(b->t);
    grammar_close(b->g);
}

/* Whether text is allowed whole; with each token of the vocabulary asked at each byte of it. */
static bool allowed(char kind, const char *grammar, const char *text, bool slowly)
{
    struct err e = {0};
    struct both b;
    struct mask *m;
    bool good = true, done = false;
    size_t words = ((size_t)lexicon->n_tokens + 31) / 32, len = strlen(text);
    uint32_t *bits = mem_array(words, sizeof *bits);
    open_both(&b, kind, grammar, NULL, GRAMMAR_ANSWER);
    assert_ok(mask_open(b.t, &m, &e), e);
    for (size_t i = 0; i <= len && good; i++) {
        memset(bits, 0, words * sizeof *bits);
        assert_ok(mask_fill(m, bits, lexicon->n_tokens, &done, &e), e);
        for (int k = 0; slowly && k < lexicon->n_ids; k++) {
            int32_t id = lexicon->ids[k];
            size_t n;
            const char *s = tokenizer_bytes(tokenizer, id, &n);
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
    close_both(&b);
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
        bool slowly = lexicon->n_ids < 10000 && i % 4 == 0;
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
        if (make(bad[i].kind, bad[i].text, GRAMMAR_ANSWER, &g, &e) == 0)
            fail_msg("case %zu is not refused: %s", i, bad[i].text);
        if (!strstr(e.msg, bad[i].says))
            fail_msg("case %zu says: %s", i, e.msg);
    }
}

/* An answer of tokens drawn at random under the mask; strings are led to their end. */
static void draw(struct guide *guide, uint64_t seed, int most, struct buf *out)
{
    const struct constraint *c = guide_constraint(guide);
    size_t words = ((size_t)lexicon->n_tokens + 31) / 32;
    uint32_t *bits = mem_array(words, sizeof *bits);
    int32_t stop = tokenizer_id(tokenizer, "<|im_end|>");
    struct err e = {0};
    for (int k = 0;; k++) {
        int n = 0, want = -1;
        memset(bits, 0, words * sizeof *bits);
        bool held = c->mask(c->ctx, bits, lexicon->n_tokens);
        assert_true(held);
        for (int id = 0; id < lexicon->n_tokens; id++)
            n += bits[id / 32] >> (id % 32) & 1;
        assert_true(n > 0);
        if (bits[stop / 32] >> (stop % 32) & 1) {
            if (n == 1 || k >= most)
                break;
            n--;
        }
        static const char ends[] = "\"}]>0";
        for (const char *p = ends; *p && k >= most / 2 && want < 0; p++) {
            char one[2] = {*p};
            int32_t id = tokenizer_id(tokenizer, one);
            if (id >= 0 && (bits[id / 32] >> (id % 32) & 1))
                want = id;
        }
        int skip = (int)(rng_at(seed, (uint64_t)k) % (uint64_t)n);
        for (int id = 0; want < 0; id++)
            if (id != stop && (bits[id / 32] >> (id % 32) & 1) && !skip--)
                want = id;
        size_t len;
        const char *s = tokenizer_bytes(tokenizer, want, &len);
        buf_add(out, s, len);
        assert_ok(c->accept(c->ctx, want, &e), e);
        if (k > 4000)
            fail_msg("no end: %.200s", buf_str(out));
    }
    mem_free(bits);
}

static void guide_with(struct mask_table *t, bool opened, int budget, struct guide **out)
{
    struct err e = {0};
    int32_t stop = tokenizer_id(tokenizer, "<|im_end|>");
    const struct guide_options o = {.tokenizer = tokenizer,
                                    .table = t,
                                    .opened = opened,
                                    .budget = budget,
                                    .stop_ids = &stop,
                                    .n_stop_ids = 1};
    assert_ok(guide_open(&o, out, &e), e);
}

/* Whatever is drawn is JSON with the properties that the schema asks for. */
static void test_random_answers(void **state)
{
    (void)state;
    static const char *const schemas[] = {POINT, TREE, "{\"type\":\"object\"}",
                                          "{\"type\":\"array\",\"items\":" POINT "}"};
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct both b;
        struct guide *guide;
        struct buf out = BUF_INIT;
        json_t *v = NULL;
        open_both(&b, 's', schemas[seed % 4], NULL, GRAMMAR_ANSWER);
        guide_with(b.t, false, -1, &guide);
        draw(guide, seed, 30, &out);
        v = json_loadb(out.data, out.len, JSON_DECODE_ANY, NULL);
        if (!v)
            fail_msg("seed %d: not JSON: %s", (int)seed, buf_str(&out));
        if (seed % 4 == 0)
            assert_non_null(json_object_get(v, "y"));
        json_decref(v);
        guide_close(guide);
        close_both(&b);
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
        struct both b;
        struct guide *guide;
        struct toolset t;
        struct buf out = BUF_INIT, answer = BUF_INIT, says = BUF_INIT;
        json_t *tools, *calls;
        assert_ok(json_parse(numbers, sizeof numbers - 1, "t", &tools, &e), e);
        assert_ok(toolset_init(&t, tools, &e), e);
        open_both(&b, 't', numbers, seed % 2 ? "f" : "go", GRAMMAR_THINKING);
        guide_with(b.t, true, 5, &guide);
        draw(guide, seed, 40, &out);
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
        close_both(&b);
        buf_free(&out);
        buf_free(&answer);
        buf_free(&says);
    }
}

/* Whether a required call of the tool "f" may have this text. */
static void expect_call(const char *tools, const char *text, bool good)
{
    struct both b;
    struct mask *m;
    struct err e = {0};
    open_both(&b, 't', tools, "f", GRAMMAR_ANSWER);
    assert_ok(mask_open(b.t, &m, &e), e);
    if ((mask_feed(m, text, strlen(text), &e) == 0) != good)
        fail_msg("%s: %s", text, e.msg);
    mask_close(m);
    close_both(&b);
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
    struct both b;
    struct mask *m;
    for (int i = 0; i < 30; i++)
        buf_printf(&text, "%s%d ::= r%d \"a\" | r%d \"b\"\n", "r", i, i + 1, i + 1);
    buf_puts(&text, "r30 ::= \"x\"\nroot ::= r0");
    open_both(&b, 'g', buf_str(&text), NULL, GRAMMAR_ANSWER);
    uint64_t t = clock_ns();
    assert_int_equal(mask_open(b.t, &m, &e), -E_LIMIT);
    assert_non_null(strstr(e.msg, "too ambiguous"));
    assert_true((double)(clock_ns() - t) * 1e-9 < aid_slower());
    close_both(&b);
    buf_free(&text);
}

/* The bits of a mask, to free with mem_free. */
static uint32_t *fill(struct mask *m)
{
    struct err e = {0};
    bool done;
    uint32_t *bits = mem_zalloc(((size_t)lexicon->n_tokens + 31) / 32, sizeof *bits);
    assert_ok(mask_fill(m, bits, lexicon->n_tokens, &done, &e), e);
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
    const size_t bytes = ((size_t)lexicon->n_tokens + 31) / 32 * sizeof(uint32_t);
    struct err e = {0};
    struct both b, fresh;
    struct mask *m[3], *deep, *other;
    (void)state;
    open_both(&b, 'o', "", NULL, GRAMMAR_ANSWER);
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
    open_both(&fresh, 'o', "", NULL, GRAMMAR_ANSWER);
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
    close_both(&fresh);
    close_both(&b);
}

struct shared {
    struct both both;
    struct buf texts[64];
};

static int draw_shared(void *ctx, int worker, size_t i, struct err *e)
{
    struct shared *s = ctx;
    struct guide *guide;
    (void)worker;
    (void)e;
    guide_with(s->both.t, false, -1, &guide);
    draw(guide, i % 8, 30, &s->texts[i]);
    guide_close(guide);
    return 0;
}

/* Answers of several threads under one table say what each alone says. */
static void test_threads_share_a_table(void **state)
{
    struct shared *s = mem_zalloc(1, sizeof *s);
    struct err e = {0};
    (void)state;
    open_both(&s->both, 's', POINT, NULL, GRAMMAR_ANSWER);
    assert_ok(thread_for(4, 64, draw_shared, s, &e), e);
    for (int i = 8; i < 64; i++)
        assert_string_equal(buf_str(&s->texts[i]), buf_str(&s->texts[i % 8]));
    for (int i = 0; i < 64; i++)
        buf_free(&s->texts[i]);
    close_both(&s->both);
    mem_free(s);
}

/* Whether a token's bytes lead on from a state, byte by byte. */
static bool leads_on(struct automaton *a, int32_t state, int32_t id)
{
    size_t n;
    const char *s = tokenizer_bytes(tokenizer, id, &n);
    for (size_t i = 0; i < n; i++)
        state = automaton_next(a, state, (uint8_t)s[i]);
    return state != STATE_DEAD;
}

/* The mask at every byte of a text is that of each token followed by itself. */
static void expect_exact(char kind, const char *grammar, enum grammar_start start, const char *text)
{
    struct err e = {0};
    struct both b;
    struct automaton *a;
    struct mask *m;
    open_both(&b, kind, grammar, NULL, start);
    assert_ok(automaton_open(&b.g->rules, &a, &e), e);
    assert_ok(mask_open(b.t, &m, &e), e);
    int32_t state = automaton_root(a);
    for (const char *p = text; state != STATE_DEAD; p++) {
        uint32_t *bits = fill(m);
        for (int k = 0; k < lexicon->n_ids; k++) {
            const int32_t id = lexicon->ids[k];
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
    close_both(&b);
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
    struct both b;
    struct mask *m;
    size_t words = ((size_t)lexicon->n_tokens + 31) / 32;
    uint32_t *bits = mem_array(words, sizeof *bits);
    uint64_t t = clock_ns();
    open_both(&b, 'o', "", NULL, GRAMMAR_ANSWER);
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
            assert_ok(mask_fill(m, bits, lexicon->n_tokens, &done, &e), e);
            double ms = (double)(clock_ns() - t) * 1e-6;
            sum += ms;
            worst = ms > worst ? ms : worst;
            size_t len = sizeof text - 1 - i;
            assert_ok(mask_feed(m, text + i, len < 3 ? len : 3, &e), e);
        }
        printf("note: %d tokens: open %.2f ms; %d masks, mean %.3f ms, worst %.2f ms\n",
               lexicon->n_tokens, open_ms, n, sum / n, worst);
    }
    mask_close(m);
    close_both(&b);
    mem_free(bits);
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
        cmocka_unit_test(test_masks_are_exact),
        cmocka_unit_test(test_a_table_forgets_no_answer),
        cmocka_unit_test(test_threads_share_a_table),
        cmocka_unit_test(test_cost),
    };
    if (argc > 1)
        folder = argv[1];
    return cmocka_run_group_tests(tests, open_all, close_all);
}
