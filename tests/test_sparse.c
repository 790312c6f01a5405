/* The published checkpoints at their full size, as holes: they open in milliseconds, count what was
 * published, and say which norms they have. */
#include "tests/aid_test.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/convention.h"
#include "checkpoint/names.h"
#include "tests/aid_sparse.h"

static uint64_t bytes_on_disk(const struct checkpoint *c)
{
    uint64_t n = 0;
    for (int i = 0; i < c->n_files; i++) {
        struct stat st;
        assert_int_equal(fstat(c->files[i].fd, &st), 0);
        n += (uint64_t)st.st_blocks * 512;
    }
    return n;
}

static void check_hash(const struct checkpoint *c, const char *suffix, const int64_t *want,
                       size_t n)
{
    for (size_t i = 0; i < c->n_tensors; i++) {
        const struct tensor *t = &c->tensors[i];
        size_t len = strlen(t->name), k = strlen(suffix);
        int64_t got[16] = {0};
        struct err e = {0};
        if (len < k || strcmp(t->name + len - k, suffix) != 0)
            continue;
        assert_int_equal(t->dtype, DTYPE_I64);
        assert_ok(checkpoint_read(c, t, 0, got, (size_t)t->nbytes, &e), e);
        assert_memory_equal(got, want, n * sizeof *got);
        return;
    }
    fail_msg("no tensor is called ...%s", suffix);
}

static void check(const char *tensors, const char *config, int shards, size_t n, uint64_t nbytes,
                  enum norm_convention norms)
{
    static const int64_t multipliers[] = {23703573157769, 20109073645365, 8052911324071};
    static const int64_t sizes[] = {20000003, 20000023, 20000033}, offsets[] = {0, 20000003};
    char *dir = aid_tmpdir();
    struct checkpoint *c;
    struct convention v;
    struct err e = {0};
    assert_ok(aid_sparse_write(tensors, config, dir, shards, &e), e);
    uint64_t start = clock_ns();
    assert_ok(checkpoint_open(dir, &c, &e), e);
    double ms = clock_seconds_since(start) * 1e3;
    assert_int_equal(c->n_tensors, n);
    assert_int_equal(c->n_files, shards);
    assert_true(c->nbytes == nbytes);
    assert_ok(convention_detect(c, &v, &e), e);
    assert_int_equal(v.norms, norms);
    check_hash(c, ".layer_multipliers", multipliers, 3);
    check_hash(c, ".ngram_heads_vocab_sizes", sizes, 3);
    check_hash(c, ".ngram_heads_offsets", offsets, 2);
    uint64_t used = bytes_on_disk(c);
    assert_true(used < 64 << 20);
    printf("note: %zu tensors in %d files, %.1f GB (%.1f MB on disk), opened in %.1f ms\n", n,
           shards, (double)nbytes * 1e-9, (double)used * 1e-6, ms);
    checkpoint_close(c);
    aid_rmdir(dir);
}

static void test_bf16(void **state)
{
    (void)state;
    check(DATA "tensors/bf16.tsv", DATA "vectors/config.json", AID_SPARSE_SHARDS, 1658,
          359999963128, NORMS_RAW);
}

static void test_mlx4(void **state)
{
    (void)state;
    check(DATA "tensors/mlx4-sawfwair.tsv", DATA "vectors/config.mlx4.json", AID_SPARSE_SHARDS,
          3817, 104741817208, NORMS_FOLDED);
    check(DATA "tensors/mlx4-sawfwair.tsv", DATA "vectors/config.mlx4.json", 1, 3817, 104741817208,
          NORMS_FOLDED);
}

static void test_bad_lists(void **state)
{
    (void)state;
    static const struct {
        const char *list, *says;
        int shards;
    } cases[] = {
        {"", "lists 0 tensors", 1},
        {"a\tBF16\t2\n", "line of a: want four fields", 1},
        {"a\tBF16\t2\t4\n", "lists 1 tensors, which do not fill 2 shards", 2},
        {"model.layers.1.ple.ple_embedding.layer_multipliers\tI64\t9\t72\n",
         "the config has no such constants", 1},
    };
    char *dir = aid_tmpdir(), *path = file_join(dir, "list");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err e = {0};
        aid_write(path, cases[i].list, strlen(cases[i].list));
        int rc = aid_sparse_write(path, DATA "vectors/config.json", dir, cases[i].shards, &e);
        if (!rc || !strstr(e.msg, cases[i].says))
            fail_msg("case %zu: %d, %s", i, rc, e.msg);
    }
    mem_free(path);
    aid_rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_mlx4),
        cmocka_unit_test(test_bad_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
