/* Dumps and comparisons on the fake engine: what is written is read back, damage is found, and the
 * first block and element where two sides part are named. */
#include "tests/aid_test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "runner/check.h"
#include "tests/aid_engine.h"

enum { V = 50, CTX = 64, N = 12 };

static int32_t digits[N] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
static const struct tokens ids = {digits, N, N};

/* An engine with an observer: a capture's or a dump's. */
struct side {
    struct aid_fake fake;
    struct model m;
    struct sequence *seq;
    struct capture *capture;
};

static void side_open(struct side *s)
{
    struct err e = {0};
    *s = (struct side){0};
    assert_ok(capture_open(&s->capture, &e), e);
    s->fake.observe = capture_observer(s->capture);
    aid_model_open(&s->m, &s->fake, V, CTX);
    assert_ok(s->m.engine->ops->sequence_open(s->m.engine, CTX, &s->seq, &e), e);
}

static void side_close(struct side *s)
{
    s->m.engine->ops->sequence_close(s->seq);
    aid_model_close(&s->m);
    capture_close(s->capture);
}

static struct check_side engine_side(struct side *s)
{
    return (struct check_side){s->m.engine, s->seq, s->capture, NULL};
}

static void run(struct side *s, const int32_t *tokens, int n)
{
    struct err e = {0};
    float logits[V];
    for (int i = 0; i < n; i++) {
        struct row row = {s->seq, tokens[i]};
        assert_ok(s->m.engine->ops->step(s->m.engine, &row, 1, NULL, logits, &e), e);
        assert_ok(s->m.engine->ops->commit(s->m.engine, s->seq, 1, &e), e);
    }
}

/* A dump of tokens in dir/name. */
static char *make_dump(const char *dir, const char *name, const int32_t *tokens, int n)
{
    struct err e = {0};
    struct dump *d;
    struct side s;
    char *path = file_join(dir, name);
    side_open(&s);
    assert_ok(dump_open(path, &d, &e), e);
    s.fake.observe = dump_observer(d);
    run(&s, tokens, n);
    dump_close(d);
    side_close(&s);
    return path;
}

static void test_equal_engines(void **state)
{
    (void)state;
    struct err e = {0};
    struct side a, b;
    struct check_result r;
    side_open(&a);
    side_open(&b);
    struct check_side l = engine_side(&a), rt = engine_side(&b);
    assert_ok(check_run(&l, &rt, &ids, 0, &r, &e), e);
    assert_false(r.differs);
    assert_int_equal(r.n_blocks, N * AID_FAKE_LAYERS * 2);
    assert_int_equal(r.n_values, N * AID_FAKE_LAYERS * 10);
    assert_int_equal(r.n_missing, 0);
    assert_true(r.worst.difference == 0);
    side_close(&a);
    side_close(&b);
}

static void test_names_the_place(void **state)
{
    (void)state;
    for (int il = 0; il < AID_FAKE_LAYERS; il++)
        for (int mode = 0; mode < 3; mode++) {
            struct err e = {0};
            struct side a, b;
            struct check_result r;
            side_open(&a);
            side_open(&b);
            b.fake.odd_layer = il + 1;
            b.fake.odd_pos = 7;
            b.fake.odd_by = mode == 1 ? NAN : 1e-3f;
            b.fake.odd_routes = mode == 2;
            struct check_side l = engine_side(&a), rt = engine_side(&b);
            assert_ok(check_run(&l, &rt, &ids, 1e-5, &r, &e), e);
            assert_true(r.differs);
            assert_int_equal(r.first.what, mode == 2 ? SEEN_ROUTE : SEEN_RESIDUAL);
            assert_int_equal(r.first.il, il);
            assert_int_equal(r.first.pos, 7);
            assert_int_equal(r.first.element, mode == 2 ? 1 : 2);
            assert_true(isinf(r.first.difference) == (mode > 0));
            if (mode == 0) { /* 4 is the largest value of the row */
                assert_true(fabs(r.first.right - r.first.left - 1e-3) < 1e-6);
                assert_true(r.first.difference < 1.1e-3 && r.first.difference > 2e-4);
                assert_true(r.worst.difference == r.first.difference);
            }
            side_close(&a);
            side_close(&b);
        }
}

static void test_tolerance(void **state)
{
    (void)state;
    struct err e = {0};
    struct side a, b;
    struct check_result r;
    side_open(&a);
    side_open(&b);
    b.fake.odd_layer = 1;
    b.fake.odd_by = 1e-3f;
    struct check_side l = engine_side(&a), rt = engine_side(&b);
    assert_ok(check_run(&l, &rt, &ids, 2e-3, &r, &e), e);
    assert_false(r.differs);
    assert_true(r.worst.difference > 0);
    assert_int_equal(r.worst.pos, 0);
    side_close(&a);
    side_close(&b);
}

/* Another route with the same weights is a near tie: told, and no difference, however far off the
 * values behind it are. With other weights, or at tolerance 0, it is one. */
static void test_near_ties(void **state)
{
    (void)state;
    for (int mode = 0; mode < 3; mode++) {
        struct err e = {0};
        struct side a, b;
        struct check_result r;
        side_open(&a);
        side_open(&b);
        a.fake.weights = b.fake.weights = true;
        b.fake.odd_layer = 2;
        b.fake.odd_pos = 5;
        b.fake.odd_by = 3;
        b.fake.odd_routes = true;
        b.fake.odd_weight = mode == 1 ? 0.1f : 0;
        struct check_side l = engine_side(&a), rt = engine_side(&b);
        assert_ok(check_run(&l, &rt, &ids, mode == 2 ? 0 : 1e-2, &r, &e), e);
        assert_int_equal(r.differs, mode > 0);
        assert_int_equal(r.n_turns, mode == 0);
        assert_int_equal(r.behind, mode == 0);
        if (mode == 0) {
            assert_int_equal(r.first_turn.what, SEEN_ROUTE);
            assert_int_equal(r.first_turn.il, 1);
            assert_int_equal(r.first_turn.pos, 5);
            assert_true(r.kinds[SEEN_RESIDUAL].worst == 0);
            assert_true(r.kinds[SEEN_RESIDUAL].worst_behind > 0.4);
        } else {
            assert_int_equal(r.first.what, SEEN_ROUTE);
            assert_true(r.kinds[SEEN_RESIDUAL].worst > 0.4);
        }
        assert_int_equal(r.kinds[SEEN_RESIDUAL].n, N * AID_FAKE_LAYERS);
        side_close(&a);
        side_close(&b);
    }
}

static void test_against_dump(void **state)
{
    (void)state;
    char *dir = aid_tmpdir();
    struct err e = {0};
    struct side a;
    struct check_result r;
    struct dump_file *f;
    char *path = make_dump(dir, "d", digits, N);
    assert_ok(dump_file_open(path, &f, &e), e);
    assert_int_equal(dump_file_positions(f), N);
    assert_null(dump_file_find(f, SEEN_RESIDUAL, AID_FAKE_LAYERS, 0));
    assert_null(dump_file_find(f, SEEN_MOE, 0, 0));
    assert_null(dump_file_find(f, SEEN_RESIDUAL, 0, N));

    side_open(&a);
    struct check_side l = engine_side(&a), rt = {.dump = f};
    assert_ok(check_run(&l, &rt, &ids, 0, &r, &e), e);
    assert_false(r.differs);
    assert_int_equal(r.n_blocks, N * AID_FAKE_LAYERS * 2);
    side_close(&a);

    /* Other tokens from position 5 on; then more tokens than the dump has. */
    int32_t other[N + 1];
    memcpy(other, digits, sizeof digits);
    other[5] = 40;
    other[N] = 1;
    side_open(&a);
    l = engine_side(&a);
    assert_ok(check_run(&l, &rt, &(struct tokens){other, N, N}, 0, &r, &e), e);
    assert_true(r.differs && r.first.pos == 5);
    side_close(&a);
    side_open(&a);
    l = engine_side(&a);
    assert_int_equal(check_run(&l, &rt, &(struct tokens){other, N + 1, N + 1}, 0, &r, &e),
                     -E_FORMAT);
    assert_non_null(strstr(e.msg, "position 12"));
    side_close(&a);
    dump_file_close(f);
    mem_free(path);
    aid_rmdir(dir);
}

/* A position computed twice counts as it was the last time. */
static void test_last_of_several(void **state)
{
    (void)state;
    char *dir = aid_tmpdir();
    struct err e = {0};
    struct dump *d;
    struct dump_file *f;
    char *path = file_join(dir, "d");
    assert_ok(dump_open(path, &d, &e), e);
    const struct observer *o = dump_observer(d);
    for (int round = 0; round < 20; round++)
        for (int pos = 0; pos < 3; pos++) {
            float x = (float)(100 * round + pos);
            o->floats(o->ctx, SEEN_HIDDEN, -1, pos, &x, 1);
        }
    dump_close(d);
    assert_ok(dump_file_open(path, &f, &e), e);
    for (int pos = 0; pos < 3; pos++) {
        const struct block *b = dump_file_find(f, SEEN_HIDDEN, -1, pos);
        assert_non_null(b);
        assert_int_equal(b->n, 1);
        assert_true(*(const float *)b->values == (float)(1900 + pos));
    }
    dump_file_close(f);
    mem_free(path);
    aid_rmdir(dir);
}

static void test_damaged_dumps(void **state)
{
    (void)state;
    char *dir = aid_tmpdir();
    struct err e = {0};
    struct dump_file *f;
    char *path = make_dump(dir, "d", digits, 1), *file = file_join(path, DUMP_FILE);
    struct buf whole = BUF_INIT;
    assert_ok(file_read_all(file, 1 << 20, &whole, &e), e);
    assert_int_equal(whole.len, 16 + AID_FAKE_LAYERS * (32 + 16 + 32 + 32));

    int opened = 0; /* cut anywhere: only a cut between two frames gives a dump */
    for (size_t n = 0; n < whole.len; n++) {
        err_clear(&e);
        int rc = dump_file_parse(whole.data, n, "cut", &f, &e);
        if (rc == 0) {
            opened++;
            dump_file_close(f);
        } else {
            assert_int_equal(rc, -E_FORMAT);
            assert_non_null(strstr(e.msg, "cut: "));
        }
    }
    assert_int_equal(opened, 2 * AID_FAKE_LAYERS);

    const struct { /* what the first frame must not say */
        size_t at;
        unsigned char byte;
        const char *what;
    } bad[] = {{0, 'C', "version 1"}, {14, '2', "version 1"}, {16, 'x', "byte 16"},
               {35, 0x80, "byte 16"}, {39, 0x80, "byte 16"},  {40, 2, "byte 16"},
               {47, 1, "byte 16"},    {34, 0xff, NULL}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char kept = whole.data[bad[i].at];
        whole.data[bad[i].at] = (char)bad[i].byte;
        err_clear(&e);
        int rc = dump_file_parse(whole.data, whole.len, "bad", &f, &e);
        if (rc == 0)
            dump_file_close(f);
        assert_int_equal(rc, bad[i].what ? -E_FORMAT : 0);
        if (bad[i].what)
            assert_non_null(strstr(e.msg, bad[i].what));
        whole.data[bad[i].at] = kept;
    }
    err_clear(&e);
    assert_int_equal(dump_file_open(dir, &f, &e), -E_NOTFOUND);
    buf_free(&whole);
    mem_free(file);
    mem_free(path);
    aid_rmdir(dir);
}

static void test_never_mixes(void **state)
{
    (void)state;
    char *dir = aid_tmpdir();
    struct err e = {0};
    struct dump *d = NULL;
    char *path = make_dump(dir, "d", digits, 2);
    assert_int_equal(dump_open(path, &d, &e), -E_ARG);
    assert_non_null(strstr(e.msg, "there already"));
    err_clear(&e);
    char *deep = file_join(dir, "no/such/folder");
    assert_int_equal(dump_open(deep, &d, &e), -E_NOTFOUND);
    mem_free(deep);
    mem_free(path);
    aid_rmdir(dir);
}

/* A full disk: nothing behind the failed frame, and the dump that is left does not pass for
 * whole. */
static void test_full_disk(void **state)
{
    (void)state;
    for (long nth = 1; nth < 7; nth++) {
        char *dir = aid_tmpdir();
        struct err e = {0};
        struct dump *d;
        struct side s;
        side_open(&s);
        assert_ok(dump_open(dir, &d, &e), e);
        s.fake.observe = dump_observer(d);
        file_fault_at(FILE_FAULT_WRITE, nth);
        run(&s, digits, 1);
        file_fault_at(FILE_FAULT_WRITE, 0);
        run(&s, digits, 1);
        struct stat st;
        char *file = file_join(dir, DUMP_FILE);
        assert_int_equal(stat(file, &st), 0);
        assert_true(st.st_size <= 16 + 64 * (nth - 1));
        dump_close(d);
        side_close(&s);
        mem_free(file);
        aid_rmdir(dir);
    }
}

static void test_memory(void **state)
{
    (void)state;
    char *dir = aid_tmpdir(), *path = make_dump(dir, "d", digits, 3);
    struct err e = {0};
    struct dump_file *f = NULL;
    struct dump *d = NULL;
    for (long n = 1, rc = -1; rc; n++) {
        err_clear(&e);
        mem_fail_at(n);
        rc = dump_file_open(path, &f, &e);
        mem_fail_at(0);
        assert_true(rc == 0 || rc == -E_NOMEM);
    }
    dump_file_close(f);
    for (long n = 1, rc = -1; rc; n++) {
        char *other = file_join(dir, "other");
        err_clear(&e);
        mem_fail_at(n);
        rc = dump_open(other, &d, &e);
        mem_fail_at(0);
        assert_true(rc == 0 || rc == -E_NOMEM);
        mem_free(other);
    }
    dump_close(d);
    struct side s;
    struct side t;
    struct check_result r;
    side_open(&s);
    side_open(&t);
    struct check_side l = engine_side(&s), rt = engine_side(&t);
    for (long n = 1, rc = -1; rc; n++) {
        s.m.engine->ops->sequence_reset(s.seq);
        t.m.engine->ops->sequence_reset(t.seq);
        err_clear(&e);
        mem_fail_at(n);
        rc = check_run(&l, &rt, &(struct tokens){digits, 3, 3}, 0, &r, &e);
        mem_fail_at(0);
        assert_true(rc == 0 || rc == -E_NOMEM);
    }
    side_close(&s);
    side_close(&t);
    mem_free(path);
    aid_rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_engines), cmocka_unit_test(test_names_the_place),
        cmocka_unit_test(test_tolerance),     cmocka_unit_test(test_against_dump),
        cmocka_unit_test(test_near_ties),     cmocka_unit_test(test_last_of_several),
        cmocka_unit_test(test_damaged_dumps), cmocka_unit_test(test_never_mixes),
        cmocka_unit_test(test_full_disk),     cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
