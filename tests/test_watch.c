/* The commands that watch a server, as programs, on a running one: status, stats, and dash in a
 * pseudo terminal; who may connect; two servers; a server that goes away. */
#include "tests/aid_serve.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "server/control.h"
#include "tests/aid_demo.h"
#include "tests/aid_terminal.h"

static char *model, *store, *place;
static struct aid_server server;

static int setup(void **state)
{
    (void)state;
    model = aid_demo_pack();
    store = file_join(model, "packed");
    place = aid_tmpdir();
    setenv("XDG_RUNTIME_DIR", place, 1);
    aid_serve_control = true;
    unsetenv("NO_COLOR");
    aid_serve(&server, store, (const char *const[]){"--pool-slots", "70", NULL});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mem_free(store);
    aid_rmdir(model);
    aid_rmdir(place);
    return 0;
}

static void run(const char *const *argv, int status, const char *words)
{
    struct aid_output o;
    aid_run(argv, NULL, &o);
    if (o.status != status || !strstr(buf_str(status ? &o.err : &o.out), words))
        fail_msg("%s: status %d, want %d and '%s':\n%s%s", argv[1], o.status, status, words,
                 buf_str(&o.out), buf_str(&o.err));
    aid_output_free(&o);
}

#define RUN(status, words, ...)                                                                    \
    run((const char *const[]){"cherenkov", __VA_ARGS__, NULL}, status, words)

static void test_status_and_stats(void **state)
{
    char pid[32];
    (void)state;
    json_decref(aid_ask(&server, "/v1/completions",
                        "{'prompt': 'Once upon a time', 'max_tokens': 20}", 200));
    snprintf(pid, sizeof pid, "%d", (int)server.pid);
    RUN(0, "state     ok, up ", "status");
    RUN(0, "20 generated", "status", "--socket", pid);
    RUN(0, "\"object\": \"stats\"", "status", "--json");
    RUN(0, "\nlookahead ", "stats");
    RUN(0, "\ndemand ", "stats", "summary");
    RUN(0, "\n    1 ", "stats", "layers");
    RUN(0, "more: --offset 3)", "stats", "layers", "--offset", "1", "--limit", "2");
    RUN(0, "layer 1\nexpert ", "stats", "experts", "1");
    RUN(0, "\"object\": \"stats.experts\"", "stats", "experts", "1", "--json");
}

static void test_what_is_asked_wrongly(void **state)
{
    (void)state;
    RUN(2, "there is no view 'x'", "stats", "x");
    RUN(2, "experts wants the number of a layer", "stats", "experts");
    RUN(2, "'-' is not the number", "stats", "experts", "-");
    RUN(3, "want 0 to 8", "stats", "experts", "99");
    RUN(3, "no server listens there", "status", "--socket", "1");
    RUN(2, "dash wants a terminal", "dash");
}

/* The control socket has no keys, and no more than is for watching. */
static void test_what_the_socket_offers(void **state)
{
    struct aid_answer a;
    char address[256];
    (void)state;
    snprintf(address, sizeof address, "unix:%s/cherenkov/%d.sock", place, (int)server.pid);
    aid_http(address, "GET", "/v1/requests", "", NULL, &a);
    assert_int_equal(a.status, 200);
    aid_answer_free(&a);
    aid_http(address, "POST", "/v1/completions", "", "{\"prompt\": \"x\"}", &a);
    assert_int_equal(a.status, 404);
    aid_answer_free(&a);
}

/* Somebody else is refused even where folder and socket were opened up. */
static void test_another_user_is_refused(void **state)
{
    char folder[128], socket[160];
    int status;
    (void)state;
    if (geteuid() != 0)
        skip(); /* to be somebody else takes root */
    snprintf(folder, sizeof folder, "%s/cherenkov", place);
    snprintf(socket, sizeof socket, "%s/%d.sock", folder, (int)server.pid);
    chmod(place, 0755);
    chmod(folder, 0755);
    chmod(socket, 0666);
    const pid_t child = fork();
    if (child == 0) {
        int fd;
        struct err e = {0};
        char answer[512] = "";
        static const char ask[] = "GET /v1/stats HTTP/1.0\r\n\r\n";
        if (setgid(65534) || setuid(65534) || control_connect(socket, &fd, &e))
            _exit(9); /* the path is not open to others here */
        if (write(fd, ask, strlen(ask)) < 0 || read(fd, answer, sizeof answer - 1) < 0)
            _exit(8);
        _exit(strstr(answer, " 403 ") ? 0 : 1);
    }
    waitpid(child, &status, 0);
    chmod(socket, 0600);
    chmod(folder, 0700);
    chmod(place, 0700);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 9)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_two_servers(void **state)
{
    struct aid_server other;
    char pid[32];
    (void)state;
    aid_serve(&other, store, (const char *const[]){"--model-name", "second", NULL});
    RUN(2, "2 servers run here: ", "status");
    RUN(2, " (second, http://127.0.0.1:", "status");
    snprintf(pid, sizeof pid, "%d", (int)other.pid);
    RUN(0, "server    second at ", "status", "--socket", pid);
    assert_int_equal(aid_serve_stop(&other), 0);
    RUN(0, "server    cherenkov at ", "status");
}

static void test_a_socket_of_ones_own_and_none(void **state)
{
    struct aid_server other;
    char path[128];
    (void)state;
    snprintf(path, sizeof path, "%s/own.sock", place);
    aid_serve(&other, store, (const char *const[]){"--control", path, NULL});
    RUN(0, "server    cherenkov at ", "status", "--socket", path);
    RUN(1, "another server listens there", "serve", store, "--control", path, "--listen",
        "127.0.0.1:0");
    assert_int_equal(aid_serve_stop(&other), 0);
    assert_false(file_exists(path));
    aid_serve(&other, store, (const char *const[]){"--control", "none", NULL});
    RUN(0, "server    cherenkov at ", "status"); /* one, not two */
    assert_int_equal(aid_serve_stop(&other), 0);
}

/* --- dash in a terminal --- */

static void open_dash(struct aid_terminal *t, const char *kind)
{
    aid_terminal_open(t, kind, 80, 24, (const char *const[]){"cherenkov", "dash", NULL});
}

/* And nothing that was shown until now counts for what is waited for next. */
static void need(struct aid_terminal *t, const char *text)
{
    aid_terminal_need(t, text);
    t->at = t->out.len;
}

/* It ends with this status, and the terminal is as it was: echo, lines, no other screen. */
static void ends(struct aid_terminal *t, int status)
{
    struct termios mode;
    assert_int_equal(aid_terminal_close(t, &mode), status);
    assert_true((mode.c_lflag & ECHO) && (mode.c_lflag & ICANON) && (mode.c_oflag & OPOST));
}

static bool has_colour(const char *said)
{
    return strstr(said, "\033[36m") != NULL || strstr(said, ";36m") != NULL;
}

static void test_dash_shows_and_quits(void **state)
{
    struct aid_terminal t;
    (void)state;
    open_dash(&t, "xterm-256color");
    need(&t, "Overview");
    aid_terminal_type(&t, "2");
    need(&t, "Details");
    aid_terminal_type(&t, "\r");
    need(&t, "Experts of layer 0");
    aid_terminal_type(&t, "q");
    ends(&t, 0);
    assert_non_null(strstr(buf_str(&t.out), "\033[?1049l")); /* back to the usual screen */
    buf_free(&t.out);
}

static void test_dash_without_colour(void **state)
{
    static const char *const kinds[] = {"vt100", "xterm-256color"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct aid_terminal t;
        setenv("NO_COLOR", "1", 1);
        if (i == 0)
            unsetenv("NO_COLOR"); /* a vt100 has none anyway */
        open_dash(&t, kinds[i]);
        aid_terminal_need(&t, "waits");
        for (int k = 0; k < 25; k++) /* a chart too */
            (void)aid_terminal_read(&t, 100);
        assert_false(has_colour(buf_str(&t.out)));
        aid_terminal_type(&t, "q");
        ends(&t, 0);
        buf_free(&t.out);
    }
    unsetenv("NO_COLOR");
}

static void test_dash_ends_with_signals(void **state)
{
    struct aid_terminal t;
    (void)state;
    open_dash(&t, "xterm");
    need(&t, "Overview");
    aid_terminal_type(&t, "\003"); /* Ctrl-C */
    ends(&t, 0);
    buf_free(&t.out);
    open_dash(&t, "xterm");
    need(&t, "Overview");
    kill(t.pid, SIGTERM);
    ends(&t, 130);
    buf_free(&t.out);
}

static void test_dash_resizes(void **state)
{
    struct aid_terminal t;
    const struct winsize small = {.ws_col = 40, .ws_row = 10}, none = {.ws_col = 1, .ws_row = 1},
                         large = {.ws_col = 200, .ws_row = 60};
    (void)state;
    open_dash(&t, "xterm");
    need(&t, "Requests");
    ioctl(t.fd, TIOCSWINSZ, &small);
    need(&t, "Overview");
    ioctl(t.fd, TIOCSWINSZ, &none);
    while (aid_terminal_read(&t, 500))
        ;
    ioctl(t.fd, TIOCSWINSZ, &large);
    need(&t, "Requests");
    aid_terminal_type(&t, "q");
    ends(&t, 0);
    buf_free(&t.out);
}

/* Where the cursor stays where it is (dumb) the dashboard wrote all its lines over each other. */
static void test_a_terminal_it_cannot_draw_on(void **state)
{
    static const char *const kinds[] = {"no-such-kind", "dumb"};
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct aid_terminal t;
        open_dash(&t, kinds[i]);
        need(&t, "dash cannot draw on this terminal");
        ends(&t, 2);
        buf_free(&t.out);
    }
}

/* The last test: the server ends under a dashboard, which says so and still quits well. */
static void test_dash_outlives_its_server(void **state)
{
    struct aid_terminal t;
    (void)state;
    open_dash(&t, "xterm");
    need(&t, "Overview");
    assert_int_equal(aid_serve_stop(&server), 0);
    need(&t, "STALE");
    aid_terminal_type(&t, "q");
    ends(&t, 0);
    buf_free(&t.out);
    RUN(3, "no server of this user runs here", "status");
    RUN(3, "no server of this user runs here", "dash");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_and_stats),
        cmocka_unit_test(test_what_is_asked_wrongly),
        cmocka_unit_test(test_what_the_socket_offers),
        cmocka_unit_test(test_another_user_is_refused),
        cmocka_unit_test(test_two_servers),
        cmocka_unit_test(test_a_socket_of_ones_own_and_none),
        cmocka_unit_test(test_dash_shows_and_quits),
        cmocka_unit_test(test_dash_without_colour),
        cmocka_unit_test(test_dash_ends_with_signals),
        cmocka_unit_test(test_dash_resizes),
        cmocka_unit_test(test_a_terminal_it_cannot_draw_on),
        cmocka_unit_test(test_dash_outlives_its_server),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
