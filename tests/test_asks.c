/* Requests of every API: what each field becomes, and that a wrong, unknown or unsupported one is
 * refused by its name. */
#include "tests/aid_test.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "server/asks.h"
#include "server/keys.h"

enum api { CHAT, TEXT, MESSAGES, COUNT, OLLAMA_CHAT, OLLAMA_GENERATE };

static bool empty;

static int read_as(enum api api, struct ask *a, struct wrong *w)
{
    const char *id = NULL;
    switch (api) {
    case CHAT:
        return openai_ask_chat(a, &id, w);
    case TEXT:
        return openai_ask_text(a, &id, w);
    case MESSAGES:
        return anthropic_ask(a, false, w);
    case COUNT:
        return anthropic_ask(a, true, w);
    case OLLAMA_CHAT:
        return ollama_ask_chat(a, &empty, w);
    default:
        return ollama_ask_generate(a, &empty, w);
    }
}

/* text with ' for ". */
static json_t *parse(const char *text)
{
    struct buf b = BUF_INIT;
    struct err e = {0};
    json_t *v;
    for (; *text; text++)
        buf_putc(&b, *text == '\'' ? '"' : *text);
    assert_ok(json_parse(buf_str(&b), b.len, "test", &v, &e), e);
    buf_free(&b);
    return v;
}

static void take(enum api api, const char *text, struct ask *a)
{
    struct wrong w = {0};
    ask_init(a, parse(text));
    if (read_as(api, a, &w))
        fail_msg("%s: %s", text, w.e.msg);
}

static void expect_json(const json_t *found, const char *want)
{
    json_t *v = parse(want);
    if (!json_equal(found, v))
        fail_msg("found %s\nwant  %s", json_dumps(found, JSON_ENCODE_ANY), want);
    json_decref(v);
}

#define HI "'messages': [{'role': 'user', 'content': 'Hi'}]"

static void test_fields_of_a_chat(void **state)
{
    struct ask a;
    (void)state;
    take(CHAT,
         "{" HI ", 'max_tokens': 7, 'max_completion_tokens': 7, 'temperature': 0.5, 'top_p': 0.25,"
         " 'top_k': 3, 'min_p': 0.125, 'seed': 9, 'n': 2, 'stop': ['a', 'b'], 'stream': true,"
         " 'stream_options': {'include_usage': true}, 'logprobs': true, 'top_logprobs': 4,"
         " 'presence_penalty': 1, 'frequency_penalty': -1, 'repetition_penalty': 1.5,"
         " 'logit_bias': {'7': -100, '8': 1.5}, 'reasoning_effort': 'high',"
         " 'thinking_budget': 50, 'cache_prompt': false, 'user': 'x', 'metadata': {'a': 'b'},"
         " 'store': false, 'service_tier': 'auto', 'functions': null}",
         &a);
    assert_true(a.max_tokens == 7 && a.temperature == 0.5 && a.top_p == 0.25 && a.top_k == 3 &&
                a.min_p == 0.125 && a.seed == 9 && a.n == 2 && a.n_stop == 2 && a.stream &&
                a.stream_usage && a.logprobs && a.top_logprobs == 4);
    assert_true(a.presence == 1 && a.frequency == -1 && a.repetition == 1.5 && a.n_bias == 2 &&
                a.bias[0].id == 7 && a.bias[0].add == -100 && a.think_budget == 50 && a.no_cache);
    assert_int_equal(a.thinking, 1);
    assert_string_equal(a.effort, "xhigh");
    ask_free(&a);
    take(CHAT, "{" HI ", 'chat_template_kwargs': {'enable_thinking': false, 'other': 1}}", &a);
    assert_int_equal(a.thinking, 0);
    expect_json(a.variables, "{'other': 1}");
    assert_true(isnan(a.temperature) && a.seed == -1 && !a.no_cache);
    ask_free(&a);
    take(CHAT,
         "{" HI ", 'thinking_budget': 5, 'reasoning_effort': 'minimal', 'chat_template_kwargs':"
         " {'thinking_budget': 5, 'reasoning_effort': 'low'}}", /* they say the same */
         &a);
    assert_true(a.think_budget == 5 && a.thinking == 1);
    ask_free(&a);
}

static const struct {
    enum api api;
    const char *text, *want;
} forms[] = {
    {CHAT,
     "{'messages': [{'role': 'system', 'content': 'A'}, {'role': 'user', 'content': [{'type':"
     " 'text', 'text': 'x'}, {'type': 'text', 'text': 'y'}]}, {'role': 'developer', 'content':"
     " 'B'}]}",
     "[{'role': 'system', 'content': 'A\\n\\nB'}, {'role': 'user', 'content': 'xy'}]"},
    {CHAT,
     "{'messages': [{'role': 'user', 'content': 'q', 'name': 'Ann'}, {'role': 'assistant',"
     " 'content': null, 'refusal': null, 'annotations': [], 'reasoning_content': 'hm',"
     " 'tool_calls': [{'id': 'c1', 'type': 'function', 'function': {'name': 'f', 'arguments':"
     " '{\\'a\\': 1}'}}]}, {'role': 'tool', 'tool_call_id': 'c1', 'content': 'r'}]}",
     "[{'role': 'user', 'content': 'q', 'name': 'Ann'}, {'role': 'assistant', 'content': '',"
     " 'reasoning_content': 'hm', 'tool_calls': [{'type': 'function', 'id': 'c1', 'function':"
     " {'name': 'f', 'arguments': {'a': 1}}}]}, {'role': 'tool', 'tool_call_id': 'c1',"
     " 'content': 'r'}]"},
    {MESSAGES,
     "{'max_tokens': 3, 'system': [{'type': 'text', 'text': 'S', 'cache_control': {}}],"
     " 'messages': [{'role': 'user', 'content': 'q'}, {'role': 'assistant', 'content':"
     " [{'type': 'thinking', 'thinking': 'hm', 'signature': ''}, {'type': 'text', 'text': 't'},"
     " {'type': 'tool_use', 'id': 'c1', 'name': 'f', 'input': {'a': 1}}]}, {'role': 'user',"
     " 'content': [{'type': 'tool_result', 'tool_use_id': 'c1', 'content': [{'type': 'text',"
     " 'text': 'r'}]}, {'type': 'text', 'text': 'and?'}]}]}",
     "[{'role': 'system', 'content': 'S'}, {'role': 'user', 'content': 'q'}, {'role':"
     " 'assistant', 'content': 't', 'reasoning_content': 'hm', 'tool_calls': [{'type':"
     " 'function', 'id': 'c1', 'function': {'name': 'f', 'arguments': {'a': 1}}}]}, {'role':"
     " 'tool', 'tool_call_id': 'c1', 'content': 'r'}, {'role': 'user', 'content': 'and?'}]"},
    {MESSAGES,
     "{'max_tokens': 3, 'messages': [{'role': 'user', 'content': [{'type': 'tool_result',"
     " 'tool_use_id': 'c1', 'is_error': true, 'content': [{'type': 'text', 'text': 'gone'}]},"
     " {'type': 'tool_result', 'tool_use_id': 'c2', 'is_error': true}, {'type': 'tool_result',"
     " 'tool_use_id': 'c3', 'is_error': true, 'content': 'no'}, {'type': 'tool_result',"
     " 'tool_use_id': 'c4', 'is_error': false}]}]}",
     "[{'role': 'tool', 'tool_call_id': 'c1', 'content': 'Error: gone'}, {'role': 'tool',"
     " 'tool_call_id': 'c2', 'content': 'Error: '}, {'role': 'tool', 'tool_call_id': 'c3',"
     " 'content': 'Error: no'}, {'role': 'tool', 'tool_call_id': 'c4', 'content': ''}]"},
    /* Claude Code: what tells about the client, and system messages in the middle. */
    {MESSAGES,
     "{'max_tokens': 3, 'system': [{'type': 'text', 'text': 'x-anthropic-billing-header: "
     "a=1;'},"
     " {'type': 'text', 'text': 'S'}], 'messages': [{'role': 'system', 'content': 'T'}, "
     "{'role':"
     " 'user', 'content': 'q'}, {'role': 'system', 'content': [{'type': 'text', 'text': "
     "'r'}]}],"
     " 'context_management': {'edits': [{'type': 'clear_thinking_20251015', 'keep': 'all'},"
     " {'type': 'clear_thinking_20251015', 'keep': {'type': 'all'}}]}}",
     "[{'role': 'system', 'content': 'S\\n\\nT'}, {'role': 'user', 'content': 'q'}, {'role':"
     " 'user', 'content': '<system-reminder>\\nr\\n</system-reminder>\\n'}]"},
    {MESSAGES,
     "{'max_tokens': 3, 'system': [{'type': 'text', 'text': 'x-anthropic-billing-header: a'}],"
     " 'messages': [{'role': 'user', 'content': 'q'}], 'context_management': {}}",
     "[{'role': 'user', 'content': 'q'}]"},
    {OLLAMA_CHAT,
     "{'messages': [{'role': 'user', 'content': 'q', 'images': []}, {'role': 'assistant',"
     " 'content': '', 'thinking': 'hm', 'tool_calls': [{'function': {'name': 'f', 'arguments':"
     " {'a': 1}}}]}, {'role': 'tool', 'content': 'r', 'tool_name': 'f'}]}",
     "[{'role': 'user', 'content': 'q'}, {'role': 'assistant', 'content': '',"
     " 'reasoning_content': 'hm', 'tool_calls': [{'type': 'function', 'function': {'name':"
     " 'f', 'arguments': {'a': 1}}}]}, {'role': 'tool', 'content': 'r', 'name': 'f'}]"},
    {OLLAMA_GENERATE, "{'prompt': 'q', 'system': 'S'}",
     "[{'role': 'system', 'content': 'S'}, {'role': 'user', 'content': 'q'}]"},
};

static void test_messages_are_brought_into_one_form(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct ask a;
        /* arguments as text: the quotes inside it are escaped */
        take(forms[i].api, forms[i].text, &a);
        expect_json(a.messages, forms[i].want);
        ask_free(&a);
    }
}

static void test_tools_and_formats(void **state)
{
    struct ask a;
    (void)state;
    take(CHAT,
         "{" HI ", 'tools': [{'type': 'function', 'function': {'name': 'f', 'description': 'd',"
         " 'parameters': {'type': 'object'}}}], 'tool_choice': {'type': 'function', 'function':"
         " {'name': 'f'}}, 'parallel_tool_calls': false}",
         &a);
    expect_json(a.tools, "[{'type': 'function', 'function': {'name': 'f', 'description': 'd',"
                         " 'parameters': {'type': 'object'}}}]");
    assert_int_equal(a.tool_choice, ASK_TOOLS_NAMED);
    assert_string_equal(a.tool_name, "f");
    assert_false(a.parallel_tools);
    ask_free(&a);
    take(MESSAGES,
         "{" HI ", 'max_tokens': 9, 'tools': [{'name': 'f', 'input_schema': {'type': 'object'}}],"
         " 'tool_choice': {'type': 'any', 'disable_parallel_tool_use': true}, 'thinking':"
         " {'type': 'enabled', 'budget_tokens': 1024}}",
         &a);
    assert_int_equal(a.tool_choice, ASK_TOOLS_REQUIRED);
    assert_true(a.thinking == 1 && !a.parallel_tools && a.think_budget == 1024 && !a.strict);
    ask_free(&a);
    take(CHAT,
         "{" HI ", 'response_format': {'type': 'json_schema', 'json_schema': {'name': 'n',"
         " 'schema': {'type': 'integer'}}}, 'chat_template_kwargs': {'thinking_budget': 7}}",
         &a);
    assert_true(a.format == ASK_SCHEMA && !a.lenient && a.think_budget == 7 && !a.variables);
    expect_json(a.schema, "{'type': 'integer'}");
    ask_free(&a);
    take(CHAT,
         "{" HI ", 'response_format': {'type': 'json_schema', 'json_schema': {'schema': {},"
         " 'strict': false}}, 'tools': [{'type': 'function', 'function': {'name': 'f', 'strict':"
         " true}}, {'type': 'function', 'function': {'name': 'g', 'strict': false}}]}",
         &a);
    assert_true(a.lenient);
    expect_json(a.strict, "{'f': true}");
    ask_free(&a);
    take(OLLAMA_CHAT, "{" HI ", 'format': 'json', 'think': 'low', 'stream': false}", &a);
    assert_int_equal(a.format, ASK_JSON);
    assert_string_equal(a.effort, "low");
    assert_false(a.stream);
    ask_free(&a);
    /* Clients guess a context: where prompt and answer fit the one there is, nothing changes. */
    take(OLLAMA_CHAT, "{" HI ", 'options': {'num_ctx': 131072}, 'keep_alive': '5m'}", &a);
    assert_false(empty);
    ask_free(&a);
    /* ollama-ai-provider-v2 has these outside options, which win. */
    take(OLLAMA_CHAT,
         "{" HI ", 'max_output_tokens': 7, 'temperature': 0.5, 'top_p': 0.25, 'options':"
         " {'temperature': 0.125}, 'tool_choice': 'required', 'tools': [{'type': 'function',"
         " 'function': {'name': 'f'}}]}",
         &a);
    assert_true(a.max_tokens == 7 && a.temperature == 0.125 && a.top_p == 0.25);
    assert_string_equal(a.max_field, "max_output_tokens");
    assert_int_equal(a.tool_choice, ASK_TOOLS_REQUIRED);
    ask_free(&a);
    take(OLLAMA_CHAT, "{" HI ", 'max_output_tokens': 7, 'options': {'num_predict': 9}}", &a);
    assert_int_equal(a.max_tokens, 9);
    ask_free(&a);
    take(OLLAMA_CHAT, "{'model': 'm'}", &a);
    assert_true(empty && a.stream);
    ask_free(&a);
    take(TEXT, "{'prompt': [3, 4], 'logprobs': 0}", &a);
    assert_true(a.ids.n == 2 && a.ids.ids[1] == 4 && a.logprobs && a.top_logprobs == 0);
    ask_free(&a);
}

#define TOOL(properties)                                                                           \
    "{'type': 'function', 'function': {'name': 'f', 'parameters': {'type': 'object',"              \
    " 'properties': {" properties "}}}}"

static const struct {
    enum api api;
    const char *text, *param, *message;
} refusals[] = {
    {CHAT, "{}", "messages", "messages: is required"},
    {CHAT, "{'messages': []}", "messages",
     "messages: want an array of at least one message, found an empty array"},
    {CHAT, "{" HI ", 'temprature': 1}", "temprature", "temprature: there is no such field"},
    {CHAT, "{" HI ", 'temperature': '1'}", "temperature",
     "temperature: want a number from 0 to 2, found the string \"1\""},
    {CHAT, "{" HI ", 'n': 17}", "n",
     "n: want a whole number from 1 to 16, found the integer"
     " 17"},
    {CHAT, "{" HI ", 'n': 1.5}", "n",
     "n: want a whole number from 1 to 16, found the number"
     " 1.5"},
    {CHAT, "{" HI ", 'store': true}", "store", "store: only false is supported, found true"},
    {CHAT, "{" HI ", 'audio': {}}", "audio", "audio: is not supported; leave it out"},
    {CHAT, "{" HI ", 'stream_options': {'x': 1}}", "stream_options.x",
     "stream_options.x: there is no such field"},
    {CHAT, "{" HI ", 'stop': ['']}", "stop",
     "stop: want strings of 1 to 1024 bytes without NUL, found the string \"\""},
    {CHAT, "{" HI ", 'logit_bias': {'x': 1}}", "logit_bias",
     "logit_bias: want token ids as keys, found 'x'"},
    {CHAT, "{" HI ", 'top_logprobs': 2}", "top_logprobs",
     "top_logprobs: wants logprobs to be true"},
    {CHAT, "{" HI ", 'grammar': 'root ::= x', 'response_format': {'type': 'json_object'}}",
     "grammar", "grammar: cannot hold together with response_format"},
    {CHAT, "{" HI ", 'grammar': 'root ::= x', 'ignore_eos': true}", "ignore_eos",
     "ignore_eos: goes on behind an end, which grammar must come to"},
    {CHAT, "{" HI ", 'response_format': {'type': 'json_schema', 'json_schema': {'shcema': {}}}}",
     "response_format.json_schema.shcema",
     "response_format.json_schema.shcema: there is no such field"},
    {CHAT, "{" HI ", 'chat_template_kwargs': {'thinking_budget': true}}",
     "chat_template_kwargs.thinking_budget",
     "chat_template_kwargs.thinking_budget: want a whole number from 0 to 2147483647, found true"},
    {MESSAGES,
     "{'max_tokens': 3, 'messages': [{'role': 'user', 'content': [{'type': 'tool_result',"
     " 'tool_use_id': 'c1', 'error': true}]}]}",
     "messages[0].content[0].error", "messages[0].content[0].error: there is no such field"},
    {CHAT, "{" HI ", 'reasoning_effort': 'huge'}", "reasoning_effort",
     "reasoning_effort: want none, minimal, low, medium, high or xhigh, found 'huge'"},
    {CHAT, "{" HI ", 'tool_choice': 'required'}", "tool_choice",
     "tool_choice: asks for a call, but there are no tools"},
    {CHAT, "{" HI ", 'tools': [{'type': 'function', 'function': {'name': 'a b'}}]}", "tools[0]",
     "tools[0]: a tool's name has 1 to 128 letters, digits, _ or -, found 'a b'"},
    {CHAT,
     "{" HI ", 'tools': [{'type': 'function', 'function': {'name': 'f'}}, {'type': 'function',"
     " 'function': {'name': 'f'}}]}",
     "tools[1]", "tools[1]: another tool is called 'f' too"},
    {CHAT, "{" HI ", 'tools': [" TOOL("'a<b': {'type': 'string'}") "]}", "tools[0]",
     "tools[0]: parameter 'a<b' cannot be written in the calls of this model: its name wants 1 to"
     " 128 bytes without <, > and line ends"},
    {CHAT, "{" HI ", 'tools': [" TOOL("'w': {'enum': ['<', '</parameter>']}") "]}", "tools[0]",
     "tools[0]: parameter 'w': the value '</parameter>' cannot be written in the calls of this"
     " model, whose tags it holds"},
    {CHAT,
     "{" HI ", 'tools': [" TOOL("'w': {'type': 'array', 'items': {'const': '</parameter>'}}") "]}",
     "tools[0]",
     "tools[0]: parameter 'w': the value '\"</parameter>\"' cannot be written in the calls of this"
     " model, whose tags it holds"},
    {CHAT,
     "{" HI
     ", 'tools': [" TOOL("'w': {'anyOf': [{'const': '<parameter=x>'}, {'type': 'null'}]}") "]}",
     "tools[0]",
     "tools[0]: parameter 'w': the value '<parameter=x>' cannot be written in the calls of this"
     " model, whose tags it holds"},
    {CHAT, "{'messages': [{'role': 'king', 'content': 'x'}]}", "messages[0].role",
     "messages[0].role: want one of system|developer|user|assistant|tool, found the string"
     " \"king\""},
    {CHAT,
     "{'messages': [{'role': 'user', 'content': [{'type': 'image_url', 'image_url':"
     " {}}]}]}",
     "messages[0].content[0]",
     "messages[0].content[0]: parts of type 'image_url' are not supported: this model is given"
     " text only"},
    {CHAT, "{'messages': [{'role': 'user', 'content': 'x', 'tool_calls': []}]}",
     "messages[0].tool_calls", "messages[0].tool_calls: belongs to assistant messages only"},
    {CHAT,
     "{'messages': [{'role': 'assistant', 'tool_calls': [{'function': {'name': 'f',"
     " 'arguments': '[1]'}}]}]}",
     "messages[0].tool_calls[0].function.arguments",
     "messages[0].tool_calls[0].function.arguments: want a JSON object, or its text, found the "
     "string \"[1]\""},
    {CHAT, "{" HI ", 'chat_template_kwargs': {'messages': []}}", "chat_template_kwargs.messages",
     "chat_template_kwargs.messages: is not the request's to set"},
    {CHAT, "{" HI ", 'max_tokens': 5, 'max_completion_tokens': 7}", "max_completion_tokens",
     "max_completion_tokens: is 7, and max_tokens is 5: give one of them"},
    {CHAT, "{" HI ", 'enable_thinking': false, 'reasoning_effort': 'low'}", "reasoning_effort",
     "reasoning_effort: switches thinking on, which another field of this request switches off"},
    {CHAT, "{" HI ", 'thinking_budget': 5, 'chat_template_kwargs': {'thinking_budget': 6}}",
     "chat_template_kwargs.thinking_budget",
     "chat_template_kwargs.thinking_budget: is 6 tokens, and thinking_budget of this request 5: "
     "say "
     "one of them"},
    {CHAT,
     "{" HI ", 'reasoning_effort': 'low', 'chat_template_kwargs': {'reasoning_effort': 'high'}}",
     "reasoning_effort",
     "reasoning_effort: wants low of thinking, and another field of this request another effort"},
    {CHAT, "{" HI ", 'enable_thinking': true, 'chat_template_kwargs': {'enable_thinking': false}}",
     "chat_template_kwargs.enable_thinking",
     "chat_template_kwargs.enable_thinking: switches thinking off, which another field of this "
     "request switches on"},
    {CHAT, "{" HI ", 'response_format': {'type': 'json_schema', 'json_schema': {'schema': true}}}",
     "response_format.json_schema.schema",
     "response_format.json_schema.schema: want a JSON schema, an object, found true"},
    {CHAT, "{'messages': [3]}", "messages[0]",
     "messages[0]: want an object with role and content, found the integer 3"},
    {CHAT, "{'messages': [{'role': 'user', 'content': [{'type': 'text', 'text': 'a', 'x': 1}]}]}",
     "messages[0].content[0].x", "messages[0].content[0].x: there is no such field"},
    {CHAT,
     "{'messages': [{'role': 'assistant', 'tool_calls': [{'function': {'name': 'f'}, 'x': 1}]}]}",
     "messages[0].tool_calls[0].x", "messages[0].tool_calls[0].x: there is no such field"},
    {CHAT,
     "{'messages': [{'role': 'assistant', 'tool_calls': [{'function': {'name': 'f', 'x': 1}}]}]}",
     "messages[0].tool_calls[0].function.x",
     "messages[0].tool_calls[0].function.x: there is no such field"},
    {CHAT, "{" HI ", 'stop': ['a', null]}", "stop",
     "stop: want strings of 1 to 1024 bytes without NUL, found null"},
    {CHAT, "{" HI ", 'response_format': {'type': 'xml'}}", "response_format",
     "response_format: want {\"type\": ...} of text, json_object or json_schema, found the string "
     "\"xml\""},
    {CHAT, "{" HI ", 'response_format': {'type': 'json_object', 'schema': {}}}",
     "response_format.schema", "response_format.schema: there is no such field"},
    {CHAT, "{" HI ", 'response_format': {'type': 'json_schema', 'json_schema': {}, 'x': 1}}",
     "response_format.x", "response_format.x: there is no such field"},
    {CHAT,
     "{" HI ", 'tools': [" TOOL("") "], 'tool_choice': {'type': 'function', 'function': {'name':"
                                    " 'f', 'x': 1}}}",
     "tool_choice.function.x", "tool_choice.function.x: there is no such field"},
    {CHAT, "{" HI ", 'seed': 9007199254740993}", "seed",
     "seed: want a whole number from 0 to 9007199254740992, found the integer 9007199254740993"},
    {TEXT, "{'prompt': {}}", "prompt",
     "prompt: want a string or token ids, not empty, found an empty object"},
    {TEXT, "{'prompt': [1, 'a']}", "prompt",
     "prompt: want token ids only (place 1), found the string \"a\""},
    {TEXT, "{'prompt': ['a', 'b']}", "prompt", "prompt: one a request, found 2"},
    {TEXT, "{'prompt': 'a', 'sampling': 1}", "sampling", "sampling: there is no such field"},
    {TEXT, "{'prompt': 'a', 'metadata': {}}", "metadata", "metadata: there is no such field"},
    {TEXT, "{'prompt': 'a', 'suffix': 'b'}", "suffix",
     "suffix: only \"\" is supported, found the string \"b\""},
    {TEXT, "{'prompt': 'a', 'echo': true, 'logprobs': 1}", "echo",
     "echo: not together with logprobs"},
    {MESSAGES, "{" HI "}", "max_tokens", "max_tokens: is required"},
    {MESSAGES,
     "{'max_tokens': 1, 'messages': [{'role': 'user', 'content': 'x'}, {'role':"
     " 'assistant', 'content': 'I'}]}",
     "messages",
     "messages: the last one must be the user's: an answer cannot be begun for the model"},
    {MESSAGES, "{" HI ", 'max_tokens': 1, 'thinking': {'type': 'maybe'}}", "thinking.type",
     "thinking.type: want enabled, adaptive or disabled, found 'maybe'"},
    {MESSAGES, "{" HI ", 'max_tokens': 1, 'thinking': {'budget_tokens': 9}}", "thinking.type",
     "thinking.type: is required"},
    {MESSAGES, "{" HI ", 'max_tokens': 1, 'thinking': {'type': 'disabled', 'budget_tokens': 9}}",
     "thinking.budget_tokens",
     "thinking.budget_tokens: there is no thinking to be counted: its type is disabled"},
    {MESSAGES, "{" HI ", 'max_tokens': 1, 'tool_choice': {'name': 'f'}}", "tool_choice.type",
     "tool_choice.type: is required"},
    {MESSAGES, "{" HI ", 'max_tokens': 1, 'tool_choice': {'type': 'auto', 'name': 'f'}}",
     "tool_choice.name", "tool_choice.name: belongs to the type tool only, found auto"},
    {MESSAGES,
     "{'max_tokens': 1, 'messages': [{'role': 'user', 'content': 'a'}, {'role': 'assistant',"
     " 'content': [{'type': 'tool_use', 'id': 3, 'name': 'f', 'input': {}}]}]}",
     "messages[1].content[0].id", "messages[1].content[0].id: want a string, found the integer 3"},
    {MESSAGES,
     "{" HI
     ", 'max_tokens': 1, 'context_management': {'edits': [{'type': 'clear_thinking_20251015',"
     " 'keep': 'all'}, {'type': 'clear_tool_uses_20250919'}]}}",
     "context_management.edits",
     "context_management.edits[1]: only clear_thinking_20251015 with keep \"all\" is supported:"
     " nothing is cleared here"},
    {MESSAGES,
     "{'max_tokens': 1, 'messages': [{'role': 'system', 'content': [{'type': 'tool_result'}]}]}",
     "messages[0].content[0]",
     "messages[0].content[0]: blocks of type 'tool_result' are not supported in system messages"},
    {COUNT, "{'messages': [{'role': 'user', 'content': [{'type': 'image'}]}]}",
     "messages[0].content[0]",
     "messages[0].content[0]: blocks of type 'image' are not supported in user messages"},
    {MESSAGES, "{" HI ", 'max_tokens': 1, 'system': 7}", "system",
     "system: want a string or an array of text parts, found the integer 7"},
    {MESSAGES, "{" HI ", 'max_tokens': 1, 'system': [{'type': 'image'}]}", "system[0]",
     "system[0]: parts of type 'image' are not supported: this model is given text only"},
    {MESSAGES,
     "{'max_tokens': 1, 'system': 's', 'messages': [{'role': 'user', 'content': [{'type':"
     " 'tool_result', 'tool_use_id': 'c'}, {'type': 'text'}]}]}",
     "messages[0].content[1].text", "messages[0].content[1].text: want a string, found nothing"},
    {MESSAGES,
     "{'max_tokens': 1, 'system': 's', 'messages': [{'role': 'user', 'content': [{'type':"
     " 'tool_result', 'tool_use_id': 'c', 'content': [{'type': 'image'}]}]}]}",
     "messages[0].content[0].content[0]",
     "messages[0].content[0].content[0]: parts of type 'image' are not supported: this model is "
     "given text only"},
    {MESSAGES,
     "{'max_tokens': 1, 'messages': [{'role': 'user', 'content': [{'type': 'text', 'text': 'a',"
     " 'x': 1}]}]}",
     "messages[0].content[0].x", "messages[0].content[0].x: there is no such field"},
    {MESSAGES,
     "{'max_tokens': 1, 'messages': [{'role': 'user', 'content': 'a'}, {'role': 'assistant',"
     " 'content': [{'type': 'tool_use', 'id': 'c', 'name': 'f', 'input': {}, 'x': 1}]}]}",
     "messages[1].content[0].x", "messages[1].content[0].x: there is no such field"},
    {MESSAGES, "{" HI ", 'max_tokens': 1, 'output_format': {'type': 'json'}}", "output_format",
     "output_format: want {\"type\": \"json_schema\", \"schema\": ...}, found the string \"json\""},
    {MESSAGES, "{" HI ", 'max_tokens': 1, 'output_format': {'type': 'json_schema'}}",
     "output_format.schema", "output_format.schema: want a JSON schema, an object, found nothing"},
    {MESSAGES,
     "{" HI ", 'max_tokens': 1, 'output_config': {'format': {'type': 'json_schema',"
     " 'x': 1}}}",
     "output_config.format.x", "output_config.format.x: there is no such field"},
    {OLLAMA_CHAT, "{'messages': 'hello'}", "messages",
     "messages: want an array, found the string \"hello\""},
    {OLLAMA_CHAT, "{'messages': [{'role': 'user', 'content': 'a', 'images': 3}]}",
     "messages[0].images", "messages[0].images: want an array, found the integer 3"},
    {OLLAMA_CHAT, "{" HI ", 'format': true}", "format",
     "format: want \"json\" or a schema, an object, found true"},
    {OLLAMA_CHAT, "{" HI ", 'options': {'num_predict': 0}}", "options.num_predict",
     "options.num_predict: want 1 or more tokens, or -1 or -2: until the context is full, found 0"},
    {OLLAMA_CHAT, "{" HI ", 'options': {'mirostat': 1}}", "options.mirostat",
     "options.mirostat: only 0 is supported, found the integer 1"},
    {OLLAMA_GENERATE, "{'prompt': 'x', 'raw': true, 'system': 's'}", "raw",
     "raw: feeds the prompt as it is, so system has no effect"},
};

static void test_refusals_name_the_field(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        struct ask a;
        struct wrong w = {0};
        ask_init(&a, parse(refusals[i].text));
        if (read_as(refusals[i].api, &a, &w) == 0)
            fail_msg("taken: %s", refusals[i].text);
        assert_string_equal(w.e.msg, refusals[i].message);
        assert_string_equal(w.param, refusals[i].param);
        ask_free(&a);
    }
}

static void test_markup_that_comes_back_is_taken(void **state)
{
    struct ask a;
    (void)state;
    take(CHAT,
         "{" HI
         ", 'tools': [" TOOL("'w': {'enum': ['<', '<=', 'a <b> c', '</param', '<tool_call>']},"
                             " 'x-$y.z': {'type': 'string', 'default': '</parameter>'}") "]}",
         &a);
    ask_free(&a);
}

static void test_defaults_give_way_to_the_request(void **state)
{
    struct model m = {.sample = {.temperature = 1, .top_p = 0.95, .top_k = 20, .repetition = 1}};
    struct ask_defaults d = {.temperature = 0.5,
                             .top_p = NAN,
                             .min_p = NAN,
                             .presence = NAN,
                             .frequency = NAN,
                             .repetition = NAN,
                             .top_k = -1};
    struct sample_options o;
    struct ask a;
    (void)state;
    take(CHAT, "{" HI ", 'top_k': 5, 'seed': 3}", &a);
    ask_sample(&a, &d, &m, &o);
    assert_true(o.temperature == 0.5 && o.top_p == 0.95 && o.top_k == 5 && o.seed == 3);
    ask_free(&a);
}

static void test_keys(void **state)
{
    static const char text[] = "# ours\n\nalpha  \r\nbeta\n";
    char *dir = aid_tmpdir();
    struct buf path = BUF_INIT;
    struct keys k;
    struct err e = {0};
    (void)state;
    buf_printf(&path, "%s/keys", dir);
    aid_write(buf_str(&path), text, strlen(text));
    assert_ok(keys_read(buf_str(&path), "gamma", &k, &e), e);
    assert_true(keys_match(&k, "alpha") && keys_match(&k, "beta") && keys_match(&k, "gamma"));
    assert_false(keys_match(&k, "alph") || keys_match(&k, "alphaa") || keys_match(&k, "") ||
                 keys_match(&k, NULL) || keys_match(&k, "# ours"));
    keys_free(&k);
    aid_write(buf_str(&path), "#\n", 2);
    assert_int_equal(keys_read(buf_str(&path), NULL, &k, &e), -E_FORMAT);
    assert_non_null(strstr(e.msg, "there is no key in it"));
    buf_free(&path);
    aid_rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields_of_a_chat),
        cmocka_unit_test(test_messages_are_brought_into_one_form),
        cmocka_unit_test(test_tools_and_formats),
        cmocka_unit_test(test_refusals_name_the_field),
        cmocka_unit_test(test_markup_that_comes_back_is_taken),
        cmocka_unit_test(test_defaults_give_way_to_the_request),
        cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
