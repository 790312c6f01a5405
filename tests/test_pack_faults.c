/* Packing when something fails: no store appears that is not whole, nothing leaks or hangs, and the
 * same command goes on where it stopped. */
#include "tests/aid_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "store/store.h"
#include "tests/aid_pack.h"

#define MICRO GOLDENS "micro/mlx4"
#define BF16  GOLDENS "micro/bf16"

static char *tmp;   /* of the group */
static char *whole; /* a store of MICRO, to compare with */

static int set_up(void **state)
{
    (void)state;
    tmp = aid_tmpdir();
    whole = file_join(tmp, "whole");
    aid_pack_ok(MICRO, whole, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mem_free(whole);
    aid_rmdir(tmp);
    return 0;
}

static void assert_no_store(const char *dir)
{
    struct err e = {0};
    char *found;
    if (!file_exists(dir))
        return;
    assert_int_equal(store_locate(dir, &found, &e), -E_NOTFOUND);
}

/* Fails operation `kind` at the nth for growing n, in one directory, until packing succeeds: each
 * attempt goes on from the one before. */
static void fail_until_done(enum file_fault kind, const char *source, const char *name, int code)
{
    const char *dir = aid_path(tmp, name);
    long n = 1, step = 1, attempts = 0;
    for (;; n += step, step += 1 + n / 8, attempts++) {
        struct err e = {0};
        file_fault_at(kind, n);
        int rc = aid_pack(source, dir, NULL, NULL, &e);
        file_fault_at(kind, 0);
        if (!rc)
            break;
        if (e.code != code)
            fail_msg("fault at %ld: code %d, want %d: %s", n, e.code, code, e.msg);
        assert_no_store(dir);
    }
    struct err e = {0};
    assert_ok(aid_verify(dir, &e), e);
    aid_same_store(dir, whole);
    printf("note: %s: %ld attempts failed, the last at operation %ld\n", name, attempts, n - step);
    assert_true(attempts > 3);
}

static void test_write_faults(void **state)
{
    (void)state;
    fail_until_done(FILE_FAULT_WRITE, MICRO, "writes", E_SPACE);
    fail_until_done(FILE_FAULT_WRITE, BF16, "writes-bf16", E_SPACE);
}

static void test_sync_faults(void **state)
{
    (void)state;
    fail_until_done(FILE_FAULT_SYNC, MICRO, "syncs", E_IO);
}

static void test_read_faults(void **state)
{
    (void)state;
    fail_until_done(FILE_FAULT_READ, MICRO, "reads", E_IO);
}

/* Every allocation in turn, in growing steps. What a failed one leaves is found by asan. */
static void test_memory_faults(void **state)
{
    (void)state;
    const char *dir = aid_path(tmp, "memory");
    long attempts = 0;
    for (long n = 1;; n += 1 + n / 16, attempts++) {
        struct err e = {0};
        mem_fail_at(n);
        int rc = aid_pack(BF16, dir, NULL, NULL, &e);
        mem_fail_at(0);
        if (!rc)
            break;
        if (e.code != E_NOMEM)
            fail_msg("allocation %ld: code %d: %s", n, e.code, e.msg);
        assert_no_store(dir);
    }
    printf("note: %ld allocations failed\n", attempts);
    aid_same_store(dir, whole);
}

/* A second run keeps what the first wrote, and only what is still as it was written. */
static void test_resume(void **state)
{
    (void)state;
    const char *dir = aid_path(tmp, "resume");
    struct err e = {0};
    struct pack_report r;
    struct file f;
    file_fault_at(FILE_FAULT_WRITE, 500);
    assert_int_equal(aid_pack(MICRO, dir, NULL, NULL, &e), -E_SPACE);
    file_fault_at(FILE_FAULT_WRITE, 0);
    assert_non_null(strstr(e.msg, "goes on from here"));
    assert_true(aid_has(dir, "packing.journal"));
    err_clear(&e);
    /* The largest tensors are written first; these bytes are inside the first of them. */
    assert_ok(file_reopen(aid_path(dir, "dense.bin"), &f, &e), e);
    assert_ok(file_write_at(&f, 300000, "overwritten by somebody", 23, &e), e);
    assert_ok(file_close(&f, &e), e);
    assert_ok(aid_pack(MICRO, dir, NULL, &r, &e), e);
    printf("note: the second run wrote %llu of %llu bytes\n", (unsigned long long)r.written_bytes,
           (unsigned long long)r.store_bytes);
    assert_true(r.written_bytes > 0 && r.written_bytes < r.store_bytes);
    assert_false(aid_has(dir, "packing.journal"));
    aid_same_store(dir, whole);
}

/* What another source, or other choices, have left is not taken over. */
static void test_resume_other(void **state)
{
    (void)state;
    const char *dir = aid_path(tmp, "resume-other");
    const struct plan_choices raw = {.norms = PLAN_NORMS_RAW};
    struct err e = {0};
    struct pack_report r;
    file_fault_at(FILE_FAULT_WRITE, 500);
    assert_int_equal(aid_pack(MICRO, dir, &raw, NULL, &e), -E_SPACE);
    file_fault_at(FILE_FAULT_WRITE, 0);
    err_clear(&e);
    assert_ok(aid_pack(MICRO, dir, NULL, &r, &e), e);
    assert_int_equal(r.written_bytes, r.store_bytes);
    aid_same_store(dir, whole);
}

/* A kill between the manifest and the end leaves a journal beside a whole store. */
static void test_leftover_journal(void **state)
{
    (void)state;
    const char *dir = aid_path(tmp, "leftover");
    struct err e = {0};
    struct pack_report r;
    aid_pack_ok(MICRO, dir, NULL);
    aid_write(aid_path(dir, "packing.journal"), "x", 1);
    assert_ok(aid_pack(MICRO, dir, NULL, &r, &e), e);
    assert_true(r.reused);
    assert_false(aid_has(dir, "packing.journal"));
}

static void test_interrupt(void **state)
{
    (void)state;
    const char *dir = aid_path(tmp, "interrupt");
    struct err e = {0};
    interrupt_set(true);
    assert_int_equal(aid_pack(MICRO, dir, NULL, NULL, &e), -E_INTERRUPTED);
    interrupt_set(false);
    assert_no_store(dir);
    aid_pack_ok(MICRO, dir, NULL);
    aid_same_store(dir, whole);
}

/* Runs a shell command, which must fail saying `says`, and leave no store in dir. */
static void fails_in_shell(const char *command, const char *dir, const char *says)
{
    const char *const argv[] = {"sh", "-c", command, NULL};
    struct aid_output o;
    aid_run(argv, NULL, &o);
    if (o.status != 1 || !strstr(buf_str(&o.err), says))
        fail_msg("%s: status %d, want 1 and '%s': %s", command, o.status, says, buf_str(&o.err));
    assert_no_store(dir);
    aid_output_free(&o);
}

static void test_size_limit(void **state)
{
    (void)state;
    char command[1500];
    const char *dir = aid_path(tmp, "limit");
    snprintf(command, sizeof command, "ulimit -f 600; exec %s pack %s --output %s", aid_program(),
             MICRO, dir);
    fails_in_shell(command, dir, "File too large");
    aid_pack_ok(MICRO, dir, NULL);
    aid_same_store(dir, whole);
}

/* As another user, since nothing is read-only for root; and from a copy of the source, since the
 * project may lie in a folder that only root may enter. */
static void test_read_only(void **state)
{
    (void)state;
    struct err e = {0};
    const char *above = aid_path(tmp, "read-only"), *dir = aid_path(above, "store");
    const char *source = aid_path(tmp, "source");
    struct aid_output o;
    aid_run((const char *[]){"cp", "-r", MICRO, source, NULL}, NULL, &o);
    assert_int_equal(o.status, 0);
    aid_output_free(&o);
    assert_ok(file_make_dir(above, &e), e);
    assert_int_equal(chmod(above, 0555), 0);
    assert_int_equal(chmod(tmp, 0755), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (geteuid() == 0 && (setgid(65534) || setuid(65534)))
            _exit(3);
        int rc = aid_pack(source, dir, NULL, NULL, &e);
        _exit(rc == -E_IO && strstr(e.msg, "Permission denied") && strstr(e.msg, dir) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_false(file_exists(dir));
}

/* A file where a folder is wanted, and a source that loses its end while it is packed. */
static void test_bad_places(void **state)
{
    (void)state;
    struct err e = {0};
    aid_write(aid_path(tmp, "a-file"), "x", 1);
    assert_true(aid_pack(MICRO, aid_path(tmp, "a-file"), NULL, NULL, &e) < 0);
    assert_non_null(strstr(e.msg, "a-file"));
    err_clear(&e);
    assert_true(aid_pack(MICRO, aid_path(tmp, "no/such/parent"), NULL, NULL, &e) < 0);
    assert_non_null(strstr(e.msg, "no/such"));
}

static void test_cut_source(void **state)
{
    (void)state;
    static const char shard[] = "model.safetensors";
    const char *source = aid_path(tmp, "cut"), *dir = aid_path(tmp, "cut-store");
    const struct plan_choices plain = {.norms = PLAN_NORMS_DETECT};
    const struct pack_options o = {.output = dir};
    struct pack_report r;
    struct err e = {0};
    struct plan *p;
    struct buf text = BUF_INIT;
    assert_ok(file_make_dir(source, &e), e);
    static const char *const names[] = {"model.safetensors", "config.json"};
    for (int i = 0; i < 2; i++) {
        buf_clear(&text);
        assert_ok(file_read_all(aid_path(GOLDENS "v-hc2/mlx4", names[i]), 1 << 26, &text, &e), e);
        aid_write(aid_path(source, names[i]), text.data, text.len);
    }
    assert_ok(plan_open(source, &plain, &p, &e), e);
    assert_int_equal(truncate(aid_path(source, shard), 700000), 0);
    assert_int_equal(pack_run(p, &o, &r, &e), -E_FORMAT);
    assert_non_null(strstr(e.msg, "is it complete?"));
    assert_no_store(dir);
    plan_close(p);
    err_clear(&e);
    assert_int_equal(plan_open(source, &plain, &p, &e), -E_FORMAT);
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_write_faults),     cmocka_unit_test(test_sync_faults),
        cmocka_unit_test(test_read_faults),      cmocka_unit_test(test_memory_faults),
        cmocka_unit_test(test_resume),           cmocka_unit_test(test_resume_other),
        cmocka_unit_test(test_leftover_journal), cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_size_limit),       cmocka_unit_test(test_read_only),
        cmocka_unit_test(test_bad_places),       cmocka_unit_test(test_cut_source),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
