/* Requests in Anthropic's form: see asks.h. Messages are turned into OpenAI's form first, so
 * that messages.c is the one place that knows what the template wants. */
#include <stdio.h>
#include <string.h>

#include "server/asks.h"
#include "server/messages.h"
#include "text/toolset.h"

enum { PLACE_MAX = 96 };

struct fields_of_request {
    struct ask ask;
    const json_t *messages, *system, *tools, *stop, *format, *output_format, *edits;
    const char *thinking, *choice, *effort;
    bool one_call;
};

#define AT(member) offsetof(struct fields_of_request, member)
#define A(member)  offsetof(struct fields_of_request, ask.member)
static const struct field thinking_fields[] = {
    {"type", FIELD_STRING, AT(thinking), 0, 0, NULL, NULL},
    {"budget_tokens", FIELD_INT, A(think_budget), 0, INT32_MAX, NULL, NULL},
    {"display", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
static const struct field choice_fields[] = {
    {"type", FIELD_STRING, AT(choice), 0, 0, NULL, NULL},
    {"name", FIELD_STRING, A(tool_name), 0, 0, NULL, NULL},
    {"disable_parallel_tool_use", FIELD_BOOL, AT(one_call), 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
static const struct field output_fields[] = {
    {"effort", FIELD_STRING, AT(effort), 0, 0, NULL, NULL},
    {"format", FIELD_VALUE, AT(format), 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
static const struct field context_fields[] = {
    {"edits", FIELD_VALUE, AT(edits), 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
static const struct field fields[] = {
    {"model", FIELD_STRING, A(model), 0, 0, NULL, NULL},
    {"max_tokens", FIELD_INT, A(max_tokens), 1, INT32_MAX, NULL, NULL},
    {"messages", FIELD_VALUE, AT(messages), 0, 0, NULL, NULL},
    {"system", FIELD_VALUE, AT(system), 0, 0, NULL, NULL},
    {"stop_sequences", FIELD_VALUE, AT(stop), 0, 0, NULL, NULL},
    {"stream", FIELD_BOOL, A(stream), 0, 0, NULL, NULL},
    {"temperature", FIELD_REAL, A(temperature), 0, 1, NULL, NULL},
    {"top_p", FIELD_REAL, A(top_p), 0, 1, NULL, NULL},
    {"top_k", FIELD_INT, A(top_k), 0, INT32_MAX, NULL, NULL},
    {"tools", FIELD_VALUE, AT(tools), 0, 0, NULL, NULL},
    {"tool_choice", FIELD_FIELDS, 0, 0, 0, NULL, choice_fields},
    {"thinking", FIELD_FIELDS, 0, 0, 0, NULL, thinking_fields},
    {"output_config", FIELD_FIELDS, 0, 0, 0, NULL, output_fields},
    {"output_format", FIELD_VALUE, AT(output_format), 0, 0, NULL, NULL},
    {"metadata", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"cache_control", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"service_tier", FIELD_ONLY, 0, 0, 0, "\"auto\"|\"standard_only\"", NULL},
    {"mcp_servers", FIELD_ONLY, 0, 0, 0, "[]", NULL},
    {"container", FIELD_ONLY, 0, 0, 0, NULL, NULL},
    {"context_management", FIELD_FIELDS, 0, 0, 0, NULL, context_fields},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
#undef A
#undef AT

/* One message of OpenAI's form in the making. */
struct draft {
    json_t *out; /* all of them */
    const char *role;
    json_t *parts, *calls; /* owned, or NULL */
    struct buf thinking;
};

static int out_of_memory(struct wrong *w)
{
    return WRONG(w, E_NOMEM, "", "no memory for the messages");
}

static const char *string_of(const json_t *v, const char *key)
{
    return json_string_value(json_object_get(v, key));
}

/* Ends the message that is being made, if there is something in it. */
static int flush(struct draft *d, struct wrong *w)
{
    int rc = 0;
    if (d->parts || d->calls || d->thinking.len) {
        json_t *m = json_pack("{s:s, s:o*, s:o*}", "role", d->role, "content", d->parts,
                              "tool_calls", d->calls);
        if (d->thinking.len)
            json_object_set_new(m, "reasoning_content",
                                json_stringn(d->thinking.data, d->thinking.len));
        rc = json_array_append_new(d->out, m) ? out_of_memory(w) : 0;
    }
    d->parts = d->calls = NULL;
    buf_clear(&d->thinking);
    return rc;
}

static int add_part(struct draft *d, const json_t *part, struct wrong *w)
{
    if (!d->parts)
        d->parts = json_array();
    return json_array_append(d->parts, (json_t *)part) ? out_of_memory(w) : 0;
}

static int add_use(struct draft *d, const json_t *block, const char *place, struct wrong *w)
{
    const char *name = string_of(block, "name");
    const json_t *input = json_object_get(block, "input"), *id = json_object_get(block, "id");
    char what[48];
    snprintf(what, sizeof what, "a string of 1 to %d bytes", TOOL_NAME_MAX);
    if (!name || !*name || strlen(name) > TOOL_NAME_MAX)
        return wrong_member(w, place, "name", json_object_get(block, "name"), what);
    if (!json_is_object(input))
        return wrong_member(w, place, "input", json_object_get(block, "input"), "an object");
    if (id && !json_is_string(id))
        return wrong_member(w, place, "id", json_object_get(block, "id"), "a string");
    if (!d->calls)
        d->calls = json_array();
    json_t *call = json_pack("{s:s, s:s*, s:{s:s, s:O}}", "type", "function", "id",
                             string_of(block, "id"), "function", "name", name, "arguments", input);
    return json_array_append_new(d->calls, call) ? out_of_memory(w) : 0;
}

/* What any block may have. */
static const struct field block_fields[] = {
    {"type", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"cache_control", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};

struct result {
    const char *id;
    const json_t *content;
    bool failed;
};

#define AT(member) offsetof(struct result, member)
static const struct field result_fields[] = {
    {"block", FIELD_TABLE, 0, 0, 0, NULL, block_fields},
    {"tool_use_id", FIELD_STRING, AT(id), 0, 0, NULL, NULL},
    {"content", FIELD_VALUE, AT(content), 0, 0, NULL, NULL},
    {"is_error", FIELD_BOOL, AT(failed), 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
#undef AT

/* What a tool gave, as text; that of one that failed says so to the model, whose template has no
 * other place for it. */
static int add_result(struct draft *d, const json_t *block, const char *place, struct wrong *w)
{
    char at[PLACE_MAX + 64];
    struct buf text = BUF_INIT;
    struct result r = {0};
    if (fields_read(result_fields, block, place, &r, w))
        return -w->e.code;
    if (!r.id)
        return wrong_member(w, place, "tool_use_id", json_object_get(block, "tool_use_id"),
                            "a string");
    snprintf(at, sizeof at, "%s.content", place);
    if (r.failed)
        buf_puts(&text, "Error: ");
    int rc = r.content ? messages_text(r.content, at, &text, w) : 0;
    rc = rc ? rc : flush(d, w);
    if (!rc) {
        json_t *m = text.failed ? NULL
                                : json_pack("{s:s, s:s, s:s%}", "role", "tool", "tool_call_id",
                                            r.id, "content", buf_str(&text), text.len);
        rc = json_array_append_new(d->out, m) ? out_of_memory(w) : 0;
    }
    buf_free(&text);
    return rc;
}

/* What other blocks have besides what is read of them. */
static const struct field text_fields[] = {
    {"block", FIELD_TABLE, 0, 0, 0, NULL, block_fields},
    {"text", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"citations", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
static const struct field thought_fields[] = {
    {"block", FIELD_TABLE, 0, 0, 0, NULL, block_fields},
    {"thinking", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"signature", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
static const struct field use_fields[] = {
    {"block", FIELD_TABLE, 0, 0, 0, NULL, block_fields}, {"id", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"name", FIELD_HINT, 0, 0, 0, NULL, NULL},           {"input", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"caller", FIELD_HINT, 0, 0, 0, NULL, NULL},         {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};

static int add_block(struct draft *d, const json_t *block, const char *place, struct wrong *w)
{
    const char *type = string_of(block, "type");
    const bool assistant = strcmp(d->role, "assistant") == 0;
    const bool user = strcmp(d->role, "user") == 0;
    if (!type)
        return wrong_value(w, place, block, "a block with a type, an object");
    if (strcmp(type, "tool_use") == 0 && assistant)
        return fields_read(use_fields, block, place, NULL, w) ? -w->e.code
                                                              : add_use(d, block, place, w);
    if (strcmp(type, "tool_result") == 0 && user)
        return add_result(d, block, place, w);
    if (strcmp(type, "thinking") == 0 && assistant) {
        const char *text = string_of(block, "thinking");
        if (fields_read(thought_fields, block, place, NULL, w))
            return -w->e.code;
        if (!text)
            return wrong_member(w, place, "thinking", json_object_get(block, "thinking"),
                                "a string");
        buf_puts(&d->thinking, text);
        return 0;
    }
    if (strcmp(type, "text") == 0 && !string_of(block, "text"))
        return wrong_member(w, place, "text", json_object_get(block, "text"), "a string");
    if (strcmp(type, "text") == 0)
        return fields_read(text_fields, block, place, NULL, w) ? -w->e.code : add_part(d, block, w);
    return WRONG(w, E_UNSUPPORTED, place,
                 "%s: blocks of type '%.40s' are not supported in %s "
                 "messages",
                 place, type, d->role);
}

static const struct field message_fields[] = {
    {"role", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"content", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};

/* A system message in the middle of a conversation stays there, marked, as the user's: in front it
 * would change the beginning, of which what is kept could not be used again. */
static int add_reminder(struct draft *d, const json_t *content, const char *place, struct wrong *w)
{
    struct buf text = BUF_INIT;
    char at[PLACE_MAX + 16];
    snprintf(at, sizeof at, "%s.content", place);
    buf_puts(&text, "<system-reminder>\n");
    int rc = messages_text(content, at, &text, w);
    buf_puts(&text, "\n</system-reminder>\n");
    if (!rc && (text.failed ||
                json_array_append_new(d->out, json_pack("{s:s, s:s%}", "role", "user", "content",
                                                        buf_str(&text), text.len))))
        rc = out_of_memory(w);
    buf_free(&text);
    return rc;
}

static int add_message(struct draft *d, const json_t *m, const char *place, struct wrong *w)
{
    const char *role = string_of(m, "role");
    const json_t *content = json_object_get(m, "content");
    if (!role || (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0 &&
                  strcmp(role, "system") != 0))
        return wrong_member(w, place, "role", json_object_get(m, "role"),
                            "user, assistant or system");
    if (fields_read(message_fields, m, place, NULL, w))
        return -w->e.code;
    d->role = role;
    const json_t *last = json_array_get(d->out, json_array_size(d->out) - 1);
    if (last && strcmp(role, "system") == 0 && strcmp(string_of(last, "role"), "system") != 0)
        return add_reminder(d, content, place, w);
    if (json_is_string(content)) {
        json_t *copy = json_pack("{s:s, s:O}", "role", role, "content", content);
        return json_array_append_new(d->out, copy) ? out_of_memory(w) : 0;
    }
    if (!json_is_array(content))
        return wrong_member(w, place, "content", json_object_get(m, "content"),
                            "a string or an array of blocks");
    for (size_t i = 0; i < json_array_size(content); i++) {
        char at[PLACE_MAX + 48];
        snprintf(at, sizeof at, "%s.content[%zu]", place, i);
        if (add_block(d, json_array_get(content, i), at, w))
            return -w->e.code;
    }
    return flush(d, w);
}

/* Bytes of the first block that tell about the client and are not for the model: Claude Code puts
 * them there, with numbers that would keep one conversation's beginning from being another's. */
static size_t about_client(const json_t *system)
{
    static const char begins[] = "x-anthropic-billing-header:";
    const json_t *text = json_object_get(json_array_get(system, 0), "text");
    const char *s = json_string_value(text);
    return s && strncmp(s, begins, strlen(begins)) == 0 ? json_string_length(text) : 0;
}

static int add_system(struct draft *d, const json_t *system, struct wrong *w)
{
    struct buf text = BUF_INIT;
    int rc = messages_text(system, "system", &text, w);
    const size_t from = about_client(system);
    if (!rc && text.len > from &&
        json_array_append_new(d->out, json_pack("{s:s, s:s%}", "role", "system", "content",
                                                text.data + from, text.len - from)))
        rc = out_of_memory(w);
    buf_free(&text);
    return rc;
}

static int convert(struct ask *a, const json_t *system, const json_t *messages, struct wrong *w)
{
    struct draft d = {.out = json_array()};
    const size_t n = json_array_size(messages);
    int rc = 0;
    if (system)
        rc = add_system(&d, system, w);
    for (size_t i = 0; !rc && i < n; i++) {
        char place[PLACE_MAX];
        snprintf(place, sizeof place, "messages[%zu]", i);
        rc = add_message(&d, json_array_get(messages, i), place, w);
    }
    if (!rc && d.role && strcmp(d.role, "assistant") == 0)
        rc = WRONG(w, E_UNSUPPORTED, "messages",
                   "messages: the last one must be the user's: an "
                   "answer cannot be begun for the model");
    if (!rc)
        rc = messages_read(a, d.out, "messages", w);
    json_decref(d.parts);
    json_decref(d.calls);
    buf_free(&d.thinking);
    json_decref(d.out);
    return rc;
}

/* --- the other fields --- */

struct tool {
    const char *name, *description;
    const json_t *schema;
    bool strict;
};

#define AT(member) offsetof(struct tool, member)
static const struct field tool_fields[] = {
    {"name", FIELD_STRING, AT(name), 0, 0, NULL, NULL},
    {"description", FIELD_STRING, AT(description), 0, 0, NULL, NULL},
    {"input_schema", FIELD_VALUE, AT(schema), 0, 0, NULL, NULL},
    {"type", FIELD_ONLY, 0, 0, 0, "\"custom\"", NULL},
    {"cache_control", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"eager_input_streaming", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"strict", FIELD_BOOL, AT(strict), 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
#undef AT

static int read_tools(struct ask *a, const json_t *tools, struct wrong *w)
{
    if (!json_is_array(tools))
        return wrong_value(w, "tools", tools, "an array");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        struct tool t = {0};
        char where[48];
        snprintf(where, sizeof where, "tools[%zu]", i);
        if (!json_is_object(json_array_get(tools, i)))
            return wrong_value(w, where, json_array_get(tools, i),
                               "an object with name and input_schema");
        if (fields_read(tool_fields, json_array_get(tools, i), where, &t, w) ||
            ask_tool(a, t.name, t.description, t.schema, where, w) ||
            (t.strict && ask_strict(a, w)))
            return -w->e.code;
    }
    return 0;
}

static int read_choice(struct ask *a, const char *type, struct wrong *w)
{
    static const char *const words[] = {"auto", "none", "any", "tool"};
    for (int i = 0; i < 4; i++)
        if (strcmp(words[i], type) == 0) {
            a->tool_choice = (enum ask_tools)i;
            if (i != ASK_TOOLS_NAMED && a->tool_name)
                return WRONG(w, E_FORMAT, "tool_choice.name",
                             "tool_choice.name: belongs to the type tool only, found %s", type);
            if (i == ASK_TOOLS_NAMED && !a->tool_name)
                return WRONG(w, E_FORMAT, "tool_choice.name", "tool_choice.name: is required");
            return 0;
        }
    return WRONG(w, E_FORMAT, "tool_choice.type",
                 "tool_choice.type: want auto, any, tool or none, found '%.40s'", type);
}

static int read_thinking(struct fields_of_request *q, struct wrong *w)
{
    const char *t = q->thinking;
    const bool on = strcmp(t, "enabled") == 0 || strcmp(t, "adaptive") == 0;
    if (!on && strcmp(t, "disabled") != 0)
        return WRONG(w, E_FORMAT, "thinking.type",
                     "thinking.type: want enabled, adaptive or disabled, found '%.40s'", t);
    if (!on && q->ask.think_budget >= 0)
        return WRONG(w, E_FORMAT, "thinking.budget_tokens",
                     "thinking.budget_tokens: there is no thinking to be counted: its type is "
                     "disabled");
    q->ask.thinking = on;
    return 0;
}

struct format {
    const char *type;
    const json_t *schema;
};

static const struct field format_fields[] = {
    {"type", FIELD_STRING, offsetof(struct format, type), 0, 0, NULL, NULL},
    {"schema", FIELD_VALUE, offsetof(struct format, schema), 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};

/* name: "output_config.format", or "output_format", which it is the older name of; schema: that of
 * its schema. */
static int read_format(struct ask *a, const json_t *v, const char *name, const char *schema,
                       struct wrong *w)
{
    struct format f = {0};
    if (json_is_object(v) && fields_read(format_fields, v, name, &f, w))
        return -w->e.code;
    if (!f.type || strcmp(f.type, "json_schema") != 0)
        return wrong_value(w, name, f.type ? json_object_get(v, "type") : v,
                           "{\"type\": \"json_schema\", \"schema\": ...}");
    return ask_schema(a, f.schema, schema, w);
}

static int read_formats(const struct fields_of_request *q, struct ask *a, struct wrong *w)
{
    if (q->format && q->output_format)
        return WRONG(w, E_FORMAT, "output_format",
                     "output_format: is there beside output_config.format; give one of them");
    if (q->format)
        return read_format(a, q->format, "output_config.format", "output_config.format.schema", w);
    return q->output_format
               ? read_format(a, q->output_format, "output_format", "output_format.schema", w)
               : 0;
}

/* Edits that leave everything as it is: what was thought is kept anyway. */
static int check_edits(const json_t *edits, struct wrong *w)
{
    static const char *const idle[] = {
        "{\"type\":\"clear_thinking_20251015\",\"keep\":\"all\"}",
        "{\"type\":\"clear_thinking_20251015\",\"keep\":{\"type\":\"all\"}}",
    };
    if (edits && !json_is_array(edits))
        return wrong_value(w, "context_management.edits", edits, "an array");
    for (size_t i = 0; i < json_array_size(edits); i++) {
        bool fine = false;
        for (size_t k = 0; k < sizeof idle / sizeof idle[0] && !fine; k++) {
            json_t *v = json_loads(idle[k], 0, NULL);
            fine = json_equal(json_array_get(edits, i), v);
            json_decref(v);
        }
        if (!fine)
            return WRONG(w, E_UNSUPPORTED, "context_management.edits",
                         "context_management.edits[%zu]: only clear_thinking_20251015 with keep "
                         "\"all\" is supported: nothing is cleared here",
                         i);
    }
    return 0;
}

/* An object that is there says nothing without its type. */
static int lacks_type(const json_t *body, const char *name, const char *type, struct wrong *w)
{
    char field[48];
    snprintf(field, sizeof field, "%s.type", name);
    if (type || !json_is_object(json_object_get(body, name)))
        return 0;
    return WRONG(w, E_FORMAT, field, "%s: is required", field);
}

int anthropic_ask(struct ask *a, bool counts, struct wrong *w)
{
    struct fields_of_request q = {.ask = *a};
    int rc = fields_read(fields, a->body, "", &q, w);
    *a = q.ask;
    if (rc)
        return rc;
    if (!q.messages || !json_is_array(q.messages))
        return wrong_value(w, "messages", q.messages, "an array of at least one message");
    if (!counts && !a->max_tokens)
        return WRONG(w, E_FORMAT, "max_tokens", "max_tokens: is required");
    if (check_edits(q.edits, w) || lacks_type(a->body, "tool_choice", q.choice, w) ||
        lacks_type(a->body, "thinking", q.thinking, w))
        return -w->e.code;
    a->parallel_tools = !q.one_call;
    if (convert(a, q.system, q.messages, w) || (q.tools && read_tools(a, q.tools, w)) ||
        (q.choice && read_choice(a, q.choice, w)) ||
        (q.stop && ask_stop(a, q.stop, "stop_sequences", w)) || read_formats(&q, a, w) ||
        (q.effort && ask_effort(a, q.effort, "output_config.effort", w)))
        return -w->e.code;
    q.ask = *a;
    if (q.thinking && read_thinking(&q, w))
        return -w->e.code;
    *a = q.ask;
    return ask_check(a, w);
}
