/* Splitting text: the vectors for both published expressions, corners where PCRE2 on its own would
 * differ from Oniguruma, expressions that must be refused, and time. */
#include "tests/aid_test.h"

#include <jansson.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "text/expression.h"
#include "text/pretoken.h"

#define QWEN35                                                                                     \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"                   \
    " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define QWEN2                                                                                      \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"                           \
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* {"type": "Sequence", ...} of Splits by these expressions, then ByteLevel. */
static json_t *sequence_of(const char *const *expressions, size_t n, bool use_regex)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split",
                                              "pattern", "Regex", expressions[i], "behavior",
                                              "Isolated", "invert", 0));
    json_array_append_new(list, json_pack("{s:s, s:b, s:b}", "type", "ByteLevel",
                                          "add_prefix_space", 0, "use_regex", use_regex));
    return json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", list);
}

static int add_piece(void *ctx, const char *s, size_t n, struct err *e)
{
    (void)e;
    json_array_append_new(ctx, json_stringn(s, n));
    return 0;
}

/* The pieces of a text, as an array of strings. */
static json_t *split(json_t *spec, const char *s, size_t n)
{
    struct err e = {0};
    struct pretoken p;
    struct pretoken_run r;
    json_t *pieces = json_array();
    assert_ok(pretoken_init(&p, spec, "test", &e), e);
    assert_ok(pretoken_run_init(&r, &p, n, add_piece, pieces, &e), e);
    assert_ok(pretoken_split(&r, s, n, &e), e);
    pretoken_run_free(&r);
    pretoken_free(&p);
    json_decref(spec);
    return pieces;
}

static void check_pieces(json_t *found, json_t *want, const char *text)
{
    char *a = json_dumps(found, 0), *b = json_dumps(want, 0);
    if (!json_equal(found, want))
        fail_msg("'%s':\n%s, want\n%s", text, a, b);
    free(a);
    free(b);
    json_decref(found);
}

static void test_vectors(void **state)
{
    (void)state;
    struct err e = {0};
    const char *const expressions[] = {QWEN35, QWEN2};
    const char *const keys[] = {"pieces_qwen35", "pieces_qwen2"};
    json_t *all, *one;
    size_t i;
    assert_ok(json_read_file(DATA "vectors/bpe_vectors.json", 1 << 24, &all, &e), e);
    json_t *cases = json_object_get(all, "cases");
    assert_true(json_array_size(cases) >= 46);
    json_array_foreach(cases, i, one)
        for (int k = 0; k < 2; k++) {
            const char *text = json_string_value(json_object_get(one, "nfc"));
            json_t *pieces = split(sequence_of(&expressions[k], 1, false), text, strlen(text));
            check_pieces(pieces, json_object_get(one, keys[k]), text);
        }
    print_message("note: %zu texts by both expressions\n", json_array_size(cases));
    json_decref(all);
}

struct example {
    const char *expression, *text, *pieces[12];
};

static void check_example(const struct example *x)
{
    json_t *want = json_array();
    for (int i = 0; x->pieces[i]; i++)
        json_array_append_new(want, json_string(x->pieces[i]));
    check_pieces(split(sequence_of(&x->expression, 1, false), x->text, strlen(x->text)), want,
                 x->text);
    json_decref(want);
}

/* What White_Space is: U+0085 is, U+180E (for PCRE2 alone it would be) and U+001C..U+001F are not.
 */
static void test_white(void **state)
{
    (void)state;
    static const struct example examples[] = {
        {"\\s+", "a\xC2\x85\u00A0b", {"a", "\xC2\x85\u00A0", "b"}},
        {"\\s+", "a\u180Eb", {"a\u180Eb"}},
        {"\\s+", "z\x1C\x1D\x1E\x1Fz", {"z\x1C\x1D\x1E\x1Fz"}},
        {"\\s+",
         "\t\n\v\f\r \u1680\u2000\u200A\u2028\u2029\u202F\u205F\u3000x",
         {"\t\n\v\f\r \u1680\u2000\u200A\u2028\u2029\u202F\u205F\u3000", "x"}},
        {"[\\s]+", "\u200B \u180E", {"\u200B", " ", "\u180E"}},
        {"\\S+", " \u180E ", {" ", "\u180E", " "}},
        {"[^\\s]+", " \u180E\xC2\x85", {" ", "\u180E", "\xC2\x85"}},
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++)
        check_example(&examples[i]);
}

static void test_meanings(void **state)
{
    (void)state;
    static const struct example examples[] = {
        /* the long s and the Kelvin sign are case variants */
        {"(?i:'s|k)", "'\u017F \u212A", {"'\u017F", " ", "\u212A"}},
        {"(?i)b|c", "aBC", {"a", "B", "C"}},
        /* letters, marks, digits of Unicode 15 and 16 */
        {"\\p{L}+", "a\U00031350\U00010D4Ax", {"a\U00031350\U00010D4Ax"}},
        {"\\p{M}", "\u0897a", {"\u0897", "a"}},
        {"\\p{N}", "\U00010D40a", {"\U00010D40", "a"}},
        {"\\P{L}+", "a\U0003135012", {"a\U00031350", "12"}},
        {"\\p{Lu}", "a\uA7CB", {"a", "\uA7CB"}},
        {"\\d", "1\u0663\u00B2", {"1", "\u0663", "\u00B2"}},
        /* not the vertical white space of PCRE2 */
        {"[\\v]", "\n\v", {"\n", "\v"}},
        {".+", "a\r\xC2\x85\nb", {"a\r\xC2\x85", "\n", "b"}},
        {"\\u0041|\\x42|\\x{1F600}", "AB😀C", {"A", "B", "😀", "C"}},
        {"[\\-a\\]]+", "x-a]y", {"x", "-a]", "y"}},
        {"[a-]+", "x-a", {"x", "-a"}},
        {"[\\p{L}-]+", "1-a", {"1", "-a"}},
        {"(ab)+|(?:c|d){2,}?|e{,2}", "ababcdd", {"abab", "cd", "d"}},
        {"a*+b|a", "aab a", {"aab", " ", "a"}},
        {"x(?=y)|(?<=y)z|(?<!y)w|(?>q)", "xyzwq", {"x", "y", "z", "w", "q"}},
        {"#| ", "a# b", {"a", "#", " ", "b"}},
        /* a match of nothing cuts too */
        {"x*", "axé", {"a", "x", "é"}},
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++)
        check_example(&examples[i]);
}

/* Splits one after another, and ByteLevel's own expression last. */
static void test_chain(void **state)
{
    (void)state;
    const char *const expressions[] = {"\\p{N}{1,3}", "[一-龥]+"};
    static const char *const want[] = {"123", "4", " ab", "漢字", "'s", "  ", " x"};
    const char *text = "1234 ab漢字's   x";
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        json_array_append_new(list, json_string(want[i]));
    check_pieces(split(sequence_of(expressions, 2, true), text, strlen(text)), list, text);
    json_decref(list);
    json_t *alone =
        json_pack("{s:s, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "use_regex", 0);
    list = json_pack("[s]", text);
    check_pieces(split(alone, text, strlen(text)), list, text);
    json_decref(list);
}

/* A String is itself, not an expression. */
static void test_literal(void **state)
{
    (void)state;
    const char *text = "a.b.*c";
    json_t *spec =
        json_pack("{s:s, s:[{s:s, s:{s:s}, s:s}, {s:s, s:b, s:b}]}", "type", "Sequence",
                  "pretokenizers", "type", "Split", "pattern", "String", ".*", "behavior",
                  "Isolated", "type", "ByteLevel", "add_prefix_space", 0, "use_regex", 0);
    json_t *want = json_pack("[s, s, s]", "a.b", ".*", "c");
    check_pieces(split(spec, text, strlen(text)), want, text);
    json_decref(want);
}

static void test_refused_expressions(void **state)
{
    (void)state;
    static const struct {
        const char *expression;
        int code;
        const char *says;
    } cases[] = {
        {"\\w+", E_UNSUPPORTED, "'\\w'"},
        {"a\\b", E_UNSUPPORTED, "byte 1: '\\b'"},
        {"\\h", E_UNSUPPORTED, "'\\h'"},
        {"^a", E_UNSUPPORTED, "line anchors"},
        {"a$", E_UNSUPPORTED, "line anchors"},
        {"(a)\\1", E_UNSUPPORTED, "'\\1'"},
        {"(?<name>a)", E_UNSUPPORTED, "a group of this kind"},
        {"(?m:a)", E_UNSUPPORTED, "a group of this kind"},
        {"a(?i)b", E_UNSUPPORTED, "a group of this kind"},
        {"(*UTF)a", E_UNSUPPORTED, "a group of this kind"},
        {"\\p{Han}", E_UNSUPPORTED, "scripts"},
        {"\\p{^L}", E_UNSUPPORTED, "general categories"},
        {"\\p{Cn}", E_UNSUPPORTED, "general categories"},
        {"\\p{ }", E_UNSUPPORTED, "general categories"},
        {"\\pL", E_UNSUPPORTED, "braces"},
        {"\\p", E_UNSUPPORTED, "braces"},
        {"[\\P{L}]", E_UNSUPPORTED, "negated set"},
        {"[\\S]", E_UNSUPPORTED, "negated set"},
        {"[a[b]]", E_UNSUPPORTED, "class inside a class"},
        {"[[:alpha:]]", E_UNSUPPORTED, "class inside a class"},
        {"[a&&b]", E_UNSUPPORTED, "intersection"},
        {"[]a]", E_UNSUPPORTED, "empty class"},
        {"[a-\\s]", E_UNSUPPORTED, "range that ends in a set"},
        {"a{1,2}+", E_UNSUPPORTED, "suffix"},
        {"a{2}?", E_UNSUPPORTED, "suffix"},
        {"a{", E_UNSUPPORTED, "brace"},
        {"a{,}", E_UNSUPPORTED, "brace"},
        {"(?i:ss)", E_UNSUPPORTED, "match one character"},
        {"(?i:xFi)", E_UNSUPPORTED, "match one character"},
        {"(?i:é)", E_UNSUPPORTED, "outside ASCII"},
        {"(?i:[a-é])", E_UNSUPPORTED, "outside ASCII"},
        {"(?i:(?:\\p{Lu}))", E_UNSUPPORTED, "one case"},
        {"\\xC3", E_UNSUPPORTED, "names a byte"},
        {"(a", E_FORMAT, "a ) is missing"},
        {"a)", E_FORMAT, "closes nothing"},
        {"[a", E_FORMAT, "has no ]"},
        {"*a", E_FORMAT, "nothing to repeat"},
        {"a|+", E_FORMAT, "nothing to repeat"},
        {"a**", E_FORMAT, "nothing to repeat"},
        {"a\\", E_FORMAT, "ends with a backslash"},
        {"\\x{110000}", E_FORMAT, "no code point"},
        {"\\x{d800}", E_FORMAT, "no code point"},
        {"\\x{41", E_FORMAT, "has no }"},
        {"\\u12", E_FORMAT, "hexadecimal digit"},
        {"[b-a]", E_FORMAT, "does not compile"},
        {"a{70000}", E_FORMAT, "does not compile"},
        {"(?<=a+)b", E_FORMAT, "does not compile"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err e = {0};
        struct pretoken p;
        json_t *spec = sequence_of(&cases[i].expression, 1, false);
        int rc = pretoken_init(&p, spec, "file: pre_tokenizer", &e);
        if (rc != -cases[i].code || !strstr(e.msg, cases[i].says) || !strstr(e.msg, "file: pre_"))
            fail_msg("'%s': %d, '%s'", cases[i].expression, rc, e.msg);
        json_decref(spec);
    }
}

static void test_refused_kinds(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        int code;
        const char *says;
    } cases[] = {
        {"{\"type\":\"Metaspace\"}", E_UNSUPPORTED, "\"Metaspace\""},
        {"{\"type\":\"Whitespace\"}", E_UNSUPPORTED, "\"Whitespace\""},
        {"{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Isolated\"}",
         E_UNSUPPORTED, "\"Split\" at the end"},
        {"{\"type\":\"ByteLevel\"}", E_UNSUPPORTED, "add_prefix_space"},
        {"{\"type\":\"ByteLevel\",\"add_prefix_space\":0}", E_FORMAT, "the integer 0"},
        {"{\"type\":7}", E_FORMAT, "the integer 7"},
        {"{}", E_FORMAT, "type: is required"},
        {"{\"type\":\"Sequence\"}", E_FORMAT, "pretokenizers"},
        {"{\"type\":\"Sequence\",\"pretokenizers\":[]}", E_UNSUPPORTED, "empty"},
        {"{\"type\":\"Sequence\",\"pretokenizers\":[3]}", E_FORMAT, "[0]: want an object"},
        {"{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
         "\"a\"},\"behavior\":\"Removed\"},{\"type\":\"ByteLevel\"}]}",
         E_UNSUPPORTED, "\"Removed\""},
        {"{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{},"
         "\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\"}]}",
         E_FORMAT, "Regex"},
        {"{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"},{\"type\":\"ByteLevel\"}"
         "]}",
         E_UNSUPPORTED, "\"Digits\" here"},
        {"[]", E_FORMAT, "want an object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err e = {0};
        struct pretoken p;
        json_t *spec = json_loads(cases[i].spec, 0, NULL);
        assert_non_null(spec);
        int rc = pretoken_init(&p, spec, "file: pre_tokenizer", &e);
        if (rc != -cases[i].code || !strstr(e.msg, cases[i].says))
            fail_msg("'%s': %d, '%s'", cases[i].spec, rc, e.msg);
        json_decref(spec);
    }
    const char *many[PRETOKEN_MAX + 1];
    for (int i = 0; i <= PRETOKEN_MAX; i++)
        many[i] = "a";
    struct err e = {0};
    struct pretoken p;
    json_t *spec = sequence_of(many, PRETOKEN_MAX + 1, false);
    assert_int_equal(pretoken_init(&p, spec, "file", &e), -E_UNSUPPORTED);
    json_decref(spec);
}

static int count_piece(void *ctx, const char *s, size_t n, struct err *e)
{
    (void)s, (void)n, (void)e;
    ++*(size_t *)ctx;
    return 0;
}

/* An expression that tries everything twice over at each letter is stopped, not waited for. */
static void test_exponential(void **state)
{
    (void)state;
    struct err e = {0};
    struct pretoken p;
    struct pretoken_run r;
    const char *expression = "(?:(?:a|a)+)+[bc]";
    char text[41];
    size_t n = 0;
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    json_t *spec = sequence_of(&expression, 1, false);
    assert_ok(pretoken_init(&p, spec, "test", &e), e);
    assert_ok(pretoken_run_init(&r, &p, strlen(text), count_piece, &n, &e), e);
    clock_t start = clock();
    assert_int_equal(pretoken_split(&r, text, strlen(text), &e), -E_LIMIT);
    assert_non_null(strstr(e.msg, "gave up at byte 0 of 40"));
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 5 * aid_slower());
    pretoken_run_free(&r);
    pretoken_free(&p);
    json_decref(spec);
}

/* Groups that are repeated a million times need more than the stack that compiled code has. */
static void test_deep_group(void **state)
{
    (void)state;
    struct buf b = BUF_INIT;
    const char *expression = "(?:a(?=[ab])|b)+";
    while (b.len < 300000)
        buf_putc(&b, 'a');
    json_t *pieces = split(sequence_of(&expression, 1, false), b.data, b.len);
    assert_int_equal(json_array_size(pieces), 2);
    json_decref(pieces);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),       cmocka_unit_test(test_white),
        cmocka_unit_test(test_meanings),      cmocka_unit_test(test_chain),
        cmocka_unit_test(test_literal),       cmocka_unit_test(test_refused_expressions),
        cmocka_unit_test(test_refused_kinds), cmocka_unit_test(test_exponential),
        cmocka_unit_test(test_deep_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
