/* Engine "reference" against the golden models, fed from their checkpoints.
 * Runs in release alone. */
#include "tests/aid_test.h"

#include "tests/aid_checkpoint.h"
#include "tests/aid_oracle.h"

static void check(const char *goldens, const char *checkpoint)
{
    struct aid_weights m;
    aid_weights_open(&m, checkpoint);
    oracle_check(&m.w, goldens);
    aid_weights_close(&m);
}

static void test_micro(void **state)
{
    (void)state;
    check(GOLDENS "micro/bf16", GOLDENS "micro/bf16");
    check(GOLDENS "micro/mlx4", GOLDENS "micro/mlx4");
}

static void test_variants(void **state)
{
    static const char *const dirs[] = {
        GOLDENS "v-hc2/mlx4",    GOLDENS "v-head128/mlx4", GOLDENS "v-mtpall/mlx4",
        GOLDENS "v-nonorm/mlx4", GOLDENS "v-nople/mlx4",   GOLDENS "v-ple2/mlx4",
        GOLDENS "v-rope/mlx4",   GOLDENS "v-silu/mlx4",
    };
    (void)state;
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++)
        check(dirs[i], dirs[i]);
}

static void test_demo(void **state)
{
    (void)state;
    check(GOLDENS "demo", DEMO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_micro),
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_demo),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
