/* Small tokenizers written here: every kind of broken or unsupported file, what must be tolerated,
 * options of added tokens, and memory that ends anywhere. */
#include "tests/aid_test.h"

#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

/* Parts of a tokenizer.json; NULL is the usual. */
struct parts {
    const char *added, *normalizer, *pre_tokenizer, *decoder; /* whole values */
    const char *vocab;            /* entries behind the 256 bytes, with a comma in front */
    const char *merges;           /* the whole value; "" leaves the field out */
    const char *model;            /* further fields, with a comma in front */
    const char *alphabet_without; /* a character to leave out */
};

static void put_alphabet(struct buf *b, const char *without)
{
    struct vocab v;
    vocab_init(&v);
    for (int byte = 0; byte < 256; byte++) {
        char s[5] = "";
        utf8_put(v.character_of[byte], s);
        if (without && strcmp(s, without) == 0)
            continue;
        buf_printf(b, "%s\"%s%s\": %d", b->data[b->len - 1] == '{' ? "" : ", ",
                   byte == '"' || byte == '\\' ? "\\" : "", s, byte);
    }
    vocab_free(&v);
}

static const char *given_or(const char *given, const char *usual)
{
    return given ? given : usual;
}

static void put_json(struct buf *b, const struct parts *p)
{
    buf_printf(b, "{\"version\": \"1.0\", \"added_tokens\": %s,\n", given_or(p->added, "[]"));
    buf_printf(b, " \"normalizer\": %s,\n", given_or(p->normalizer, "{\"type\": \"NFC\"}"));
    buf_printf(
        b, " \"pre_tokenizer\": %s,\n",
        given_or(p->pre_tokenizer, "{\"type\": \"ByteLevel\", \"add_prefix_space\": false}"));
    buf_printf(b, " \"decoder\": %s,\n", given_or(p->decoder, "{\"type\": \"ByteLevel\"}"));
    buf_printf(b, " \"model\": {\"type\": \"BPE\"%s, \"vocab\": {", given_or(p->model, ""));
    put_alphabet(b, p->alphabet_without);
    buf_printf(b, "%s}", given_or(p->vocab, ", \"ab\": 256, \"Ġab\": 257"));
    if (!p->merges || p->merges[0])
        buf_printf(b, ",\n \"merges\": %s", given_or(p->merges, "[[\"a\", \"b\"], \"Ġ ab\"]"));
    buf_puts(b, "}}\n");
}

static int parse(const struct parts *p, struct tokenizer **t, struct err *e)
{
    struct buf b = BUF_INIT;
    put_json(&b, p);
    int rc = tokenizer_parse(b.data, b.len, "file.json", t, e);
    buf_free(&b);
    return rc;
}

static void check_ids(const struct parts *p, const char *text, const int32_t *want, size_t n)
{
    struct err e = {0};
    struct tokenizer *t = NULL;
    struct tokens ids = {0};
    assert_ok(parse(p, &t, &e), e);
    assert_ok(tokenizer_encode(t, text, strlen(text), false, &ids, &e), e);
    if (ids.n != n || memcmp(ids.ids, want, n * sizeof *want) != 0)
        fail_msg("'%s': %zu ids, first %d", text, ids.n, ids.n ? ids.ids[0] : -1);
    tokens_free(&ids);
    tokenizer_close(t);
}

#define CHECK_IDS(parts, text, ...)                                                                \
    do {                                                                                           \
        const int32_t want_[] = {__VA_ARGS__};                                                     \
        check_ids(&(parts), text, want_, sizeof want_ / sizeof want_[0]);                          \
    } while (0)

static void test_usual(void **state)
{
    (void)state;
    CHECK_IDS(((struct parts){0}), "ab ab  b", 256, 257, ' ', ' ', 'b');
}

/* Files that differ from the usual one in one thing, and what is said about it. */
static const struct {
    struct parts parts;
    int code;
    const char *says;
} refused[] = {
    {{.merges = ""}, E_FORMAT, "model.merges: is required"},
    {{.merges = "[]"}, E_FORMAT, "only merges lead to 2 of the tokens"},
    {{.merges = "null"}, E_FORMAT, "merges"},
    {{.merges = "{}"}, E_FORMAT, "want an array, found an empty object"},
    {{.merges = "[[\"a\",\"b\"],[\"x\",\"y\"]]"}, E_FORMAT, "merge number 1: \"xy\""},
    {{.merges = "[\"a zz\"]"}, E_FORMAT, "merge number 0: \"zz\" is not in the vocabulary"},
    {{.merges = "[\"zz b\"]"}, E_FORMAT, "\"zz\""},
    {{.merges = "[\"a b\", [\"a\", \"b\"]]"}, E_FORMAT, "number 0 of the list already"},
    {{.merges = "[[\"\", \"ab\"]]"}, E_FORMAT, "\"\" is not in the vocabulary"},
    {{.merges = "[\"ab\"]"}, E_FORMAT, "want two tokens with one blank"},
    {{.merges = "[\"a b c\"]"}, E_FORMAT, "want two tokens with one blank"},
    {{.merges = "[\" ab\"]"}, E_FORMAT, "\"\" is not in the vocabulary"},
    {{.merges = "[[\"a\"]]"}, E_FORMAT, "want ',', found ']'"},
    {{.merges = "[[\"a\",\"b\",\"c\"]]"}, E_FORMAT, "want ']'"},
    {{.merges = "[7]"}, E_FORMAT, "want '\"', found '7'"},
    {{.merges = "[[\"a\",\"b\"],]"}, E_FORMAT, "want '\"', found ']'"},
    {{.vocab = ", \"ab\": 256, \"ab\": 257"}, E_FORMAT, "\"ab\" is there twice"},
    {{.vocab = ", \"ab\": 97"}, E_FORMAT, "id 97 has two tokens, \"a\" and \"ab\""},
    {{.vocab = ", \"ab\": -1"}, E_FORMAT, "\"ab\" has id -1, want 0 to 4194303"},
    {{.vocab = ", \"ab\": 4194304"}, E_FORMAT, "\"ab\" has id 4194304"},
    {{.vocab = ", \"ab\": 99999999999999999999"}, E_FORMAT, "a smaller integer"},
    {{.vocab = ", \"ab\": 1e2"}, E_FORMAT, "want an integer"},
    {{.vocab = ", \"ab\": 256.0"}, E_FORMAT, "want an integer"},
    {{.vocab = ", \"ab\": 0256"}, E_FORMAT, "want an integer"},
    {{.vocab = ", \"ab\": \"256\""}, E_FORMAT, "want an integer, found '\"'"},
    {{.vocab = ", \"ab\": [256]"}, E_FORMAT, "want an integer, found '['"},
    {{.vocab = ", \"\": 256"}, E_FORMAT, "the token with id 256 is empty"},
    {{.vocab = ", \"a\\u0000\": 256, \"a\\ud83d\": 257"}, E_FORMAT, "surrogate pair"},
    {{.vocab = ", \"\\udc00\": 256"}, E_FORMAT, "surrogate pair"},
    {{.vocab = ", \"\\ud83dx\": 256"}, E_FORMAT, "surrogate pair"},
    {{.vocab = ", \"\\ud83d\\ud83d\": 256"}, E_FORMAT, "surrogate pair"},
    {{.vocab = ", \"\\q\": 256"}, E_FORMAT, "want an escape, found 'q'"},
    {{.vocab = ", \"\\u12g\": 256"}, E_FORMAT, "hexadecimal digit"},
    {{.vocab = ", \"a\x01\": 256"}, E_FORMAT, "found byte 01"},
    {{.vocab = ", \"ab\": 256, \"c\xFF\": 257"}, E_FORMAT, "(0xff) is not valid UTF-8"},
    {{.vocab = ","}, E_FORMAT, "want '\"', found '}'"},
    {{.alphabet_without = "Ġ"}, E_FORMAT, "no token \"Ġ\" for byte 0x20"},
    {{.normalizer = "{\"type\": \"Lowercase\"}"}, E_UNSUPPORTED, "\"Lowercase\""},
    {{.normalizer = "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"}, {\"type\":"
                    " \"NFKC\"}]}"},
     E_UNSUPPORTED,
     "\"NFKC\""},
    {{.normalizer = "{\"type\": \"Sequence\"}"}, E_FORMAT, "normalizers: is required"},
    {{.normalizer = "[]"}, E_FORMAT, "normalizer: want an object"},
    {{.pre_tokenizer = "null"}, E_FORMAT, "pre_tokenizer: is required"},
    {{.decoder = "null"}, E_FORMAT, "decoder: is required"},
    {{.decoder = "{\"type\": \"WordPiece\"}"}, E_UNSUPPORTED, "\"WordPiece\""},
    {{.decoder = "{\"type\": \"Sequence\", \"decoders\": []}"}, E_UNSUPPORTED, "found 0"},
    {{.decoder = "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Sequence\", "
                 "\"decoders\": []}]}"},
     E_UNSUPPORTED,
     "\"Sequence\""},
    {{.model = ", \"dropout\": 0.1"}, E_UNSUPPORTED, "dropout: 0.1"},
    {{.model = ", \"continuing_subword_prefix\": \"##\""}, E_UNSUPPORTED, "\"##\""},
    {{.model = ", \"end_of_word_suffix\": \"</w>\""}, E_UNSUPPORTED, "\"</w>\""},
    {{.model = ", \"ignore_merges\": 1"}, E_FORMAT, "ignore_merges: want true or false"},
    {{.model = ", \"type\": \"BPE\""}, E_FORMAT, "duplicate object key"},
    {{.model = ", \"vocab\": {}"}, E_FORMAT, "duplicate object key"},
    {{.added = "{}"}, E_FORMAT, "added_tokens: want an array"},
    {{.added = "[7]"}, E_FORMAT, "added_tokens[0]: want an object"},
    {{.added = "[{\"content\": \"x\"}]"}, E_FORMAT, "added_tokens[0].id: is required"},
    {{.added = "[{\"id\": -3, \"content\": \"x\"}]"}, E_FORMAT, "found the integer -3"},
    {{.added = "[{\"id\": 300}]"}, E_FORMAT, "added_tokens[0].content: is required"},
    {{.added = "[{\"id\": 300, \"content\": \"\"}]"}, E_FORMAT, "300 is empty"},
    {{.added = "[{\"id\": 300, \"content\": 5}]"}, E_FORMAT, "want a string"},
    {{.added = "[{\"id\": 97, \"content\": \"<x>\"}]"}, E_FORMAT, "id 97 has two tokens"},
    {{.added = "[{\"id\": 300, \"content\": \"a\"}]"}, E_FORMAT, "\"a\" is there twice"},
    {{.added = "[{\"id\": 300, \"content\": \"<x>\", \"single_word\": true}]"},
     E_UNSUPPORTED,
     "added_tokens[0].single_word"},
    {{.added = "[{\"id\": 300, \"content\": \"<x>\"}, {\"id\": 300, \"content\": \"<x>\"}]"},
     E_FORMAT,
     "are the same text"},
    {{.added = "[{\"id\": 300, \"content\": \"<x>\", \"lstrip\": \"no\"}]"},
     E_FORMAT,
     "lstrip: want true or false"},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct err e = {0};
        struct tokenizer *t = (void *)&e;
        int rc = parse(&refused[i].parts, &t, &e);
        if (rc != -refused[i].code || !strstr(e.msg, refused[i].says))
            fail_msg("case %zu (%s): %d, '%s'", i, refused[i].says, rc, e.msg);
        assert_ptr_equal(strstr(e.msg, "file.json"), e.msg);
        assert_null(t);
    }
}

/* The text of a whole file. */
static void test_refused_files(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "want '{', found the end"},
        {"[]", "want '{', found '['"},
        {"{}", "file.json.model: is required"},
        {"{\"model\": 3}", "model: want an object, found the integer 3"},
        {"{\"model\": {\"type\": \"WordPiece\", \"vocab\": {}}}", "\"WordPiece\""},
        {"{\"model\": {\"type\": \"Unigram\", \"vocab\": []}}", "\"Unigram\""},
        {"{\"model\": {\"vocab\": [], \"merges\": []}}",
         "vocab: want an object, found an empty array"},
        {"{\"model\": {\"vocab\": {}, \"merges\": []}}", "no token \"Ā\" for byte 0x00"},
        {"{\"model\": {\"vocab\": {\"a\": 1], \"merges\": []}}", "not valid JSON"},
        {"{\"model\": {\"vocab\": {\"a\": 1, \"merges\": []}}", "want"},
        {"{\"model\": {\"vocab\": {}, \"merges\": []}} x", "end of file expected"},
        {"{\"model\": {\"vocab\": {\n\n\n}, \"merges\": []},\n oops}", "byte"},
        {"{\"model\": {\"vocab\": {\n\n\n}, \"merges\": []},\n \"x\": oops}", "line 5"},
        {"{\"a\": \"unfinished", "found the end"},
        {"{\"a\": \"\\", "found the end"},
        {"{\"a\" 1}", "want ':'"},
        {"{\"a\": [[[[1]]]", "found the end"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err e = {0};
        struct tokenizer *t = NULL;
        int rc = tokenizer_parse(cases[i].text, strlen(cases[i].text), "file.json", &t, &e);
        if (rc >= 0 || !strstr(e.msg, cases[i].says))
            fail_msg("case %zu: %d, '%s'", i, rc, e.msg);
        assert_null(t);
    }
    struct err e = {0};
    struct tokenizer *t = NULL;
    assert_int_equal(tokenizer_open("tests/no-such-folder", &t, &e), -E_NOTFOUND);
    assert_non_null(strstr(e.msg, "tests/no-such-folder"));
}

/* Files that are fine although they look different. */
static void test_tolerated(void **state)
{
    (void)state;
    static const struct parts cases[] = {
        {.merges = "[\"a b\", \"Ġ ab\"]"},
        {.merges = "[[\"a\",\"b\"],\n\t[ \"\\u0120\" , \"ab\" ] ]"},
        {.vocab = ", \"\\u0120ab\"  :257 ,\n\"a\\u0062\": 256"},
        {.normalizer = "null"},
        {.normalizer = "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"}]}"},
        {.normalizer = "{\"type\": \"Sequence\", \"normalizers\": []}"},
        {.decoder = "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"ByteLevel\"}]}"},
        {.model =
             ", \"dropout\": null, \"unk_token\": \"?\", \"continuing_subword_prefix\": null, "
             "\"end_of_word_suffix\": \"\", \"byte_fallback\": false, \"later\": {\"x\": [1]}"},
        {.added = "[{\"id\": 4194303, \"content\": \"<far>\", \"later\": 1}]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK_IDS(cases[i], "ab ab", 256, 257);
}

/* Merges may come before the vocabulary. */
static void test_order(void **state)
{
    (void)state;
    struct err e = {0};
    struct buf b = BUF_INIT;
    struct tokenizer *t = NULL;
    struct tokens ids = {0};
    buf_puts(&b, "{\"model\": {\"merges\": [\"a b\"], \"vocab\": {");
    put_alphabet(&b, NULL);
    buf_puts(&b, ", \"ab\": 300}}, \"decoder\": {\"type\": \"ByteLevel\"}, \"pre_tokenizer\": "
                 "{\"use_regex\": false, \"add_prefix_space\": false, \"type\": \"ByteLevel\"}}");
    assert_ok(tokenizer_parse(b.data, b.len, "file.json", &t, &e), e);
    assert_ok(tokenizer_encode(t, "ab", 2, false, &ids, &e), e);
    assert_int_equal(ids.n, 1);
    assert_int_equal(ids.ids[0], 300);
    assert_int_equal(tokenizer_count(t), 301);
    size_t n = 7;
    assert_null(tokenizer_bytes(t, 299, &n));
    assert_int_equal(n, 0);
    tokens_free(&ids);
    tokenizer_close(t);
    buf_free(&b);
}

/* With ignore_merges a piece that is a token needs no merges that lead to it. */
static void test_ignore_merges(void **state)
{
    (void)state;
    const struct parts with = {.vocab = ", \"abc\": 256, \"Ġé\": 257, \"ab\": 258",
                               .merges = "[\"a b\"]",
                               .model = ", \"ignore_merges\": true"};
    const struct parts without = {.vocab = with.vocab, .merges = with.merges};
    CHECK_IDS(with, "abc", 256);
    CHECK_IDS(without, "abc", 258, 'c');
    CHECK_IDS(with, "abcd", 258, 'c', 'd');
}

#define ADDED(content, flags) "{\"id\": 300, \"content\": \"" content "\"" flags "}"

/* Each as the tokenizers library 0.23.2 does it. */
static void test_added_options(void **state)
{
    (void)state;
    const struct parts left = {.added = "[" ADDED("[L]", ", \"lstrip\": true") "]"};
    const struct parts right = {.added = "[" ADDED("[R]", ", \"rstrip\": true") "]"};
    const struct parts both = {.added =
                                   "[" ADDED("[B]", ", \"lstrip\": true, \"rstrip\": true") "]"};
    CHECK_IDS(left, "a \t[L] b", 'a', 300, ' ', 'b');
    CHECK_IDS(left, "[L][L]", 300, 300);
    CHECK_IDS(right, "a [R] \xC2\x85 b", 'a', ' ', 300, 'b');
    CHECK_IDS(right, "[R] \u180E", 300, 0xE1, 0xA0, 0x8E);
    CHECK_IDS(both, " [B]  [B] ", 300, 300);
    CHECK_IDS(both, "\u3000[B]\u00A0", 300);
}

/* A normalised added token is sought in normalised text, others in the text as it is; the longest
 * counts, and what only starts like one is text. */
static void test_added_matching(void **state)
{
    (void)state;
    const struct parts normalized = {
        .added = "[" ADDED("[e\u0301]", ", \"normalized\": true, \"special\": true") "]"};
    const struct parts raw = {.added = "[" ADDED("[e\u0301]", ", \"normalized\": false") "]"};
    const struct parts longest = {
        .added = "[" ADDED(
            "<a>",
            ", \"special\": true") ","
                                   "{\"id\": 301, \"content\": \"<a>b\", \"normalized\": false},"
                                   "{\"id\": 302, \"content\": \"a>\", \"normalized\": false}]"};
    CHECK_IDS(normalized, "[e\u0301]", 300);
    CHECK_IDS(normalized, "[\u00E9]", 300);
    CHECK_IDS(raw, "[e\u0301]", 300);
    CHECK_IDS(raw, "[\u00E9]", '[', 0xC3, 0xA9, ']');
    CHECK_IDS(longest, "<a>b<a><<a>>", 301, 300, '<', 300, '>');
    CHECK_IDS(longest, "<ba>", '<', 'b', 302);
}

/* Whatever allocation fails, loading and encoding report it and leave nothing behind. */
static void test_memory(void **state)
{
    (void)state;
    const struct parts p = {.added = "[" ADDED("[N]", "") "]",
                            .model = ", \"ignore_merges\": true"};
    struct buf b = BUF_INIT, text = BUF_INIT;
    struct err e = {0};
    struct tokenizer *t = NULL;
    struct tokens ids = {0};
    int rc = -1;
    put_json(&b, &p);
    long n_loads = 0, n_encodes = 0;
    for (; rc; n_loads++) {
        err_clear(&e);
        mem_fail_at(n_loads + 1);
        rc = tokenizer_parse(b.data, b.len, "file.json", &t, &e);
        mem_fail_at(0);
        assert_true(rc == 0 || (rc == -E_NOMEM && e.code == E_NOMEM && !t));
    }
    for (int i = 0; i < 300; i++)
        buf_puts(&text, "ab ab \u0301e\u0301\u0323[N] abcdefgh ");
    for (rc = -1; rc; n_encodes++) {
        err_clear(&e);
        mem_fail_at(n_encodes + 1);
        rc = tokenizer_encode(t, text.data, text.len, false, &ids, &e);
        mem_fail_at(0);
        assert_true(rc == 0 || (rc == -E_NOMEM && e.code == E_NOMEM && !ids.n));
    }
    print_message("note: %ld allocations to load, %ld to encode\n", n_loads - 1, n_encodes - 1);
    assert_true(n_loads > 10 && n_encodes > 5);
    tokens_free(&ids);
    tokenizer_close(t);
    buf_free(&text);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usual),         cmocka_unit_test(test_refused),
        cmocka_unit_test(test_refused_files), cmocka_unit_test(test_tolerated),
        cmocka_unit_test(test_order),         cmocka_unit_test(test_ignore_merges),
        cmocka_unit_test(test_added_options), cmocka_unit_test(test_added_matching),
        cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
