/* Prompt lookup against a search that tries every place. */
#include "tests/aid_test.h"

#include <stdio.h>

#include "base/rng.h"
#include "runner/lookup.h"

enum { N = 1500 };

/* The definition: of the TRIES latest places where the last KEY tokens stood, the first of those
 * with the longest match. -1: none. */
static int plain_place(const int32_t *t, int n)
{
    int best = -1, best_n = LOOKUP_KEY - 1, tries = 0;
    for (int at = n - 2; at >= LOOKUP_KEY - 1 && tries < LOOKUP_TRIES; at--) {
        int same = 0;
        while (same < LOOKUP_LENGTH_MAX && same <= at && t[at - same] == t[n - 1 - same])
            same++;
        tries += same >= LOOKUP_KEY;
        if (same > best_n) {
            best = at;
            best_n = same;
        }
    }
    return best;
}

static void test_every_place(void **state)
{
    (void)state;
    for (int kinds = 1; kinds < 40; kinds = 2 * kinds + 1) {
        struct lookup l;
        struct err e = {0};
        int guesses = 0;
        assert_ok(lookup_init(&l, N, &e), e);
        for (int n = 1; n <= N; n++) {
            /* random, now and then a copy of what stood before */
            const int back = 1 + (int)(rng_at(4, (uint64_t)(n / 20)) % 200);
            const bool copy = n > back && rng_at(3, (uint64_t)(n / 20)) % 2;
            lookup_push(&l, copy ? l.tokens[n - 1 - back]
                                 : (int32_t)(rng_at(2, (uint64_t)n) % (uint64_t)kinds));
            int32_t got[5];
            const int place = plain_place(l.tokens, n), k = lookup_guess(&l, 5, got);
            assert_int_equal(k, place < 0 ? 0 : 5);
            for (int i = 0; i < k; i++) {
                const int at = place + 1 + i; /* behind the end: the guess itself */
                assert_int_equal(got[i], at < n ? l.tokens[at] : got[at - n]);
            }
            guesses += k > 0;
        }
        printf("note: %d kinds of tokens: %d guesses in %d places\n", kinds, guesses, N);
        assert_true(guesses > N / 4);
        lookup_free(&l);
    }
}

static void test_nothing_yet(void **state)
{
    (void)state;
    struct lookup l;
    struct err e = {0};
    int32_t out[3];
    assert_ok(lookup_init(&l, 8, &e), e);
    assert_int_equal(lookup_guess(&l, 3, out), 0);
    for (int i = 0; i < LOOKUP_KEY; i++) {
        lookup_push(&l, 5);
        assert_int_equal(lookup_guess(&l, 3, out), 0);
    }
    lookup_push(&l, 5);
    assert_int_equal(lookup_guess(&l, 3, out), 3);
    assert_int_equal(out[2], 5);
    lookup_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_place),
        cmocka_unit_test(test_nothing_yet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
