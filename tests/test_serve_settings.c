/* Settings of `cherenkov serve`: from a file, printed, reloaded on SIGHUP or refused whole; keys;
 * unix sockets; SIGTERM lets a request that runs end. */
#include "tests/aid_serve.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "tests/aid_demo.h"

#define HELLO                                                                                      \
    "{'messages': [{'role': 'user', 'content': 'Hello!'}], 'temperature': 0, 'max_tokens': 2}"

static char *model, *store, *config, *keys;

static int setup(void **state)
{
    (void)state;
    model = aid_demo_pack();
    store = file_join(model, "packed");
    config = file_join(model, "conf");
    keys = file_join(model, "keys");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mem_free(store);
    mem_free(config);
    mem_free(keys);
    aid_rmdir(model);
    return 0;
}

static void write_text(const char *path, const char *text)
{
    aid_write(path, text, strlen(text));
}

static int status_with(const struct aid_server *s, const char *header)
{
    struct aid_answer a;
    aid_http(s->url, "GET", "/v1/models", header, NULL, &a);
    const int status = a.status;
    aid_answer_free(&a);
    return status;
}

static void test_settings_are_printed_as_a_file(void **state)
{
    struct aid_output o;
    (void)state;
    write_text(config, "max_ctx = 512;\nmodel_name = [\"a\", \"b\"];\ntop_p = 0.5;\n");
    const char *argv[] = {"cherenkov", "serve", "--config",       config,
                          "--top-p",   "0.25",  "--print-config", NULL};
    aid_run(argv, NULL, &o);
    assert_int_equal(o.status, 0);
    assert_non_null(strstr(buf_str(&o.out), "\nmax_ctx = 512;\n"));
    assert_non_null(strstr(buf_str(&o.out), "\nmodel_name = [\"a\", \"b\"];\n"));
    assert_non_null(strstr(buf_str(&o.out), "\ntop_p = 0.25;\n"));
    assert_non_null(strstr(buf_str(&o.out), "\n# temperature = ...;\n"));
    write_text(config, buf_str(&o.out));
    struct aid_output again;
    const char *second[] = {"cherenkov", "serve", "--config", config, "--print-config", NULL};
    aid_run(second, NULL, &again);
    assert_string_equal(buf_str(&again.out), buf_str(&o.out));
    aid_output_free(&o);
    aid_output_free(&again);
    write_text(config, "max_ctx = 512;\nmax_cxt = 1;\n");
    aid_run(second, NULL, &again);
    assert_int_equal(again.status, 3);
    assert_non_null(strstr(buf_str(&again.err), "conf: line 2: there is no setting 'max_cxt'"));
    aid_output_free(&again);
}

/* The origin broke the header it was put into, and no client can ask for a model without a name. */
static void test_words_that_cannot_be_meant_are_refused(void **state)
{
    static const char *const cases[][3] = {
        {"--cors-origin", "http://a\nX: y", "want an origin"},
        {"--cors-origin", "", "want an origin"},
        {"--cors-origin", "foo", "want an origin"},
        {"--cors-origin", "https://a/b", "want an origin"},
        {"--cors-origin", "http://a,http://b", "want an origin"},
        {"--temperature", "9", "wants a number from 0 to 2"},
        {"--model-name", "", "want 1 to 200 bytes without blanks"},
        {"--model-name", "a\tb", "want 1 to 200 bytes without blanks"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct aid_output o;
        const char *argv[] = {"cherenkov", "serve", store, cases[i][0], cases[i][1], NULL};
        aid_run(argv, NULL, &o);
        assert_int_equal(o.status, 2);
        assert_non_null(strstr(buf_str(&o.err), cases[i][2]));
        aid_output_free(&o);
    }
}

static void test_reload_takes_all_or_nothing(void **state)
{
    struct aid_server s;
    (void)state;
    write_text(keys, "first\n");
    struct buf text = BUF_INIT;
    buf_printf(&text, "api_key_file = \"%s\";\nqueue = 5;\n", keys);
    write_text(config, buf_str(&text));
    aid_serve(&s, store, (const char *const[]){"--config", config, NULL});
    assert_int_equal(status_with(&s, ""), 401);
    assert_int_equal(status_with(&s, "Authorization: Bearer first\r\n"), 200);
    assert_int_equal(status_with(&s, "authorization: bearer  first\r\n"), 200);
    assert_int_equal(status_with(&s, "Authorization: Basic first\r\n"), 401);
    assert_int_equal(status_with(&s, "x-api-key: second\r\n"), 401);
    write_text(keys, "second\n");
    buf_puts(&text, "queue = ;\n");
    write_text(config, buf_str(&text));
    kill(s.pid, SIGHUP);
    aid_serve_said(&s, "nothing was reloaded: ");
    aid_serve_said(&s, "conf: line 3: ");
    assert_int_equal(status_with(&s, "Authorization: Bearer first\r\n"), 200);
    buf_clear(&text);
    buf_printf(&text, "api_key_file = \"%s\";\nqueue = 6;\n", keys);
    write_text(config, buf_str(&text));
    kill(s.pid, SIGHUP);
    aid_serve_said(&s, "conf: line 2: queue changes at a restart only");
    assert_int_equal(status_with(&s, "Authorization: Bearer first\r\n"), 200);
    buf_puts(&text, "temperature = 9;\n");
    write_text(config, buf_str(&text));
    kill(s.pid, SIGHUP);
    aid_serve_said(&s, "conf: line 3: serve: --temperature wants a number from 0 to 2, found '9'");
    write_text(config, "");
    kill(s.pid, SIGHUP);
    aid_serve_said(&s, "queue is not there any more, and changes at a restart only");
    assert_int_equal(status_with(&s, "Authorization: Bearer first\r\n"), 200);
    buf_clear(&text);
    buf_printf(&text, "api_key_file = \"%s\";\nqueue = 5;\ntemperature = 0.0;\n", keys);
    write_text(config, buf_str(&text));
    kill(s.pid, SIGHUP);
    aid_serve_said(&s, "settings were reloaded");
    assert_int_equal(status_with(&s, "Authorization: Bearer first\r\n"), 401);
    assert_int_equal(status_with(&s, "x-api-key: second\r\n"), 200);
    assert_int_equal(aid_serve_stop(&s), 0);
    buf_free(&text);
}

static void test_a_request_that_runs_may_end(void **state)
{
    struct aid_server s;
    struct aid_answer a;
    static const char body[] = "{\"prompt\": \"Once\", \"max_tokens\": 200, \"ignore_eos\": true}";
    char text[256];
    (void)state;
    aid_serve(&s, store, NULL);
    const int fd = aid_http_connect(s.url);
    snprintf(text, sizeof text,
             "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%s",
             strlen(body), body);
    aid_http_send(fd, text);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    kill(s.pid, SIGTERM);
    aid_http_read(fd, &a);
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(buf_str(&a.body), "\"finish_reason\":\"length\""));
    aid_answer_free(&a);
    close(fd);
    int status;
    waitpid(s.pid, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    mem_free(s.log);
    mem_free(s.url);
    aid_rmdir(s.dir);
}

static void expect_busy_and_closing(const struct aid_server *s, const char *method,
                                    const char *path)
{
    struct aid_answer a;
    const int fd = aid_http_connect(s->url);
    struct buf text = BUF_INIT;
    buf_printf(&text, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", method,
               path);
    aid_http_send(fd, buf_str(&text));
    aid_http_read(fd, &a);
    char *retry = aid_answer_header(&a, "Retry-After");
    char *connection = aid_answer_header(&a, "Connection");
    assert_int_equal(a.status, 503);
    assert_non_null(retry);
    assert_non_null(connection);
    assert_string_equal(connection, "close");
    mem_free(retry);
    mem_free(connection);
    buf_free(&text);
    aid_answer_free(&a);
    close(fd);
}

/* They were cut, a stream without its end; and the health of a server that stops was a refused
 * connection. */
static void test_what_still_runs_at_the_end_is_cancelled(void **state)
{
    struct aid_server s;
    struct aid_answer a;
    struct err e = {0};
    struct buf log = BUF_INIT;
    static const char *const bodies[] = {
        "{'prompt': 'Once', 'ignore_eos': true, 'stream': true}",
        "{'prompt': 'Once', 'ignore_eos': true}",
        "{'prompt': 'Once', 'ignore_eos': true, 'stream': true}", /* it waits */
    };
    int fds[3], status;
    (void)state;
    aid_serve(
        &s, store,
        (const char *const[]){"--sequences", "2", "--drain-time", "1", "--log-requests", NULL});
    for (int i = 0; i < 3; i++)
        fds[i] = aid_begin(&s, "/v1/completions", bodies[i]);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    kill(s.pid, SIGTERM);
    aid_serve_said(&s, "stopping");
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    expect_busy_and_closing(&s, "GET", "/health");
    expect_busy_and_closing(&s, "POST", "/v1/chat/completions");
    for (int i = 0; i < 3; i++) {
        aid_http_read(fds[i], &a);
        assert_int_equal(a.status, 200);
        assert_false(a.cut);
        assert_non_null(strstr(buf_str(&a.body), "\"finish_reason\":\"cancelled\""));
        aid_answer_free(&a);
        close(fds[i]);
    }
    waitpid(s.pid, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    if (file_read_all(s.log, 1 << 20, &log, &e))
        fail_msg("%s", e.msg);
    assert_null(strstr(buf_str(&log), " 499 "));
    buf_free(&log);
    mem_free(s.log);
    mem_free(s.url);
    aid_rmdir(s.dir);
}

/* Ctrl-C behind a SIGTERM was the first of its kind, and taken. */
static void test_a_second_signal_ends_at_once(void **state)
{
    struct aid_server s;
    (void)state;
    aid_serve(&s, store, NULL);
    const int fd = aid_begin(&s, "/v1/completions", "{'prompt': 'Once', 'ignore_eos': true}");
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    kill(s.pid, SIGINT);
    aid_serve_said(&s, "stopping");
    assert_int_equal(aid_serve_stop(&s), 128 + SIGTERM);
    close(fd);
}

static void test_requests_are_logged_without_what_they_say(void **state)
{
    struct aid_server s;
    struct aid_answer a;
    struct err e = {0};
    struct buf log = BUF_INIT;
    (void)state;
    write_text(keys, "a-secret\n");
    aid_serve(&s, store, (const char *const[]){"--log-requests", "--api-key-file", keys, NULL});
    aid_http(s.url, "POST", "/v1/completions?key=a-secret",
             "Authorization: Bearer a-secret\r\nX-Request-ID: mine\r\n",
             "{\"prompt\": [1, 2, 3], \"max_tokens\": 2, \"ignore_eos\": true}", &a);
    assert_int_equal(a.status, 200);
    aid_answer_free(&a);
    aid_serve_said(&s, "cherenkov: request mine: POST /v1/completions 200 in ");
    aid_serve_said(&s, " ms, tokens 3 in (0 cached), 2 out\n");
    aid_http(s.url, "POST", "/v1/completions", "x-api-key: a-secret\r\nX-Request-ID: wrong\r\n",
             "{\"prompt\": \"of a dragon\", \"top_p\": 2}", &a);
    aid_answer_free(&a);
    aid_serve_said(&s, "cherenkov: request wrong: POST /v1/completions 400 in ");
    static const char endless[] = "{\"prompt\": [1], \"ignore_eos\": true, \"stream\": true}";
    char text[256];
    snprintf(text, sizeof text,
             "POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-API-Key: a-secret\r\n"
             "X-Request-ID: left\r\nContent-Length: %zu\r\n\r\n%s",
             strlen(endless), endless);
    const int fd = aid_http_connect(s.url);
    aid_http_send(fd, text);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    close(fd);
    aid_serve_said(&s, "cherenkov: request left: POST /v1/completions 499 in ");
    if (file_read_all(s.log, 1 << 20, &log, &e))
        fail_msg("%s", e.msg);
    assert_null(strstr(buf_str(&log), "secret"));
    assert_null(strstr(buf_str(&log), "dragon"));
    buf_free(&log);
    assert_int_equal(aid_serve_stop(&s), 0);
}

/* It said "raise --max-ctx" to clients, who can raise nothing. */
static void test_a_long_prompt_is_refused_in_a_clients_words(void **state)
{
    struct aid_server s;
    (void)state;
    aid_serve(&s, store, (const char *const[]){"--max-ctx", "4", NULL});
    json_t *v = aid_ask(&s, "/v1/completions", "{'prompt': [1, 2, 3, 4, 5]}", 400);
    assert_string_equal(aid_string(v, "error.message"),
                        "prompt: prompt is too long: 5 tokens > 3, as this server's context holds "
                        "4, answer included: shorten it");
    assert_string_equal(aid_string(v, "error.param"), "prompt");
    assert_string_equal(aid_string(v, "error.code"), "context_length_exceeded");
    json_decref(v);
    v = aid_ask(&s, "/v1/completions", "{'prompt': 'one two three four five six'}", 400);
    assert_string_equal(aid_string(v, "error.message"),
                        "prompt: prompt is too long: at least 5 tokens > 3, as this server's "
                        "context holds 4, answer included: shorten it");
    json_decref(v);
    v = aid_ask(&s, "/v1/completions", "{'prompt': [1, 2, 3], 'max_tokens': 2}", 400);
    assert_string_equal(
        aid_string(v, "error.message"),
        "max_tokens: input length and `max_tokens` exceed context limit: 3 + 2 > 4: "
        "ask for 1 at most");
    assert_string_equal(aid_string(v, "error.param"), "max_tokens");
    assert_string_equal(aid_string(v, "error.code"), "context_length_exceeded");
    json_decref(v);
    json_decref(aid_ask(&s, "/v1/completions", "{'prompt': [1, 2, 3], 'max_tokens': 1}", 200));
    assert_int_equal(aid_serve_stop(&s), 0);
}

enum { LARGE = 4, LARGE_MESSAGES = 60000, SMALL = 8 };

/* A request that takes long to read: many messages. */
static char *large_request(void)
{
    struct buf b = BUF_INIT;
    buf_puts(&b, "{'messages': [{'role': 'user', 'content': 'x'}");
    for (int i = 1; i < LARGE_MESSAGES; i++)
        buf_puts(&b, ", {'role': 'user', 'content': 'x'}");
    buf_puts(&b, "]}");
    char *text = mem_strdup(buf_str(&b));
    buf_free(&b);
    return text;
}

/* Reading two such requests kept both HTTP threads, and nobody was answered for half a minute. */
static void test_large_requests_keep_nobody_waiting(void **state)
{
    struct aid_server s;
    struct aid_answer a;
    int fds[LARGE];
    char *text = large_request();
    (void)state;
    aid_serve(&s, store, (const char *const[]){"--log-requests", NULL});
    for (int i = 0; i < LARGE; i++)
        fds[i] = aid_begin(&s, "/v1/chat/completions", text);
    for (int i = 0; i < SMALL; i++) {
        aid_http(s.url, "GET", "/health", "", NULL, &a);
        assert_int_equal(a.status, 200);
        aid_answer_free(&a);
    }
    for (int i = 0; i < LARGE; i++) {
        char c;
        assert_int_equal(recv(fds[i], &c, 1, MSG_PEEK | MSG_DONTWAIT), -1); /* not yet */
    }
    close(fds[0]); /* one that leaves while it is read, or before */
    for (int i = 1; i < LARGE; i++) {
        aid_http_read(fds[i], &a);
        assert_int_equal(a.status, 400); /* too long */
        aid_answer_free(&a);
        close(fds[i]);
    }
    aid_serve_said(&s, " 499 in ");
    json_decref(aid_ask(&s, "/v1/chat/completions", HELLO, 200));
    close(aid_begin(&s, "/v1/chat/completions", text));
    const int fd = aid_begin(&s, "/v1/chat/completions", text);
    assert_int_equal(aid_serve_stop(&s), 0); /* in the middle of reading */
    close(fd);
    mem_free(text);
}

static void test_a_unix_socket(void **state)
{
    struct aid_server s;
    struct buf where = BUF_INIT;
    (void)state;
    buf_printf(&where, "unix:%s/socket", model);
    aid_serve(&s, store, (const char *const[]){"--listen", buf_str(&where), NULL});
    assert_string_equal(s.url, buf_str(&where));
    json_t *v = aid_ask(&s, "/v1/chat/completions", HELLO, 200);
    assert_string_equal(aid_string(v, "choices.0.finish_reason"), "length");
    json_decref(v);
    assert_int_equal(aid_serve_stop(&s), 0);
    assert_false(file_exists(buf_str(&where) + strlen("unix:")));
    buf_free(&where);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings_are_printed_as_a_file),
        cmocka_unit_test(test_words_that_cannot_be_meant_are_refused),
        cmocka_unit_test(test_reload_takes_all_or_nothing),
        cmocka_unit_test(test_a_request_that_runs_may_end),
        cmocka_unit_test(test_what_still_runs_at_the_end_is_cancelled),
        cmocka_unit_test(test_a_second_signal_ends_at_once),
        cmocka_unit_test(test_requests_are_logged_without_what_they_say),
        cmocka_unit_test(test_a_long_prompt_is_refused_in_a_clients_words),
        cmocka_unit_test(test_large_requests_keep_nobody_waiting),
        cmocka_unit_test(test_a_unix_socket),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
