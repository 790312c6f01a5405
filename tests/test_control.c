/* Where control sockets are: the folder is the user's alone, a live socket is left alone, a dead
 * one is replaced; and what programs make of answers. */
#include "tests/aid_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/remote.h"
#include "server/control.h"

/* The default folder is below this for the time of a test. */
static char *place;

static int setup(void **state)
{
    (void)state;
    place = aid_tmpdir();
    setenv("XDG_RUNTIME_DIR", place, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unsetenv("XDG_RUNTIME_DIR");
    aid_rmdir(place);
    return 0;
}

static unsigned mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return (unsigned)st.st_mode & 07777;
}

static int listen_ok(const char *path, struct buf *where)
{
    struct err e = {0};
    int fd = -1;
    buf_clear(where);
    assert_ok(control_listen(path, where, &fd, &e), e);
    return fd;
}

static void listen_fails(const char *path, int code, const char *words)
{
    struct err e = {0};
    struct buf where = BUF_INIT;
    int fd;
    assert_int_equal(control_listen(path, &where, &fd, &e), -code);
    if (!strstr(e.msg, words))
        fail_msg("%s; want %s", e.msg, words);
    buf_free(&where);
}

static void test_the_folder_is_ones_own(void **state)
{
    struct buf where = BUF_INIT, folder = BUF_INIT, want = BUF_INIT;
    (void)state;
    const int fd = listen_ok(NULL, &where);
    control_folder(&folder);
    buf_printf(&want, "%s/cherenkov/%d.sock", place, (int)getpid());
    assert_string_equal(buf_str(&where), buf_str(&want));
    assert_int_equal(mode_of(buf_str(&folder)), 0700);
    assert_int_equal(mode_of(buf_str(&where)), 0600);
    close(fd);
    chmod(buf_str(&folder), 0750);
    listen_fails(NULL, E_ARG, "nobody else may enter (mode 0700), found one of user");
    rmdir(buf_str(&folder));
    buf_free(&where);
    buf_free(&folder);
    buf_free(&want);
}

static void test_without_a_runtime_folder(void **state)
{
    struct buf folder = BUF_INIT;
    char want[64];
    (void)state;
    unsetenv("XDG_RUNTIME_DIR");
    control_folder(&folder);
    snprintf(want, sizeof want, "/tmp/cherenkov-%u", (unsigned)geteuid());
    assert_string_equal(buf_str(&folder), want);
    buf_free(&folder);
}

static void test_a_link_is_no_folder(void **state)
{
    char *link = file_join(place, "cherenkov"), *real = file_join(place, "real");
    (void)state;
    assert_int_equal(mkdir(real, 0700) || symlink(real, link), 0);
    listen_fails(NULL, E_ARG, "found something else of user");
    mem_free(link);
    mem_free(real);
}

static void test_dead_sockets_go_and_live_ones_stay(void **state)
{
    struct buf where = BUF_INIT, other = BUF_INIT;
    (void)state;
    char *dir = file_join(place, "cherenkov"), *dead = file_join(dir, "1.sock"),
         *plain = file_join(dir, "note.txt");
    const int gone = listen_ok(NULL, &where); /* makes the folder */
    close(listen_ok(dead, &other));           /* a server that ended without a word */
    aid_write(plain, "x", 1);
    assert_true(control_is_live(buf_str(&where)) && !control_is_live(dead));
    listen_fails(NULL, E_IO, "another server listens there");
    assert_false(file_exists(dead));
    assert_true(file_exists(plain) && control_is_live(buf_str(&where)));
    close(gone);
    const int again = listen_ok(NULL, &where); /* the same name: replaced */
    assert_true(control_is_live(buf_str(&where)));
    close(again);
    buf_free(&where);
    buf_free(&other);
    mem_free(plain);
    mem_free(dead);
    mem_free(dir);
}

static void test_what_is_no_socket_stays(void **state)
{
    (void)state;
    chmod(place, 0700);
    char *path = file_join(place, "file");
    aid_write(path, "x", 1);
    listen_fails(path, E_IO, "cannot listen there");
    assert_true(file_exists(path));
    mem_free(path);
}

static void find_fails(const char *socket, int code, const char *words)
{
    struct buf out = BUF_INIT;
    struct err e = {0};
    assert_int_equal(remote_find(socket, &out, &e), -code);
    if (!strstr(e.msg, words))
        fail_msg("%s; want %s", e.msg, words);
    buf_free(&out);
}

static void test_finding_a_server(void **state)
{
    struct buf where = BUF_INIT, found = BUF_INIT;
    struct err e = {0};
    char name[32];
    (void)state;
    find_fails(NULL, E_NOTFOUND, "no server of this user runs here");
    find_fails("", E_ARG, "--socket: want the path of a server's socket or the server's PID");
    const int fd = listen_ok(NULL, &where);
    assert_ok(remote_find(NULL, &found, &e), e);
    assert_string_equal(buf_str(&found), buf_str(&where));
    buf_clear(&found);
    snprintf(name, sizeof name, "%d", (int)getpid());
    assert_ok(remote_find(name, &found, &e), e);
    assert_string_equal(buf_str(&found), buf_str(&where));
    buf_clear(&found);
    assert_ok(remote_find("./x", &found, &e), e);
    assert_string_equal(buf_str(&found), "./x");
    close(fd);
    find_fails(NULL, E_NOTFOUND, "start one with `cherenkov serve STORE`");
    buf_free(&where);
    buf_free(&found);
}

/* A server that takes connections and says nothing. */
static void test_a_server_that_does_not_answer(void **state)
{
    struct buf where = BUF_INIT;
    struct err e = {0};
    json_t *v = NULL;
    (void)state;
    const int fd = listen_ok(NULL, &where);
    assert_int_equal(remote_ask(buf_str(&where), "GET", "/v1/stats", &v, &e), -E_IO);
    assert_non_null(strstr(e.msg, "has not answered within 2 s"));
    close(fd);
    err_clear(&e);
    assert_int_equal(remote_ask(buf_str(&where), "GET", "/v1/stats", &v, &e), -E_NOTFOUND);
    buf_free(&where);
}

static void answer_fails(const char *bytes, int code, const char *words)
{
    struct err e = {0};
    json_t *v = NULL;
    assert_int_equal(remote_parse(bytes, strlen(bytes), "sock", &v, &e), -code);
    assert_null(v);
    if (!strstr(e.msg, words))
        fail_msg("%s; want %s", e.msg, words);
}

static void test_answers(void **state)
{
    static const char good[] = "HTTP/1.1 200 OK\r\nContent-Type: x\r\n\r\n{\"a\": 1}";
    struct err e = {0};
    json_t *v = NULL;
    (void)state;
    assert_ok(remote_parse(good, strlen(good), "sock", &v, &e), e);
    assert_int_equal(json_integer_value(json_object_get(v, "a")), 1);
    json_decref(v);
    answer_fails("", E_FORMAT, "want an answer of HTTP");
    answer_fails("HTTP/1.1 200 OK\r\n", E_FORMAT, "want an answer of HTTP");
    answer_fails("HTTP/1.1 2x0 OK\r\n\r\n{}", E_FORMAT, "want an answer of HTTP");
    answer_fails("HTTP/1.1 200 OK\r\n\r\n{", E_FORMAT, "not valid JSON");
    answer_fails("HTTP/1.1 200 OK\r\n\r\n[]", E_FORMAT, "want a JSON object");
    answer_fails("HTTP/1.1 404 No\r\n\r\n{\"error\": {\"message\": \"no layer\"}}", E_NOTFOUND,
                 "the server says 404: no layer");
    answer_fails("HTTP/1.1 503 Busy\r\n\r\n{}", E_BUSY, "503: and not why");
    answer_fails("HTTP/1.1 403 No\r\n\r\n{}", E_ARG, "403");
    answer_fails("HTTP/1.1 500 No\r\n\r\n{}", E_IO, "500");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_folder_is_ones_own),        TEST(test_without_a_runtime_folder),
        TEST(test_a_link_is_no_folder),           TEST(test_dead_sockets_go_and_live_ones_stay),
        TEST(test_what_is_no_socket_stays),       TEST(test_finding_a_server),
        TEST(test_a_server_that_does_not_answer), TEST(test_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
