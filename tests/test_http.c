/* The transport alone, with answers of this file: requests whole and in pieces, limits, streams,
 * clients that are slow or leave, many idle connections, unix sockets. */
#include "tests/aid_http.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/thread.h"
#include "server/http.h"
#include "server/listen.h"

enum { BODY_MAX = 4096, WAITING_MAX = 64 << 10, IDLE_CONNECTIONS = 1000 };

static struct http *http;
static int connections = 1200, request_s = 60;
static struct buf address;
static atomic_int n_gone, n_dropped;
static _Atomic(struct exchange *) kept;

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static void on_gone(void *ctx)
{
    (void)ctx;
    atomic_fetch_add(&n_gone, 1);
}

static void on_drop(void *ctx)
{
    (void)ctx;
    atomic_fetch_add(&n_dropped, 1);
}

static const struct exchange_owner owner = {on_gone, on_drop};

static void handle(void *ctx, struct exchange *x)
{
    const char *path = exchange_path(x);
    struct buf out = BUF_INIT;
    (void)ctx;
    if (strcmp(path, "/keep") == 0 || strcmp(path, "/stream") == 0) {
        if (strcmp(path, "/stream") == 0)
            exchange_stream(x, "text/plain", NULL);
        exchange_attach(x, &owner, NULL);
        exchange_keep(x);
        atomic_store(&kept, x);
        return;
    }
    const struct buf *body = exchange_body(x);
    buf_printf(&out, "%s %s ", exchange_method(x), path);
    buf_add(&out, buf_str(body), body->len);
    exchange_reply(x, 200, "text/plain", &out);
}

static const char *refuse(void *ctx, const struct exchange *x, int status, const char *why,
                          struct buf *out)
{
    (void)ctx;
    (void)x;
    buf_printf(out, "%d %s", status, why);
    return "text/plain";
}

static void start(const char *where)
{
    struct err e = {0};
    struct http_options o = {.connections = connections,
                             .idle_s = 60,
                             .request_s = request_s,
                             .body_max = BODY_MAX,
                             .bodies_max = BODY_MAX * 8,
                             .waiting_max = WAITING_MAX,
                             .cors = "*",
                             .handle = handle,
                             .refuse = refuse};
    assert_ok(listen_open(where, &o.listen_fd, &address, &e), e);
    assert_ok(http_start(&o, &http, &e), e);
}

static void stop(void)
{
    http_stop(http);
    struct exchange *x = atomic_exchange(&kept, NULL);
    if (x)
        exchange_release(x);
    http_free(http);
    buf_free(&address);
}

static int setup(void **state)
{
    (void)state;
    atomic_store(&n_gone, 0);
    atomic_store(&n_dropped, 0);
    start("127.0.0.1:0");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stop();
    return 0;
}

static struct exchange *wait_kept(void)
{
    struct exchange *x = NULL;
    for (int i = 0; i < 5000 && !(x = atomic_exchange(&kept, NULL)); i++)
        pause_ms(1);
    assert_non_null(x);
    return x;
}

static void wait_for(atomic_int *n, int want)
{
    for (int i = 0; i < 5000 && atomic_load(n) < want; i++)
        pause_ms(1);
    assert_int_equal(atomic_load(n), want);
}

static void expect(int fd, int status, const char *body)
{
    struct aid_answer a;
    aid_http_read(fd, &a);
    assert_int_equal(a.status, status);
    assert_string_equal(buf_str(&a.body), body);
    assert_false(a.cut);
    aid_answer_free(&a);
}

static void test_bodies_whole_and_in_chunks_on_one_connection(void **state)
{
    (void)state;
    const int fd = aid_http_connect(buf_str(&address));
    aid_http_send(fd, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
    expect(fd, 200, "POST /a hello");
    aid_http_send(fd, "POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                      "3\r\nabc\r\n4\r\ndefg\r\n");
    pause_ms(20);
    aid_http_send(fd, "0\r\n\r\n");
    expect(fd, 200, "POST /b abcdefg");
    aid_http_send(fd, "GET /c%20d?x=1 HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(fd, 200, "GET /c d ");
    close(fd);
}

static void test_a_body_too_long_is_413(void **state)
{
    struct buf text = BUF_INIT;
    (void)state;
    int fd = aid_http_connect(buf_str(&address));
    aid_http_send(fd, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4097\r\n\r\n");
    expect(fd, 413, "413 the request's body is longer than 4096 bytes");
    close(fd);
    fd = aid_http_connect(buf_str(&address));
    buf_puts(&text, "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1100\r\n");
    for (int i = 0; i < 0x1100; i++)
        buf_putc(&text, 'x');
    buf_puts(&text, "\r\n0\r\n\r\n");
    aid_http_send(fd, buf_str(&text));
    expect(fd, 413, "413 the request's body is longer than 4096 bytes");
    close(fd);
    buf_free(&text);
}

/* It was read on until the client stopped, or for ever: one chunk of 2 GiB that has begun. */
static void test_a_chunk_too_long_is_413_at_once(void **state)
{
    struct buf text = BUF_INIT;
    char c;
    (void)state;
    const int fd = aid_http_connect(buf_str(&address));
    buf_puts(&text,
             "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7fffffff\r\n");
    for (int i = 0; i <= BODY_MAX; i++)
        buf_putc(&text, 'x');
    aid_http_send(fd, buf_str(&text));
    expect(fd, 413, "413 the request's body is longer than 4096 bytes");
    for (int i = 0; i < 4; i++) /* and then not without end */
        aid_http_send(fd, strchr(buf_str(&text), 'x'));
    assert_true(recv(fd, &c, 1, 0) <= 0);
    close(fd);
    buf_free(&text);
}

/* Where two headers say how long a body is, or for whom a request, a proxy may believe one and the
 * server the other. */
static void test_headers_that_contradict_are_refused(void **state)
{
    static const struct {
        const char *headers;
        int status;
    } cases[] = {
        {"Content-Length: 2\r\nContent-Length: 2\r\n", 400},
        {"Content-Length: 0\r\nContent-Length: 2\r\n", 400},
        {"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", 400},
        {"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n", 400},
        {"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400},
        {"Transfer-Encoding: gzip\r\n", 501},
        {"Transfer-Encoding: gzip, chunked\r\n", 501},
        {"Transfer-Encoding:\r\n", 501},
        {"Host: y\r\n", 400},
        {"Content-Encoding: identity\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n", 415},
        {"Content-Encoding: identity\r\nTransfer-Encoding: gzip\r\n", 501},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct aid_answer a;
        struct buf text = BUF_INIT;
        char c;
        const int fd = aid_http_connect(buf_str(&address));
        buf_printf(&text, "POST /a HTTP/1.1\r\nHost: x\r\n%s\r\n", cases[i].headers);
        aid_http_send(fd, buf_str(&text));
        aid_http_read(fd, &a);
        if (a.status != cases[i].status)
            fail_msg("%s: %d", cases[i].headers, a.status);
        assert_int_equal(recv(fd, &c, 1, 0), 0); /* and the connection ends */
        aid_answer_free(&a);
        buf_free(&text);
        close(fd);
    }
}

/* One answered at once that says which version it speaks, one that need not. */
static void test_a_host_is_wanted_since_http_1_1(void **state)
{
    (void)state;
    int fd = aid_http_connect(buf_str(&address));
    aid_http_send(fd, "GET /a HTTP/1.1\r\n\r\n");
    expect(fd, 400, "400 Host: want one such header, found 0");
    close(fd);
    fd = aid_http_connect(buf_str(&address));
    aid_http_send(fd, "GET /a HTTP/1.0\r\n\r\n");
    expect(fd, 200, "GET /a ");
    close(fd);
}

/* Some of the clients that end their side in the middle of a request stayed until it was late. */
static void test_a_client_that_can_send_no_more_is_dropped(void **state)
{
    enum { N = 64 };
    struct buf text = BUF_INIT;
    int fds[N];
    char c;
    (void)state;
    buf_puts(&text, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 300\r\n\r\n");
    for (int i = 0; i < 300; i++)
        buf_putc(&text, 'x');
    for (int i = 0; i < N; i++) {
        const size_t n = 1 + (size_t)i * (text.len - 2) / N;
        fds[i] = aid_http_connect(buf_str(&address));
        for (size_t at = 0, piece = 0; at < n; at += piece) {
            piece = n - at < 70 ? n - at : 70;
            assert_int_equal(send(fds[i], text.data + at, piece, MSG_NOSIGNAL), piece);
        }
        shutdown(fds[i], SHUT_WR);
    }
    const uint64_t begun = clock_ns();
    for (int i = 0; i < N; i++) {
        assert_true(recv(fds[i], &c, 1, 0) <= 0);
        close(fds[i]);
    }
    assert_true(clock_seconds_since(begun) < 10);
    buf_free(&text);
}

static void test_a_whole_url_is_a_target_too(void **state)
{
    static const char *const targets[] = {"http://host/c?x=1", "HTTPS://host:1/c", "/c"};
    (void)state;
    const int fd = aid_http_connect(buf_str(&address));
    for (int i = 0; i < 3; i++) {
        char text[96];
        snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", targets[i]);
        aid_http_send(fd, text);
        expect(fd, 200, "GET /c ");
    }
    aid_http_send(fd, "GET http://host HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(fd, 200, "GET / ");
    close(fd);
}

static void test_what_is_no_http_ends_the_connection(void **state)
{
    static const char *const bad[] = {
        "\x16\x03\x01\x02\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: nonsense\r\n\r\nx",
        "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "GET\r\n\r\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct aid_answer a;
        const int fd = aid_http_connect(buf_str(&address));
        aid_http_send(fd, bad[i]);
        shutdown(fd, SHUT_WR);
        aid_http_read(fd, &a);
        if (a.status == 200)
            fail_msg("request %zu was answered: %s", i, buf_str(&a.body));
        aid_answer_free(&a);
        close(fd);
    }
}

static void test_an_answer_given_later(void **state)
{
    struct buf body = BUF_INIT;
    (void)state;
    const int fd = aid_http_connect(buf_str(&address));
    aid_http_send(fd, "POST /keep HTTP/1.1\r\nHost: x\r\nX-Request-ID: my-own_1\r\n"
                      "Content-Length: 2\r\n\r\nhi");
    struct exchange *x = wait_kept();
    assert_string_equal(exchange_id(x), "my-own_1");
    buf_puts(&body, "late");
    exchange_reply(x, 201, "text/plain", &body);
    exchange_release(x);
    expect(fd, 201, "late");
    close(fd);
    wait_for(&n_dropped, 1);
    assert_int_equal(atomic_load(&n_gone), 0);
}

static void test_names_of_requests(void **state)
{
    struct aid_answer a;
    (void)state;
    aid_http(buf_str(&address), "GET", "/", "X-Request-ID: not good!\r\n", NULL, &a);
    char *id = aid_answer_header(&a, "X-Request-ID");
    assert_int_equal(strlen(id), strlen("req-") + 32);
    assert_memory_equal(id, "req-", 4);
    char *cors = aid_answer_header(&a, "Access-Control-Allow-Origin");
    assert_string_equal(cors, "*");
    mem_free(id);
    mem_free(cors);
    aid_answer_free(&a);
}

/* Reads until this was said, and nothing behind it. */
static void read_until(int fd, const char *want)
{
    char seen[512] = "";
    for (size_t n = 0; n < sizeof seen - 1 && !strstr(seen, want); n++)
        assert_int_equal(recv(fd, seen + n, 1, 0), 1);
    assert_non_null(strstr(seen, want));
}

static void test_a_stream_comes_as_it_is_written(void **state)
{
    (void)state;
    const int fd = aid_http_connect(buf_str(&address));
    aid_http_send(fd, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    struct exchange *x = wait_kept();
    assert_true(exchange_write(x, "one ", 4));
    read_until(fd, "one "); /* before the stream goes on */
    assert_true(exchange_write(x, "two ", 4));
    read_until(fd, "two ");
    exchange_end(x);
    exchange_release(x);
    read_until(fd, "0\r\n\r\n");
    close(fd);
    wait_for(&n_dropped, 1);
}

static void test_a_broken_stream_is_not_whole(void **state)
{
    struct aid_answer a;
    (void)state;
    const int fd = aid_http_connect(buf_str(&address));
    aid_http_send(fd, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    struct exchange *x = wait_kept();
    exchange_write(x, "half", 4);
    pause_ms(20);
    exchange_break(x);
    exchange_release(x);
    aid_http_read(fd, &a);
    assert_true(a.cut);
    aid_answer_free(&a);
    close(fd);
}

static void test_a_client_that_leaves_is_noticed(void **state)
{
    static const char *const paths[] = {"/keep", "/stream"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        char text[96];
        struct buf body = BUF_INIT;
        const int fd = aid_http_connect(buf_str(&address));
        snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", paths[i]);
        aid_http_send(fd, text);
        struct exchange *x = wait_kept();
        pause_ms(10); /* the connection sleeps */
        close(fd);
        wait_for(&n_gone, i + 1);
        if (i == 0)
            exchange_reply(x, 200, NULL, &body);
        else
            exchange_end(x);
        exchange_release(x);
        wait_for(&n_dropped, i + 1);
    }
}

static void test_a_slow_reader_is_dropped(void **state)
{
    static const char piece[1024];
    int n = 0;
    (void)state;
    const int fd = aid_http_connect(buf_str(&address));
    aid_http_send(fd, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    struct exchange *x = wait_kept();
    while (n < 100000 && exchange_write(x, piece, sizeof piece)) {
        n++;
        if (n % 256 == 0)
            pause_ms(1);
    }
    print_message("note: dropped after %d KiB\n", n);
    assert_true(n < 100000);
    wait_for(&n_gone, 1);
    exchange_end(x);
    exchange_release(x);
    wait_for(&n_dropped, 1);
    close(fd);
}

/* 1,000 of them cost under 64 MiB, and the next one is still served. */
static void test_idle_connections_cost_little(void **state)
{
    int fds[IDLE_CONNECTIONS];
    const struct rlimit many = {4096, 4096};
    (void)state;
    if (setrlimit(RLIMIT_NOFILE, &many)) {
        print_message("note: not so many descriptors are allowed here\n");
        return;
    }
    const uint64_t before = os_rss_bytes();
    for (int i = 0; i < IDLE_CONNECTIONS; i++) {
        fds[i] = aid_http_connect(buf_str(&address));
        aid_http_send(fds[i], "GET /i HTTP/1.1\r\nHost: x\r\n\r\n");
        expect(fds[i], 200, "GET /i ");
    }
    const double mib = (double)(os_rss_bytes() - before) / (1 << 20);
    print_message("worst: %.1f MiB for %d idle connections, at most 64\n", mib, IDLE_CONNECTIONS);
    if (aid_slower() < 2) /* sanitizers keep shadows of it all */
        assert_true(mib < 64);
    for (int i = 0; i < IDLE_CONNECTIONS; i++)
        close(fds[i]);
}

static void restart(int most, int seconds)
{
    stop();
    connections = most;
    request_s = seconds;
    start("127.0.0.1:0");
}

/* Sends bytes one by one, slowly, until all have been answered. */
static void trickle(const int *fds, int n)
{
    char c;
    int answered = 0;
    for (int i = 0; i < 200 && answered < n; i++) {
        answered = 0;
        for (int k = 0; k < n; k++)
            if (recv(fds[k], &c, 1, MSG_PEEK | MSG_DONTWAIT) >= 0)
                answered++;
            else
                aid_http_send(fds[k], "x");
        pause_ms(50);
    }
}

/* Each byte counted as a sign of life, so that a handful of clients could keep all connections. */
static void test_a_request_that_does_not_end_is_408(void **state)
{
    static const char *const begun[] = {
        "POST /a",
        "POST /a HTTP/1.1\r\nHost: ", "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n"};
    enum { N = sizeof begun / sizeof begun[0] };
    int fds[N];
    char c;
    (void)state;
    restart(1200, 1);
    const int idle = aid_http_connect(buf_str(&address));
    const int kept_open = aid_http_connect(buf_str(&address));
    aid_http_send(kept_open, "GET /i HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(kept_open, 200, "GET /i ");
    for (int i = 0; i < N; i++) {
        fds[i] = aid_http_connect(buf_str(&address));
        aid_http_send(fds[i], begun[i]);
    }
    trickle(fds, N);
    for (int i = 0; i < N; i++) {
        expect(fds[i], 408, "the request was not there whole after 1 s\n");
        assert_true(recv(fds[i], &c, 1, 0) <= 0);
        close(fds[i]);
    }
    aid_http_send(idle, "GET /i HTTP/1.1\r\nHost: x\r\n\r\n"); /* who says nothing may do so */
    expect(idle, 200, "GET /i ");
    aid_http_send(kept_open, "GET /i HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(kept_open, 200, "GET /i ");
    aid_http_send(kept_open, "GET /keep HTTP/1.1\r\nHost: x\r\n\r\n");
    struct exchange *x = wait_kept();
    pause_ms(2200); /* an answer may take its time */
    struct buf body = BUF_INIT;
    exchange_reply(x, 200, "text/plain", &body);
    exchange_release(x);
    expect(kept_open, 200, "");
    close(kept_open);
    close(idle);
    restart(1200, 60);
}

/* The 1,101st client got no answer, and no error either. */
static void test_idle_connections_make_room(void **state)
{
    enum { MOST = 4 };
    int fds[MOST], fd;
    char c;
    (void)state;
    restart(MOST, 60);
    for (int i = 0; i < MOST; i++) {
        fds[i] = aid_http_connect(buf_str(&address));
        aid_http_send(fds[i], "GET /i HTTP/1.1\r\nHost: x\r\n\r\n");
        expect(fds[i], 200, "GET /i ");
        pause_ms(10);
    }
    pause_ms(1100);
    fd = aid_http_connect(buf_str(&address));
    aid_http_send(fd, "GET /i HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(fd, 200, "GET /i ");
    assert_int_equal(recv(fds[0], &c, 1, 0), 0); /* the oldest */
    close(fds[0]);
    fds[0] = fd;
    for (int i = 0; i < MOST; i++)
        aid_http_send(fds[i], "GET");
    pause_ms(500);
    fd = aid_http_connect(buf_str(&address));
    aid_http_send(fd, "GET /i HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(fd, 503, "503 4 connections are open already: try again later");
    assert_int_equal(recv(fd, &c, 1, 0), 0);
    close(fd);
    for (int i = 0; i < MOST; i++) {
        aid_http_send(fds[i], " /i HTTP/1.1\r\nHost: x\r\n\r\n");
        expect(fds[i], 200, "GET /i ");
        close(fds[i]);
    }
    restart(1200, 60);
}

static void test_stopping_ends_what_waits(void **state)
{
    struct aid_answer a;
    (void)state;
    const int fd = aid_http_connect(buf_str(&address));
    aid_http_send(fd, "GET /keep HTTP/1.1\r\nHost: x\r\n\r\n");
    struct exchange *x = wait_kept();
    atomic_store(&kept, x); /* for stop to release */
    stop();
    assert_int_equal(atomic_load(&n_gone), 1);
    assert_int_equal(atomic_load(&n_dropped), 1);
    aid_http_read(fd, &a);
    assert_true(a.cut);
    aid_answer_free(&a);
    close(fd);
    start("127.0.0.1:0");
}

static void test_a_unix_socket(void **state)
{
    struct err e = {0};
    struct stat st;
    struct buf where = BUF_INIT;
    struct aid_answer a;
    char *dir = aid_tmpdir(), *path = file_join(dir, "s");
    (void)state;
    stop();
    buf_printf(&where, "unix:%s", path);
    start(buf_str(&where));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    int fd;
    struct buf shown = BUF_INIT;
    assert_int_equal(listen_open(buf_str(&where), &fd, &shown, &e), -E_IO);
    assert_non_null(strstr(e.msg, "another server listens there"));
    buf_free(&shown);
    aid_http(buf_str(&where), "GET", "/u", "", NULL, &a);
    assert_string_equal(buf_str(&a.body), "GET /u ");
    aid_answer_free(&a);
    stop();
    start(buf_str(&where)); /* the socket is still there, and stale */
    stop();
    start("127.0.0.1:0");
    buf_free(&where);
    mem_free(path);
    aid_rmdir(dir);
}

static void test_addresses(void **state)
{
    static const char *const bad[] = {
        "8080", "host", "127.0.0.1:", ":80", "unix:", "127.0.0.1:99999999", "[::1:80"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err e = {0};
        struct buf shown = BUF_INIT;
        int fd;
        if (listen_open(bad[i], &fd, &shown, &e) == 0)
            fail_msg("'%s' was taken", bad[i]);
        assert_true(e.msg[0]);
        buf_free(&shown);
    }
    struct err e = {0};
    struct buf shown = BUF_INIT;
    int fd, other;
    assert_ok(listen_open("127.0.0.1:0", &fd, &shown, &e), e);
    assert_int_equal(listen_open(strchr(buf_str(&shown), '1'), &other, &shown, &e), -E_IO);
    assert_non_null(strstr(e.msg, "(another program does; --listen takes another port"));
    close(fd);
    buf_free(&shown);
    assert_true(listen_is_local("127.0.0.1:80"));
    assert_true(listen_is_local("unix:/x"));
    assert_false(listen_is_local("0.0.0.0:80"));
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH(test_bodies_whole_and_in_chunks_on_one_connection),
        WITH(test_a_body_too_long_is_413),
        WITH(test_a_chunk_too_long_is_413_at_once),
        WITH(test_headers_that_contradict_are_refused),
        WITH(test_a_host_is_wanted_since_http_1_1),
        WITH(test_a_client_that_can_send_no_more_is_dropped),
        WITH(test_a_whole_url_is_a_target_too),
        WITH(test_what_is_no_http_ends_the_connection),
        WITH(test_an_answer_given_later),
        WITH(test_names_of_requests),
        WITH(test_a_stream_comes_as_it_is_written),
        WITH(test_a_broken_stream_is_not_whole),
        WITH(test_a_client_that_leaves_is_noticed),
        WITH(test_a_slow_reader_is_dropped),
        WITH(test_idle_connections_cost_little),
        WITH(test_a_request_that_does_not_end_is_408),
        WITH(test_idle_connections_make_room),
        WITH(test_stopping_ends_what_waits),
        WITH(test_a_unix_socket),
        cmocka_unit_test(test_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
