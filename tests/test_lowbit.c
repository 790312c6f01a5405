/* Making experts of 3 and 2 bits: the bytes are those that the format page says, a fault or a kill
 * leaves no copy or a whole one, and verify and inspect know copies. */
#include "tests/aid_test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "pack/lowbit.h"
#include "pack/verify.h"
#include "quant/lowbit.h"
#include "tests/aid_pack.h"

#define MICRO GOLDENS "micro/mlx4"

static char *tmp, *dir; /* a store of MICRO in tmp */
static const struct lowbit_options both = {.want = {[3] = true, [2] = true}};

static int set_up(void **state)
{
    (void)state;
    tmp = aid_tmpdir();
    dir = file_join(tmp, "store");
    aid_pack_ok(MICRO, dir, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mem_free(dir);
    aid_rmdir(tmp);
    return 0;
}

static int make(bool force, struct lowbit_report *r, struct err *e)
{
    struct lowbit_options o = both;
    struct lowbit_report mine;
    o.force = force;
    return lowbit_run(dir, &o, r ? r : &mine, e);
}

static void make_ok(void)
{
    struct err e = {0};
    assert_ok(make(false, NULL, &e), e);
}

static struct store *open_store(void)
{
    struct err e = {0};
    struct store *s;
    assert_ok(store_open(dir, &s, &e), e);
    return s;
}

/* Every record of both copies, by the format page: codes from codes, the rest as it was. */
static void assert_whole(void)
{
    struct store *s = open_store();
    const struct expert_layout *x = &s->manifest.experts;
    size_t values = (size_t)x->inter * (size_t)x->h, side = values / 64 * 2;
    uint8_t *codes = mem_alloc(values);
    for (int bits = 2; bits <= 3; bits++) {
        const struct records *r = &s->records[bits];
        if (!r->present)
            fail_msg("%d bits: %s", bits, r->why.msg);
        for (size_t i = 0; i < r->n; i++) {
            const uint8_t *from = records_at(&s->records[4], i), *to = records_at(r, i);
            size_t n = lowbit_bytes(bits, values);
            for (int k = 0; k < 3; k++) {
                lowbit_from_q4(bits, from + x->w[k], values, codes);
                assert_memory_equal(to + (size_t)k * n, codes, n);
            }
            assert_memory_equal(to + 3 * n, from + x->s[0], 6 * side);
            for (size_t at = 3 * n + 6 * side; at < r->stride; at++)
                assert_int_equal(to[at], 0);
        }
    }
    mem_free(codes);
    store_close(s);
    struct err e = {0};
    assert_ok(aid_verify(dir, &e), e);
}

static void test_bytes(void **state)
{
    struct lowbit_report r;
    struct err e = {0};
    (void)state;
    assert_ok(make(false, &r, &e), e);
    assert_true(r.made[3] && r.made[2]);
    assert_whole();
    assert_ok(make(false, &r, &e), e); /* they are there */
    assert_false(r.made[3] || r.made[2]);
    assert_int_equal(r.written_bytes, 0);
    assert_ok(make(true, &r, &e), e);
    assert_true(r.made[3] && r.made[2]);
    assert_whole();
}

/* Nothing, or a whole copy: what manifestN.json says is never a lie. */
static void assert_honest(void)
{
    struct store *s = open_store();
    struct err e = {0};
    for (int bits = 2; bits <= 3; bits++)
        if (!s->records[bits].present && s->records[bits].why.code != E_NOTFOUND)
            fail_msg("%d bits: %s", bits, s->records[bits].why.msg);
    store_close(s);
    assert_ok(aid_verify(dir, &e), e);
}

/* A byte behind the last record of a copy was not noticed. */
static void test_longer(void **state)
{
    struct lowbit_report r;
    struct err e = {0};
    (void)state;
    assert_ok(make(false, &r, &e), e);
    for (int bits = 2; bits <= 3; bits++) {
        struct store *s = open_store();
        const char *path = aid_path(dir, records_file(bits));
        const off_t size = (off_t)s->records[bits].map.size;
        store_close(s);
        assert_int_equal(truncate(path, size + 1), 0);
        assert_int_equal(aid_verify(dir, &e), -E_DIFFER);
        assert_int_equal(truncate(path, size), 0);
        err_clear(&e);
        assert_ok(aid_verify(dir, &e), e);
    }
}

static void fail_until_done(enum file_fault kind, int code)
{
    long n = 1, attempts = 0;
    for (;; n += 1 + n / 8, attempts++) {
        struct err e = {0};
        file_fault_at(kind, n);
        int rc = make(true, NULL, &e);
        file_fault_at(kind, 0);
        if (!rc)
            break;
        if (e.code != code)
            fail_msg("fault at %ld: code %d, want %d: %s", n, e.code, code, e.msg);
        assert_honest();
    }
    printf("note: %ld attempts failed\n", attempts);
    assert_true(attempts > 1);
    assert_whole();
}

static void test_faults(void **state)
{
    (void)state;
    fail_until_done(FILE_FAULT_WRITE, E_SPACE);
    fail_until_done(FILE_FAULT_SYNC, E_IO);
    fail_until_done(FILE_FAULT_RENAME, E_IO);
    fail_until_done(FILE_FAULT_READ, E_IO);
}

static void test_memory_faults(void **state)
{
    (void)state;
    for (long n = 1;; n += 1 + n / 16) {
        struct err e = {0};
        mem_fail_at(n);
        int rc = make(true, NULL, &e);
        mem_fail_at(0);
        if (!rc)
            break;
        if (e.code != E_NOMEM)
            fail_msg("allocation %ld: code %d: %s", n, e.code, e.msg);
        assert_honest();
    }
    assert_whole();
}

static void test_interrupt(void **state)
{
    struct err e = {0};
    (void)state;
    interrupt_set(true);
    assert_int_equal(make(true, NULL, &e), -E_INTERRUPTED);
    interrupt_set(false);
    assert_false(aid_has(dir, "manifest3.json") || aid_has(dir, "experts3.bin"));
    make_ok();
    assert_whole();
}

/* Killed before its nth write, sync or rename, for n up to a run that is not reached by any. */
static void test_kills(void **state)
{
    int kills = 0, status = 0;
    (void)state;
    for (long n = 1;; n += 1 + n / 16, kills++) {
        fflush(NULL);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            struct err mine = {0};
            file_fault_at(FILE_FAULT_KILL, n);
            _exit(make(true, NULL, &mine) ? 1 : 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_honest();
        if (WIFEXITED(status))
            break;
        assert_int_equal(WTERMSIG(status), SIGKILL);
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    printf("note: killed at %d places\n", kills);
    assert_true(kills > 8);
    assert_whole();
}

static void run_program(const char *const *argv, int status, const char *out, const char *err)
{
    struct aid_output o;
    aid_run(argv, NULL, &o);
    if (o.status != status || !strstr(buf_str(&o.out), out) || !strstr(buf_str(&o.err), err))
        fail_msg("%s %s: status %d, want %d, '%s' and '%s': %s%s", argv[1], argv[2], o.status,
                 status, out, err, buf_str(&o.out), buf_str(&o.err));
    aid_output_free(&o);
}

static void flip(const char *name, uint64_t at)
{
    struct file f;
    struct err e = {0};
    uint8_t byte;
    assert_ok(file_reopen(aid_path(dir, name), &f, &e), e);
    assert_ok(file_read_at(&f, at, &byte, 1, &e), e);
    byte ^= 1;
    assert_ok(file_write_at(&f, at, &byte, 1, &e), e);
    assert_ok(file_close(&f, &e), e);
}

static void test_program(void **state)
{
    const char *other = aid_path(tmp, "other");
    (void)state;
    run_program((const char *[]){"cherenkov", "pack", MICRO, "--output", other, "--experts",
                                 "4,3,2", "--dry-run", NULL},
                0, "experts2.bin", "");
    assert_false(file_exists(other));
    run_program(
        (const char *[]){"cherenkov", "pack", MICRO, "--output", other, "--experts", "4,3", NULL},
        0, "", "experts of 3 bits: made");
    assert_true(aid_has(other, "manifest3.json") && !aid_has(other, "manifest2.json"));
    run_program((const char *[]){"cherenkov", "pack", other, "--experts", "2,3", NULL}, 0, "",
                "experts of 3 bits: are there already");
    assert_true(aid_has(other, "manifest2.json"));
    run_program((const char *[]){"cherenkov", "pack", other, NULL}, 2, "", "--experts 3,2");
    run_program((const char *[]){"cherenkov", "pack", other, "--experts", "3,5", NULL}, 2, "",
                "'3,5'");
    run_program((const char *[]){"cherenkov", "pack", other, "--experts", "3,", NULL}, 2, "",
                "'3,'");
    run_program(
        (const char *[]){"cherenkov", "pack", other, "--experts", "3", "--norms", "raw", NULL}, 2,
        "", "is a store");
    run_program((const char *[]){"cherenkov", "inspect", other, NULL}, 0, "experts3.bin", "");
}

static void test_verify(void **state)
{
    (void)state;
    make_ok();
    flip("experts3.bin", 16384 + 9);
    run_program((const char *[]){"cherenkov", "verify", dir, NULL}, 4,
                "experts3.bin: record layer 0", "1 damaged");
    flip("experts3.bin", 16384 + 9);
    flip("experts2.bin", 3);
    run_program((const char *[]){"cherenkov", "verify", dir, NULL}, 4,
                "experts2.bin: record 0 is not", "1 damaged");
    run_program((const char *[]){"cherenkov", "inspect", dir, NULL}, 0, "record 0 is not", "");
    flip("experts2.bin", 3);
    assert_int_equal(rename(aid_path(dir, "experts.bin"), aid_path(dir, "away")), 0);
    run_program((const char *[]){"cherenkov", "verify", dir, NULL}, 0, "", "0 damaged");
    run_program((const char *[]){"cherenkov", "pack", dir, "--experts", "3", "--force", NULL}, 3,
                "", "experts.bin");
    assert_int_equal(rename(aid_path(dir, "away"), aid_path(dir, "experts.bin")), 0);
    assert_whole();
}

/* Copies of a damaged record would have checksums of their own, and pass for whole. */
static void test_damage(void **state)
{
    struct err e = {0};
    (void)state;
    make_ok();
    flip("experts.bin", 16384 + 9);
    assert_int_equal(make(true, NULL, &e), -E_FORMAT);
    assert_non_null(strstr(e.msg, "experts.bin: record layer 0"));
    assert_non_null(strstr(e.msg, "checksum"));
    assert_false(aid_has(dir, "manifest3.json") || aid_has(dir, "experts3.bin"));
    flip("experts.bin", 16384 + 9);
    make_ok();
    assert_whole();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),     cmocka_unit_test(test_longer),
        cmocka_unit_test(test_faults),    cmocka_unit_test(test_memory_faults),
        cmocka_unit_test(test_interrupt), cmocka_unit_test(test_kills),
        cmocka_unit_test(test_program),   cmocka_unit_test(test_verify),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
