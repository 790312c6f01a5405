/* Engine "reference" against the two golden models that are made when they are needed.
 * Runs in release alone. */
#include "tests/aid_test.h"

#include "tests/aid_checkpoint.h"
#include "tests/aid_golden.h"
#include "tests/aid_oracle.h"

static void check(const char *name)
{
    struct aid_weights m;
    const char *dir = aid_golden(name);
    aid_weights_open(&m, dir);
    oracle_check(&m.w, dir);
    aid_weights_close(&m);
}

static void test_deep(void **state)
{
    (void)state;
    check("deep");
}

static void test_wide(void **state)
{
    (void)state;
    check("wide");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_wide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
