/* The ranking file: written at close, read at open, and ignored when anything about it is wrong. A
 * stream fills its free slots from it, behind everything that is asked for. */
#include "tests/aid_test.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "stream/ranking.h"
#include "tests/aid_stream.h"

enum { L = 5, E = 16, N = L * E };

static char *path_of(const struct aid_stream *a)
{
    char *path = file_join(a->dir, "ranking.bin");
    assert_non_null(path);
    return path;
}

static void test_round_trip(void **state)
{
    (void)state;
    struct aid_stream a;
    struct err e = {0};
    float use[N], back[N];
    aid_stream_open(&a, "micro");
    assert_int_equal(ranking_read(a.store, back, &e), -E_NOTFOUND);
    for (int i = 0; i < N; i++)
        use[i] = (float)i / 3;
    err_clear(&e);
    assert_ok(ranking_write(a.store, use, &e), e);
    assert_ok(ranking_read(a.store, back, &e), e);
    assert_memory_equal(use, back, sizeof use);
    aid_stream_close(&a);
}

/* Every byte counts; so does the length. */
static void test_damage_is_seen(void **state)
{
    (void)state;
    struct aid_stream a;
    struct err e = {0};
    struct buf b = BUF_INIT;
    float use[N] = {1}, back[N];
    aid_stream_open(&a, "micro");
    char *path = path_of(&a);
    assert_ok(ranking_write(a.store, use, &e), e);
    assert_ok(file_read_all(path, 1 << 20, &b, &e), e);
    memset(back, 7, sizeof back);
    for (size_t i = 0; i < b.len; i++) {
        b.data[i] ^= 1;
        err_clear(&e);
        assert_int_equal(ranking_parse(a.store, b.data, b.len, back, &e), -E_FORMAT);
        b.data[i] ^= 1;
    }
    for (size_t n = 0; n < b.len; n++) {
        err_clear(&e);
        assert_int_equal(ranking_parse(a.store, b.data, n, back, &e), -E_FORMAT);
    }
    for (size_t i = 0; i < sizeof back; i++)
        assert_int_equal(((const uint8_t *)back)[i], 7); /* untouched by all of them */
    use[3] = -1;                                         /* a checksum says nothing about sense */
    err_clear(&e);
    assert_ok(ranking_write(a.store, use, &e), e);
    assert_int_equal(ranking_read(a.store, back, &e), -E_FORMAT);
    buf_free(&b);
    mem_free(path);
    aid_stream_close(&a);
}

static void test_another_store(void **state)
{
    (void)state;
    struct aid_stream a, b;
    struct err e = {0};
    float use[N] = {1};
    aid_stream_open(&a, "micro");
    aid_stream_open(&b, "micro");
    b.store->manifest.ngram.rows--; /* as if it were a little different */
    struct buf bytes = BUF_INIT;
    char *path = path_of(&a);
    assert_ok(ranking_write(a.store, use, &e), e);
    assert_ok(file_read_all(path, 1 << 20, &bytes, &e), e);
    assert_int_equal(ranking_parse(b.store, bytes.data, bytes.len, use, &e), -E_FORMAT);
    assert_non_null(strstr(e.msg, "another store"));
    b.store->manifest.ngram.rows++;
    buf_free(&bytes);
    mem_free(path);
    aid_stream_close(&a);
    aid_stream_close(&b);
}

static void visit_first(struct aid_stream *a, int n)
{
    struct err e = {0};
    struct stream_use uses[E];
    for (int i = 0; i < n; i++)
        uses[i] = (struct stream_use){.expert = i, .rows = 1 + i};
    for (int il = 0; il < L; il++)
        assert_ok(aid_stream_visit(a, il, uses, n, CAUSE_DEMAND, &e), e);
}

/* What the last run used is there without being asked for. */
static void test_warm_up(void **state)
{
    (void)state;
    struct aid_stream a;
    const struct stream_options o = {.slots = 20, .depth = 4, .keep_ranking = true};
    aid_stream_open(&a, "micro");
    aid_stream_start(&a, &o);
    assert_int_equal(a.counters.reads[CAUSE_WARM][4], 0);
    visit_first(&a, 4);
    aid_stream_stop(&a);
    aid_stream_start(&a, &o);
    for (int i = 0; i < 2000 && a.counters.bytes[CAUSE_WARM] < 20 * 16384; i++) {
        struct err e = {0};
        assert_ok(stream_rows_begin(a.stream, NULL, 0, &e), e);
        usleep(500);
    }
    assert_int_equal(a.counters.reads[CAUSE_WARM][4], 20);
    visit_first(&a, 4);
    assert_int_equal(a.counters.reads[CAUSE_DEMAND][4], 0);
    for (int il = 0; il < L; il++)
        assert_int_equal(a.counters.layer[il].hits, 4);
    aid_stream_close(&a);
}

static void test_no_file_where_none_is_wanted(void **state)
{
    (void)state;
    struct aid_stream a;
    aid_stream_open(&a, "micro");
    char *path = path_of(&a);
    aid_stream_start(&a, &(struct stream_options){.slots = 20, .depth = 4});
    visit_first(&a, 4);
    aid_stream_stop(&a);
    assert_false(file_exists(path));
    aid_stream_start(&a, &(struct stream_options){.slots = 20, .depth = 4, .keep_ranking = true});
    aid_stream_stop(&a); /* nothing was used: nothing to say */
    assert_false(file_exists(path));
    /* A damaged file does not stop anything, and is replaced. */
    aid_write(path, "nonsense", 8);
    aid_stream_start(&a, &(struct stream_options){.slots = 20, .depth = 4, .keep_ranking = true});
    visit_first(&a, 2);
    aid_stream_stop(&a);
    struct err e = {0};
    float use[N];
    assert_ok(ranking_read(a.store, use, &e), e);
    assert_true(use[0] > 0 && use[1] > use[0] && use[2] == 0);
    mem_free(path);
    aid_stream_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_damage_is_seen),
        cmocka_unit_test(test_another_store),
        cmocka_unit_test(test_warm_up),
        cmocka_unit_test(test_no_file_where_none_is_wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
