/* /v1/sessions over HTTP, on the packed demonstration model with the released model's template: a
 * turn adds to its session all or nothing, and the next one begins with the very state it left. */
#include "tests/aid_serve.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "tests/aid_demo.h"

#define CHAT     "/v1/chat/completions"
#define TEMPLATE "tests/data/vectors/chat_template.jinja"
#define OWN      "models/demo/chat_template.jinja"

static char *model, *store;
static struct aid_server server;

/* The demonstration model's own template leaves the thinking of earlier turns out, so no text of it
 * begins with what was said. */
static void change_template(const char *from)
{
    struct buf text = BUF_INIT;
    struct err e = {0};
    char *path = file_join(store, "chat_template.jinja");
    assert_ok(file_read_all(from, 1 << 20, &text, &e), e);
    unlink(path);
    aid_write(path, text.data, text.len);
    buf_free(&text);
    mem_free(path);
}

static int setup(void **state)
{
    (void)state;
    model = aid_demo_pack();
    store = file_join(model, "packed");
    change_template(TEMPLATE);
    aid_serve(&server, store, (const char *const[]){"--sequences", "2", NULL});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    const int status = aid_serve_stop(&server);
    mem_free(store);
    aid_rmdir(model);
    return status;
}

static int64_t number(const json_t *v, const char *at)
{
    return json_integer_value(aid_at(v, at));
}

/* A new session's id; for mem_free. */
static char *begin(const char *body)
{
    json_t *v = aid_ask(&server, "/v1/sessions", body, 200);
    char *id = mem_strdup(aid_string(v, "id"));
    assert_string_equal(aid_string(v, "object"), "session");
    json_decref(v);
    return id;
}

/* The body of a turn of it with these fields besides. */
static const char *turn(const char *id, const char *fields)
{
    static char body[1024];
    snprintf(body, sizeof body, "{'session_id': '%s', 'temperature': 0, %s}", id, fields);
    return body;
}

static json_t *request(const char *method, const char *id, int status)
{
    char path[128];
    struct aid_answer a;
    snprintf(path, sizeof path, "/v1/sessions/%s", id);
    aid_http(server.url, method, path, "", NULL, &a);
    assert_int_equal(a.status, status);
    json_t *v = json_loads(buf_str(&a.body), 0, NULL);
    aid_answer_free(&a);
    return v;
}

static void expect_messages(const char *id, size_t n)
{
    json_t *v = request("GET", id, 200);
    assert_int_equal(json_array_size(aid_at(v, "messages")), n);
    json_decref(v);
}

static void test_a_turn_goes_on_from_the_last_ones_state(void **state)
{
    (void)state;
    char *id = begin("{'messages': [{'role': 'system', 'content': 'You tell stories.'}]}");
    json_t *first = aid_ask(&server, CHAT,
                            turn(id, "'messages': [{'role': 'user', 'content': 'Hello!'}]"), 200);
    assert_string_equal(aid_string(first, "choices.0.finish_reason"), "stop");
    json_t *second = aid_ask(
        &server, CHAT,
        turn(id, "'messages': [{'role': 'user', 'content': 'Yes.'}], 'max_tokens': 12"), 200);
    /* All but the token that ended the answer, which nobody needed to feed. */
    assert_int_equal(number(second, "usage.prompt_tokens_details.cached_tokens"),
                     number(first, "usage.total_tokens") - 1);
    json_t *v = request("GET", id, 200);
    assert_int_equal(number(v, "turns"), 2);
    assert_int_equal(json_array_size(aid_at(v, "messages")), 5);
    assert_string_equal(aid_string(v, "messages.0.role"), "system");
    assert_string_equal(aid_string(v, "messages.2.content"),
                        aid_string(first, "choices.0.message.content"));
    assert_string_equal(aid_string(v, "messages.4.content"),
                        aid_string(second, "choices.0.message.content"));
    /* What a client that sends everything is told. */
    json_t *messages = json_deep_copy(aid_at(v, "messages"));
    json_array_remove(messages, 4);
    json_t *all = json_pack("{s:o, s:i, s:i, s:b}", "messages", messages, "temperature", 0,
                            "max_tokens", 12, "cache_prompt", 0);
    char *text = json_dumps(all, 0);
    struct aid_answer a;
    aid_http(server.url, "POST", CHAT, "", text, &a);
    json_t *same = json_loads(buf_str(&a.body), 0, NULL);
    assert_string_equal(aid_string(same, "choices.0.message.content"),
                        aid_string(second, "choices.0.message.content"));
    aid_answer_free(&a);
    free(text);
    json_decref(all);
    json_decref(same);
    json_decref(v);
    json_decref(first);
    json_decref(second);
    mem_free(id);
}

/* A template that leaves thinking out once another question follows: every turn was computed anew
 * from its beginning. */
static void test_sessions_go_on_with_any_template(void **state)
{
    static const char *const modes[] = {"'seed': 1", "'reasoning_effort': 'low', 'max_tokens': 60,"
                                                     " 'thinking_budget': 5"};
    const struct aid_server released = server;
    (void)state;
    change_template(OWN);
    aid_serve(&server, store, (const char *const[]){"--sequences", "2", NULL});
    for (int mode = 0; mode < 2; mode++) {
        char *id = begin("{'messages': [{'role': 'system', 'content': 'You tell stories.'}]}");
        int64_t before = 0;
        for (int i = 0; i < 3; i++) {
            char fields[256];
            snprintf(fields, sizeof fields, "'messages': [{'role': 'user', 'content': '%s'}], %s",
                     i ? "Thank you." : "Hello!", modes[mode]);
            json_t *v = aid_ask(&server, CHAT, turn(id, fields), 200);
            const int64_t cached = number(v, "usage.prompt_tokens_details.cached_tokens");
            const bool whole = strcmp(aid_string(v, "choices.0.finish_reason"), "stop") == 0;
            if (i)
                assert_int_equal(cached, before);
            before = number(v, "usage.total_tokens") - 1;
            json_decref(v);
            if (!whole) /* the next one is rendered anew, as it should be */
                break;
            assert_true(i < 2 || before > 0);
        }
        mem_free(id);
    }
    assert_int_equal(aid_serve_stop(&server), 0);
    server = released;
    change_template(TEMPLATE);
}

/* Sends the text until it is not refused as a second turn: a turn that was cancelled holds its
 * session for a moment longer than its place among the requests. */
static int send_until_taken(const char *text)
{
    for (int ms = 0; ms < 60000; ms++) {
        char status[] = "HTTP/1.1 ...";
        const int fd = aid_http_connect(server.url);
        aid_http_send(fd, text);
        const ssize_t n = recv(fd, status, sizeof status - 1, MSG_PEEK | MSG_WAITALL);
        if (n != sizeof status - 1 || strcmp(status, "HTTP/1.1 409") != 0)
            return fd;
        close(fd);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    fail_msg("the session is never free");
    return -1;
}

/* A streamed turn that would take long, on a connection of its own, which is returned. */
static int begin_endless(const char *id, const char *name)
{
    struct buf text = BUF_INIT;
    char fields[256];
    snprintf(fields, sizeof fields,
             "'messages': [{'role': 'user', 'content': 'More.'}], 'ignore_eos': true, "
             "'stream': true, 'request_id': '%s'",
             name);
    char *body = aid_quotes(turn(id, fields));
    buf_printf(&text, "POST " CHAT " HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%s",
               strlen(body), body);
    const int fd = send_until_taken(buf_str(&text));
    mem_free(body);
    buf_free(&text);
    return fd;
}

static void wait_running(size_t want)
{
    for (int ms = 0; ms < 60000; ms++) {
        struct aid_answer a;
        aid_http(server.url, "GET", "/v1/requests", "", NULL, &a);
        json_t *v = json_loads(buf_str(&a.body), 0, NULL);
        const size_t n = json_array_size(aid_at(v, "data"));
        json_decref(v);
        aid_answer_free(&a);
        if (n == want)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    fail_msg("there are never %zu requests", want);
}

static void read_to_done(int fd)
{
    struct buf said = BUF_INIT;
    char part[4096];
    while (!strstr(buf_str(&said), "[DONE]")) {
        const ssize_t n = recv(fd, part, sizeof part, 0);
        assert_true(n > 0);
        buf_add(&said, part, (size_t)n);
    }
    buf_free(&said);
}

static void test_a_turn_that_fails_changes_nothing(void **state)
{
    (void)state;
    char *id = begin("{}");
    json_t *first = aid_ask(&server, CHAT,
                            turn(id, "'messages': [{'role': 'user', 'content': 'Hello!'}]"), 200);
    json_decref(first);
    json_t *before = request("GET", id, 200);
    json_decref(aid_ask(&server, CHAT,
                        turn(id, "'messages': [{'role': 'user', 'content': 'x'}], 'top_p': 7"),
                        400));
    json_decref(aid_ask(&server, CHAT, turn(id, "'messages': [{'role': 'wizard'}]"), 400));
    json_t *v = aid_ask(&server, CHAT,
                        turn(id, "'messages': [{'role': 'tool', 'content': 'x'}, "
                                 "{'role': 'user', 'content': 'x'}], 'n': 2"),
                        400);
    assert_string_equal(aid_string(v, "error.param"), "n");
    json_decref(v);
    v = aid_ask(&server, CHAT, turn(id, "'messages': [{'role': 'system', 'content': 'x'}]"), 400);
    assert_string_equal(aid_string(v, "error.param"), "messages");
    json_decref(v);

    for (int i = 0; i < 3; i++) {
        const int fd = begin_endless(id, "cancelled");
        wait_running(1);
        json_decref(aid_ask(&server, "/v1/requests/cancelled/cancel", "", 200));
        read_to_done(fd);
        json_decref(aid_ask(&server, CHAT, turn(id, "'messages': [{'role': 'wizard'}]"), 400));
        json_decref(aid_ask(&server, CHAT,
                            turn(id, "'messages': [{'role': 'user', 'content': 'x'}], "
                                     "'max_tokens': 1000000"),
                            400)); /* no 409: whoever is told of the end finds the session free */
        close(fd);
    }
    int fd = begin_endless(id, "left");
    wait_running(1);
    close(fd);
    wait_running(0);
    fd = begin_endless(id, "free"); /* once what was left has let go of it */
    wait_running(1);
    json_decref(aid_ask(&server, "/v1/requests/free/cancel", "", 200));
    read_to_done(fd);
    close(fd);

    json_t *after = request("GET", id, 200);
    assert_true(json_equal(before, after));
    v = aid_ask(&server, CHAT,
                turn(id, "'messages': [{'role': 'user', 'content': 'Yes.'}], "
                         "'max_tokens': 2"),
                200);
    json_decref(v);
    expect_messages(id, 4);
    json_decref(before);
    json_decref(after);
    mem_free(id);
}

static void test_a_session_has_one_turn_at_a_time(void **state)
{
    (void)state;
    char *id = begin("{}");
    const int fd = begin_endless(id, "first");
    wait_running(1);
    json_t *v =
        aid_ask(&server, CHAT, turn(id, "'messages': [{'role': 'user', 'content': 'x'}]"), 409);
    assert_string_equal(aid_string(v, "error.param"), "session_id");
    json_decref(v);
    json_decref(
        request("DELETE", id, 200)); /* also while a turn runs, which is kept nowhere then */
    json_decref(aid_ask(&server, "/v1/requests/first/cancel", "", 200));
    wait_running(0);
    close(fd);
    json_decref(request("GET", id, 404));
    json_decref(request("DELETE", id, 404));
    v = aid_ask(&server, CHAT, turn(id, "'messages': [{'role': 'user', 'content': 'x'}]"), 404);
    assert_string_equal(aid_string(v, "error.param"), "session_id");
    json_decref(v);
    mem_free(id);
}

/* Thinking differs: the prompt is rendered anew, and the session goes on. */
static void test_other_settings_render_anew(void **state)
{
    (void)state;
    char *id = begin("{'messages': null}");
    json_decref(aid_ask(&server, CHAT,
                        turn(id, "'messages': [{'role': 'user', 'content': 'Hello!'}]"), 200));
    json_t *v = aid_ask(&server, CHAT,
                        turn(id, "'messages': [{'role': 'user', 'content': 'Yes.'}], "
                                 "'reasoning_effort': 'low', 'max_tokens': 4"),
                        200);
    assert_true(strlen(aid_string(v, "choices.0.message.reasoning_content")) > 0);
    json_decref(v);
    v = request("GET", id, 200);
    assert_true(strlen(aid_string(v, "messages.3.reasoning_content")) > 0);
    json_decref(v);
    mem_free(id);
}

static void test_the_templates_capabilities_are_told(void **state)
{
    (void)state;
    json_t *v = aid_ask(&server, "/api/show", "{'model': 'cherenkov'}", 200);
    assert_string_equal(aid_string(v, "capabilities.1"), "tools");
    assert_string_equal(aid_string(v, "capabilities.2"), "thinking");
    json_decref(v);
}

static void test_seventeen_sessions(void **state)
{
    (void)state;
    char *first = begin("");
    for (int i = 0; i < 16; i++)
        mem_free(begin("{}"));
    json_decref(request("GET", first, 404));
    json_decref(aid_ask(&server, "/v1/sessions", "{'name': 'x'}", 400));
    mem_free(first);
}

/* The same holds for a stored response that another one goes on from. */
static void test_a_response_goes_on_from_the_last_ones_state(void **state)
{
    char body[256];
    (void)state;
    json_t *first = aid_ask(&server, "/v1/responses", "{'input': 'Hello!', 'temperature': 0}", 200);
    snprintf(body, sizeof body,
             "{'previous_response_id': '%s', 'input': 'And then?', 'max_output_tokens': 1}",
             aid_string(first, "id"));
    json_t *v = aid_ask(&server, "/v1/responses", body, 200);
    assert_true(number(v, "usage.input_tokens_details.cached_tokens") >=
                number(first, "usage.total_tokens") - 1);
    json_decref(v);
    json_decref(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_turn_goes_on_from_the_last_ones_state),
        cmocka_unit_test(test_sessions_go_on_with_any_template),
        cmocka_unit_test(test_a_turn_that_fails_changes_nothing),
        cmocka_unit_test(test_a_session_has_one_turn_at_a_time),
        cmocka_unit_test(test_other_settings_render_anew),
        cmocka_unit_test(test_the_templates_capabilities_are_told),
        cmocka_unit_test(test_seventeen_sessions),
        cmocka_unit_test(test_a_response_goes_on_from_the_last_ones_state),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
