/* The events of an answer with thinking, text and calls of tools, made of a text that no model had
 * to write: /v1/responses over a server of the test's own. */
#include <stdio.h>
#include <string.h>

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

static void give(struct choice *c)
{
    struct err e = {0};
    for (size_t i = 0; i < strlen(ANSWER); i += 5) {
        const size_t left = strlen(ANSWER) - i;
        assert_ok(parts_push(&c->parts, &ANSWER[i], left < 5 ? left : 5, &e), e);
    }
    assert_ok(parts_finish(&c->parts, &e), e);
    c->finish = "tool_calls";
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
    if (streamed) {
        exchange_stream(x, f->type, f->idle);
        f->begin(r);
        if (failing) {
            (void)ERR(&e, E_IO, "the disk is gone");
            r->failed = true;
            (f->fail)(r, 500, &e); /* cmocka has a macro of this name */
        } else {
            give(c);
            f->choice_end(c);
            f->end(r);
        }
        exchange_end(x);
    } else {
        give(c);
        api_reply(x, 200, f->whole(r));
    }
    reply_free(r);
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
                             .refuse = refuse};
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_streamed),
        cmocka_unit_test(test_failed),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
