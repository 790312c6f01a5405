/* Stop strings: the outcome depends on the text alone, not on how it was cut; nothing certain is
 * held back and nothing uncertain released. */
#include "tests/aid_test.h"

#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "text/stop.h"

enum { STRINGS_MAX = 4 };

/* By the definition: the first end at which a string is complete, the longest one there. */
static bool expected(const char *const *strings, size_t n, const char *text, size_t *shown)
{
    for (size_t end = 1; end <= strlen(text); end++) {
        size_t best = 0;
        for (size_t k = 0; k < n; k++) {
            size_t len = strlen(strings[k]);
            if (len <= end && len > best && memcmp(text + end - len, strings[k], len) == 0)
                best = len;
        }
        if (best) {
            *shown = end - best;
            return true;
        }
    }
    *shown = strlen(text);
    return false;
}

/* The length of the longest end of text that begins a stop string. */
static size_t must_hold(const char *const *strings, size_t n, const char *text, size_t len)
{
    size_t best = 0;
    for (size_t k = 0; k < n; k++)
        for (size_t m = 1; m <= len && m < strlen(strings[k]); m++)
            if (memcmp(text + len - m, strings[k], m) == 0 && m > best)
                best = m;
    return best;
}

static void check(const char *const *strings, size_t n, const char *text, uint64_t seed)
{
    struct err e = {0};
    struct stop s;
    struct buf out = BUF_INIT;
    size_t shown, at = 0, len = strlen(text);
    bool hits = expected(strings, n, text, &shown), hit = false;
    assert_ok(stop_init(&s, strings, n, &e), e);
    for (uint64_t i = 0; at < len && !hit; i++) {
        size_t k = 1 + rng_at(seed, i) % 4;
        k = k < len - at ? k : len - at;
        hit = stop_push(&s, text + at, k, &out);
        at += k;
        if (!hit)
            assert_int_equal(out.len, at - must_hold(strings, n, text, at));
    }
    assert_int_equal(hit, hits);
    if (hit)
        assert_true(stop_push(&s, "more", 4, &out));
    stop_finish(&s, &out);
    assert_int_equal(s.hit, hits);
    assert_int_equal(out.len, shown);
    assert_memory_equal(buf_str(&out), text, shown);
    stop_reset(&s);
    assert_false(s.hit);
    buf_free(&out);
    stop_free(&s);
}

static void test_examples(void **state)
{
    (void)state;
    static const struct {
        const char *strings[STRINGS_MAX], *text;
    } cases[] = {
        {{"stop"}, "do not stop here"},
        {{"stop"}, "sto"},
        {{"aab"}, "aaaab"},
        {{"abcabd"}, "abcabcabd"},
        {{"abc", "b"}, "xabc"},
        {{"bc", "abc"}, "xabc"},
        {{"\n\n", "\n\n\n"}, "a\n\n\nb"},
        {{"é"}, "èé"},
        {{"User:", "\nUser"}, "a\nUser: b"},
        {{"x"}, ""},
        {{"x"}, "x"},
        {{NULL}, "nothing stops this"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t n = 0;
        while (n < STRINGS_MAX && cases[i].strings[n])
            n++;
        for (uint64_t seed = 0; seed < 8; seed++)
            check(cases[i].strings, n, cases[i].text, seed);
    }
}

/* Short strings over two letters, where everything overlaps. */
static void test_random(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        char room[STRINGS_MAX][8], text[40];
        const char *strings[STRINGS_MAX];
        size_t n = 1 + rng_at(seed, 0) % STRINGS_MAX;
        for (size_t k = 0; k < n; k++) {
            size_t len = 1 + rng_at(seed, 10 + k) % 6;
            for (size_t i = 0; i < len; i++)
                room[k][i] = "ab"[rng_at(seed, 100 * (k + 1) + i) % 2];
            room[k][len] = '\0';
            strings[k] = room[k];
        }
        size_t len = rng_at(seed, 1) % sizeof text;
        for (size_t i = 0; i < len; i++)
            text[i] = "abc"[rng_at(seed, 1000 + i) % 8 % 3];
        text[len] = '\0';
        check(strings, n, text, seed);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {{"a", ""}, {"a", "b\xFF"}};
    static const char *const says[] = {"number 2 is empty", "byte 1 is not valid UTF-8"};
    for (int i = 0; i < 2; i++) {
        struct err e = {0};
        struct stop s;
        assert_int_equal(stop_init(&s, bad[i], 2, &e), -E_ARG);
        assert_non_null(strstr(e.msg, says[i]));
    }
}

/* A step allocates nothing, and initialising fails cleanly wherever memory ends. */
static void test_memory(void **state)
{
    (void)state;
    static const char *const strings[] = {"</answer>", "<end>", "aaaa"};
    struct err e = {0};
    struct stop s;
    struct buf out = BUF_INIT;
    int rc = -1;
    for (long nth = 1; rc; nth++) {
        err_clear(&e);
        mem_fail_at(nth);
        rc = stop_init(&s, strings, 3, &e);
        mem_fail_at(0);
        assert_true(rc == 0 || rc == -E_NOMEM);
    }
    assert_non_null(buf_reserve(&out, 4096));
    long before = mem_count();
    for (int i = 0; i < 100; i++)
        assert_false(stop_push(&s, "x</answer><ena", 5 + (size_t)i % 3, &out));
    assert_int_equal(mem_count(), before);
    buf_free(&out);
    stop_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples), cmocka_unit_test(test_random),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
