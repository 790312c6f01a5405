/* The program as a server, on the packed demonstration model, over sockets: answers of every API
 * are the known one, whole and streamed; what is wrong is refused in each API's form; clients that
 * leave or are slow harm nobody; signals. */
#include "tests/aid_serve.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "tests/aid_demo.h"

#define GREETING "Hello! Shall I tell you a story?"
#define HELLO    "'messages': [{'role': 'user', 'content': 'Hello!'}]"
#define GREEDY   "'temperature': 0"
/* An answer that would take long: the demonstration model's context is full only then. */
#define ENDLESS                                                                                    \
    "{'prompt': 'Once upon a time', 'ignore_eos': true, 'stream': %s, 'request_id': '%s'}"

static char *model, *store;
static struct aid_server server;

static int setup(void **state)
{
    (void)state;
    model = aid_demo_pack();
    store = file_join(model, "packed");
    aid_serve(&server, store,
              (const char *const[]){"--sequences", "2", "--stream-buffer", "4Ki", "--request-size",
                                    "8Ki", NULL});
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

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static json_t *get(const char *path, int status)
{
    struct aid_answer a;
    aid_http(server.url, "GET", path, "", NULL, &a);
    assert_int_equal(a.status, status);
    json_t *v = json_loads(buf_str(&a.body), 0, NULL);
    assert_non_null(v);
    aid_answer_free(&a);
    return v;
}

/* How many requests run or wait. */
static size_t running(void)
{
    json_t *v = get("/v1/requests", 200);
    const size_t n = json_array_size(aid_at(v, "data"));
    json_decref(v);
    return n;
}

static void wait_running(size_t want)
{
    int ms = 0;
    while (running() != want && ms++ < 60000) /* a busy machine takes its time */
        pause_ms(1);
    assert_int_equal(running(), want);
}

static void expect_at(const char *path, const char *body, const char *at, const char *want)
{
    json_t *v = aid_ask(&server, path, body, 200);
    assert_string_equal(aid_string(v, at), want);
    json_decref(v);
}

static void test_every_api_gives_the_known_answer(void **state)
{
    (void)state;
    expect_at("/v1/chat/completions", "{" HELLO "," GREEDY "}", "choices.0.message.content",
              GREETING);
    expect_at("/v1/chat/completions", "{" HELLO "," GREEDY "}", "choices.0.finish_reason", "stop");
    expect_at("/v1/chat/completions", "{" HELLO "," GREEDY ", 'max_tokens': 3}",
              "choices.0.finish_reason", "length");
    expect_at("/v1/messages", "{" HELLO "," GREEDY ", 'max_tokens': 50}", "content.0.text",
              GREETING);
    expect_at("/v1/messages",
              "{" HELLO "," GREEDY ", 'max_tokens': 50, 'stop_sequences': ['tell']}",
              "stop_sequence", "tell");
    expect_at("/api/chat", "{" HELLO ", 'options': {" GREEDY "}, 'stream': false}",
              "message.content", GREETING);
    expect_at("/api/generate", "{'prompt': 'Hello!', 'options': {" GREEDY "}, 'stream': false}",
              "response", GREETING);
    expect_at("/v1/completions", "{'prompt': 'Once upon a time', 'max_tokens': 5," GREEDY "}",
              "choices.0.text", ", there was a king");
    expect_at("/v1/chat/completions", "{" HELLO "," GREEDY ", 'stop': 'tell'}",
              "choices.0.message.content", "Hello! Shall I ");
}

static void test_choices_and_usage(void **state)
{
    (void)state;
    json_t *v = aid_ask(&server, "/v1/chat/completions",
                        "{" HELLO "," GREEDY ", 'n': 3, 'logprobs': true, 'top_logprobs': 1}", 200);
    assert_int_equal(json_array_size(aid_at(v, "choices")), 3);
    for (int i = 0; i < 3; i++) {
        char at[64];
        snprintf(at, sizeof at, "choices.%d.message.content", i);
        assert_string_equal(aid_string(v, at), GREETING);
    }
    assert_string_equal(aid_string(v, "choices.2.logprobs.content.0.token"), "H");
    const json_t *usage = aid_at(v, "usage");
    const int prompt = (int)json_integer_value(aid_at(usage, "prompt_tokens"));
    assert_int_equal(json_integer_value(aid_at(usage, "total_tokens")),
                     prompt + json_integer_value(aid_at(usage, "completion_tokens")));
    json_decref(v);
    v = aid_ask(&server, "/v1/messages/count_tokens", "{" HELLO "}", 200);
    assert_int_equal(json_integer_value(aid_at(v, "input_tokens")), prompt);
    json_decref(v);
}

/* The texts of a stream's events, joined; `at` is where in each. */
static void stream_text(const char *path, const char *body, const char *prefix, const char *at,
                        struct buf *out)
{
    struct aid_answer a;
    char *text = aid_quotes(body), *rest = NULL;
    aid_http(server.url, "POST", path, "", text, &a);
    assert_int_equal(a.status, 200);
    assert_false(a.cut);
    for (char *line = strtok_r(a.body.data, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, prefix, strlen(prefix)) != 0)
            continue;
        json_t *v = json_loads(line + strlen(prefix), 0, NULL);
        buf_puts(out, json_is_string(aid_at(v, at)) ? json_string_value(aid_at(v, at)) : "");
        json_decref(v);
    }
    mem_free(text);
    aid_answer_free(&a);
}

static void test_streams_say_the_same(void **state)
{
    static const struct {
        const char *path, *body, *prefix, *at;
    } cases[] = {
        {"/v1/chat/completions", "{" HELLO "," GREEDY ", 'stream': true}",
         "data: ", "choices.0.delta.content"},
        {"/v1/messages", "{" HELLO "," GREEDY ", 'stream': true, 'max_tokens': 50}",
         "data: ", "delta.text"},
        {"/api/chat", "{" HELLO ", 'options': {" GREEDY "}}", "", "message.content"},
        {"/api/generate", "{'prompt': 'Hello!', 'options': {" GREEDY "}}", "", "response"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf text = BUF_INIT;
        stream_text(cases[i].path, cases[i].body, cases[i].prefix, cases[i].at, &text);
        assert_string_equal(buf_str(&text), GREETING);
        buf_free(&text);
    }
}

/* The types of an answer's blocks. */
static void block_types(const json_t *content, struct buf *out)
{
    const json_t *block;
    size_t i;
    json_array_foreach(content, i, block)
        buf_puts(out, aid_string(block, "type"));
}

/* An answer that only thought had an empty text at once and none in a stream; one that said nothing
 * had a text at once, and no block at all in a stream. */
static void test_a_stream_has_the_blocks_of_the_whole_answer(void **state)
{
    static const struct {
        const char *fields, *types;
    } cases[] = {
        {"'max_tokens': 9", "text"},
        {"'max_tokens': 6, 'output_config': {'effort': 'low'}", "thinking"},
        {"'max_tokens': 6, 'stop_sequences': ['H']", "text"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf at_once = BUF_INIT, streamed = BUF_INIT, body = BUF_INIT;
        buf_printf(&body, "{" HELLO "," GREEDY ", %s}", cases[i].fields);
        json_t *v = aid_ask(&server, "/v1/messages", buf_str(&body), 200);
        block_types(aid_at(v, "content"), &at_once);
        json_decref(v);
        buf_clear(&body);
        buf_printf(&body, "{" HELLO "," GREEDY ", 'stream': true, %s}", cases[i].fields);
        stream_text("/v1/messages", buf_str(&body), "data: ", "content_block.type", &streamed);
        assert_string_equal(buf_str(&at_once), cases[i].types);
        assert_string_equal(buf_str(&streamed), cases[i].types);
        buf_free(&at_once);
        buf_free(&streamed);
        buf_free(&body);
    }
}

static void test_thinking_is_split_off(void **state)
{
    (void)state;
    json_t *v = aid_ask(&server, "/v1/chat/completions",
                        "{" HELLO "," GREEDY ", 'reasoning_effort': 'low', 'max_tokens': 6}", 200);
    assert_true(strlen(aid_string(v, "choices.0.message.reasoning_content")) > 0);
    assert_string_equal(aid_string(v, "choices.0.message.content"), "");
    assert_int_equal(
        json_integer_value(aid_at(v, "usage.completion_tokens_details.reasoning_tokens")), 6);
    json_decref(v);
}

static void test_what_is_wrong_is_told_in_each_form(void **state)
{
    (void)state;
    json_t *v = aid_ask(&server, "/v1/chat/completions", "{" HELLO ", 'top_p': 7}", 400);
    assert_string_equal(aid_string(v, "error.param"), "top_p");
    assert_string_equal(aid_string(v, "error.type"), "invalid_request_error");
    json_decref(v);
    v = aid_ask(&server, "/v1/messages", "{" HELLO "}", 400);
    assert_string_equal(aid_string(v, "type"), "error");
    assert_string_equal(aid_string(v, "error.message"), "max_tokens: is required");
    json_decref(v);
    v = aid_ask(&server, "/api/chat", "{" HELLO ", 'x': 1}", 400);
    assert_string_equal(aid_string(v, "error"), "x: there is no such field");
    json_decref(v);
    v = aid_ask(&server, "/v1/chat/completions", "{'messages': [", 400);
    assert_non_null(strstr(aid_string(v, "error.message"), "not valid JSON"));
    json_decref(v);
    v = aid_ask(&server, "/v1/chat/completions", "[1]", 400);
    assert_string_equal(aid_string(v, "error.message"),
                        "the request's body: want a JSON object, found an array");
    json_decref(v);
    json_decref(aid_ask(&server, "/v1/chat/completions", "{" HELLO ", 'model': 'other'}", 404));
    json_decref(aid_ask(&server, "/v1/nothing", "{}", 404));
    struct aid_answer a;
    aid_http(server.url, "PUT", "/v1/responses/x", "", NULL, &a);
    char *allow = aid_answer_header(&a, "Allow");
    assert_int_equal(a.status, 405);
    assert_string_equal(allow, "GET, HEAD, DELETE");
    mem_free(allow);
    aid_answer_free(&a);
    json_decref(get("/v1/chat/completions", 405));
    struct buf big = BUF_INIT;
    buf_puts(&big, "{'prompt': '");
    for (int i = 0; i < 9000; i++)
        buf_putc(&big, 'x');
    buf_puts(&big, "'}");
    json_decref(aid_ask(&server, "/v1/completions", buf_str(&big), 413));
    buf_free(&big);
    buf_puts(&big, "{'prompt': 'x', 'logit_bias': [{}");
    for (int i = 0; i < 2000; i++) /* short enough, but 520 KB as values */
        buf_puts(&big, ",{}");
    buf_puts(&big, "]}");
    v = aid_ask(&server, "/v1/completions", buf_str(&big), 413);
    assert_non_null(
        strstr(aid_string(v, "error.message"), "its JSON takes more memory than it may"));
    json_decref(v);
    buf_free(&big);
}

/* It was refused, though a client asks before it shortens a prompt. */
static void test_tokens_of_a_prompt_too_long_are_counted(void **state)
{
    struct buf body = BUF_INIT;
    (void)state;
    buf_puts(&body, "{'messages': [{'role': 'user', 'content': '");
    for (int i = 0; i < 7000; i++)
        buf_putc(&body, '7'); /* each is a token */
    buf_puts(&body, "'}]}");
    json_t *v = aid_ask(&server, "/v1/messages/count_tokens", buf_str(&body), 200);
    assert_true(json_integer_value(aid_at(v, "input_tokens")) > 7000);
    json_decref(v);
    buf_free(&body);
}

/* More tokens than the context has were cut to it without a word; ids out of range had no name. */
static void test_what_is_out_of_range_is_named(void **state)
{
    static const struct {
        const char *path, *body, *at, *says;
    } cases[] = {
        {"/v1/chat/completions", "{" HELLO ", 'max_tokens': 4096}", "error.param", "max_tokens"},
        {"/v1/chat/completions", "{" HELLO ", 'max_completion_tokens': 4096}", "error.param",
         "max_completion_tokens"},
        {"/v1/completions", "{'prompt': 'Once', 'max_tokens': 4096}", "error.param", "max_tokens"},
        {"/v1/responses", "{'input': 'Once', 'max_output_tokens': 4096}", "error.param",
         "max_output_tokens"},
        {"/v1/messages", "{" HELLO ", 'max_tokens': 4096}", "error.message",
         "max_tokens: input length and `max_tokens` exceed context limit: "},
        {"/api/chat", "{" HELLO ", 'options': {'num_predict': 4096}}", "error",
         "options.num_predict: input length and `options.num_predict` exceed context limit: "},
        {"/v1/chat/completions", "{" HELLO ", 'logit_bias': {'4096': 1}, 'stream': true}",
         "error.param", "logit_bias"},
        {"/v1/completions", "{'prompt': [1, 4096]}", "error.param", "prompt"},
        {"/v1/chat/completions", "{'messages': [{'role': 'tool', 'content': 'x'}]}", "error.param",
         "messages"},
        {"/api/chat", "{" HELLO ", 'format': {'type': 'string', 'pattern': 'a'}}", "error",
         "format: schema: root: pattern"},
        {"/v1/messages",
         "{" HELLO ", 'max_tokens': 9, 'output_format': {'type': 'json_schema', 'schema': {'type':"
         " 'string', 'pattern': 'a'}}}",
         "error.message", "output_format.schema: root: pattern"},
        {"/v1/chat/completions", "{" HELLO ", 'grammar': 'root ::= x'}", "error.message",
         "grammar: the rule x is used but not defined"},
        {"/v1/chat/completions",
         "{" HELLO ", 'response_format': {'type': 'json_object'}, 'tools': [{'type': 'function',"
         " 'function': {'name': 'f', 'strict': true, 'parameters': {'type': 'object',"
         " 'properties': {'a': {'type': 'integer', 'multipleOf': 2}}}}}]}",
         "error.param", "tools"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *v = aid_ask(&server, cases[i].path, cases[i].body, 400);
        if (strncmp(aid_string(v, cases[i].at), cases[i].says, strlen(cases[i].says)) != 0)
            fail_msg("case %zu: %s", i, aid_string(v, cases[i].at));
        json_decref(v);
    }
}

/* Sends an endless request and returns its connection. */
static int begin_endless(const char *id, bool stream)
{
    char body[256];
    struct buf text = BUF_INIT;
    snprintf(body, sizeof body, ENDLESS, stream ? "true" : "false", id);
    char *quoted = aid_quotes(body);
    const int fd = aid_http_connect(server.url);
    buf_printf(&text, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%s",
               strlen(quoted), quoted);
    aid_http_send(fd, buf_str(&text));
    mem_free(quoted);
    buf_free(&text);
    return fd;
}

static void test_clients_that_leave_are_cancelled(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const int fd = begin_endless("leaves", i % 2);
        wait_running(1);
        close(fd);
        wait_running(0);
    }
    expect_at("/v1/chat/completions", "{" HELLO "," GREEDY "}", "choices.0.message.content",
              GREETING);
}

static void test_a_slow_reader_is_dropped_alone(void **state)
{
    const int small = 2048;
    (void)state;
    if (aid_slower() > 1)
        skip(); /* tokens come too slowly to fill the connection in time */
    const int fd = begin_endless("slow", true);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    expect_at("/v1/chat/completions", "{" HELLO "," GREEDY "}", "choices.0.message.content",
              GREETING);
    wait_running(0); /* dropped, or at the end of the context */
    close(fd);
}

static void test_cancelling_by_name(void **state)
{
    struct aid_answer a;
    (void)state;
    const int fd = begin_endless("by-name", false);
    wait_running(1);
    json_t *v = aid_ask(&server, "/v1/requests/by-name/cancel", "", 200);
    assert_true(json_is_true(aid_at(v, "cancelled")));
    json_decref(v);
    aid_http_read(fd, &a);
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(buf_str(&a.body), "\"finish_reason\":\"cancelled\""));
    char *id = aid_answer_header(&a, "X-Request-ID");
    assert_string_equal(id, "by-name");
    mem_free(id);
    aid_answer_free(&a);
    close(fd);
    json_decref(aid_ask(&server, "/v1/requests/by-name/cancel", "", 404));
}

/* Cancelling one by its name would have ended both. */
static void test_two_live_requests_have_two_names(void **state)
{
    (void)state;
    const int fd = begin_endless("twice", true);
    wait_running(1);
    json_t *v = aid_ask(&server, "/v1/chat/completions", "{" HELLO ", 'request_id': 'twice'}", 409);
    assert_string_equal(aid_string(v, "error.message"),
                        "a request called 'twice' runs or waits already: give this one another "
                        "name, or none");
    assert_string_equal(aid_string(v, "error.code"), "conflict");
    json_decref(v);
    json_decref(aid_ask(&server, "/v1/requests/twice/cancel", "", 200));
    expect_at("/v1/chat/completions", "{" HELLO "," GREEDY ", 'n': 2, 'request_id': 'twice'}",
              "choices.1.message.content", GREETING);
    close(fd);
    wait_running(0);
}

static int status_of(const char *host, const char *headers)
{
    struct buf text = BUF_INIT;
    struct aid_answer a;
    buf_printf(&text, "GET /v1/requests HTTP/1.1\r\nHost: %s\r\n%sConnection: close\r\n\r\n", host,
               headers);
    const int fd = aid_http_connect(server.url);
    aid_http_send(fd, buf_str(&text));
    aid_http_read(fd, &a);
    const int status = a.status;
    aid_answer_free(&a);
    buf_free(&text);
    close(fd);
    return status;
}

static void test_pages_of_others_are_kept_out(void **state)
{
    (void)state;
    const char *own = server.url + strlen("http://");
    char origin[128];
    snprintf(origin, sizeof origin, "Origin: %s\r\n", server.url);
    assert_int_equal(status_of(own, origin), 200);
    assert_int_equal(status_of("localhost", ""), 200);
    assert_int_equal(status_of(own, "Origin: http://evil.example\r\n"), 403);
    assert_int_equal(status_of(own, "Origin: null\r\n"), 403);
    assert_int_equal(status_of("evil.example", "Origin: http://evil.example\r\n"), 403);
    assert_int_equal(status_of("evil.example:8080", ""), 403);
}

static void test_health_models_metrics(void **state)
{
    struct aid_answer a;
    (void)state;
    json_t *v = get("/health", 200);
    assert_string_equal(aid_string(v, "status"), "ok");
    json_decref(v);
    v = get("/v1/models", 200);
    assert_string_equal(aid_string(v, "data.0.id"), "cherenkov");
    assert_string_equal(aid_string(v, "data.0.type"), "model"); /* what Anthropic's clients read */
    assert_string_equal(aid_string(v, "data.0.display_name"), "cherenkov");
    assert_int_equal(strlen(aid_string(v, "data.0.created_at")), 20);
    assert_true(json_is_false(aid_at(v, "has_more")));
    assert_string_equal(aid_string(v, "last_id"), "cherenkov");
    json_decref(v);
    v = get("/api/version", 200); /* Codex --oss wants 0.13.4 or newer */
    assert_string_equal(aid_string(v, "version"), "0.13.4");
    json_decref(v);
    v = aid_ask(&server, "/api/pull", "{'model': 'cherenkov:latest', 'stream': true}", 200);
    assert_string_equal(aid_string(v, "status"), "success");
    json_decref(v);
    v = aid_ask(&server, "/api/pull", "{'name': 'llama3'}", 404);
    assert_non_null(strstr(aid_string(v, "error"), "there is no model 'llama3' here"));
    json_decref(v);
    v = get("/api/tags", 200);
    assert_string_equal(aid_string(v, "models.0.name"), "cherenkov:latest");
    json_decref(v);
    v = aid_ask(&server, "/api/show", "{'model': 'cherenkov'}",
                200); /* its template has no tools */
    assert_int_equal(json_array_size(aid_at(v, "capabilities")), 2);
    assert_string_equal(aid_string(v, "capabilities.1"), "thinking");
    json_decref(v);
    aid_http(server.url, "GET", "/metrics", "", NULL, &a);
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(buf_str(&a.body), "\ncherenkov_ready 1\n"));
    assert_non_null(strstr(buf_str(&a.body), "\ncherenkov_requests_done_total "));
    aid_answer_free(&a);
}

static uint64_t count_at(const json_t *v, const char *at)
{
    assert_true(json_is_integer(aid_at(v, at)));
    return (uint64_t)json_integer_value(aid_at(v, at));
}

static void test_figures(void **state)
{
    uint64_t used = 0;
    (void)state;
    json_t *v = get("/v1/stats", 200);
    assert_string_equal(aid_string(v, "object"), "stats");
    assert_string_equal(aid_string(v, "state"), "ok");
    assert_string_equal(aid_string(v, "engine"), "cpu");
    assert_string_equal(aid_string(v, "address"), server.url);
    assert_int_equal(count_at(v, "pid"), server.pid);
    assert_int_equal(count_at(v, "requests.sequences"), 2);
    assert_true(count_at(v, "tokens.prompt") > 0 && count_at(v, "tokens.generated") > 0);
    assert_true(count_at(v, "memory.rss_bytes") > count_at(v, "memory.dense_bytes"));
    assert_true(count_at(v, "memory.budget_bytes") > count_at(v, "memory.pool_bytes"));
    assert_true(count_at(v, "memory.rss_peak_bytes") >= count_at(v, "memory.rss_bytes"));
    const json_t *layers = aid_at(v, "layers");
    const uint64_t selected = count_at(v, "layers.0.selected");
    assert_true(json_array_size(layers) > 1);
    assert_true(json_is_real(aid_at(v, "layers.0.hit_rate")));
    assert_true(count_at(v, "experts.hits") >= count_at(v, "layers.0.hits"));
    json_decref(v);
    v = get("/v1/stats/experts/0", 200);
    for (size_t i = 0; i < json_array_size(aid_at(v, "experts")); i++) {
        const json_t *x = json_array_get(aid_at(v, "experts"), i);
        assert_int_equal(count_at(x, "expert"), i);
        used += count_at(x, "selected");
    }
    assert_int_equal(used, selected);
    json_decref(v);
    json_decref(get("/v1/stats/experts/99", 404));
    json_decref(get("/v1/stats/experts/x", 404));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_api_gives_the_known_answer),
        cmocka_unit_test(test_choices_and_usage),
        cmocka_unit_test(test_streams_say_the_same),
        cmocka_unit_test(test_a_stream_has_the_blocks_of_the_whole_answer),
        cmocka_unit_test(test_thinking_is_split_off),
        cmocka_unit_test(test_what_is_wrong_is_told_in_each_form),
        cmocka_unit_test(test_tokens_of_a_prompt_too_long_are_counted),
        cmocka_unit_test(test_what_is_out_of_range_is_named),
        cmocka_unit_test(test_clients_that_leave_are_cancelled),
        cmocka_unit_test(test_a_slow_reader_is_dropped_alone),
        cmocka_unit_test(test_cancelling_by_name),
        cmocka_unit_test(test_two_live_requests_have_two_names),
        cmocka_unit_test(test_pages_of_others_are_kept_out),
        cmocka_unit_test(test_health_models_metrics),
        cmocka_unit_test(test_figures),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
