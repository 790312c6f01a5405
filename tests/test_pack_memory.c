/* Packing stays below its memory limit whatever the model's size and the number of threads: the
 * released model's shapes, as a checkpoint whose data are holes. Pieces of each kind are packed;
 * all of them would be 104 GB. */
#include "tests/aid_test.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/os.h"
#include "pack/packing.h"
#include "tests/aid_pack.h"
#include "tests/aid_sparse.h"

#define LIMIT ((uint64_t)512 << 20)

static uint64_t lane_bytes(const struct packing *k)
{
    return (uint64_t)k->n_lanes * (k->out_bytes + k->raw_bytes + k->n_values * sizeof(float));
}

/* Touches every lane's buffers, as a run that never ends would. */
static void fill_lanes(struct packing *k)
{
    for (int i = 0; i < k->n_lanes; i++) {
        memset(k->lanes[i].out, 1, k->out_bytes);
        memset(k->lanes[i].scratch.raw, 1, k->raw_bytes);
        memset(k->lanes[i].scratch.values, 1, k->n_values * sizeof(float));
    }
}

static void check(const char *list, const char *config)
{
    const struct plan_choices plain = {.norms = PLAN_NORMS_DETECT};
    struct err e = {0};
    struct packing k;
    struct plan *p;
    char *tmp = aid_tmpdir();
    const char *source = aid_path(tmp, "source"), *dir = aid_path(tmp, "store");
    assert_ok(file_make_dir(source, &e), e);
    assert_ok(file_make_dir(dir, &e), e);
    assert_ok(aid_sparse_write(list, config, source, 7, &e), e);
    assert_ok(plan_open(source, &plain, &p, &e), e);
    assert_ok(plan_check(p, &e), e);
    assert_ok(packing_open(dir, p, 1024, &k, &e), e);
    assert_int_equal(k.pieces.n, 2491 + 49 * 512 + 7630);
    assert_true(k.n_lanes >= 16);
    assert_true(lane_bytes(&k) <= PACKING_MEMORY_MAX);
    fill_lanes(&k);
    progress_start(&k.progress, "packing", 0);
    for (size_t i = 300; i < p->n_dense; i += 97) /* the longest ones first: not those */
        assert_ok(dense_pack(&k, &k.lanes[0], &p->dense[k.dense_order[i]], &e), e);
    assert_ok(experts_pack(&k, &k.lanes[1], 48, 510, 2, &e), e);
    assert_ok(ngram_pack(&k, &k.lanes[2], 7629, &e), e);
    printf("note: %d threads for %s have buffers of %llu bytes; peak memory %llu bytes\n",
           k.n_lanes, list, (unsigned long long)lane_bytes(&k),
           (unsigned long long)os_rss_peak_bytes());
#ifndef __SANITIZE_ADDRESS__ /* which keeps what was freed: the other case's buffers too */
    assert_true(os_rss_peak_bytes() < LIMIT);
#endif
    packing_close(&k);
    plan_close(p);
    aid_rmdir(tmp);
}

static void test_bf16(void **state)
{
    (void)state;
    check(DATA "tensors/bf16.tsv", DATA "vectors/config.json");
}

static void test_mlx(void **state)
{
    (void)state;
    check(DATA "tensors/mlx4-sawfwair.tsv", DATA "vectors/config.mlx4.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bf16), cmocka_unit_test(test_mlx)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
