/* Dense weights in memory of our own: the store's bytes under the store's names, the rest of the
 * source unchanged; a file that ends early is an error. */
#include "tests/aid_test.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "stream/dense.h"
#include "tests/aid_stream.h"

static void test_same_bytes_elsewhere(void **state)
{
    (void)state;
    struct aid_stream a;
    struct err e = {0};
    struct dense d;
    struct weight_source ours, theirs;
    struct expert x, y;
    aid_stream_open(&a, "micro");
    assert_ok(dense_load(a.store, &d, &e), e);
    printf("note: locked: %s%s\n", d.locked ? "yes" : "no, ", d.why);
    assert_int_equal(d.size, a.store->dense.size);
    assert_memory_equal(d.data, a.store->dense.data, d.size);
    dense_source(&d, &ours);
    weights_source_store(a.store, &theirs);
    for (size_t i = 0; i < a.tensors.n; i++) {
        struct tensor_view v;
        const struct aid_tensor *t = &a.tensors.at[i];
        assert_ok(ours.find(ours.ctx, t->name, &v, &e), e);
        assert_memory_equal(v.data, t->data, (size_t)t->nbytes);
        assert_true((const uint8_t *)v.data >= d.data && (const uint8_t *)v.data < d.data + d.size);
        assert_int_equal((uintptr_t)v.data % STORE_ALIGN, 0);
    }
    assert_ok(ours.expert(ours.ctx, 1, 2, &x, &e), e);
    assert_ok(theirs.expert(theirs.ctx, 1, 2, &y, &e), e);
    assert_ptr_equal(x.gate.w, y.gate.w);
    float row[2][256];
    int dim = a.store->manifest.ngram.dim;
    assert_true(dim <= 256);
    assert_ok(ours.ngram_row(ours.ctx, 0, 3, row[0], &e), e);
    assert_ok(theirs.ngram_row(theirs.ctx, 0, 3, row[1], &e), e);
    assert_memory_equal(row[0], row[1], (size_t)dim * sizeof(float));
    struct tensor_view v;
    assert_int_equal(ours.find(ours.ctx, "nothing", &v, &e), -E_NOTFOUND);
    dense_free(&d);
    aid_stream_close(&a);
}

static void test_a_file_cut_short(void **state)
{
    (void)state;
    struct aid_stream a;
    struct err e = {0};
    struct dense d;
    aid_stream_open(&a, "micro");
    char *path = file_join(a.dir, "dense.bin");
    assert_non_null(path);
    assert_int_equal(truncate(path, (off_t)(a.store->dense.size - 1)), 0);
    assert_int_equal(dense_load(a.store, &d, &e), -E_IO);
    assert_non_null(strstr(e.msg, "dense.bin"));
    assert_int_equal(unlink(path), 0);
    err_clear(&e);
    assert_int_equal(dense_load(a.store, &d, &e), -E_NOTFOUND);
    mem_free(path);
    aid_stream_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bytes_elsewhere),
        cmocka_unit_test(test_a_file_cut_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
