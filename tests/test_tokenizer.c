/* The tokenizer against goldens of the Hugging Face library (ids, decoded text, text released piece
 * by piece), its handling of added tokens, and time in proportion to the text. Broken files are in
 * test_tokenizer_bad.c. */
#include "tests/aid_test.h"

#include <jansson.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/utf8.h"
#include "text/detok.h"
#include "text/tokenizer.h"

enum { LONGEST = 32 }; /* no token of the demonstration model has so many bytes */

static struct tokenizer *open_tokenizer(const char *path)
{
    struct err e = {0};
    struct tokenizer *t = NULL;
    assert_ok(tokenizer_open(path, &t, &e), e);
    return t;
}

static void check_ids(const struct tokenizer *t, const char *text, const json_t *want)
{
    struct err e = {0};
    struct tokens ids = {0};
    assert_ok(tokenizer_encode(t, text, strlen(text), false, &ids, &e), e);
    if (ids.n != json_array_size(want))
        fail_msg("'%s': %zu ids, want %zu", text, ids.n, json_array_size(want));
    for (size_t i = 0; i < ids.n; i++)
        if (ids.ids[i] != json_integer_value(json_array_get(want, i)))
            fail_msg("'%s': id %zu is %d", text, i, ids.ids[i]);
    tokens_free(&ids);
}

/* Decoded as a whole and pushed one by one. */
static void check_text(const struct tokenizer *t, const json_t *ids, bool skip, const char *want)
{
    struct err e = {0};
    struct buf whole = BUF_INIT, pieces = BUF_INIT;
    struct tokens list = {0};
    struct detok d;
    size_t i;
    json_t *v;
    detok_init(&d, t, skip);
    json_array_foreach(ids, i, v) {
        assert_ok(tokens_push(&list, (int32_t)json_integer_value(v), &e), e);
        detok_push(&d, list.ids[i], &pieces);
    }
    detok_finish(&d, &pieces);
    assert_ok(tokenizer_decode(t, list.ids, list.n, skip, &whole, &e), e);
    assert_string_equal(buf_str(&whole), want);
    assert_string_equal(buf_str(&pieces), want);
    tokens_free(&list);
    buf_free(&whole);
    buf_free(&pieces);
}

static void check_goldens(const char *tokenizer, const char *cases)
{
    struct err e = {0};
    struct tokenizer *t = open_tokenizer(tokenizer);
    json_t *all, *one;
    size_t i;
    assert_ok(json_read_file(cases, 1 << 24, &all, &e), e);
    json_t *list = json_object_get(all, "encode");
    assert_true(json_array_size(list) > 20);
    json_array_foreach(list, i, one) {
        const json_t *ids = json_object_get(one, "ids");
        check_ids(t, json_string_value(json_object_get(one, "text")), ids);
        check_text(t, ids, false, json_string_value(json_object_get(one, "decoded")));
        check_text(t, ids, true, json_string_value(json_object_get(one, "decoded_skip_special")));
    }
    print_message("note: %zu goldens of %s\n", json_array_size(list), cases);
    json_decref(all);
    tokenizer_close(t);
}

static void test_goldens(void **state)
{
    (void)state;
    check_goldens(GOLDENS "micro/mlx4/tokenizer.json", GOLDENS "micro/tokenizer_cases.json");
    check_goldens(DEMO, GOLDENS "demo/tokenizer_cases.json");
}

static void encode(const struct tokenizer *t, const char *text, bool plain, struct tokens *ids)
{
    struct err e = {0};
    assert_ok(tokenizer_encode(t, text, strlen(text), plain, ids, &e), e);
}

static void test_lookup(void **state)
{
    (void)state;
    struct tokenizer *t = open_tokenizer(DEMO);
    size_t n;
    assert_int_equal(tokenizer_count(t), 4096);
    assert_int_equal(tokenizer_id(t, "<|im_end|>"), 4072);
    assert_int_equal(tokenizer_id(t, "<|im_en"), -1);
    assert_int_equal(tokenizer_id(t, ""), -1);
    assert_true(tokenizer_is_special(t, 4072));
    assert_false(tokenizer_is_special(t, tokenizer_id(t, "<think>")));
    assert_memory_equal(tokenizer_bytes(t, 220, &n), " ", 1);
    assert_int_equal(n, 1);
    const int32_t none[] = {-1, 4096, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_null(tokenizer_bytes(t, none[i], &n));
        assert_int_equal(n, 0);
        assert_false(tokenizer_is_special(t, none[i]));
    }
    tokenizer_close(t);
}

/* With `plain`, markers that a user typed are text like any other. */
static void test_plain(void **state)
{
    (void)state;
    struct err e = {0};
    struct tokenizer *t = open_tokenizer(DEMO);
    struct tokens ids = {0};
    struct buf b = BUF_INIT;
    const char *text = "a <think> b<|im_end|>";
    encode(t, text, false, &ids);
    size_t marked = ids.n;
    encode(t, text, true, &ids);
    assert_true(ids.n > 2 * marked);
    for (size_t i = marked; i < ids.n; i++)
        assert_true(ids.ids[i] < 4070);
    assert_ok(tokenizer_decode(t, ids.ids + marked, ids.n - marked, true, &b, &e), e);
    assert_string_equal(buf_str(&b), text);
    buf_free(&b);
    tokens_free(&ids);
    tokenizer_close(t);
}

static void test_invalid_text(void **state)
{
    (void)state;
    struct tokenizer *t = open_tokenizer(DEMO);
    static const struct {
        const char *text;
        const char *says;
    } cases[] = {{"abc\xFF", "byte 3 (0xff)"},
                 {"\xC3", "byte 0 (0xc3)"},
                 {"0123456789 \xED\xA0\x80", "byte 11 (0xed)"},
                 {"x<|im_end|>\x80", "byte 11 (0x80)"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err e = {0};
        struct tokens ids = {0};
        encode(t, "kept", false, &ids);
        size_t n = ids.n, len = strlen(cases[i].text);
        assert_int_equal(tokenizer_encode(t, cases[i].text, len, false, &ids, &e), -E_FORMAT);
        assert_non_null(strstr(e.msg, cases[i].says));
        assert_int_equal(ids.n, n);
        tokens_free(&ids);
    }
    struct err e = {0};
    struct tokens none = {0};
    assert_int_equal(tokenizer_encode(t, "short", (1u << 30) + 1, false, &none, &e), -E_LIMIT);
    assert_int_equal(none.n, 0);
    tokenizer_close(t);
}

/* A file that is too large to be a tokenizer is refused before it is read; this one is a hole. */
static void test_huge_file(void **state)
{
    (void)state;
    struct err e = {0};
    struct tokenizer *t;
    char *dir = aid_tmpdir(), *path = file_join(dir, "tokenizer.json");
    aid_write(path, "{", 1);
    assert_int_equal(truncate(path, (1l << 28) + 1), 0);
    assert_int_equal(tokenizer_open(dir, &t, &e), -E_LIMIT);
    assert_non_null(strstr(e.msg, "tokenizer.json: has 268435457 bytes"));
    mem_free(path);
    aid_rmdir(dir);
}

/* A million bytes of the same thing cost less than a second of the processor's time, whatever it
 * is. */
static void test_linear(void **state)
{
    (void)state;
    static const char *const units[] = {"a",
                                        " ",
                                        "😀",
                                        "\n",
                                        " \n",
                                        "7",
                                        "\u0301\u0323",
                                        "'",
                                        "\t",
                                        "\u1112\u1161\u11ab",
                                        "é",
                                        "<",
                                        "<|im_end|>",
                                        "<|im_end"};
    struct tokenizer *t = open_tokenizer(DEMO);
    double worst = 0;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        struct err e = {0};
        struct buf b = BUF_INIT;
        struct tokens ids = {0};
        while (b.len < 1000000)
            buf_puts(&b, units[i]);
        clock_t start = clock();
        assert_ok(tokenizer_encode(t, b.data, b.len, false, &ids, &e), e);
        double took = (double)(clock() - start) / CLOCKS_PER_SEC;
        worst = took > worst ? took : worst;
        if (took > aid_slower())
            fail_msg("1 MB of '%s' took %.2f s", units[i], took);
        buf_free(&b);
        tokens_free(&ids);
    }
    print_message("worst: %.3f s for 1 MB of one thing, limit %.1f\n", worst, aid_slower());
    tokenizer_close(t);
}

/* Of a text that has too many ids no more are made than tell so: 15 MB without a blank, for a
 * context of 4,096, kept a server's threads for half a minute. */
static void test_no_more_ids_than_wanted(void **state)
{
    (void)state;
    static const char *const units[] = {"a",          "zq",           "the ",
                                        "<|im_end|>", "\u0301\u0323", "<|im_end"};
    struct tokenizer *t = open_tokenizer(DEMO);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        struct err e = {0};
        struct buf b = BUF_INIT;
        struct tokens some = {0}, all = {0};
        while (b.len < 100000)
            buf_puts(&b, units[i]);
        encode(t, buf_str(&b), false, &all);
        for (size_t most = 0; most < 100; most += 33) {
            some.n = 0;
            assert_ok(tokenizer_encode_most(t, b.data, b.len, most, &some, &e), e);
            assert_in_range(some.n, most + 1, (most + 1) * LONGEST);
            /* the last ids may be those of a piece's beginning */
            assert_memory_equal(some.ids, all.ids, most * 3 / 4 * sizeof *all.ids);
        }
        some.n = 0;
        assert_ok(tokenizer_encode_most(t, b.data, b.len, all.n, &some, &e), e);
        assert_int_equal(some.n, all.n);
        assert_memory_equal(some.ids, all.ids, all.n * sizeof *all.ids);
        buf_free(&b);
        tokens_free(&some);
        tokens_free(&all);
    }
    tokenizer_close(t);
}

/* Cutting the text of a call into pieces that were seen before must not change ids: a long text of
 * few words equals its words one by one. */
static void test_repeated_pieces(void **state)
{
    (void)state;
    static const char *const words[] = {
        " upon", " a", " wonderful", " Zyxwvut", " 1", " the", " antidisestablishmentarianism",
        ".",     "\n", " x"};
    struct tokenizer *t = open_tokenizer(DEMO);
    struct buf b = BUF_INIT;
    struct tokens apart = {0}, together = {0};
    unsigned x = 1;
    for (int i = 0; i < 20000; i++) {
        x = x * 1103515245u + 12345u;
        const char *w = words[x / 65536 % (sizeof words / sizeof words[0])];
        if (b.len && b.data[b.len - 1] == '\n' && *w == '\n')
            continue; /* two line ends are one piece */
        if (b.len && b.data[b.len - 1] == '.' && (*w == '\n' || *w == '.'))
            continue;
        buf_puts(&b, w);
        encode(t, w, false, &apart);
    }
    encode(t, buf_str(&b), false, &together);
    assert_int_equal(apart.n, together.n);
    assert_memory_equal(apart.ids, together.ids, apart.n * sizeof *apart.ids);
    buf_free(&b);
    tokens_free(&apart);
    tokens_free(&together);
    tokenizer_close(t);
}

/* Bytes that are no text, in every grouping into tokens: U+FFFD where a decoder of the whole puts
 * it. */
static void test_detok_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *text;
    } cases[] = {{"\xE2\x82\xAC", "€"},
                 {"a\xE2\x82", "a\uFFFD"},
                 {"\xE2\x82x", "\uFFFDx"},
                 {"\xE2\xE2\x82\xAC", "\uFFFD€"},
                 {"\xF0\x9F\x98\x80\xF0\x9F", "😀\uFFFD"},
                 {"\x80\x80", "\uFFFD\uFFFD"},
                 {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
                 {"\xC3\xA9\xC3", "é\uFFFD"},
                 {"\xED\xA0\x80!", "\uFFFD\uFFFD\uFFFD!"}};
    struct tokenizer *t = open_tokenizer(DEMO);
    int32_t byte_id[256];
    for (int32_t id = 0; id < 256; id++) {
        size_t n;
        const char *s = tokenizer_bytes(t, id, &n);
        assert_int_equal(n, 1);
        byte_id[(unsigned char)*s] = id;
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf b = BUF_INIT;
        struct detok d;
        detok_init(&d, t, false);
        for (const char *s = cases[i].bytes; *s; s++) {
            detok_push(&d, byte_id[(unsigned char)*s], &b);
            assert_int_equal(utf8_valid_prefix(buf_str(&b), b.len), b.len);
        }
        detok_finish(&d, &b);
        assert_string_equal(buf_str(&b), cases[i].text);
        buf_free(&b);
    }
    tokenizer_close(t);
}

/* Special tokens that are left out do not interrupt a character whose bytes are around them; those
 * that are shown do. */
static void test_detok_special(void **state)
{
    (void)state;
    struct tokenizer *t = open_tokenizer(DEMO);
    struct tokens ids = {0};
    encode(t, "é", false, &ids);
    assert_int_equal(ids.n, 2);
    for (int skip = 0; skip < 2; skip++) {
        struct buf b = BUF_INIT;
        struct detok d;
        detok_init(&d, t, skip);
        detok_push(&d, ids.ids[0], &b);
        detok_push(&d, 4072, &b);
        detok_push(&d, ids.ids[1], &b);
        detok_finish(&d, &b);
        assert_string_equal(buf_str(&b), skip ? "é" : "\uFFFD<|im_end|>\uFFFD");
        buf_free(&b);
    }
    tokens_free(&ids);
    tokenizer_close(t);
}

enum { THREADS = 4, JOBS = 64 };

struct shared {
    const struct tokenizer *t;
    const char *text;
    struct tokens want;
};

static int encode_again(void *ctx, int worker, size_t i, struct err *e)
{
    const struct shared *s = ctx;
    struct tokens ids = {0};
    int rc = tokenizer_encode(s->t, s->text, strlen(s->text), false, &ids, e);
    (void)worker, (void)i;
    if (!rc && (ids.n != s->want.n || memcmp(ids.ids, s->want.ids, ids.n * sizeof *ids.ids) != 0))
        rc = ERR(e, E_DIFFER, "a thread got other ids");
    tokens_free(&ids);
    return rc;
}

/* One tokenizer serves any number of threads at once. */
static void test_threads(void **state)
{
    (void)state;
    struct err e = {0};
    struct tokenizer *t = open_tokenizer(DEMO);
    struct buf b = BUF_INIT;
    for (int i = 0; i < 40; i++)
        buf_puts(&b, "Once upon a time<|im_end|> e\u0301\u0323 was 1234 Zyxwvuts\n\n");
    struct shared s = {.t = t, .text = buf_str(&b)};
    encode(t, s.text, false, &s.want);
    assert_ok(thread_for(THREADS, JOBS, encode_again, &s, &e), e);
    tokens_free(&s.want);
    buf_free(&b);
    tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_lookup),
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_invalid_text),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_huge_file),
        cmocka_unit_test(test_repeated_pieces),
        cmocka_unit_test(test_detok_bytes),
        cmocka_unit_test(test_detok_special),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_no_more_ids_than_wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
