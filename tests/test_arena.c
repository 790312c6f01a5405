/* Arenas: pieces do not overlap, limits hold, failed allocations leak nothing. */
#include "tests/aid_test.h"

#include <stdalign.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"

static void test_pieces_are_apart(void **state)
{
    (void)state;
    enum { N = 2000 };
    struct arena a = ARENA_INIT;
    unsigned char *p[N];
    size_t size[N];
    for (size_t i = 0; i < N; i++) {
        size[i] = i % 97 == 0 ? 100000 + i : i % 300;
        p[i] = arena_alloc(&a, size[i], 1);
        assert_non_null(p[i]);
        assert_int_equal((uintptr_t)p[i] % alignof(max_align_t), 0);
        memset(p[i], (int)(i & 255), size[i]);
    }
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < size[i]; k++)
            assert_int_equal(p[i][k], i & 255);
    arena_free(&a);
    assert_null(a.chunks);
    assert_string_equal(arena_copy(&a, "again", 5), "again");
    arena_free(&a);
}

static void test_limit(void **state)
{
    (void)state;
    struct arena a = {.limit = 1000};
    assert_non_null(arena_alloc(&a, 10, 50));
    assert_false(a.full);
    assert_null(arena_alloc(&a, 1, 600));
    assert_true(a.full);
    assert_non_null(arena_alloc(&a, 1, 400));
    assert_null(arena_alloc(&a, SIZE_MAX / 2, 8));
    arena_free(&a);
}

static void test_no_memory(void **state)
{
    (void)state;
    for (long n = 1; n <= 3; n++) {
        struct arena a = ARENA_INIT;
        mem_fail_at(n);
        long got = 0;
        for (int i = 0; i < 10; i++)
            got += arena_alloc(&a, 1, 100000) != NULL;
        mem_fail_at(0);
        assert_int_equal(got, n - 1);
        arena_free(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pieces_are_apart),
                                       cmocka_unit_test(test_limit),
                                       cmocka_unit_test(test_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
