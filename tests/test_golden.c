/* The goldens' weights, made again: byte for byte the files in the repository, and for the two that
 * are left out of it, the files that checksums.tsv pins. */
#include "tests/aid_test.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/convention.h"
#include "tests/aid_golden.h"
#include "tests/aid_numpy.h"

/* The generator's own default seed, and the numbers that seed 42 is known for. */
static void test_numpy(void **state)
{
    (void)state;
    struct aid_numpy r;
    aid_numpy_seed(&r, 5489);
    assert_true(aid_numpy_uniform(&r) == 0.8147236863931789);
    assert_true(aid_numpy_uniform(&r) == 0.9057919370756192);
    aid_numpy_seed(&r, 42);
    assert_true(aid_numpy_gauss(&r) == 0.4967141530112327);
    assert_true(aid_numpy_gauss(&r) == -0.13826430117118466);
    assert_true(aid_numpy_gauss(&r) == 0.6476885381006925);
}

static void check_same(const char *a, const char *b)
{
    struct buf x = BUF_INIT, y = BUF_INIT;
    struct err e = {0};
    assert_ok(file_read_all(a, 64 << 20, &x, &e), e);
    assert_ok(file_read_all(b, 64 << 20, &y, &e), e);
    if (x.len != y.len || memcmp(x.data, y.data, x.len) != 0)
        fail_msg("%s and %s differ", a, b);
    buf_free(&x);
    buf_free(&y);
}

static void test_same_as_committed(void **state)
{
    (void)state;
    static const char *const names[] = {"micro", "v-silu",    "v-nonorm", "v-nople", "v-ple2",
                                        "v-hc2", "v-head128", "v-rope",   "v-mtpall"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *dir = aid_tmpdir();
        struct checkpoint *c;
        struct err e = {0};
        assert_ok(aid_golden_write(names[i], dir, &e), e);
        assert_ok(checkpoint_open(aid_golden(names[i]), &c, &e), e);
        for (int f = 0; f < c->n_files; f++) {
            char *made = file_join(dir, strrchr(c->files[f].path, '/') + 1);
            check_same(c->files[f].path, made);
            mem_free(made);
        }
        checkpoint_close(c);
        aid_rmdir(dir);
    }
}

static void test_left_out(void **state)
{
    (void)state;
    static const char *const names[] = {"deep", "wide"};
    for (size_t i = 0; i < 2; i++) {
        const char *dir = aid_golden(names[i]);
        struct checkpoint *c;
        struct convention v;
        struct err e = {0};
        assert_string_equal(dir, aid_golden(names[i]));
        assert_ok(aid_golden_check(names[i], dir, &e), e);
        assert_ok(checkpoint_open(dir, &c, &e), e);
        assert_ok(convention_detect(c, &v, &e), e);
        assert_int_equal(v.norms, NORMS_FOLDED);
        checkpoint_close(c);
        char *goldens = file_join(dir, "goldens.json");
        assert_true(file_exists(goldens));
        mem_free(goldens);
    }
}

static void test_damage_is_seen(void **state)
{
    (void)state;
    char *dir = aid_tmpdir(), *path = file_join(dir, "model.safetensors");
    struct err e = {0};
    aid_write(path, "x", 1);
    assert_int_equal(aid_golden_check("wide", dir, &e), -E_DIFFER);
    err_clear(&e);
    assert_int_equal(aid_golden_check("micro", dir, &e), -E_NOTFOUND);
    err_clear(&e);
    assert_int_equal(aid_golden_write("no-such", dir, &e), -E_ARG);
    mem_free(path);
    aid_rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numpy),
        cmocka_unit_test(test_same_as_committed),
        cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_damage_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
