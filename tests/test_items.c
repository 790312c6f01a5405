/* Items of responses as messages of a chat: what the model thought, said and called in a row is one
 * message; outputs of calls; references to stored items. */
#include "server/items.h"

#include <string.h>

#include "base/mem.h"
#include "tests/aid_serve.h"

static struct kept *responses;

static int setup(void **state)
{
    struct err e = {0};
    (void)state;
    return kept_open(&(struct kept_options){.entries = 4, .bytes = 1 << 16, .idle_s = 60},
                     &responses, &e);
}

static int teardown(void **state)
{
    (void)state;
    kept_close(responses);
    return 0;
}

static json_t *parse(const char *quoted)
{
    char *text = aid_quotes(quoted);
    json_t *v = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(v);
    mem_free(text);
    return v;
}

static void expect(const char *input, const char *messages)
{
    struct ask a;
    struct wrong w = {0};
    json_t *in = parse(input), *want = parse(messages), *items = json_array();
    ask_init(&a, NULL);
    if (items_add(responses, in, items, &w) || items_messages(&a, NULL, items, &w))
        fail_msg("%s", w.e.msg);
    if (!json_equal(a.messages, want)) {
        char *found = json_dumps(a.messages, 0);
        fail_msg("%s: %s", input, found);
    }
    ask_free(&a);
    json_decref(items);
    json_decref(in);
    json_decref(want);
}

#define CALL(id) "{'type': 'function_call', 'call_id': '" id "', 'name': 'look', 'arguments': '{}'}"
#define MADE(id)                                                                                   \
    "{'type': 'function', 'id': '" id "', 'function': {'name': 'look', 'arguments': {}}}"
#define THOUGHT                                                                                    \
    "{'type': 'reasoning', 'summary': [{'type': 'summary_text', 'text': 'Hm.'}], 'content': []}"
#define OUTPUT(id) "{'type': 'function_call_output', 'call_id': '" id "', 'output': 'a fox'}"
#define USER       "{'role': 'user', 'content': 'Look!'}"

static void test_a_turn_is_one_message(void **state)
{
    (void)state;
    expect("[" USER "," THOUGHT ", {'role': 'assistant', 'content': 'I do.'}," CALL("1") "," CALL(
               "2") "," OUTPUT("1") "," OUTPUT("2") "]",
           "[" USER ", {'role': 'assistant', 'content': 'I do.', 'reasoning_content': 'Hm.', "
           "'tool_calls': [" MADE("1") "," MADE("2") "]}, {'role': 'tool', 'content': 'a fox', "
                                                     "'tool_call_id': '1'}, {'role': 'tool', "
                                                     "'content': 'a fox', 'tool_call_id': '2'}]");
}

/* Codex has tools in namespaces; the model knows one name of both. */
static void test_a_call_has_its_namespace_in_its_name(void **state)
{
    (void)state;
    expect("[" USER
           ", {'type': 'function_call', 'call_id': '1', 'namespace': 'far', 'name': 'look', "
           "'arguments': '{}'}," OUTPUT("1") "]",
           "[" USER ", {'role': 'assistant', 'content': '', 'tool_calls': [{'type': 'function', "
           "'id': '1', 'function': {'name': 'far__look', 'arguments': {}}}]}, {'role': 'tool', "
           "'content': 'a fox', 'tool_call_id': '1'}]");
}

static void test_a_new_thought_or_text_is_a_new_message(void **state)
{
    (void)state;
    expect("[" USER "," CALL("1") "," THOUGHT "," CALL("2") "]",
           "[" USER ", {'role': 'assistant', 'content': '', 'tool_calls': [" MADE(
               "1") "]}, {'role': 'assistant', 'content': '', 'reasoning_content': 'Hm.', "
                    "'tool_calls': [" MADE("2") "]}]");
    expect("[{'role': 'assistant', 'content': 'a'}, {'role': 'assistant', 'content': 'b'}]",
           "[{'role': 'assistant', 'content': 'a'}, {'role': 'assistant', 'content': 'b'}]");
}

static void test_references_are_followed(void **state)
{
    char id[ITEM_ID_ROOM];
    struct err e = {0};
    (void)state;
    items_id("fc", "resp_12ab", 1, id);
    assert_string_equal(id, "fc_12ab_1");
    json_t *v = parse("{'items': [" USER ", {'role': 'user', 'content': 'Mine.', 'id': "
                      "'in_12ab_1'}, {}, {}], 'response': {'output': [{'id': 'rs_12ab_0', 'type': "
                      "'reasoning'}, {'id': 'fc_12ab_1', 'type': 'function_call', 'call_id': '1', "
                      "'name': 'look', 'arguments': '{}'}]}}");
    assert_int_equal(kept_put(responses, "resp_12ab", v, &e), 0);
    json_decref(v);
    expect("[" USER ", {'type': 'item_reference', 'id': 'fc_12ab_1'}," OUTPUT("1") "]",
           "[" USER ", {'role': 'assistant', 'content': '', 'tool_calls': [" MADE(
               "1") "]}, "
                    "{'role': 'tool', 'content': 'a fox', 'tool_call_id': '1'}]");
    expect("[{'type': 'item_reference', 'id': 'in_12ab_0'}]", "[" USER "]");
}

/* An id that a client gave, one behind the last, of no response, of none that is stored. */
static void test_references_to_nothing_are_refused(void **state)
{
    static const char *const ids[] = {"in_12ab_1", "in_12ab_2",  "in_12ab_9", "in_12ab_00",
                                      "in_12ab",   "fc_12ab_10", "mine",      "in_99_0"};
    (void)state;
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        struct wrong w = {0};
        json_t *items = json_array();
        json_t *in = json_pack("[{s:s, s:s}]", "type", "item_reference", "id", ids[i]);
        assert_int_equal(items_add(responses, in, items, &w), -E_ARG);
        assert_string_equal(w.param, "input[0]");
        assert_non_null(strstr(w.e.msg, ids[i]));
        assert_non_null(strstr(w.e.msg, "input_items"));
        json_decref(items);
        json_decref(in);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_turn_is_one_message),
        cmocka_unit_test(test_a_call_has_its_namespace_in_its_name),
        cmocka_unit_test(test_a_new_thought_or_text_is_a_new_message),
        cmocka_unit_test(test_references_are_followed),
        cmocka_unit_test(test_references_to_nothing_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
