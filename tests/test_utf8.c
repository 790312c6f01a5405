/* UTF-8: every boundary of RFC 3629, and streams cut at every byte. */
#include "tests/aid_test.h"

#include <string.h>

#include "base/utf8.h"

static void test_round_trip(void **state)
{
    (void)state;
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
        char s[4];
        uint32_t back = 0;
        if (cp >= 0xD800 && cp <= 0xDFFF)
            continue;
        int n = utf8_put(cp, s);
        assert_int_equal(utf8_decode(s, (size_t)n, &back), n);
        assert_int_equal(back, cp);
        for (int k = 1; k < n; k++) {
            assert_int_equal(utf8_decode(s, (size_t)k, &back), 0);
            assert_int_equal(utf8_incomplete_tail(s, (size_t)k), k);
        }
        assert_int_equal(utf8_incomplete_tail(s, (size_t)n), 0);
    }
}

static void test_bad_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *s;
        size_t bad; /* length of the maximal subpart at the start */
    } cases[] = {{"\x80", 1},         {"\xC0\xAF", 1},         {"\xE0\x80\x80", 1},
                 {"\xED\xA0\x80", 1}, {"\xF4\x90\x80", 1},     {"\xF5", 1},
                 {"\xE1\x80\xE2", 2}, {"\xF1\x80\x80\x41", 3}, {"\xC2\x41", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t cp = 7;
        size_t n = strlen(cases[i].s);
        assert_int_equal(utf8_decode(cases[i].s, n, &cp), 0);
        assert_int_equal(cp, 7);
        assert_int_equal(utf8_bad_length(cases[i].s, n), cases[i].bad);
        assert_int_equal(utf8_valid_prefix(cases[i].s, n), 0);
    }
}

static void test_make_plain(void **state)
{
    (void)state;
    static const struct {
        const char *s, *plain;
    } cases[] = {{"", ""},
                 {"a b~", "a b~"},
                 {"a\x1b[2J\nb\x7f", "a?[2J?b?"},
                 {"\xC2\x9B\x33m", "??3m"}, /* the one-character form of ESC [ */
                 {"\xC2\xA0\xC3\xA9\xF0\x9F\xA6\x8A", "\xC2\xA0\xC3\xA9\xF0\x9F\xA6\x8A"},
                 {"\xFF\xC3", "??"},
                 {"\xE2\x82z", "??z"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char s[32];
        strcpy(s, cases[i].s);
        utf8_make_plain(s);
        assert_string_equal(s, cases[i].plain);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip),
                                       cmocka_unit_test(test_bad_bytes),
                                       cmocka_unit_test(test_make_plain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
