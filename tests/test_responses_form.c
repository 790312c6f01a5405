/* The events of an answer with thinking, text and calls of tools, made of a text that no model had
 * to write: /v1/responses over a server of the test's own. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "server/listen.h"
#include "server/openai.h"
#include "server/reply_inside.h"
#include "tests/aid_serve.h"

#define ANSWER                                                                                     \
    "Hm.\n</think>\n\nI look.\n\n<tool_call>\n<function=look>\n<parameter=at>\n7\n</parameter>\n"  \
    "</function>\n</tool_call>\n<tool_call>\n<function=look>\n</function>\n</tool_call>"

static struct server server = {.o.names = {"m"}, .o.n_names = 1};
static struct http *http;
static struct buf address;
static bool streamed, failing;
static int starve_at;       /* the allocation of an answer from which on all fail; 0: none */
static atomic_bool handled; /* the answer is made: memory can be had again */

static int give(struct choice *c, struct err *e)
{
    for (size_t i = 0; i < strlen(ANSWER); i += 5) {
        const size_t left = strlen(ANSWER) - i;
        if (parts_push(&c->parts, &ANSWER[i], left < 5 ? left : 5, e) || buf_check(&c->text, e))
            return -e->code;
    }
    if (parts_finish(&c->parts, e))
        return -e->code;
    c->finish = "tool_calls";
    return 0;
}

static void answer_streamed(struct reply *r, const struct reply_form *f)
{
    struct choice *c = &r->choices[0];
    struct err e = {0};
    exchange_stream(r->exchange, f->type, f->idle);
    mem_fail_at(starve_at);
    f->begin(r);
    if (failing)
        (void)ERR(&e, E_IO, "the disk is gone");
    else
        (void)give(c, &e);
    assert_true(failing || starve_at || !e.code);
    if (e.code) {
        r->failed = true;
        (f->fail)(r, 500, &e); /* cmocka has a macro of this name */
    } else {
        f->choice_end(c);
        f->end(r);
    }
    mem_fail_at(0);
    exchange_end(r->exchange);
}

static void answer_at_once(struct reply *r, const struct reply_form *f)
{
    struct wrong w = {0};
    mem_fail_at(starve_at);
    if (give(&r->choices[0], &w.e))
        api_fail(r->exchange, &w);
    else
        api_reply(r->exchange, 200, f->whole(r));
    mem_fail_at(0);
}

/* Answers as a reply does whose model says ANSWER. */
static void handle(void *ctx, struct exchange *x)
{
    const struct reply_form *f = &openai_responses_form;
    struct err e = {0};
    struct choice *c = mem_zalloc(1, sizeof *c);
    struct reply *r = mem_zalloc(1, sizeof *r);
    struct parts_events on = reply_events;
    json_error_t je;
    (void)ctx;
    *r = (struct reply){.server = &server, .exchange = x, .form = f, .choices = c, .n_choices = 1};
    ask_init(&r->ask, json_object());
    r->ask.stream = streamed;
    r->ask.tools = json_loads("[{\"type\": \"function\", \"function\": {\"name\": \"look\", "
                              "\"parameters\": {\"type\": \"object\", \"properties\": {\"at\": "
                              "{\"type\": \"integer\"}}}}}]",
                              0, &je);
    assert_ok(toolset_init(&r->tools, r->ask.tools, &e), e);
    r->has_tools = true;
    id_make("resp_", ID_LONG, r->id);
    on.ctx = c;
    c->reply = r;
    assert_ok(parts_init(&c->parts, &on, &r->tools, true, &e), e);
    (void)json_starved();
    (streamed ? answer_streamed : answer_at_once)(r, f);
    reply_free(r);
    atomic_store(&handled, true);
}

static const char *refuse(void *ctx, const struct exchange *x, int status, const char *why,
                          struct buf *out)
{
    (void)ctx;
    (void)x;
    buf_printf(out, "%d %s", status, why);
    return "text/plain";
}

static int setup(void **state)
{
    struct err e = {0};
    struct http_options o = {.connections = 4,
                             .idle_s = 60,
                             .body_max = 1000,
                             .bodies_max = 8000,
                             .waiting_max = 1 << 20,
                             .handle = handle,
                             .refuse = refuse,
                             .starved = api_starved};
    json_t *v;
    (void)state;
    assert_ok(json_parse("1", 1, "", &v, &e), e); /* from now on its memory is ours */
    json_decref(v);
    assert_ok(listen_open("127.0.0.1:0", &o.listen_fd, &address, &e), e);
    assert_ok(http_start(&o, &http, &e), e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    http_stop(http);
    http_free(http);
    buf_free(&address);
    return 0;
}

/* Checks one answer's items. */
static void check_output(const json_t *v)
{
    assert_string_equal(aid_string(v, "status"), "completed");
    assert_int_equal(json_array_size(aid_at(v, "output")), 4);
    assert_string_equal(aid_string(v, "output.0.content.0.text"), "Hm.");
    assert_string_equal(aid_string(v, "output.1.content.0.text"), "I look.");
    assert_string_equal(aid_string(v, "output.2.type"), "function_call");
    assert_string_equal(aid_string(v, "output.2.name"), "look");
    assert_string_equal(aid_string(v, "output.2.arguments"), "{\"at\":7}");
    assert_string_equal(aid_string(v, "output.3.arguments"), "{}");
    assert_string_not_equal(aid_string(v, "output.2.call_id"), aid_string(v, "output.3.call_id"));
}

static void test_at_once(void **state)
{
    struct aid_answer a;
    (void)state;
    streamed = false;
    aid_http(buf_str(&address), "POST", "/v1/responses", "", "{}", &a);
    json_t *v = json_loads(buf_str(&a.body), 0, NULL);
    check_output(v);
    json_decref(v);
    aid_answer_free(&a);
}

/* What a client comes to that builds the output from events alone. */
struct built {
    struct buf arguments[4];
    int n_added, n_done;
};

static void take_event(struct built *b, const json_t *v, int number, struct buf *types)
{
    const char *type = aid_string(v, "type") + strlen("response.");
    const int place = (int)json_integer_value(aid_at(v, "output_index"));
    assert_int_equal(json_integer_value(aid_at(v, "sequence_number")), number);
    if (strcmp(type, "output_item.added") == 0)
        assert_int_equal(place, b->n_added++);
    b->n_done += strcmp(type, "output_item.done") == 0;
    if (strcmp(type, "function_call_arguments.delta") == 0)
        buf_puts(&b->arguments[place], aid_string(v, "delta"));
    if (strcmp(type, "function_call_arguments.done") == 0)
        assert_string_equal(buf_str(&b->arguments[place]), aid_string(v, "arguments"));
    if (!strstr(type, "delta"))
        buf_printf(types, "%s ", type);
    if (strcmp(type, "completed") == 0)
        check_output(aid_at(v, "response"));
}

static void test_streamed(void **state)
{
    static const char prefix[] = "data: ";
    struct built b = {0};
    struct buf types = BUF_INIT;
    struct aid_answer a;
    char *rest = NULL;
    int number = 0;
    (void)state;
    streamed = true;
    aid_http(buf_str(&address), "POST", "/v1/responses", "", "{}", &a);
    for (char *line = strtok_r(a.body.data, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, prefix, strlen(prefix)) != 0)
            continue;
        json_t *v = json_loads(line + strlen(prefix), 0, NULL);
        take_event(&b, v, number++, &types);
        json_decref(v);
    }
    assert_int_equal(b.n_added, 4);
    assert_int_equal(b.n_done, 4);
    assert_string_equal(buf_str(&types),
                        "created in_progress output_item.added content_part.added "
                        "reasoning_text.done content_part.done output_item.done "
                        "output_item.added content_part.added "
                        "output_item.added function_call_arguments.done output_item.done "
                        "output_item.added function_call_arguments.done output_item.done "
                        "output_text.done content_part.done output_item.done completed ");
    for (int i = 0; i < 4; i++)
        buf_free(&b.arguments[i]);
    buf_free(&types);
    aid_answer_free(&a);
}

static void test_failed(void **state)
{
    static const char event[] = "event: response.failed\ndata: ";
    struct aid_answer a;
    (void)state;
    streamed = failing = true;
    aid_http(buf_str(&address), "POST", "/v1/responses", "", "{}", &a);
    const char *at = strstr(buf_str(&a.body), event);
    assert_non_null(at);
    json_t *v = json_loads(at + strlen(event), JSON_DISABLE_EOF_CHECK, NULL);
    assert_int_equal(json_integer_value(aid_at(v, "sequence_number")), 2);
    assert_string_equal(aid_string(v, "response.status"), "failed");
    assert_string_equal(aid_string(v, "response.error.code"), "server_error");
    assert_string_equal(aid_string(v, "response.error.message"), "the disk is gone");
    json_decref(v);
    aid_answer_free(&a);
}

/* The answer to a request whose allocation `nth` and all behind it failed. */
static void ask_starved(int nth, struct aid_answer *a)
{
    const int fd = aid_http_connect(buf_str(&address));
    starve_at = nth;
    atomic_store(&handled, false);
    aid_http_send(fd, "POST /v1/responses HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}");
    while (!atomic_load(&handled)) /* this thread would be refused memory too */
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
    starve_at = 0;
    aid_http_read(fd, a);
    close(fd);
}

/* Checks each event: those of a stream are whole, and the last one ends it. Returns whether the
 * answer is there. */
static bool check_stream(char *text)
{
    static const char prefix[] = "data: ";
    char *rest = NULL, last[64] = "";
    int number = 0;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, prefix, strlen(prefix)) != 0)
            continue;
        json_t *v = json_loads(line + strlen(prefix), 0, NULL);
        assert_int_equal(json_integer_value(aid_at(v, "sequence_number")), number++);
        snprintf(last, sizeof last, "%s", aid_string(v, "type"));
        if (strcmp(last, "response.completed") == 0)
            check_output(aid_at(v, "response"));
        if (strcmp(last, "response.failed") == 0)
            assert_string_equal(aid_string(v, "response.status"), "failed");
        json_decref(v);
    }
    if (strcmp(last, "response.failed") != 0)
        assert_string_equal(last, "response.completed");
    return strcmp(last, "response.completed") == 0;
}

/* Where memory had run out a stream just ended, or lacked an event or fields of one; an answer at
 * once was a 503 without a body. */
static void test_without_memory(void **state)
{
    (void)state;
    failing = false;
    for (int kind = 0; kind < 2; kind++) {
        int nth = 1;
        streamed = kind;
        for (bool whole = false; !whole; nth += 1 + nth / 16) {
            struct aid_answer a;
            ask_starved(nth, &a);
            assert_false(a.cut);
            json_t *v = streamed ? NULL : json_loads(buf_str(&a.body), 0, NULL);
            whole = streamed ? check_stream(a.body.data) : a.status == 200;
            if (!streamed && whole)
                check_output(v);
            else if (!streamed)
                assert_int_equal(a.status, 503);
            if (!streamed && !whole)
                assert_non_null(strstr(aid_string(v, "error.message"), "memory"));
            json_decref(v);
            aid_answer_free(&a);
        }
        assert_true(nth > 50);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_streamed),
        cmocka_unit_test(test_failed),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
