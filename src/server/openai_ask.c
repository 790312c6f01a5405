/* Requests in OpenAI's form: see asks.h. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "server/asks.h"
#include "server/messages.h"

/* --- what the endpoints share --- */

struct tool {
    const char *type, *name, *description;
    const json_t *function, *parameters;
    bool strict;
};

#define AT(member) offsetof(struct tool, member)
static const struct field function_fields[] = {
    {"name", FIELD_STRING, AT(name), 0, 0, NULL, NULL},
    {"description", FIELD_STRING, AT(description), 0, 0, NULL, NULL},
    {"parameters", FIELD_VALUE, AT(parameters), 0, 0, NULL, NULL},
    {"strict", FIELD_BOOL, AT(strict), 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
static const struct field tool_fields[] = {
    {"type", FIELD_ONLY, 0, 0, 0, "\"function\"", NULL},
    {"function", FIELD_FIELDS, 0, 0, 0, NULL, function_fields},
    {"cache_control", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
#undef AT

int openai_tools(struct ask *a, const json_t *v, struct wrong *w)
{
    if (!json_is_array(v))
        return wrong_value(w, "tools", v, "an array");
    for (size_t i = 0; i < json_array_size(v); i++) {
        struct tool t = {0};
        char where[48];
        snprintf(where, sizeof where, "tools[%zu]", i);
        if (!json_is_object(json_array_get(v, i)))
            return wrong_value(w, where, json_array_get(v, i), "an object with type and function");
        if (fields_read(tool_fields, json_array_get(v, i), where, &t, w) ||
            ask_tool(a, t.name, t.description, t.parameters, where, w) ||
            (t.strict && ask_strict(a, w)))
            return -w->e.code;
    }
    return 0;
}

struct choice {
    const char *type, *name;
};

#define AT(member) offsetof(struct choice, member)
static const struct field named_fields[] = {
    {"name", FIELD_STRING, AT(name), 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
static const struct field choice_fields[] = {
    {"type", FIELD_STRING, AT(type), 0, 0, NULL, NULL},
    {"function", FIELD_FIELDS, 0, 0, 0, NULL, named_fields},
    {"name", FIELD_STRING, AT(name), 0, 0, NULL, NULL}, /* the responses API's */
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
#undef AT

int openai_tool_choice(struct ask *a, const json_t *v, struct wrong *w)
{
    static const char *const words[] = {"auto", "none", "required"};
    const char *word = json_string_value(v);
    for (int i = 0; word && i < 3; i++)
        if (strcmp(words[i], word) == 0) {
            a->tool_choice = (enum ask_tools)i;
            return 0;
        }
    const char *type = json_string_value(json_object_get(v, "type"));
    struct choice c = {0};
    if (type && strcmp(type, "function") == 0 &&
        fields_read(choice_fields, v, "tool_choice", &c, w))
        return -w->e.code;
    if (!c.name)
        return wrong_value(w, "tool_choice", v,
                           "\"auto\", \"none\", \"required\" or {\"type\": \"function\", "
                           "\"function\": {\"name\": ...}}");
    a->tool_choice = ASK_TOOLS_NAMED;
    a->tool_name = c.name;
    return 0;
}

struct schema_request {
    const json_t *schema;
    int strict; /* -1: not said */
};

#define AT(member) offsetof(struct schema_request, member)
static const struct field schema_fields[] = {
    {"name", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"description", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"schema", FIELD_VALUE, AT(schema), 0, 0, NULL, NULL},
    {"strict", FIELD_SWITCH, AT(strict), 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
#undef AT

/* What the responses API says in the format itself. */
static const struct field flat_fields[] = {
    {"type", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"schema", FIELD_TABLE, 0, 0, 0, NULL, schema_fields},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};

static int read_schema(struct ask *a, const json_t *v, bool inside, struct wrong *w)
{
    const char *where = inside ? "response_format.json_schema" : "text.format";
    struct schema_request q = {.strict = -1};
    if (!json_is_object(v))
        return wrong_value(w, where, v, "an object with name and schema");
    if (fields_read(inside ? schema_fields : flat_fields, v, where, &q, w))
        return -w->e.code;
    a->lenient = q.strict == 0;
    return ask_schema(a, q.schema,
                      inside ? "response_format.json_schema.schema" : "text.format.schema", w);
}

/* Of a format without a schema. */
static const struct field plain_fields[] = {
    {"type", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
static const struct field outer_fields[] = {
    {"type", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"json_schema", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};

int openai_format(struct ask *a, const json_t *v, bool inside, struct wrong *w)
{
    const char *name = inside ? "response_format" : "text.format";
    const char *type = json_string_value(json_object_get(v, "type"));
    const bool object = type && strcmp(type, "json_object") == 0;
    if ((object || (type && strcmp(type, "text") == 0)) &&
        fields_read(plain_fields, v, name, NULL, w))
        return -w->e.code;
    if (type && strcmp(type, "text") == 0)
        return 0;
    if (object) {
        a->format = ASK_JSON;
        a->format_field = name;
        return 0;
    }
    if (!type || strcmp(type, "json_schema") != 0)
        return wrong_value(w, name, type ? json_object_get(v, "type") : v,
                           "{\"type\": ...} of text, json_object or json_schema");
    if (inside && fields_read(outer_fields, v, name, NULL, w))
        return -w->e.code;
    return read_schema(a, inside ? json_object_get(v, "json_schema") : v, inside, w);
}

#define A(member) offsetof(struct ask, member)
const struct field openai_sampling_fields[] = {
    {"temperature", FIELD_REAL, A(temperature), 0, 2, NULL, NULL},
    {"top_p", FIELD_REAL, A(top_p), 0, 1, NULL, NULL},
    {"top_k", FIELD_INT, A(top_k), 0, INT32_MAX, NULL, NULL},
    {"min_p", FIELD_REAL, A(min_p), 0, 1, NULL, NULL},
    {"seed", FIELD_INT, A(seed), 0, 0x1p53, NULL, NULL},
    {"ignore_eos", FIELD_BOOL, A(ignore_eos), 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
const struct field openai_penalty_fields[] = {
    {"presence_penalty", FIELD_REAL, A(presence), -2, 2, NULL, NULL},
    {"frequency_penalty", FIELD_REAL, A(frequency), -2, 2, NULL, NULL},
    {"repetition_penalty", FIELD_REAL, A(repetition), 0.01, 10, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
#undef A
const struct field openai_hint_fields[] = {
    {"user", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"safety_identifier", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"prompt_cache_key", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"prompt_cache_retention", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};

/* Of a request that begins with its struct ask. */
static const struct field stream_fields[] = {
    {"include_usage", FIELD_BOOL, offsetof(struct ask, stream_usage), 0, 0, NULL, NULL},
    {"include_obfuscation", FIELD_ONLY, 0, 0, 0, "false", NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};

/* --- chat --- */

/* Fields that are read further once all are there. */
struct chat_request {
    struct ask ask;
    const json_t *messages, *tools, *tool_choice, *format, *stop, *bias, *variables;
    const char *effort, *request_id;
    int64_t completion_tokens;
    bool cache;
};

#define AT(member) offsetof(struct chat_request, member)
#define A(member)  offsetof(struct chat_request, ask.member)
static_assert(A(stream_usage) == offsetof(struct ask, stream_usage), "stream_fields");
static const struct field chat_fields[] = {
    {"model", FIELD_STRING, A(model), 0, 0, NULL, NULL},
    {"messages", FIELD_VALUE, AT(messages), 0, 0, NULL, NULL},
    {"session_id", FIELD_STRING, A(session), 0, 0, NULL, NULL},
    {"stream", FIELD_BOOL, A(stream), 0, 0, NULL, NULL},
    {"stream_options", FIELD_FIELDS, 0, 0, 0, NULL, stream_fields},
    {"max_tokens", FIELD_INT, A(max_tokens), 1, INT32_MAX, NULL, NULL},
    {"max_completion_tokens", FIELD_INT, AT(completion_tokens), 1, INT32_MAX, NULL, NULL},
    {"n", FIELD_INT, A(n), 1, ASK_CHOICES_MAX, NULL, NULL},
    {"sampling", FIELD_TABLE, 0, 0, 0, NULL, openai_sampling_fields},
    {"penalties", FIELD_TABLE, 0, 0, 0, NULL, openai_penalty_fields},
    {"logit_bias", FIELD_VALUE, AT(bias), 0, 0, NULL, NULL},
    {"logprobs", FIELD_BOOL, A(logprobs), 0, 0, NULL, NULL},
    {"top_logprobs", FIELD_INT, A(top_logprobs), 0, SAMPLE_TOP_MAX, NULL, NULL},
    {"stop", FIELD_VALUE, AT(stop), 0, 0, NULL, NULL},
    {"tools", FIELD_VALUE, AT(tools), 0, 0, NULL, NULL},
    {"tool_choice", FIELD_VALUE, AT(tool_choice), 0, 0, NULL, NULL},
    {"parallel_tool_calls", FIELD_BOOL, A(parallel_tools), 0, 0, NULL, NULL},
    {"response_format", FIELD_VALUE, AT(format), 0, 0, NULL, NULL},
    {"grammar", FIELD_STRING, A(grammar), 0, 0, NULL, NULL},
    {"reasoning_effort", FIELD_STRING, AT(effort), 0, 0, NULL, NULL},
    {"enable_thinking", FIELD_SWITCH, A(thinking), 0, 0, NULL, NULL},
    {"thinking_budget", FIELD_INT, A(think_budget), 0, INT32_MAX, NULL, NULL},
    {"chat_template_kwargs", FIELD_VALUE, AT(variables), 0, 0, NULL, NULL},
    {"cache_prompt", FIELD_BOOL, AT(cache), 0, 0, NULL, NULL},
    {"request_id", FIELD_STRING, AT(request_id), 0, 0, NULL, NULL},
    /* Say something about the client, or help where there is nothing to be helped. */
    {"hints", FIELD_TABLE, 0, 0, 0, NULL, openai_hint_fields},
    {"metadata", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"prediction", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"service_tier", FIELD_ONLY, 0, 0, 0, "\"auto\"|\"default\"", NULL},
    {"store", FIELD_ONLY, 0, 0, 0, "false", NULL},
    {"modalities", FIELD_ONLY, 0, 0, 0, "[\"text\"]", NULL},
    {"verbosity", FIELD_ONLY, 0, 0, 0, "\"medium\"", NULL},
    {"audio", FIELD_ONLY, 0, 0, 0, NULL, NULL},
    {"functions", FIELD_ONLY, 0, 0, 0, "[]", NULL},
    {"function_call", FIELD_ONLY, 0, 0, 0, "\"none\"|\"auto\"", NULL},
    {"web_search_options", FIELD_ONLY, 0, 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
#undef A
#undef AT

/* max_completion_tokens, which max_tokens is the older name of. */
static int read_completion_tokens(struct ask *a, int64_t n, struct wrong *w)
{
    if (a->max_tokens && a->max_tokens != n)
        return WRONG(w, E_FORMAT, "max_completion_tokens",
                     "max_completion_tokens: is %lld, and max_tokens is %lld: give one of them",
                     (long long)n, (long long)a->max_tokens);
    a->max_tokens = n;
    a->max_field = "max_completion_tokens";
    return 0;
}

/* The fields that need more than the table. */
static int read_chat(struct chat_request *q, struct wrong *w)
{
    struct ask *a = &q->ask;
    if (!q->messages)
        return WRONG(w, E_FORMAT, "messages", "messages: is required");
    if (a->session && a->n != 1)
        return WRONG(w, E_UNSUPPORTED, "n", "n: a turn of a session has one answer");
    if (messages_read(a, q->messages, "messages", w) ||
        (q->tools && openai_tools(a, q->tools, w)) ||
        (q->tool_choice && openai_tool_choice(a, q->tool_choice, w)) ||
        (q->format && openai_format(a, q->format, true, w)) ||
        (q->stop && ask_stop(a, q->stop, "stop", w)) ||
        (q->bias && ask_bias(a, q->bias, "logit_bias", w)) ||
        (q->variables && ask_variables(a, q->variables, "chat_template_kwargs", w)) ||
        (q->effort && ask_effort(a, q->effort, "reasoning_effort", w)))
        return -w->e.code;
    if (q->completion_tokens && read_completion_tokens(a, q->completion_tokens, w))
        return -w->e.code;
    a->no_cache = !q->cache;
    return a->grammar && ask_grammar(a, w) ? -w->e.code : ask_check(a, w);
}

/* --- completions --- */

struct text_request {
    struct ask ask;
    const json_t *prompt, *stop, *bias;
    const char *request_id;
    int64_t logprobs; /* -1: none */
    bool cache;
};

#define AT(member) offsetof(struct text_request, member)
#define A(member)  offsetof(struct text_request, ask.member)
static_assert(A(stream_usage) == offsetof(struct ask, stream_usage), "stream_fields");
static const struct field text_fields[] = {
    {"model", FIELD_STRING, A(model), 0, 0, NULL, NULL},
    {"prompt", FIELD_VALUE, AT(prompt), 0, 0, NULL, NULL},
    {"stream", FIELD_BOOL, A(stream), 0, 0, NULL, NULL},
    {"stream_options", FIELD_FIELDS, 0, 0, 0, NULL, stream_fields},
    {"max_tokens", FIELD_INT, A(max_tokens), 1, INT32_MAX, NULL, NULL},
    {"n", FIELD_INT, A(n), 1, ASK_CHOICES_MAX, NULL, NULL},
    {"sampling", FIELD_TABLE, 0, 0, 0, NULL, openai_sampling_fields},
    {"penalties", FIELD_TABLE, 0, 0, 0, NULL, openai_penalty_fields},
    {"echo", FIELD_BOOL, A(echo), 0, 0, NULL, NULL},
    {"logit_bias", FIELD_VALUE, AT(bias), 0, 0, NULL, NULL},
    {"logprobs", FIELD_INT, AT(logprobs), 0, SAMPLE_TOP_MAX, NULL, NULL},
    {"stop", FIELD_VALUE, AT(stop), 0, 0, NULL, NULL},
    {"grammar", FIELD_STRING, A(grammar), 0, 0, NULL, NULL},
    {"cache_prompt", FIELD_BOOL, AT(cache), 0, 0, NULL, NULL},
    {"request_id", FIELD_STRING, AT(request_id), 0, 0, NULL, NULL},
    {"user", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"best_of", FIELD_ONLY, 0, 0, 0, "1", NULL},
    {"suffix", FIELD_ONLY, 0, 0, 0, "\"\"", NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
#undef A
#undef AT

static int prompt_ids(struct ask *a, const json_t *v, struct wrong *w)
{
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *id = json_array_get(v, i);
        const json_int_t n = json_integer_value(id);
        if (!json_is_integer(id) || n < 0 || n > INT32_MAX) {
            char what[64];
            snprintf(what, sizeof what, "token ids only (place %zu)", i);
            return wrong_value(w, "prompt", id, what);
        }
        if (tokens_push(&a->ids, (int32_t)n, &w->e))
            return -w->e.code;
    }
    return 0;
}

/* A string, an array of token ids, or an array of one of these. */
static int read_prompt(struct ask *a, const json_t *v, struct wrong *w)
{
    const json_t *first = json_array_get(v, 0);
    if (!v)
        return WRONG(w, E_FORMAT, "prompt", "prompt: is required");
    if (json_is_integer(first))
        return prompt_ids(a, v, w);
    if (first && json_array_size(v) > 1)
        return WRONG(w, E_UNSUPPORTED, "prompt", "prompt: one a request, found %zu",
                     json_array_size(v));
    v = first ? first : v;
    if (json_is_array(v) && json_array_size(v))
        return prompt_ids(a, v, w);
    if (!json_is_string(v) || json_string_length(v) == 0)
        return wrong_value(w, "prompt", v, "a string or token ids, not empty");
    buf_add(&a->text, json_string_value(v), json_string_length(v));
    return buf_check(&a->text, &w->e);
}

static int read_text(struct text_request *q, struct wrong *w)
{
    struct ask *a = &q->ask;
    a->prompt_field = "prompt";
    if (read_prompt(a, q->prompt, w) || (q->stop && ask_stop(a, q->stop, "stop", w)) ||
        (q->bias && ask_bias(a, q->bias, "logit_bias", w)))
        return -w->e.code;
    a->logprobs = q->logprobs >= 0;
    a->top_logprobs = a->logprobs ? q->logprobs : 0;
    if (a->echo && a->logprobs)
        return WRONG(w, E_UNSUPPORTED, "echo", "echo: not together with logprobs");
    if (a->echo && a->ids.n)
        return WRONG(w, E_UNSUPPORTED, "echo", "echo: wants the prompt as text");
    a->no_cache = !q->cache;
    return a->grammar && ask_grammar(a, w) ? -w->e.code : ask_check(a, w);
}

int openai_ask_chat(struct ask *a, const char **id, struct wrong *w)
{
    struct chat_request q = {.ask = *a, .cache = true};
    int rc = fields_read(chat_fields, a->body, "", &q, w);
    if (!rc)
        rc = read_chat(&q, w);
    *a = q.ask;
    *id = q.request_id;
    return rc;
}

int openai_ask_text(struct ask *a, const char **id, struct wrong *w)
{
    struct text_request q = {.ask = *a, .cache = true, .logprobs = -1};
    int rc = fields_read(text_fields, a->body, "", &q, w);
    if (!rc)
        rc = read_text(&q, w);
    *a = q.ask;
    *id = q.request_id;
    return rc;
}
