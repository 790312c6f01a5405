/* Merging by the heap against merging by the definition, on random lists of merges where everything
 * overlaps; and pieces so long that positions matter. */
#include "tests/aid_test.h"

#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "text/bpe.h"

enum { LETTERS = 3, MERGES_MAX = 40, PIECE_MAX = 60, ROUNDS = 4000 };

struct merge {
    int32_t left, right, merged;
};

/* By the definition: of all neighbours that are a merge, the first in the list, leftmost; again. */
static size_t define(const struct merge *merges, int n_merges, int32_t *ids, size_t n)
{
    for (;;) {
        int best = n_merges;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++)
            for (int m = 0; m < best; m++)
                if (merges[m].left == ids[i] && merges[m].right == ids[i + 1]) {
                    best = m;
                    at = i;
                }
        if (best == n_merges)
            return n;
        ids[at] = merges[best].merged;
        memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof *ids);
        n--;
    }
}

/* Merges of tokens there are so far, some of them twice the same text by another way. */
static int make_merges(uint64_t seed, struct merge *merges, struct bpe *b)
{
    int n = 0, n_tokens = LETTERS, want = 1 + (int)(rng_at(seed, 1) % MERGES_MAX);
    for (int i = 0; i < want; i++) {
        struct err e = {0};
        int32_t left = (int32_t)(rng_at(seed, 100 + (uint64_t)i) % (uint64_t)n_tokens);
        int32_t right = (int32_t)(rng_at(seed, 200 + (uint64_t)i) % (uint64_t)n_tokens);
        int rc = bpe_add(b, left, right, n_tokens, &e);
        assert_true(rc == 0 || rc == -E_FORMAT);
        if (rc == 0)
            merges[n++] = (struct merge){left, right, n_tokens++};
    }
    return n;
}

static void test_random(void **state)
{
    (void)state;
    struct bpe_work w = {0};
    size_t n_in = 0, n_out = 0;
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        struct merge merges[MERGES_MAX];
        struct bpe b;
        struct err e = {0};
        struct tokens out = {0};
        char piece[PIECE_MAX];
        int32_t want[PIECE_MAX];
        size_t n = 1 + rng_at(seed, 2) % PIECE_MAX;
        bpe_init(&b);
        for (int32_t c = 0; c < LETTERS; c++)
            b.byte_id['a' + c] = c;
        int n_merges = make_merges(seed, merges, &b);
        for (size_t i = 0; i < n; i++) {
            want[i] = (int32_t)(rng_at(seed, 1000 + i) % 7 % LETTERS);
            piece[i] = (char)('a' + want[i]);
        }
        size_t n_want = define(merges, n_merges, want, n);
        assert_ok(bpe_encode(&b, &w, piece, n, &out, &e), e);
        assert_int_equal(out.n, n_want);
        assert_memory_equal(out.ids, want, n_want * sizeof *want);
        n_in += n;
        n_out += n_want;
        tokens_free(&out);
        bpe_free(&b);
    }
    assert_true(n_out * 6 < n_in * 5); /* merging did happen */
    print_message("note: %d lists of merges, %zu letters became %zu tokens\n", ROUNDS, n_in, n_out);
    bpe_work_free(&w);
}

/* Without merges each byte is its token. */
static void test_none(void **state)
{
    (void)state;
    struct bpe_work w = {0};
    struct bpe b;
    struct err e = {0};
    struct tokens out = {0};
    bpe_init(&b);
    b.byte_id['x'] = 7;
    assert_ok(bpe_encode(&b, &w, "xx", 2, &out, &e), e);
    assert_int_equal(out.n, 2);
    assert_int_equal(out.ids[1], 7);
    tokens_free(&out);
    bpe_work_free(&w);
    bpe_free(&b);
}

/* aa, then aaaa: a run of letters is paired from the left, and what is over stays at the end. */
static void test_long_run(void **state)
{
    (void)state;
    enum { N = 200003 };
    struct bpe_work w = {0};
    struct bpe b;
    struct err e = {0};
    struct tokens out = {0};
    char *piece = mem_alloc(N);
    assert_non_null(piece);
    memset(piece, 'a', N);
    bpe_init(&b);
    assert_ok(bpe_add(&b, 0, 0, 1, &e), e);
    assert_ok(bpe_add(&b, 1, 1, 2, &e), e);
    assert_ok(bpe_encode(&b, &w, piece, N, &out, &e), e);
    assert_int_equal(out.n, N / 4 + 2);
    for (size_t i = 0; i < N / 4; i++)
        assert_int_equal(out.ids[i], 2);
    assert_int_equal(out.ids[N / 4], 1);
    assert_int_equal(out.ids[N / 4 + 1], 0);
    mem_free(piece);
    tokens_free(&out);
    bpe_work_free(&w);
    bpe_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_none),
                                       cmocka_unit_test(test_long_run)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
