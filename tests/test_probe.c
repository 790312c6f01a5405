/* Probing a disk: what comes out is a rate, a depth that was tried, or an error that says why. */
#include "tests/aid_test.h"

#include <string.h>

#include "base/os.h"
#include "stream/probe.h"
#include "tests/aid_stream.h"

static void test_a_store(void **state)
{
    (void)state;
    struct aid_stream a;
    struct err e = {0};
    struct probe p;
    aid_stream_open(&a, "micro");
    for (int bits = 2; bits <= 4; bits++) {
        const struct probe_wish w = {.bits = bits, .seconds = 0.05};
        assert_ok(probe_store(a.store, &w, &p, &e), e);
        assert_true(p.depth == 4 || p.depth == 8 || p.depth == 16);
        assert_true(p.bytes > 0 && p.bytes % a.store->records[bits].stride == 0);
        assert_true(p.seconds >= 0.05 && p.gbs > 0);
    }
    struct probe_wish w = {.bits = 4, .how = ENGINE_READS_PREAD, .depth = 3, .seconds = 0.01};
    assert_ok(probe_store(a.store, &w, &p, &e), e);
    assert_int_equal(p.depth, 3);
    w.bits = 7;
    assert_int_equal(probe_store(a.store, &w, &p, &e), -E_ARG);
    aid_stream_close(&a);
}

static void test_reads_that_fail(void **state)
{
    (void)state;
    struct aid_stream a;
    struct err e = {0};
    struct reader *inner, *r;
    struct probe p;
    struct os_pages pages;
    struct probe_what w = {.stride = 16384, .n = 80, .unit = 16384};
    aid_stream_open(&a, "micro");
    assert_ok(os_pages_take(16 * w.unit, &pages, &e), e);
    w.room = pages.data;
    assert_ok(reader_open(ENGINE_READS_AUTO, 4, &inner, &e), e);
    assert_ok(reader_fault_open(inner, &(struct reader_faults){.fail_at = 9}, &r, NULL, &e), e);
    assert_ok(r->ops->add(r, a.store->records[4].path, &w.file, &e), e);
    assert_int_equal(probe_run(r, &w, 4, 5.0, &p, &e), -E_IO);
    assert_true(p.seconds < 5.0); /* it does not go on */
    r->ops->close(r);
    os_pages_free(&pages);
    aid_stream_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_store),
        cmocka_unit_test(test_reads_that_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
