/* Form C: every character alone and in company against utf8proc's own functions, the published
 * vectors, texts that are long in marks. */
#include "tests/aid_test.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utf8proc.h>

#include "base/json.h"
#include "base/utf8.h"
#include "text/nfc.h"

enum { LAST = 0x10FFFF };

static bool is_scalar(uint32_t cp)
{
    return cp < 0xD800 || cp > 0xDFFF;
}

static void check(const char *s, size_t n)
{
    struct err e = {0};
    struct buf b = BUF_INIT, again = BUF_INIT;
    utf8proc_uint8_t *want;
    utf8proc_ssize_t want_n = utf8proc_map((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)n, &want,
                                           UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    assert_true(want_n >= 0);
    assert_ok(nfc_put(s, n, &b, &e), e);
    if (b.len != (size_t)want_n || memcmp(b.data, want, b.len) != 0)
        fail_msg("'%.*s' (%zu bytes) became '%s', want '%s'", (int)n, s, n, buf_str(&b),
                 (char *)want);
    if (nfc_is_normal(s, n))
        assert_int_equal(b.len, n);
    assert_ok(nfc_put(b.data, b.len, &again, &e), e);
    assert_int_equal(again.len, b.len);
    assert_memory_equal(again.data, b.data, b.len);
    free(want);
    buf_free(&b);
    buf_free(&again);
}

static bool is_plain(uint32_t cp)
{
    char s[4];
    return nfc_is_normal(s, (size_t)utf8_put(cp, s));
}

/* A character that the table calls plain is class 0, stays itself, and is the second half of no
 * character's decomposition. */
static void test_table(void **state)
{
    (void)state;
    static bool second[LAST + 1];
    size_t n_plain = 0;
    for (uint32_t cp = 0; cp <= LAST; cp++) {
        int32_t d[32];
        int bound = 0;
        long n = is_scalar(cp)
                     ? utf8proc_decompose_char((int32_t)cp, d, 32,
                                               UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, &bound)
                     : 0;
        for (long i = 1; i < n; i++)
            second[d[i]] = true;
    }
    for (uint32_t cp = 0; cp <= LAST; cp++) {
        if (!is_scalar(cp) || !is_plain(cp))
            continue;
        n_plain++;
        if (second[cp] || utf8proc_get_property((int32_t)cp)->combining_class)
            fail_msg("U+%04X is not plain", cp);
    }
    assert_true(n_plain > 70000);
    print_message("note: %zu plain characters\n", n_plain);
}

static void test_every_character(void **state)
{
    (void)state;
    for (uint32_t cp = 1; cp <= LAST; cp += cp < 0x30000 ? 1 : 97) {
        static const char *const before[] = {"", "a\u0316", "\u0300", "e"};
        static const char *const behind[] = {"", "\u0301\u0323", "\u0316", "\u11A8"};
        for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
            char s[32];
            size_t n = strlen(before[i]);
            if (!is_scalar(cp) || (i && cp >= 0x3400 && cp % 97 && is_plain(cp)))
                continue;
            memcpy(s, before[i], n);
            n += (size_t)utf8_put(cp, s + n);
            memcpy(s + n, behind[i], strlen(behind[i]));
            check(s, n + strlen(behind[i]));
        }
    }
}

static void test_vectors(void **state)
{
    (void)state;
    struct err e = {0};
    json_t *all, *one;
    size_t i;
    assert_ok(json_read_file(DATA "vectors/bpe_vectors.json", 1 << 24, &all, &e), e);
    json_array_foreach(json_object_get(all, "cases"), i, one) {
        const char *text = json_string_value(json_object_get(one, "text"));
        struct buf b = BUF_INIT;
        assert_ok(nfc_put(text, strlen(text), &b, &e), e);
        assert_string_equal(buf_str(&b), json_string_value(json_object_get(one, "nfc")));
        buf_free(&b);
    }
    json_decref(all);
}

/* Marks whose order must change, by the hundred thousand: a sort that compares neighbours would
 * take hours. */
static void test_many_marks(void **state)
{
    (void)state;
    struct err e = {0};
    struct buf b = BUF_INIT, out = BUF_INIT;
    buf_puts(&b, "a");
    while (b.len < 1000000)
        buf_puts(&b, "\u0301\u0316");
    clock_t start = clock();
    assert_ok(nfc_put(b.data, b.len, &out, &e), e);
    double took = (double)(clock() - start) / CLOCKS_PER_SEC;
    assert_true(took < aid_slower());
    assert_memory_equal(out.data, "á\u0316\u0316", 6);
    assert_memory_equal(out.data + out.len - 4, "\u0301\u0301", 4);
    print_message("worst: %.3f s for 1 MB of marks\n", took);
    buf_free(&b);
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table), cmocka_unit_test(test_every_character),
        cmocka_unit_test(test_vectors), cmocka_unit_test(test_many_marks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
