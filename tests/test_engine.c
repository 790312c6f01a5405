/* What every engine shares: argmax and the names of what observers see. */
#include "tests/aid_test.h"

#include <string.h>

#include "model/engine.h"

static void test_argmax(void **state)
{
    static const float one[] = {-3}, ties[] = {-1, 4, 2, 4, 4}, low[] = {-7, -2, -2};
    (void)state;
    assert_int_equal(engine_argmax(one, 1), 0);
    assert_int_equal(engine_argmax(ties, 5), 1);
    assert_int_equal(engine_argmax(low, 3), 1);
}

/* The names become file names of dumps: all there, all different, no strange characters. */
static void test_names(void **state)
{
    (void)state;
    for (int i = 0; i < SEEN_COUNT; i++) {
        const char *name = seen_name((enum seen)i);
        assert_non_null(name);
        assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz_"), strlen(name));
        for (int j = 0; j < i; j++)
            assert_string_not_equal(name, seen_name((enum seen)j));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_argmax),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
