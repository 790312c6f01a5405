/* file: short counts, signals, faults at every step of a replace, sizes, kinds of path. */
#include "tests/aid_test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "base/os.h"

struct room {
    char *dir, *path; /* path: dir/f */
};

static struct room room_open(void)
{
    char *dir = aid_tmpdir();
    return (struct room){dir, file_join(dir, "f")};
}

static void room_close(struct room *r)
{
    for (int k = 0; k < FILE_FAULT_COUNT; k++)
        file_fault_at(k, 0);
    mem_free(r->path);
    aid_rmdir(r->dir);
}

static void assert_contents(const char *path, const char *want)
{
    struct err e = {0};
    struct buf b = BUF_INIT;
    assert_ok(file_read_all(path, 1 << 20, &b, &e), e);
    assert_string_equal(buf_str(&b), want);
    buf_free(&b);
}

static void test_read_and_write(void **state)
{
    (void)state;
    struct err e = {0};
    struct room r = room_open();
    struct file f;
    char back[8] = "";
    assert_ok(file_create(r.path, &f, &e), e);
    assert_ok(file_write_at(&f, 4, "5678", 4, &e), e);
    assert_ok(file_write_at(&f, 0, "1234", 4, &e), e);
    assert_ok(file_sync(&f, &e), e);
    assert_ok(file_close(&f, &e), e);
    assert_ok(file_close(&f, &e), e); /* twice is fine */
    assert_ok(file_open(r.path, &f, &e), e);
    assert_int_equal(f.size, 8);
    assert_ok(file_read_at(&f, 2, back, 4, &e), e);
    assert_memory_equal(back, "3456", 4);
    assert_int_equal(file_read_at(&f, 6, back, 4, &e), -E_FORMAT);
    assert_non_null(strstr(e.msg, "ends at byte 8"));
    file_drop(&f);
    err_clear(&e);
    assert_ok(file_reopen(r.path, &f, &e), e); /* keeps what is there */
    assert_int_equal(f.size, 8);
    file_drop(&f);
    room_close(&r);
}

/* One byte a call, each call first interrupted: the result is the same. */
static void test_short_counts_and_signals(void **state)
{
    (void)state;
    struct err e = {0};
    struct room r = room_open();
    struct file f;
    char back[101] = "", text[101];
    memset(text, 'a', 100);
    text[100] = '\0';
    assert_ok(file_create(r.path, &f, &e), e);
    file_fault_at(FILE_FAULT_SHORT, 3);
    file_fault_at(FILE_FAULT_INTR, 2);
    assert_ok(file_write_at(&f, 0, text, 100, &e), e);
    file_fault_at(FILE_FAULT_INTR, 5);
    assert_ok(file_read_at(&f, 0, back, 100, &e), e);
    file_fault_at(FILE_FAULT_SHORT, 0);
    assert_string_equal(back, text);
    file_drop(&f);
    assert_contents(r.path, text);
    room_close(&r);
}

static void test_faults_are_reported(void **state)
{
    (void)state;
    struct err e = {0};
    struct room r = room_open();
    struct file f;
    char back[4];
    assert_ok(file_create(r.path, &f, &e), e);
    assert_ok(file_write_at(&f, 0, "1234", 4, &e), e);
    file_fault_at(FILE_FAULT_READ, 2);
    assert_ok(file_read_at(&f, 0, back, 4, &e), e);
    assert_int_equal(file_read_at(&f, 0, back, 4, &e), -E_IO);
    assert_non_null(strstr(e.msg, strerror(EIO)));
    assert_non_null(strstr(e.msg, r.path));
    err_clear(&e);
    assert_ok(file_read_at(&f, 0, back, 4, &e), e); /* one fault, then it works again */
    file_fault_at(FILE_FAULT_WRITE, 1);
    assert_int_equal(file_write_at(&f, 0, "x", 1, &e), -E_SPACE);
    err_clear(&e);
    assert_int_equal(file_write_at(&f, 0, "x", 1, &e), -E_SPACE); /* a full disk stays full */
    err_clear(&e);
    file_fault_at(FILE_FAULT_WRITE, 0);
    file_fault_at(FILE_FAULT_SYNC, 1);
    assert_int_equal(file_sync(&f, &e), -E_IO);
    file_drop(&f);
    room_close(&r);
}

static const enum file_fault replace_faults[] = {FILE_FAULT_WRITE, FILE_FAULT_SYNC,
                                                 FILE_FAULT_RENAME};

/* Whatever fails, the old contents are whole (or, once the rename is done, the new ones), and no
 * temporary file is left. */
static void test_replace_survives_each_fault(void **state)
{
    (void)state;
    struct room r = room_open();
    char *tmp = file_join(r.dir, "f.tmp");
    int failures = 0;
    for (size_t k = 0; k < sizeof replace_faults / sizeof replace_faults[0]; k++) {
        for (int nth = 1; nth < 9; nth++) {
            struct err e = {0};
            assert_ok(file_replace(r.path, "old", 3, &e), e);
            file_fault_at(replace_faults[k], nth);
            file_fault_at(FILE_FAULT_SHORT, 1);
            int rc = file_replace(r.path, "new", 3, &e);
            file_fault_at(replace_faults[k], 0);
            file_fault_at(FILE_FAULT_SHORT, 0);
            bool renamed = rc == 0 || (replace_faults[k] == FILE_FAULT_SYNC && nth == 2);
            assert_contents(r.path, renamed ? "new" : "old");
            assert_false(file_exists(tmp));
            failures += rc != 0;
        }
    }
    assert_int_equal(failures, 3 + 2 + 1); /* three bytes, two syncs, one rename */
    mem_free(tmp);
    room_close(&r);
}

/* What is no ordinary file is not turned into one, whoever may do that. */
static void test_replace_keeps_devices(void **state)
{
    (void)state;
    struct room r = room_open();
    struct err e = {0};
    struct stat st;
    assert_int_equal(mkfifo(r.path, 0600), 0);
    assert_int_equal(file_replace(r.path, "new", 3, &e), -E_ARG);
    assert_non_null(strstr(e.msg, "no ordinary file"));
    assert_true(stat(r.path, &st) == 0 && S_ISFIFO(st.st_mode));
    assert_int_equal(file_replace(r.dir, "new", 3, &e), -E_ARG);
    assert_true(file_is_dir(r.dir));
    room_close(&r);
}

static void test_replace_without_memory(void **state)
{
    (void)state;
    struct room r = room_open();
    struct err e = {0};
    int nth = 1, rc = -1;
    assert_ok(file_replace(r.path, "old", 3, &e), e);
    for (; rc; nth++) {
        err_clear(&e);
        assert_contents(r.path, "old");
        mem_fail_at(nth);
        rc = file_replace(r.path, "new", 3, &e);
        mem_fail_at(0);
        assert_true(rc == 0 || rc == -E_NOMEM);
    }
    assert_true(nth > 3);
    assert_contents(r.path, "new");
    room_close(&r);
}

static void test_kinds_of_path(void **state)
{
    (void)state;
    struct room r = room_open();
    struct file f;
    struct map m;
    struct buf b = BUF_INIT;
    struct err e = {0};
    assert_int_equal(file_open(r.path, &f, &e), -E_NOTFOUND);
    assert_int_equal(f.fd, -1);
    err_clear(&e);
    assert_int_equal(file_open(r.dir, &f, &e), -E_FORMAT);
    assert_non_null(strstr(e.msg, "a directory"));
    err_clear(&e);
    assert_int_equal(mkfifo(r.path, 0600), 0); /* must not wait for a writer */
    assert_int_equal(file_open(r.path, &f, &e), -E_FORMAT);
    err_clear(&e);
    assert_int_equal(map_open(r.path, &m, &e), -E_FORMAT);
    err_clear(&e);
    assert_ok(file_remove(r.path, &e), e);
    assert_ok(file_remove(r.path, &e), e); /* missing is fine */
    aid_write(r.path, "12345", 5);
    assert_int_equal(file_read_all(r.path, 4, &b, &e), -E_LIMIT);
    assert_int_equal(b.len, 0);
    err_clear(&e);
    assert_int_equal(file_make_dir(r.path, &e), -E_ARG); /* there is a file of that name */
    err_clear(&e);
    assert_ok(file_make_dir(r.dir, &e), e);
    assert_true(file_is_dir(r.dir));
    assert_false(file_is_dir(r.path));
    buf_free(&b);
    room_close(&r);
}

static void test_maps(void **state)
{
    (void)state;
    struct room r = room_open();
    struct map m;
    struct err e = {0};
    aid_write(r.path, "", 0);
    assert_ok(map_open(r.path, &m, &e), e);
    assert_null(m.data);
    map_close(&m);
    aid_write(r.path, "abc", 3);
    assert_ok(map_open(r.path, &m, &e), e);
    assert_int_equal(m.size, 3);
    assert_memory_equal(m.data, "abc", 3);
    map_close(&m);
    map_close(&m);
    room_close(&r);
}

static void test_joins(void **state)
{
    (void)state;
    static const struct {
        const char *dir, *name, *want;
    } cases[] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"a//", "b", "a/b"},
                 {"/", "b", "/b"},  {"", "b", "b"},     {"a/b", "c/d", "a/b/c/d"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *p = file_join(cases[i].dir, cases[i].name);
        assert_string_equal(p, cases[i].want);
        mem_free(p);
    }
    struct room r = room_open();
    struct err e = {0};
    char *dots = file_join(r.dir, "../."), *real = file_canonical(dots, &e);
    assert_non_null(real);
    assert_null(strstr(real, ".."));
    mem_free(real);
    mem_free(dots);
    assert_null(file_canonical(r.path, &e));
    assert_int_equal(e.code, E_NOTFOUND);
    room_close(&r);
}

static void test_os_figures(void **state)
{
    (void)state;
    struct err e = {0};
    uint64_t bytes = 0;
    assert_true(os_cpu_count() >= 1);
    assert_true(os_memory_total() > 64u << 20);
    assert_true(os_memory_limit() <= os_memory_total() && os_memory_limit() > 0);
    assert_true(os_rss_bytes() > 0 && os_rss_bytes() < os_memory_total());
    assert_true(os_rss_peak_bytes() >= os_rss_bytes() / 2);
    assert_ok(os_disk_free("/tmp", &bytes, &e), e);
    assert_int_equal(os_disk_free("/no/such/place", &bytes, &e), -E_NOTFOUND);
    assert_int_equal(os_terminal_width(-1), 80);
    assert_false(os_is_terminal(-1));
}

/* A wait for input ends by input, by a stop asked for before it, and by one that comes. */
static void test_waits_for_input(void **state)
{
    (void)state;
    int fd[2], status;
    assert_int_equal(pipe(fd), 0);
    interrupt_catch_always();
    assert_int_equal(write(fd[1], "x", 1), 1);
    assert_true(interrupt_wait_readable(fd[0]));
    assert_int_equal(raise(SIGINT), 0);
    assert_false(interrupt_wait_readable(fd[0]));
    interrupt_set(false);
    char byte;
    assert_int_equal(read(fd[0], &byte, 1), 1);
    const pid_t child = fork();
    if (child == 0) {
        usleep(20000);
        _exit(kill(getppid(), SIGINT));
    }
    assert_false(interrupt_wait_readable(fd[0]));
    assert_int_equal(waitpid(child, &status, 0), child);
    interrupt_set(false);
    close(fd[1]);
    assert_true(interrupt_wait_readable(fd[0])); /* ended */
    close(fd[0]);
}

/* Runs what raises signals in a process of its own: its exit status, or 128 and the signal. */
static int status_of(void (*run)(void))
{
    int status;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGINT, SIG_IGN);
        signal(SIGHUP, SIG_IGN);
        run();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void command_with_ignored_signals(void)
{
    interrupt_catch();
    interrupt_catch_always();
    raise(SIGINT);
    raise(SIGHUP);
    if (interrupt_asked())
        _exit(1);
    raise(SIGTERM);
    if (!interrupt_final())
        _exit(2);
}

static void service_with_ignored_signals(void)
{
    interrupt_catch_service();
    raise(SIGINT);
    raise(SIGHUP);
    if (interrupt_asked() || interrupt_wait() != INTERRUPT_RELOAD)
        _exit(1);
    raise(SIGTERM);
    if (interrupt_wait() != INTERRUPT_STOP)
        _exit(2);
    raise(SIGINT); /* nor does it end what stops */
    raise(SIGTERM);
}

/* A job that a script put in the background has SIGINT ignored, under nohup SIGHUP too: a Ctrl-C
 * at the terminal, meant for another program, ended the job. */
static void test_ignored_signals_stay_ignored(void **state)
{
    (void)state;
    assert_int_equal(status_of(command_with_ignored_signals), 0);
    assert_int_equal(status_of(service_with_ignored_signals), 128 + SIGTERM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_and_write),
        cmocka_unit_test(test_short_counts_and_signals),
        cmocka_unit_test(test_faults_are_reported),
        cmocka_unit_test(test_replace_survives_each_fault),
        cmocka_unit_test(test_replace_keeps_devices),
        cmocka_unit_test(test_replace_without_memory),
        cmocka_unit_test(test_kinds_of_path),
        cmocka_unit_test(test_maps),
        cmocka_unit_test(test_joins),
        cmocka_unit_test(test_os_figures),
        cmocka_unit_test(test_waits_for_input),
        cmocka_unit_test(test_ignored_signals_stay_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
