/* /v1/responses over HTTP, on the packed demonstration model: whole and streamed answers, the order
 * of events, input as items, what is stored and gone on from, and that every field works or is
 * refused by its name. */
#include "tests/aid_serve.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "tests/aid_demo.h"

#define GREETING "Hello! Shall I tell you a story?"
#define PATH     "/v1/responses"
#define HELLO    "'input': 'Hello!', 'temperature': 0"

static struct aid_server server;

static int setup(void **state)
{
    aid_demo_open(state);
    aid_serve(&server, aid_demo_store, (const char *const[]){"--sequences", "2", NULL});
    return 0;
}

static int teardown(void **state)
{
    const int status = aid_serve_stop(&server);
    aid_demo_close(state);
    return status;
}

static json_t *ask(const char *body)
{
    return aid_ask(&server, PATH, body, 200);
}

static int64_t number(const json_t *v, const char *at)
{
    return json_integer_value(aid_at(v, at));
}

static void test_an_answer_at_once(void **state)
{
    (void)state;
    json_t *v = ask("{" HELLO ", 'metadata': {'a': 'b'}, 'user': 'me', 'top_p': 1}");
    assert_string_equal(aid_string(v, "object"), "response");
    assert_string_equal(aid_string(v, "status"), "completed");
    assert_string_equal(aid_string(v, "output.0.type"), "message");
    assert_string_equal(aid_string(v, "output.0.status"), "completed");
    assert_string_equal(aid_string(v, "output.0.content.0.text"), GREETING);
    assert_string_equal(aid_string(v, "metadata.a"), "b");
    assert_string_equal(aid_string(v, "user"), "me");
    assert_string_equal(aid_string(v, "tool_choice"), "auto");
    assert_int_equal(json_array_size(aid_at(v, "output")), 1);
    assert_int_equal(number(v, "usage.total_tokens"),
                     number(v, "usage.input_tokens") + number(v, "usage.output_tokens"));
    assert_int_equal(number(v, "usage.output_tokens_details.reasoning_tokens"), 0);
    json_decref(v);
    v = ask("{" HELLO ", 'max_output_tokens': 3}");
    assert_string_equal(aid_string(v, "status"), "incomplete");
    assert_string_equal(aid_string(v, "incomplete_details.reason"), "max_output_tokens");
    assert_string_equal(aid_string(v, "output.0.status"), "incomplete");
    json_decref(v);
}

/* The items of a page, their texts in one row; for json_decref. */
static json_t *input_items(const char *id, const char *query, int status, struct buf *texts)
{
    struct aid_answer a;
    struct buf path = BUF_INIT;
    buf_printf(&path, PATH "/%s/input_items%s", id, query);
    aid_http(server.url, "GET", buf_str(&path), "", NULL, &a);
    assert_int_equal(a.status, status);
    json_t *v = json_loads(buf_str(&a.body), 0, NULL);
    const json_t *data = aid_at(v, "data");
    buf_clear(texts);
    for (size_t i = 0; i < json_array_size(data); i++)
        buf_printf(texts, "%s ", aid_string(json_array_get(data, i), "content.0.text"));
    aid_answer_free(&a);
    buf_free(&path);
    return v;
}

static void test_input_items_of_a_response(void **state)
{
    struct buf texts = BUF_INIT, again = BUF_INIT;
    (void)state;
    json_t *first = ask("{'input': 'One', 'max_output_tokens': 2}");
    buf_printf(&again,
               "{'previous_response_id': '%s', 'max_output_tokens': 2, 'input': [{'role': 'user', "
               "'content': 'Two', 'id': 'mine'}, {'role': 'user', 'content': [{'type': "
               "'input_text', 'text': 'Three'}]}]}",
               aid_string(first, "id"));
    json_t *second = ask(buf_str(&again));
    const char *id = aid_string(second, "id");
    json_t *v = input_items(id, "?order=asc", 200, &texts);
    assert_int_equal(json_array_size(aid_at(v, "data")), 4); /* one of them the first answer */
    assert_string_equal(aid_string(v, "data.0.content.0.text"), "One");
    assert_string_equal(aid_string(v, "data.1.role"), "assistant");
    assert_string_equal(aid_string(v, "data.2.id"), "mine");
    assert_string_equal(aid_string(v, "data.3.type"), "message");
    assert_true(json_is_false(aid_at(v, "has_more")));
    json_decref(v);
    v = input_items(id, "?limit=2", 200, &texts);
    assert_string_equal(buf_str(&texts), "Three Two ");
    assert_true(json_is_true(aid_at(v, "has_more")));
    assert_string_equal(aid_string(v, "last_id"), "mine");
    json_decref(v);
    v = input_items(id, "?order=asc&after=mine", 200, &texts);
    assert_string_equal(buf_str(&texts), "Three ");
    json_decref(v);
    json_decref(input_items(id, "?limit=0", 400, &texts));
    json_decref(input_items(id, "?limit=2x", 400, &texts));
    json_decref(input_items(id, "?order=up", 400, &texts));
    json_decref(input_items(id, "?after=none", 400, &texts));
    json_decref(input_items("resp_0", "", 404, &texts));
    json_decref(first);
    json_decref(second);
    buf_free(&texts);
    buf_free(&again);
}

/* An input item is referred to by the id that input_items shows. */
static void test_input_items_are_referred_to(void **state)
{
    struct buf texts = BUF_INIT, body = BUF_INIT;
    (void)state;
    json_t *first = ask("{'input': 'One', 'max_output_tokens': 2}");
    json_t *v = input_items(aid_string(first, "id"), "", 200, &texts);
    buf_printf(
        &body,
        "{'max_output_tokens': 2, 'input': [{'type': 'item_reference', 'id': '%s'}, {'role': "
        "'user', 'content': 'Two'}]}",
        aid_string(v, "data.0.id"));
    json_decref(v);
    json_t *second = ask(buf_str(&body));
    json_decref(input_items(aid_string(second, "id"), "?order=asc", 200, &texts));
    assert_string_equal(buf_str(&texts), "One Two ");
    json_decref(first);
    json_decref(second);
    buf_free(&texts);
    buf_free(&body);
}

/* Reads what a stream says until it has said a text, for ten seconds at most. */
static void read_until(int fd, const char *text, struct buf *out)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char part[4096];
    while (!strstr(buf_str(out), text)) {
        assert_true(poll(&p, 1, 10000) > 0);
        const ssize_t n = read(fd, part, sizeof part);
        assert_true(n > 0);
        buf_add(out, part, (size_t)n);
    }
}

static void test_a_response_that_runs_is_cancelled_by_its_id(void **state)
{
    char path[128] = PATH "/";
    struct buf said = BUF_INIT;
    (void)state;
    const int fd = aid_begin(
        &server, PATH, "{'input': 'Once', 'ignore_eos': true, 'stream': true, 'temperature': 0}");
    read_until(fd, "response.output_text.delta", &said);
    const char *id = strstr(buf_str(&said), "\"resp_") + 1;
    strncat(path, id, strcspn(id, "\""));
    strcat(path, "/cancel");
    json_t *v = aid_ask(&server, path, "", 200);
    assert_string_equal(aid_string(v, "status"), "cancelled");
    assert_string_equal(aid_string(v, "object"), "response");
    json_decref(v);
    read_until(fd, "event: response.incomplete", &said);
    read_until(fd, "\"status\":\"cancelled\"", &said);
    close(fd);
    json_decref(aid_ask(&server, path, "", 404)); /* over, and not stored */
    buf_free(&said);
}

static void test_what_does_not_run_is_not_cancelled(void **state)
{
    char path[128];
    (void)state;
    json_t *v = ask("{" HELLO ", 'max_output_tokens': 1}");
    snprintf(path, sizeof path, PATH "/%s/cancel", aid_string(v, "id"));
    json_decref(v);
    v = aid_ask(&server, path, "", 400);
    assert_non_null(strstr(aid_string(v, "error.message"), "is over, with status incomplete"));
    json_decref(v);
    json_decref(aid_ask(&server, PATH "/resp_none/cancel", "", 404));
    json_decref(aid_ask(&server, PATH "/none/cancel", "", 404));
}

static void test_thinking_is_an_item(void **state)
{
    (void)state;
    json_t *v = ask("{" HELLO ", 'reasoning': {'effort': 'low'}, 'max_output_tokens': 6}");
    assert_string_equal(aid_string(v, "output.0.type"), "reasoning");
    assert_string_equal(aid_string(v, "output.0.content.0.type"), "reasoning_text");
    assert_int_equal(json_array_size(aid_at(v, "output")), 1);
    assert_string_equal(aid_string(v, "output.0.status"), "incomplete"); /* cut while it thought */
    assert_int_equal(number(v, "usage.output_tokens_details.reasoning_tokens"), 6);
    assert_string_equal(aid_string(v, "status"), "incomplete");
    json_decref(v);
    v = ask("{" HELLO
            ", 'reasoning': {'effort': 'low', 'summary': 'auto'}, 'max_output_tokens': 6}");
    assert_string_equal(aid_string(v, "output.0.summary.0.type"), "summary_text");
    json_decref(v);
}

/* --- streams --- */

/* The events of an answer, in order; for json_decref. */
static json_t *events_of(const char *body)
{
    struct aid_answer a;
    char *text = aid_quotes(body), *rest = NULL;
    json_t *list = json_array();
    aid_http(server.url, "POST", PATH, "", text, &a);
    assert_int_equal(a.status, 200);
    assert_false(a.cut);
    for (char *line = strtok_r(a.body.data, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "data: ", 6) != 0)
            continue;
        json_t *v = json_loads(line + 6, 0, NULL);
        assert_non_null(v);
        assert_int_equal(json_integer_value(aid_at(v, "sequence_number")), json_array_size(list));
        json_array_append_new(list, v);
    }
    mem_free(text);
    aid_answer_free(&a);
    return list;
}

/* The types of events, without "response.", each once in a row. */
static void types_of(const json_t *events, struct buf *out)
{
    const char *last = "";
    for (size_t i = 0; i < json_array_size(events); i++) {
        const char *type = aid_string(json_array_get(events, i), "type");
        if (strcmp(type, last) != 0)
            buf_printf(out, "%s ", type + strlen("response."));
        last = type;
    }
}

static void expect_events(const json_t *events, const char *want)
{
    struct buf types = BUF_INIT;
    types_of(events, &types);
    assert_string_equal(buf_str(&types), want);
    buf_free(&types);
}

/* The deltas of events of a type, joined. */
static void deltas_of(const json_t *events, const char *type, struct buf *out)
{
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *v = json_array_get(events, i);
        if (strcmp(aid_string(v, "type"), type) == 0)
            buf_puts(out, aid_string(v, "delta"));
    }
}

static void test_the_events_of_a_stream(void **state)
{
    struct buf text = BUF_INIT;
    (void)state;
    json_t *events = events_of("{" HELLO ", 'stream': true}");
    expect_events(events, "created in_progress output_item.added content_part.added "
                          "output_text.delta output_text.done content_part.done output_item.done "
                          "completed ");
    deltas_of(events, "response.output_text.delta", &text);
    assert_string_equal(buf_str(&text), GREETING);
    const json_t *last = json_array_get(events, json_array_size(events) - 1);
    assert_string_equal(aid_string(last, "response.status"), "completed");
    assert_string_equal(aid_string(last, "response.output.0.content.0.text"), GREETING);
    assert_string_equal(aid_string(last, "response.id"),
                        aid_string(json_array_get(events, 0), "response.id"));
    assert_string_equal(aid_string(last, "response.output.0.id"),
                        aid_string(json_array_get(events, 2), "item.id"));
    assert_true(number(last, "response.usage.output_tokens") > 0);
    buf_free(&text);
    json_decref(events);
}

static void test_a_stream_that_thinks_and_is_cut(void **state)
{
    (void)state;
    json_t *events = events_of("{" HELLO ", 'stream': true, 'reasoning': {'effort': 'low'}, "
                               "'max_output_tokens': 6}");
    expect_events(events, "created in_progress output_item.added content_part.added "
                          "reasoning_text.delta reasoning_text.done content_part.done "
                          "output_item.done incomplete ");
    json_decref(events);
    events = events_of("{" HELLO ", 'stream': true, 'reasoning': {'effort': 'low', 'summary': "
                       "'detailed'}, 'max_output_tokens': 6}");
    expect_events(events, "created in_progress output_item.added reasoning_summary_part.added "
                          "reasoning_summary_text.delta reasoning_summary_text.done "
                          "reasoning_summary_part.done output_item.done incomplete ");
    json_decref(events);
}

/* --- items, and going on --- */

/* What a conversation's prompt counts, as chat has it. */
static int64_t chat_tokens(const char *messages)
{
    struct buf body = BUF_INIT;
    buf_printf(&body, "{'messages': %s, 'max_tokens': 1}", messages);
    json_t *v = aid_ask(&server, "/v1/chat/completions", buf_str(&body), 200);
    const int64_t n = number(v, "usage.prompt_tokens");
    json_decref(v);
    buf_free(&body);
    return n;
}

static int64_t input_tokens(const char *body)
{
    json_t *v = ask(body);
    const int64_t n = number(v, "usage.input_tokens");
    json_decref(v);
    return n;
}

static void test_items_are_the_messages_of_a_chat(void **state)
{
    (void)state;
    assert_int_equal(
        input_tokens("{'instructions': 'Be brief.', 'input': [{'role': 'developer', 'content': "
                     "'Tell stories.'}, {'role': 'user', 'content': [{'type': 'input_text', "
                     "'text': 'Hello!'}]}], 'max_output_tokens': 1}"),
        chat_tokens("[{'role': 'system', 'content': 'Be brief.'}, {'role': 'system', 'content': "
                    "'Tell stories.'}, {'role': 'user', 'content': 'Hello!'}]"));
    assert_int_equal(
        input_tokens("{'input': [{'type': 'message', 'role': 'user', 'content': 'Look!'}, {'type': "
                     "'reasoning', 'id': 'x', 'summary': [], 'content': [{'type': "
                     "'reasoning_text', 'text': 'I look.'}]}, {'type': 'message', 'id': 'y', "
                     "'status': 'completed', 'role': 'assistant', 'content': [{'type': "
                     "'output_text', 'text': 'A fox.', 'annotations': []}]}, {'role': 'user', "
                     "'content': 'Where?'}], 'max_output_tokens': 1}"),
        chat_tokens("[{'role': 'user', 'content': 'Look!'}, {'role': 'assistant', "
                    "'reasoning_content': 'I look.', 'content': 'A fox.'}, {'role': 'user', "
                    "'content': 'Where?'}]"));
}

static void test_a_response_is_stored_and_gone_on_from(void **state)
{
    char path[128], body[512];
    struct aid_answer a;
    (void)state;
    json_t *first = ask("{" HELLO ", 'instructions': 'Be brief.'}");
    const char *id = aid_string(first, "id");
    const int64_t whole = chat_tokens("[{'role': 'user', 'content': 'Hello!'}, {'role': "
                                      "'assistant', 'content': '" GREETING "'}, {'role': 'user', "
                                      "'content': 'Yes.'}]");
    snprintf(body, sizeof body,
             "{'previous_response_id': '%s', 'input': 'Yes.', 'max_output_tokens': 1}", id);
    assert_int_equal(input_tokens(body), whole); /* instructions do not carry over */
    snprintf(body, sizeof body,
             "{'input': [{'role': 'user', 'content': 'Hello!'}, {'type': 'item_reference', 'id': "
             "'%s'}, {'role': 'user', 'content': 'Yes.'}], 'max_output_tokens': 1}",
             aid_string(first, "output.0.id"));
    assert_int_equal(input_tokens(body), whole);
    snprintf(path, sizeof path, PATH "/%s", id);
    aid_http(server.url, "GET", path, "", NULL, &a);
    json_t *again = json_loads(buf_str(&a.body), 0, NULL);
    assert_true(json_equal(again, first));
    json_decref(again);
    aid_answer_free(&a);
    aid_http(server.url, "DELETE", path, "", NULL, &a);
    assert_int_equal(a.status, 200);
    aid_answer_free(&a);
    aid_http(server.url, "GET", path, "", NULL, &a);
    assert_int_equal(a.status, 404);
    aid_answer_free(&a);
    json_t *v = aid_ask(&server, PATH, body, 400);
    assert_string_equal(aid_string(v, "error.param"), "input[1]");
    json_decref(v);
    json_decref(first);
}

static void test_what_is_not_to_be_stored_is_not(void **state)
{
    char body[256];
    (void)state;
    json_t *v = ask("{" HELLO ", 'store': false, 'max_output_tokens': 1}");
    snprintf(body, sizeof body, "{'previous_response_id': '%s', 'input': 'Yes.'}",
             aid_string(v, "id"));
    json_decref(v);
    v = aid_ask(&server, PATH, body, 400);
    assert_string_equal(aid_string(v, "error.param"), "previous_response_id");
    json_decref(v);
}

/* --- fields --- */

static void test_fields_are_refused_by_name(void **state)
{
    static const struct {
        const char *fields, *param;
    } cases[] = {
        {"'input': 5", "input"},
        {"'instructions': 'x'", "input"},
        {HELLO ", 'max_tokens': 5", "max_tokens"},
        {HELLO ", 'max_output_tokens': 0", "max_output_tokens"},
        {HELLO ", 'top_p': 2", "top_p"},
        {"'input': 'x', 'temperature': 3", "temperature"},
        {HELLO ", 'background': true", "background"},
        {HELLO ", 'tools': [{'type': 'file_search'}]", "tools[0].type"},
        {HELLO ", 'tools': [{'type': 'namespace', 'tools': []}]", "tools[0].name"},
        {HELLO ", 'tools': [{'type': 'namespace', 'name': 'a'}]", "tools[0].tools"},
        {HELLO ", 'tools': [{'type': 'namespace', 'name': 'a', 'tools': [{'type': 'custom'}]}]",
         "tools[0].tools[0].type"},
        {HELLO ", 'tools': [{'type': 'web_search'}], 'tool_choice': 'required'", "tool_choice"},
        {HELLO ", 'conversation': 'c'", "conversation"},
        {HELLO ", 'truncation': 'auto'", "truncation"},
        {HELLO ", 'prompt': {'id': 'p'}", "prompt"},
        {HELLO ", 'max_tool_calls': 3", "max_tool_calls"},
        {HELLO ", 'metadata': {'a': 1}", "metadata.a"},
        {HELLO ", 'include': ['file_search_call.results']", "include"},
        {HELLO ", 'reasoning': {'effort': 'much'}", "reasoning.effort"},
        {HELLO ", 'reasoning': {'summary': 'concise'}", "reasoning.summary"},
        {HELLO ", 'text': {'verbosity': 'low'}", "text.verbosity"},
        {HELLO ", 'text': {'format': {'type': 'xml'}}", "text.format"},
        {HELLO ", 'tools': [{'type': 'image_generation'}]", "tools[0].type"},
        {HELLO ", 'tools': [{'type': 'function', 'name': 'a b'}]", "tools[0]"},
        {HELLO ", 'tool_choice': {'type': 'mcp'}", "tool_choice"},
        {HELLO ", 'tool_choice': 'required'", "tool_choice"},
        {HELLO ", 'service_tier': 'priority'", "service_tier"},
        {HELLO ", 'previous_response_id': 'resp_none'", "previous_response_id"},
        {HELLO ", 'stream_options': {'include_usage': true}", "stream_options.include_usage"},
        {"'input': [{'role': 'user', 'content': [{'type': 'input_image'}]}]",
         "input[0].content[0]"},
        {"'input': [{'role': 'wizard', 'content': 'x'}]", "input[0]"},
        {"'input': [{'type': 'computer_call'}]", "input[0]"},
        {"'input': [{'type': 'function_call', 'name': 'f'}]", "input[0].call_id"},
        {"'input': [{'type': 'function_call', 'call_id': 'c', 'name': 'f', 'arguments': '[]'}]",
         "input[0].arguments"},
        {"'input': [{'type': 'reasoning', 'summary': 'x'}]", "input[0].summary"},
        {"'input': [{'type': 'item_reference', 'id': 'msg_1_0'}]", "input[0]"},
        {"'input': [{'role': 'user', 'content': 'x', 'colour': 1}]", "input[0].colour"},
        {"'input': [{'type': 3, 'role': 'user', 'content': 'x'}]", "input[0].type"},
        {"'input': [{'type': 'item_reference', 'id': 'x', 'colour': 1}]", "input[0].colour"},
        {HELLO ", 'text': {'format': {'type': 'text', 'colour': 1}}", "text.format.colour"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf body = BUF_INIT;
        buf_printf(&body, "{%s}", cases[i].fields);
        json_t *v = aid_ask(&server, PATH, buf_str(&body), 400);
        if (strcmp(aid_string(v, "error.param"), cases[i].param) != 0)
            fail_msg("%s: %s", cases[i].fields, aid_string(v, "error.message"));
        json_decref(v);
        buf_free(&body);
    }
}

static void test_fields_that_change_nothing_are_taken(void **state)
{
    (void)state;
    json_t *v = ask("{" HELLO ", 'safety_identifier': 's', 'prompt_cache_key': 'k', "
                    "'service_tier': 'auto', 'truncation': 'disabled', 'background': false, "
                    "'text': {'format': {'type': 'text'}, 'verbosity': 'medium'}, "
                    "'include': ['reasoning.encrypted_content'], 'parallel_tool_calls': true, "
                    "'stream': false, 'max_tool_calls': null, "
                    "'tools': [{'type': 'function', 'name': 'look', 'strict': true, 'parameters': "
                    "{'type': 'object', 'properties': {}}}], 'tool_choice': 'none'}");
    assert_string_equal(aid_string(v, "output.0.content.0.text"), GREETING);
    assert_string_equal(aid_string(v, "tools.0.name"), "look");
    json_decref(v);
    v = ask("{" HELLO ", 'include': ['message.output_text.logprobs'], 'top_logprobs': 1}");
    assert_string_equal(aid_string(v, "output.0.content.0.logprobs.0.token"), "H");
    json_decref(v);
}

/* What Codex sends beside functions. A call says its namespace, and its name without it. */
static void test_tools_of_namespaces(void **state)
{
    static const char body[] =
        "{" HELLO ", 'stream': %s, 'tool_choice': 'required', 'max_output_tokens': 60, "
        "'parallel_tool_calls': false, 'client_metadata': {'a': 'b'}, 'tools': [{'type': "
        "'web_search', 'external_web_access': false}, {'type': 'namespace', 'name': 'far', "
        "'description': 'd', 'tools': [{'type': 'function', 'name': 'look', 'strict': true, "
        "'parameters': {'type': 'object', 'properties': {}, 'additionalProperties': false}}]}]}";
    char text[1024];
    (void)state;
    snprintf(text, sizeof text, body, "false");
    json_t *v = ask(text);
    assert_string_equal(aid_string(v, "output.0.name"), "look");
    assert_string_equal(aid_string(v, "output.0.namespace"), "far");
    json_decref(v);
    snprintf(text, sizeof text, body, "true");
    v = events_of(text);
    assert_string_equal(aid_string(json_array_get(v, 2), "item.name"), "look");
    assert_string_equal(aid_string(json_array_get(v, 2), "item.namespace"), "far");
    json_decref(v);
}

static void test_formats_and_required_calls(void **state)
{
    (void)state;
    json_t *v = ask("{" HELLO ", 'max_output_tokens': 60, 'text': {'format': {'type': "
                    "'json_schema', 'name': 'x', 'strict': true, 'schema': {'enum': ['a fox', 'a "
                    "wolf']}}}}");
    const char *text = aid_string(v, "output.0.content.0.text");
    assert_true(strcmp(text, "\"a fox\"") == 0 || strcmp(text, "\"a wolf\"") == 0);
    assert_string_equal(aid_string(v, "text.format.type"), "json_schema");
    json_decref(v);
    json_t *events =
        events_of("{" HELLO ", 'stream': true, 'tool_choice': 'required', 'max_output_tokens': 60, "
                  "'tools': [{'type': 'function', 'name': 'look', 'strict': true, 'parameters': "
                  "{'type': 'object', 'properties': {'far': {'type': 'boolean'}}, 'required': "
                  "['far'], 'additionalProperties': false}}]}");
    struct buf arguments = BUF_INIT;
    assert_string_equal(aid_string(json_array_get(events, 2), "item.type"), "function_call");
    deltas_of(events, "response.function_call_arguments.delta", &arguments);
    assert_true(strncmp(buf_str(&arguments), "{\"far\":", 7) == 0);
    buf_free(&arguments);
    json_decref(events);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_answer_at_once),
        cmocka_unit_test(test_input_items_of_a_response),
        cmocka_unit_test(test_input_items_are_referred_to),
        cmocka_unit_test(test_a_response_that_runs_is_cancelled_by_its_id),
        cmocka_unit_test(test_what_does_not_run_is_not_cancelled),
        cmocka_unit_test(test_thinking_is_an_item),
        cmocka_unit_test(test_the_events_of_a_stream),
        cmocka_unit_test(test_a_stream_that_thinks_and_is_cut),
        cmocka_unit_test(test_items_are_the_messages_of_a_chat),
        cmocka_unit_test(test_a_response_is_stored_and_gone_on_from),
        cmocka_unit_test(test_what_is_not_to_be_stored_is_not),
        cmocka_unit_test(test_fields_are_refused_by_name),
        cmocka_unit_test(test_tools_of_namespaces),
        cmocka_unit_test(test_formats_and_required_calls),
        cmocka_unit_test(test_fields_that_change_nothing_are_taken),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
