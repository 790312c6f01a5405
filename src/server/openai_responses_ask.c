/* Requests to POST /v1/responses: see asks.h. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "server/asks.h"
#include "server/items.h"
#include "text/toolset.h"

/* Fields that are read further once all are there. */
struct request {
    struct ask ask;
    const json_t *input, *tools, *tool_choice, *format, *include, *metadata;
    const char *instructions, *previous, *effort, *request_id;
    json_t *spaces;     /* borrowed from ask.keep: {"a function's whole name": "its namespace"} */
    int store, summary; /* -1: not given */
};

#define AT(member) offsetof(struct request, member)
#define A(member)  offsetof(struct request, ask.member)
static const struct field stream_fields[] = {
    {"include_obfuscation", FIELD_ONLY, 0, 0, 0, "false", NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
static const struct field text_fields[] = {
    {"format", FIELD_VALUE, AT(format), 0, 0, NULL, NULL},
    {"verbosity", FIELD_ONLY, 0, 0, 0, "\"medium\"", NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
static const struct field reasoning_fields[] = {
    {"effort", FIELD_STRING, AT(effort), 0, 0, NULL, NULL},
    {"summary", FIELD_WORD, AT(summary), 0, 0, "auto|detailed", NULL},
    {"generate_summary", FIELD_WORD, AT(summary), 0, 0, "auto|detailed", NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
static_assert(A(top_p) == offsetof(struct ask, top_p), "openai_sampling_fields");
static const struct field fields[] = {
    {"model", FIELD_STRING, A(model), 0, 0, NULL, NULL},
    {"input", FIELD_VALUE, AT(input), 0, 0, NULL, NULL},
    {"instructions", FIELD_STRING, AT(instructions), 0, 0, NULL, NULL},
    {"previous_response_id", FIELD_STRING, AT(previous), 0, 0, NULL, NULL},
    {"store", FIELD_SWITCH, AT(store), 0, 0, NULL, NULL},
    {"stream", FIELD_BOOL, A(stream), 0, 0, NULL, NULL},
    {"stream_options", FIELD_FIELDS, 0, 0, 0, NULL, stream_fields},
    {"max_output_tokens", FIELD_INT, A(max_tokens), 1, INT32_MAX, NULL, NULL},
    {"sampling", FIELD_TABLE, 0, 0, 0, NULL, openai_sampling_fields},
    {"hints", FIELD_TABLE, 0, 0, 0, NULL, openai_hint_fields},
    {"include", FIELD_VALUE, AT(include), 0, 0, NULL, NULL},
    {"top_logprobs", FIELD_INT, A(top_logprobs), 0, SAMPLE_TOP_MAX, NULL, NULL},
    {"tools", FIELD_VALUE, AT(tools), 0, 0, NULL, NULL},
    {"tool_choice", FIELD_VALUE, AT(tool_choice), 0, 0, NULL, NULL},
    {"parallel_tool_calls", FIELD_BOOL, A(parallel_tools), 0, 0, NULL, NULL},
    {"text", FIELD_FIELDS, 0, 0, 0, NULL, text_fields},
    {"reasoning", FIELD_FIELDS, 0, 0, 0, NULL, reasoning_fields},
    {"metadata", FIELD_VALUE, AT(metadata), 0, 0, NULL, NULL},
    {"request_id", FIELD_STRING, AT(request_id), 0, 0, NULL, NULL},
    {"client_metadata", FIELD_HINT, 0, 0, 0, NULL, NULL}, /* Codex's */
    {"service_tier", FIELD_ONLY, 0, 0, 0, "\"auto\"|\"default\"", NULL},
    {"truncation", FIELD_ONLY, 0, 0, 0, "\"disabled\"", NULL},
    {"background", FIELD_ONLY, 0, 0, 0, "false", NULL},
    {"context_management", FIELD_ONLY, 0, 0, 0, "[]", NULL},
    {"conversation", FIELD_ONLY, 0, 0, 0, NULL, NULL},
    {"max_tool_calls", FIELD_ONLY, 0, 0, 0, NULL, NULL},
    {"moderation", FIELD_ONLY, 0, 0, 0, NULL, NULL},
    {"prompt", FIELD_ONLY, 0, 0, 0, NULL, NULL},
    {"prompt_cache_options", FIELD_ONLY, 0, 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
#undef A

struct tool {
    const char *name, *description;
    const json_t *parameters;
    bool strict;
};
#undef AT
#define AT(member) offsetof(struct tool, member)
static const struct field tool_fields[] = {
    {"type", FIELD_ONLY, 0, 0, 0, "\"function\"", NULL},
    {"name", FIELD_STRING, AT(name), 0, 0, NULL, NULL},
    {"description", FIELD_STRING, AT(description), 0, 0, NULL, NULL},
    {"parameters", FIELD_VALUE, AT(parameters), 0, 0, NULL, NULL},
    {"strict", FIELD_BOOL, AT(strict), 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
#undef AT

/* A function; space: the namespace that it is in, or NULL. The model knows one name of both, which
 * a->keep's "spaces" takes apart again. */
static int read_function(struct request *q, const json_t *v, const char *where, const json_t *space,
                         struct wrong *w)
{
    struct ask *a = &q->ask;
    struct tool t = {0};
    char name[2 * TOOL_NAME_MAX + 8];
    if (!json_is_object(v))
        return wrong_value(w, where, v, "an object with type and name");
    if (fields_read(tool_fields, v, where, &t, w))
        return -w->e.code;
    if (space && t.name) {
        snprintf(name, sizeof name, "%.*s" ITEM_SPACE_END "%.*s", TOOL_NAME_MAX,
                 json_string_value(space), TOOL_NAME_MAX, t.name);
        t.name = name;
    }
    if (ask_tool(a, t.name, t.description, t.parameters, where, w) ||
        (t.strict && ask_strict(a, w)))
        return -w->e.code;
    if (space && json_object_set(q->spaces, name, (json_t *)space))
        return WRONG(w, E_NOMEM, "", "no memory for the tools");
    return 0;
}

struct space {
    const json_t *name, *tools;
};
#define AT(member) offsetof(struct space, member)
static const struct field space_fields[] = {
    {"type", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"name", FIELD_VALUE, AT(name), 0, 0, NULL, NULL},
    {"description", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"tools", FIELD_VALUE, AT(tools), 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
#undef AT

static int read_space(struct request *q, const json_t *v, const char *where, struct wrong *w)
{
    struct space s = {0};
    if (fields_read(space_fields, v, where, &s, w))
        return -w->e.code;
    if (!json_is_string(s.name) || !json_string_length(s.name))
        return wrong_member(w, where, "name", s.name, "a string, not empty");
    if (!json_is_array(s.tools))
        return wrong_member(w, where, "tools", s.tools, "an array of functions");
    for (size_t i = 0; i < json_array_size(s.tools); i++) {
        char at[96];
        snprintf(at, sizeof at, "%s.tools[%zu]", where, i);
        if (read_function(q, json_array_get(s.tools, i), at, s.name, w))
            return -w->e.code;
    }
    return 0;
}

/* A search of the web is OpenAI's to offer: the model is not told of it, and so asks for none. */
static int read_tools(struct request *q, const json_t *v, struct wrong *w)
{
    if (!json_is_array(v))
        return wrong_value(w, "tools", v, "an array");
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *tool = json_array_get(v, i);
        const char *type = json_string_value(json_object_get(tool, "type"));
        char where[48];
        snprintf(where, sizeof where, "tools[%zu]", i);
        if (type && strcmp(type, "web_search") == 0)
            continue;
        if (type && strcmp(type, "namespace") == 0 ? read_space(q, tool, where, w)
                                                   : read_function(q, tool, where, NULL, w))
            return -w->e.code;
    }
    return 0;
}

/* Encrypted thinking is for servers that keep it from their clients; here it is in the item. */
static int read_include(struct ask *a, const json_t *v, struct wrong *w)
{
    if (!json_is_array(v))
        return wrong_value(w, "include", v, "an array of strings");
    for (size_t i = 0; i < json_array_size(v); i++) {
        const char *word = json_string_value(json_array_get(v, i));
        if (word && strcmp(word, "message.output_text.logprobs") == 0)
            a->logprobs = true;
        else if (!word)
            return wrong_value(w, "include", json_array_get(v, i), "an array of strings");
        else if (strcmp(word, "reasoning.encrypted_content") != 0)
            return WRONG(w, E_UNSUPPORTED, "include",
                         "include: only message.output_text.logprobs and "
                         "reasoning.encrypted_content are supported, found '%.60s'",
                         word);
    }
    return 0;
}

static int read_metadata(const json_t *v, struct wrong *w)
{
    const char *key;
    json_t *value;
    if (!json_is_object(v))
        return wrong_value(w, "metadata", v, "an object of strings");
    json_object_foreach((json_t *)v, key, value) {
        char name[96];
        snprintf(name, sizeof name, "metadata.%.60s", key);
        if (!json_is_string(value))
            return wrong_value(w, name, value, "a string");
    }
    return 0;
}

/* a->keep: what the answer needs besides, and the items so far. */
static int read_input(struct request *q, struct kept *responses, struct wrong *w)
{
    json_t *items = NULL;
    if (q->previous ? items_before(responses, q->previous, &items, w) : !(items = json_array()))
        return w->e.code ? -w->e.code : WRONG(w, E_NOMEM, "", "no memory for the input");
    q->ask.keep = json_pack("{s:o, s:b, s:b, s:{}}", "items", items, "store", q->store != 0,
                            "summary", q->summary >= 0, "spaces");
    q->spaces = json_object_get(q->ask.keep, "spaces");
    if (!q->ask.keep)
        return WRONG(w, E_NOMEM, "", "no memory for the input");
    if (items_add(responses, q->input, items, w))
        return -w->e.code;
    if (json_array_size(items) == 0)
        return wrong_value(w, "input", q->input, "a string or an array of at least one item");
    return items_messages(&q->ask, q->instructions, items, w);
}

static int read_rest(struct request *q, struct wrong *w)
{
    struct ask *a = &q->ask;
    if ((q->tools && read_tools(q, q->tools, w)) ||
        (q->tool_choice && openai_tool_choice(a, q->tool_choice, w)) ||
        (q->format && openai_format(a, q->format, false, w)) ||
        (q->include && read_include(a, q->include, w)) ||
        (q->metadata && read_metadata(q->metadata, w)) ||
        (q->effort && ask_effort(a, q->effort, "reasoning.effort", w)))
        return -w->e.code;
    a->logprobs |= a->top_logprobs > 0;
    return ask_check(a, w);
}

int openai_ask_responses(struct ask *a, struct kept *responses, const char **id, struct wrong *w)
{
    struct request q = {.ask = *a, .store = -1, .summary = -1};
    q.ask.max_field = "max_output_tokens";
    q.ask.prompt_field = "input";
    int rc = fields_read(fields, a->body, "", &q, w);
    if (!rc)
        rc = read_input(&q, responses, w);
    if (!rc)
        rc = read_rest(&q, w);
    *a = q.ask;
    *id = q.request_id;
    return rc;
}
