/* What answers are held to, over HTTP on the demonstration model: formats of every API, required
 * calls, budgets of thinking; the same text with any drafts; ends and cuts told as they are; what
 * cannot be kept to is refused by name. */
#include "tests/aid_serve.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "tests/aid_demo.h"

#define HELLO  "'messages': [{'role': 'user', 'content': 'Hello!'}]"
#define GREEDY "'temperature': 0"
#define PERSON                                                                                     \
    "{'type': 'object', 'properties': {'name': {'enum': ['Ann', 'Bob']}, 'age': {'type':"          \
    " 'integer', 'minimum': 1, 'maximum': 99}, 'tags': {'type': 'array', 'items': {'type':"        \
    " 'string', 'maxLength': 4}, 'minItems': 1, 'maxItems': 2}, 'ok': {'type': 'boolean'}},"       \
    " 'required': ['name', 'age', 'tags', 'ok'], 'additionalProperties': false}"
#define AS_PERSON                                                                                  \
    "'response_format': {'type': 'json_schema', 'json_schema': {'name': 'p', 'strict': true,"      \
    " 'schema': " PERSON "}}"
#define TURN                                                                                       \
    "'name': 'turn', 'description': 'Turns.', '%s': {'type': 'object', 'properties': {'way':"      \
    " {'enum': ['left', 'right']}, 'degrees': {'type': 'integer', 'minimum': 0, 'maximum': 180}}," \
    " 'required': ['way', 'degrees']}"
#define STOP "'name': 'halt', '%s': {'type': 'object', 'properties': {}}"
#define TOOLS                                                                                      \
    "'tools': [{'type': 'function', 'function': {%s}}, {'type': 'function', 'function': {%s}}]"

static struct aid_server server;

static int setup(void **state)
{
    aid_demo_open(state);
    aid_serve(&server, aid_demo_store, (const char *const[]){"--sequences", "4", NULL});
    return 0;
}

static int teardown(void **state)
{
    const int status = aid_serve_stop(&server);
    aid_demo_close(state);
    return status;
}

/* The text at a place of an answer, as JSON, for json_decref. */
static json_t *json_at(const json_t *answer, const char *path)
{
    const char *text = aid_string(answer, path);
    json_t *v = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    if (!v)
        fail_msg("no JSON: %s", text);
    return v;
}

static void expect_person(const json_t *answer, const char *path)
{
    json_t *v = json_at(answer, path);
    const char *name = aid_string(v, "name");
    const json_int_t age = json_integer_value(aid_at(v, "age"));
    const size_t n_tags = json_array_size(aid_at(v, "tags"));
    assert_true(strcmp(name, "Ann") == 0 || strcmp(name, "Bob") == 0);
    assert_true(age >= 1 && age <= 99 && n_tags >= 1 && n_tags <= 2);
    assert_true(json_is_boolean(aid_at(v, "ok")) && json_object_size(v) == 4);
    json_decref(v);
}

static void test_schemas_of_every_api(void **state)
{
    static const struct {
        const char *path, *body, *at, *end, *word;
    } cases[] = {
        {"/v1/chat/completions", "{" HELLO "," AS_PERSON ", 'seed': %d}",
         "choices.0.message.content", "choices.0.finish_reason", "stop"},
        {"/v1/messages",
         "{" HELLO ", 'max_tokens': 200, 'output_config': {'format': {'type': 'json_schema',"
         " 'schema': " PERSON "}}, 'top_k': %d}",
         "content.0.text", "stop_reason", "end_turn"},
        {"/v1/messages",
         "{" HELLO ", 'max_tokens': 200, 'output_format': {'type': 'json_schema', 'schema': " PERSON
         "}, 'top_k': %d}",
         "content.0.text", "stop_reason", "end_turn"},
        {"/api/chat", "{" HELLO ", 'format': " PERSON ", 'options': {'seed': %d}, 'stream': false}",
         "message.content", "done_reason", "stop"},
        {"/api/generate",
         "{'prompt': 'Hello!', 'format': " PERSON ", 'options': {'seed': %d}, 'stream': false}",
         "response", "done_reason", "stop"},
        {"/api/generate",
         "{'prompt': 'Once', 'raw': true, 'format': " PERSON ", 'options': {'seed': %d},"
         " 'stream': false}",
         "response", "done_reason", "stop"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int seed = 1; seed < 4; seed++) {
            char body[2000];
            snprintf(body, sizeof body, cases[i].body, seed);
            json_t *v = aid_ask(&server, cases[i].path, body, 200);
            expect_person(v, cases[i].at);
            assert_string_equal(aid_string(v, cases[i].end), cases[i].word);
            json_decref(v);
        }
}

/* The pieces of a stream, joined. */
static void stream(const char *body, const char *at, struct buf *out)
{
    struct aid_answer a;
    char *text = aid_quotes(body), *rest = NULL;
    aid_http(server.url, "POST", "/v1/chat/completions", "", text, &a);
    assert_int_equal(a.status, 200);
    for (char *line = strtok_r(a.body.data, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        json_t *v = strncmp(line, "data: ", 6) ? NULL : json_loads(line + 6, 0, NULL);
        const json_t *piece = v ? aid_at(v, at) : NULL;
        buf_puts(out, json_is_string(piece) ? json_string_value(piece) : "");
        json_decref(v);
    }
    mem_free(text);
    aid_answer_free(&a);
}

/* Tokens that drafts guessed are held to the schema like all others, and change nothing. */
static void test_any_drafts_give_the_same_text(void **state)
{
    static const char *const bodies[] = {
        "{" HELLO "," AS_PERSON ", 'seed': 7}",
        "{" HELLO "," AS_PERSON ", " GREEDY ", 'reasoning_effort': 'low', 'thinking_budget': 9}",
        "{" HELLO ", 'grammar': 'root ::= (\\'ha \\' | \\'ho \\'){4,9}', 'seed': 3}",
    };
    char *texts[3] = {NULL};
    json_int_t n_right = 0;
    (void)state;
    for (int drafts = 0; drafts <= 3; drafts++) {
        char word[12];
        struct aid_server s;
        snprintf(word, sizeof word, "%d", drafts);
        aid_serve(&s, aid_demo_store,
                  (const char *const[]){"--drafts", word, "--draft-source", "lookup", NULL});
        for (int i = 0; i < 3; i++) {
            json_t *v = aid_ask(&s, "/v1/chat/completions", bodies[i], 200);
            const char *text = aid_string(v, "choices.0.message.content");
            assert_string_equal(aid_string(v, "choices.0.finish_reason"), "stop");
            if (drafts == 0)
                texts[i] = mem_strdup(text);
            assert_string_equal(text, texts[i]);
            n_right += json_integer_value(aid_at(v, "timings.draft_n_accepted"));
            json_decref(v);
        }
        assert_int_equal(aid_serve_stop(&s), 0);
    }
    printf("note: %lld drafts were right\n", (long long)n_right);
    assert_true(n_right > 0);
    for (int i = 0; i < 3; i++) {
        struct buf joined = BUF_INIT;
        char body[2000];
        snprintf(body, sizeof body, "%.*s, 'stream': true}", (int)strlen(bodies[i]) - 1, bodies[i]);
        stream(body, "choices.0.delta.content", &joined);
        assert_string_equal(buf_str(&joined), texts[i]);
        buf_free(&joined);
        mem_free(texts[i]);
    }
}

static void test_ends_and_cuts(void **state)
{
    (void)state;
    json_t *v = aid_ask(&server, "/v1/chat/completions",
                        "{" HELLO "," GREEDY ", 'response_format': {'type': 'json_object'},"
                        " 'max_tokens': 12}",
                        200);
    assert_int_equal(*aid_string(v, "choices.0.message.content"), '{');
    assert_string_equal(aid_string(v, "choices.0.finish_reason"), "length");
    json_decref(v);
    v = aid_ask(&server, "/v1/completions",
                "{'prompt': 'Once', 'grammar': 'root ::= \\'yes\\' | \\'no\\'', 'n': 3}", 200);
    for (int i = 0; i < 3; i++) {
        const json_t *c = json_array_get(aid_at(v, "choices"), (size_t)i);
        const char *text = aid_string(c, "text");
        assert_true(strcmp(text, "yes") == 0 || strcmp(text, "no") == 0);
        assert_string_equal(aid_string(c, "finish_reason"), "stop");
    }
    json_decref(v);
    v = aid_ask(&server, "/v1/chat/completions",
                "{" HELLO ", 'grammar': 'root ::= [a-z]{3} \\'!\\'', 'stop': '!'}", 200);
    assert_int_equal(strlen(aid_string(v, "choices.0.message.content")), 3);
    json_decref(v);
}

/* The format holds behind the thinking, which is free, and ends when its budget is used up. */
static void test_budgets_of_thinking(void **state)
{
    static const struct {
        const char *path, *body, *thinking;
    } cases[] = {
        {"/v1/chat/completions",
         "'max_tokens': 60, 'reasoning_effort': 'low', 'thinking_budget': 8",
         "choices.0.message.reasoning_content"},
        {"/v1/chat/completions",
         "'max_tokens': 60, 'chat_template_kwargs': {'enable_thinking': true, 'thinking_budget': "
         "8}",
         "choices.0.message.reasoning_content"},
        {"/v1/messages", "'max_tokens': 60, 'thinking': {'type': 'enabled', 'budget_tokens': 8}",
         "content.0.thinking"},
    };
    static const char end[] = "The time for thinking is over; the answer follows.";
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char body[600];
        snprintf(body, sizeof body, "{" HELLO "," GREEDY ", %s}", cases[i].body);
        json_t *v = aid_ask(&server, cases[i].path, body, 200);
        const char *thinking = aid_string(v, cases[i].thinking);
        const char *at = strstr(thinking, end);
        if (!at || at == thinking || at[strlen(end)])
            fail_msg("%s thinks %s", cases[i].path, thinking);
        const json_t *n = aid_at(v, "usage.completion_tokens_details.reasoning_tokens");
        assert_true(!n || json_integer_value(n) < 8 + 60);
        json_decref(v);
    }
    json_t *v = aid_ask(&server, "/v1/chat/completions",
                        "{" HELLO "," AS_PERSON ", 'reasoning_effort': 'low', 'thinking_budget':"
                        " 0, 'seed': 5}",
                        200);
    assert_string_equal(aid_string(v, "choices.0.message.reasoning_content"), end);
    expect_person(v, "choices.0.message.content");
    json_decref(v);
}

static void with_tools(const char *key, const char *rest, struct buf *out)
{
    char turn[600], halt[200];
    snprintf(turn, sizeof turn, TURN, key);
    snprintf(halt, sizeof halt, STOP, key);
    buf_clear(out);
    if (strcmp(key, "parameters") == 0)
        buf_printf(out, "{" HELLO ", " TOOLS ", %s}", turn, halt, rest);
    else
        buf_printf(out, "{" HELLO ", 'max_tokens': 200, 'tools': [{%s}, {%s}], %s}", turn, halt,
                   rest);
}

static void expect_turn(const json_t *arguments)
{
    const char *way = aid_string(arguments, "way");
    const json_int_t degrees = json_integer_value(aid_at(arguments, "degrees"));
    assert_true(strcmp(way, "left") == 0 || strcmp(way, "right") == 0);
    assert_true(degrees >= 0 && degrees <= 180 && json_object_size(arguments) == 2);
}

static void test_required_calls(void **state)
{
    static const char *const choices[] = {"'required'",
                                          "{'type': 'function', 'function': {'name': 'turn'}}"};
    struct buf body = BUF_INIT;
    int n_turns = 0;
    (void)state;
    for (int i = 0; i < 2; i++)
        for (int seed = 1; seed < 5; seed++) {
            char rest[200];
            snprintf(rest, sizeof rest,
                     "'tool_choice': %s, 'parallel_tool_calls': false, 'seed': %d", choices[i],
                     seed);
            with_tools("parameters", rest, &body);
            json_t *v = aid_ask(&server, "/v1/chat/completions", buf_str(&body), 200);
            const char *name = aid_string(v, "choices.0.message.tool_calls.0.function.name");
            json_t *args = json_at(v, "choices.0.message.tool_calls.0.function.arguments");
            assert_int_equal(json_array_size(aid_at(v, "choices.0.message.tool_calls")), 1);
            assert_string_equal(aid_string(v, "choices.0.finish_reason"), "tool_calls");
            assert_true(strcmp(name, "turn") == 0 || (i == 0 && strcmp(name, "halt") == 0));
            if (strcmp(name, "turn") == 0)
                expect_turn(args);
            n_turns += strcmp(name, "turn") == 0;
            json_decref(args);
            json_decref(v);
        }
    assert_true(n_turns >= 4);
    with_tools("parameters",
               "'tool_choice': {'type': 'function', 'function': {'name': 'turn'}}, 'seed': 4,"
               " 'reasoning_effort': 'low', 'thinking_budget': 5, 'parallel_tool_calls': false,"
               " 'stream': true",
               &body);
    struct buf joined = BUF_INIT;
    stream(buf_str(&body), "choices.0.delta.tool_calls.0.function.arguments", &joined);
    json_t *args = json_loads(buf_str(&joined), 0, NULL);
    assert_non_null(args);
    expect_turn(args);
    json_decref(args);
    buf_free(&joined);
    buf_free(&body);
}

static void test_required_uses(void **state)
{
    static const char *const choices[] = {"'any'", "'tool', 'name': 'turn'"};
    struct buf body = BUF_INIT;
    (void)state;
    for (int i = 0; i < 2; i++) {
        char rest[200];
        snprintf(rest, sizeof rest,
                 "'tool_choice': {'type': %s, 'disable_parallel_tool_use': true}", choices[i]);
        with_tools("input_schema", rest, &body);
        json_t *v = aid_ask(&server, "/v1/messages", buf_str(&body), 200);
        assert_int_equal(json_array_size(aid_at(v, "content")), 1);
        assert_string_equal(aid_string(v, "content.0.type"), "tool_use");
        assert_string_equal(aid_string(v, "stop_reason"), "tool_use");
        if (strcmp(aid_string(v, "content.0.name"), "turn") == 0)
            expect_turn(aid_at(v, "content.0.input"));
        json_decref(v);
    }
    buf_free(&body);
}

/* A call that is cut ends as "length", wherever that is; its arguments are JSON all the same, and
 * no piece of a tag is text: "<tool_call>\n<func" was. */
static void test_a_cut_call(void **state)
{
    struct buf body = BUF_INIT;
    int n_cut = 0, n_calls = 0;
    bool cut = true;
    (void)state;
    for (int n = 1; cut; n += n < 24 ? 1 : 19, n_cut += cut) {
        char rest[200];
        snprintf(rest, sizeof rest,
                 "'tool_choice': {'type': 'function', 'function': {'name': 'turn'}}, " GREEDY
                 ", 'parallel_tool_calls': false, 'max_tokens': %d",
                 n);
        with_tools("parameters", rest, &body);
        json_t *v = aid_ask(&server, "/v1/chat/completions", buf_str(&body), 200);
        cut = strcmp(aid_string(v, "choices.0.finish_reason"), "length") == 0;
        const json_t *text = aid_at(v, "choices.0.message.content");
        const size_t len = json_string_length(text);
        if (len)
            fail_msg("cut behind %d tokens the call leaves text: %s", n, json_string_value(text));
        if (aid_at(v, "choices.0.message.tool_calls")) {
            json_t *args = json_at(v, "choices.0.message.tool_calls.0.function.arguments");
            assert_true(json_is_object(args));
            json_decref(args);
            n_calls++;
        }
        json_decref(v);
    }
    printf("note: %d cuts, %d with a call\n", n_cut, n_calls);
    assert_true(n_cut > 20 && n_calls > 2 && n_calls < n_cut);
    with_tools("parameters",
               "'tool_choice': 'required', " GREEDY ", 'stop': '</parameter>', 'max_tokens': 200",
               &body);
    json_t *v = aid_ask(&server, "/v1/chat/completions", buf_str(&body), 200);
    assert_string_equal(aid_string(v, "choices.0.finish_reason"), "stop");
    assert_true(json_is_null(aid_at(v, "choices.0.message.content")));
    buf_free(&body);
    json_decref(v);
}

/* Under auto, strict tools leave the text free, and a format leaves calls possible. */
static void test_strict_tools_under_auto(void **state)
{
    (void)state;
    json_t *v = aid_ask(&server, "/v1/chat/completions",
                        "{" HELLO "," GREEDY ", 'max_tokens': 9, 'tools': [{'type': 'function',"
                        " 'function': {'name': 'f', 'strict': true, 'parameters': " PERSON "}}]}",
                        200);
    json_t *free = aid_ask(&server, "/v1/chat/completions",
                           "{" HELLO "," GREEDY ", 'max_tokens': 9, 'tools': [{'type': 'function',"
                           " 'function': {'name': 'f', 'parameters': " PERSON "}}]}",
                           200);
    assert_string_equal(aid_string(v, "choices.0.message.content"),
                        aid_string(free, "choices.0.message.content"));
    json_decref(free);
    json_decref(v);
    v = aid_ask(&server, "/v1/chat/completions",
                "{" HELLO "," AS_PERSON ", 'seed': 2, 'tools': [{'type': 'function', 'function':"
                " {'name': 'f'}}]}",
                200);
    if (json_is_string(aid_at(v, "choices.0.message.content")))
        expect_person(v, "choices.0.message.content");
    else
        assert_string_equal(aid_string(v, "choices.0.message.tool_calls.0.function.name"), "f");
    json_decref(v);
}

static void test_what_cannot_be_kept_to(void **state)
{
    static const struct {
        const char *body, *param, *says;
    } cases[] = {
        {"'response_format': {'type': 'json_schema', 'json_schema': {'schema': {'type': 'string',"
         " 'pattern': 'a'}}}",
         "response_format.json_schema.schema", "root: pattern cannot be kept to"},
        {"'grammar': 'root ::= x'", "grammar", "x is used but not defined"},
        {"'grammar': 'root ::= \\'x\\'', 'response_format': {'type': 'json_object'}", "grammar",
         "grammar: cannot hold together with response_format"},
        {"'response_format': {'type': 'json_object'}, 'ignore_eos': true", "ignore_eos",
         "ignore_eos: goes on behind an end, which response_format must come to"},
        {"'tools': [{'type': 'function', 'function': {'name': 'f', 'strict': true, 'parameters':"
         " {'type': 'object', 'properties': {'a': {'type': 'integer', 'multipleOf': 2}}}}}]",
         "tools", "multipleOf cannot be kept to"},
        {"'response_format': {'type': 'json_schema', 'json_schema': {'schma': 1}}",
         "response_format.json_schema.schma", "there is no such field"},
        {"'chat_template_kwargs': {'thinking_budget': -1}", "chat_template_kwargs.thinking_budget",
         "want a whole number"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char body[800];
        snprintf(body, sizeof body, "{" HELLO ", %s}", cases[i].body);
        json_t *v = aid_ask(&server, "/v1/chat/completions", body, 400);
        assert_string_equal(aid_string(v, "error.param"), cases[i].param);
        if (!strstr(aid_string(v, "error.message"), cases[i].says))
            fail_msg("case %zu says: %s", i, aid_string(v, "error.message"));
        json_decref(v);
    }
    json_t *v = aid_ask(&server, "/v1/chat/completions",
                        "{" HELLO ", 'response_format': {'type': 'json_schema', 'json_schema':"
                        " {'strict': false, 'schema': {'type': 'string', 'pattern': 'a',"
                        " 'maxLength': 3}}}}",
                        200);
    json_decref(v);
}

static double metric(const char *name)
{
    struct aid_answer a;
    aid_http(server.url, "GET", "/metrics", "", NULL, &a);
    const char *at = strstr(buf_str(&a.body), name);
    assert_non_null(at);
    const double value = strtod(at + strlen(name), NULL);
    aid_answer_free(&a);
    return value;
}

static void test_grammars_are_kept(void **state)
{
    static const char made[] = "\ncherenkov_grammars_made_total ";
    static const char found[] = "\ncherenkov_grammars_found_total ";
    (void)state;
    json_decref(aid_ask(&server, "/v1/chat/completions", "{" HELLO "," AS_PERSON "}", 200));
    const double n_made = metric(made), n_found = metric(found);
    json_decref(aid_ask(&server, "/v1/chat/completions", "{" HELLO "," AS_PERSON "}", 200));
    assert_true(metric(made) == n_made && metric(found) == n_found + 1);
    assert_true(metric("\ncherenkov_grammars_in_use ") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schemas_of_every_api),
        cmocka_unit_test(test_any_drafts_give_the_same_text),
        cmocka_unit_test(test_ends_and_cuts),
        cmocka_unit_test(test_budgets_of_thinking),
        cmocka_unit_test(test_required_calls),
        cmocka_unit_test(test_required_uses),
        cmocka_unit_test(test_a_cut_call),
        cmocka_unit_test(test_strict_tools_under_auto),
        cmocka_unit_test(test_what_cannot_be_kept_to),
        cmocka_unit_test(test_grammars_are_kept),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
