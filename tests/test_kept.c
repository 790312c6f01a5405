/* What is kept under names: limits of entries, bytes and time; claims. */
#include "server/kept.h"

#include <string.h>
#include <time.h>

#include "tests/aid_test.h"

static struct kept *open_kept(int entries, uint64_t bytes, double idle_s)
{
    struct kept *k;
    struct err e = {0};
    assert_ok(kept_open(&(struct kept_options){entries, bytes, idle_s}, &k, &e), e);
    return k;
}

static int put(struct kept *k, const char *name, const char *text)
{
    struct err e = {0};
    json_t *v = json_pack("[s]", text);
    const int rc = kept_put(k, name, v, &e);
    json_decref(v);
    return rc;
}

/* Whether the text is kept under the name. */
static bool has(struct kept *k, const char *name, const char *text)
{
    struct err e = {0};
    json_t *v;
    if (kept_get(k, name, &v, &e))
        return false;
    const bool same = strcmp(json_string_value(json_array_get(v, 0)), text) == 0;
    json_decref(v);
    return same;
}

static void test_the_longest_unused_go(void **state)
{
    struct kept *k = open_kept(2, 1000, 60);
    (void)state;
    assert_int_equal(put(k, "a", "1"), 0);
    assert_int_equal(put(k, "b", "2"), 0);
    assert_true(has(k, "a", "1"));
    assert_int_equal(put(k, "c", "3"), 0);
    assert_false(has(k, "b", "2"));
    assert_true(has(k, "a", "1"));
    assert_int_equal(put(k, "a", "4"), 0); /* replaced: c stays */
    assert_true(has(k, "a", "4"));
    assert_true(has(k, "c", "3"));
    assert_true(kept_drop(k, "c"));
    assert_false(kept_drop(k, "c"));
    kept_close(k);
}

static void test_bytes_are_limited(void **state)
{
    struct kept *k = open_kept(10, 20, 60);
    (void)state;
    assert_int_equal(put(k, "a", "123456"), 0); /* 10 bytes each */
    assert_int_equal(put(k, "b", "123456"), 0);
    assert_int_equal(put(k, "c", "123456"), 0);
    assert_false(has(k, "a", "123456"));
    assert_true(has(k, "b", "123456"));
    assert_int_equal(put(k, "d", "12345678901234567"), -E_LIMIT);
    kept_close(k);
}

/* What was longer than all may be pushed out everything first, and then it was refused: a client
 * who sent too much took the sessions of all others with it. So did one that did not fit beside
 * claims. */
static void test_what_is_refused_pushes_nothing_out(void **state)
{
    struct kept *k = open_kept(3, 30, 60);
    struct err e = {0}, busy = {0};
    uint64_t claim;
    json_t *v, *longer = json_pack("[s]", "12345678901234567890123");
    (void)state;
    assert_int_equal(put(k, "a", "123456"), 0); /* 10 bytes each */
    assert_int_equal(put(k, "b", "123456"), 0);
    assert_int_equal(put(k, "c", "123456789012345678901234567"), -E_LIMIT);
    assert_int_equal(put(k, "b", "123456789012345678901234567"), -E_LIMIT);
    assert_true(has(k, "a", "123456"));
    assert_true(has(k, "b", "123456"));
    assert_ok(kept_claim(k, "a", &v, &claim, &e), e);
    json_decref(v);
    assert_int_equal(put(k, "c", "12345678901234567890"), -E_BUSY);
    assert_true(has(k, "b", "123456"));
    assert_ok(kept_end(k, claim, longer, &e), e); /* 27 bytes: b goes */
    assert_true(has(k, "a", "12345678901234567890123"));
    assert_false(has(k, "b", "123456"));
    assert_int_equal(put(k, "a", "123456"), 0);
    assert_int_equal(put(k, "b", "123456"), 0);
    assert_ok(kept_claim(k, "a", &v, &claim, &e), e);
    json_decref(v);
    json_decref(longer);
    longer = json_pack("[s]", "123456789012345678901234567");
    assert_int_equal(kept_end(k, claim, longer, &busy), -E_LIMIT);
    assert_true(has(k, "a", "123456"));
    assert_true(has(k, "b", "123456"));
    json_decref(longer);
    kept_close(k);
}

static void test_idle_ones_go(void **state)
{
    struct kept *k = open_kept(10, 1000, 0.01);
    (void)state;
    assert_int_equal(put(k, "a", "1"), 0);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    assert_false(has(k, "a", "1"));
    kept_close(k);
}

static void test_a_claim_changes_all_or_nothing(void **state)
{
    struct kept *k = open_kept(1, 1000, 60);
    struct err e = {0}, busy = {0};
    uint64_t claim, other;
    json_t *v, *mine = json_pack("[s]", "new");
    (void)state;
    assert_int_equal(put(k, "a", "old"), 0);
    assert_ok(kept_claim(k, "a", &v, &claim, &e), e);
    json_decref(v);
    assert_int_equal(kept_claim(k, "a", &v, &other, &busy), -E_EXISTS);
    assert_int_equal(put(k, "b", "1"), -E_BUSY); /* it does not make room for others */
    assert_true(has(k, "a", "old"));
    assert_ok(kept_end(k, claim, NULL, &e), e);
    assert_true(has(k, "a", "old"));
    assert_ok(kept_claim(k, "a", &v, &claim, &e), e);
    json_decref(v);
    assert_ok(kept_end(k, claim, mine, &e), e);
    assert_true(has(k, "a", "new"));
    assert_ok(kept_claim(k, "a", &v, &claim, &e), e);
    json_decref(v);
    assert_true(kept_drop(k, "a"));
    assert_ok(kept_end(k, claim, mine, &e), e); /* it is gone, and stays so */
    assert_false(has(k, "a", "new"));
    json_decref(mine);
    kept_close(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_longest_unused_go),
        cmocka_unit_test(test_bytes_are_limited),
        cmocka_unit_test(test_what_is_refused_pushes_nothing_out),
        cmocka_unit_test(test_idle_ones_go),
        cmocka_unit_test(test_a_claim_changes_all_or_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
