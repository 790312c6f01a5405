/* Memory straight from the system and files opened past the page cache: alignment, zeros, and what
 * is said when something is refused. */
#include "tests/aid_test.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/os.h"

static void test_pages(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 4096, OS_PAGES_ALIGN, OS_PAGES_ALIGN + 1, 9999999};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct os_pages p;
        struct err e = {0};
        assert_ok(os_pages_take(sizes[i], &p, &e), e);
        assert_int_equal((uintptr_t)p.data % OS_PAGES_ALIGN, 0);
        assert_true(p.bytes >= sizes[i] && p.bytes - sizes[i] < OS_PAGES_ALIGN);
        assert_int_equal(p.bytes % OS_PAGES_ALIGN, 0);
        assert_true(p.data[0] == 0 && p.data[p.bytes - 1] == 0);
        p.data[0] = p.data[p.bytes - 1] = 1;
        assert_int_equal(p.why_not[0] == '\0', p.huge && p.locked);
        os_pages_free(&p);
        assert_null(p.data);
        os_pages_free(&p);
    }
}

static void test_none_and_too_many(void **state)
{
    (void)state;
    struct os_pages p;
    struct err e = {0};
    assert_ok(os_pages_take(0, &p, &e), e);
    assert_null(p.data);
    os_pages_free(&p);
    assert_int_equal(os_pages_take(SIZE_MAX - 1, &p, &e), -E_NOMEM);
    err_clear(&e);
    assert_int_equal(os_pages_take(SIZE_MAX / 4, &p, &e), -E_NOMEM);
    assert_null(p.data);
}

/* A process that may lock nothing gets its memory all the same, and is told. In a child, because a
 * limit that was lowered stays so; as another user, because root's locks have no limit. */
static void test_a_lock_refused(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        struct os_pages p;
        struct err e = {0};
        const struct rlimit none = {0, 0};
        bool low = setrlimit(RLIMIT_MEMLOCK, &none) == 0 && (getuid() || setuid(65534) == 0);
        int rc = low ? os_pages_take(4096, &p, &e) : -1;
        _exit(rc == 0 && !p.locked && strstr(p.why_not, "cannot be locked") ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_direct_files(void **state)
{
    (void)state;
    struct err e = {0};
    int fd;
    bool direct;
    char *dir = aid_tmpdir(), *path = file_join(dir, "f");
    void *to = mem_aligned(4096, 4096);
    assert_true(path && to);
    aid_write(path, "hello", 5);
    assert_ok(os_open_direct(path, &fd, &direct, &e), e);
    assert_int_equal(pread(fd, to, 4096, 0), 5);
    assert_memory_equal(to, "hello", 5);
    printf("note: %s takes %s reads\n", dir, direct ? "direct" : "ordinary");
    os_close(fd);
    os_close(-1);
    assert_int_equal(os_open_direct("build/nothing", &fd, &direct, &e), -E_NOTFOUND);
    assert_non_null(strstr(e.msg, "build/nothing"));
    mem_free(to);
    mem_free(path);
    aid_rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_none_and_too_many),
        cmocka_unit_test(test_a_lock_refused),
        cmocka_unit_test(test_direct_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
