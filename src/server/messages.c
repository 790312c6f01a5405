/* Messages of a chat: see messages.h. */
#include "server/messages.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "text/toolset.h"

enum { PLACE_MAX = 160, NAME_BYTES_MAX = TOOL_NAME_MAX };

enum role { ROLE_SYSTEM, ROLE_DEVELOPER, ROLE_USER, ROLE_ASSISTANT, ROLE_TOOL };
#define ROLES "system|developer|user|assistant|tool"

/* A message as it came. */
struct message {
    int role; /* enum role; -1: none was given */
    const json_t *content, *tool_calls, *function_call;
    const char *name, *reasoning, *tool_call_id;
};

#define AT(member) offsetof(struct message, member)
static const struct field fields[] = {
    {"role", FIELD_WORD, AT(role), 0, 0, ROLES, NULL},
    {"content", FIELD_VALUE, AT(content), 0, 0, NULL, NULL},
    {"name", FIELD_STRING, AT(name), 0, 0, NULL, NULL},
    {"tool_calls", FIELD_VALUE, AT(tool_calls), 0, 0, NULL, NULL},
    {"tool_call_id", FIELD_STRING, AT(tool_call_id), 0, 0, NULL, NULL},
    {"reasoning_content", FIELD_STRING, AT(reasoning), 0, 0, NULL, NULL},
    {"reasoning", FIELD_STRING, AT(reasoning), 0, 0, NULL, NULL},
    {"function_call", FIELD_VALUE, AT(function_call), 0, 0, NULL, NULL},
    {"refusal", FIELD_ONLY, 0, 0, 0, "null|\"\"", NULL},
    {"audio", FIELD_ONLY, 0, 0, 0, NULL, NULL},
    /* What clients send back of an answer, and what only other servers act on. */
    {"annotations", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"parsed", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"id", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"cache_control", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
#undef AT

static int out_of_memory(struct wrong *w)
{
    return WRONG(w, E_NOMEM, "", "no memory for the messages");
}

/* Of a part of a content array, and what clients send back of an answer. */
struct part {
    const json_t *text, *refusal;
};
static const struct field part_fields[] = {
    {"type", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"text", FIELD_VALUE, offsetof(struct part, text), 0, 0, NULL, NULL},
    {"refusal", FIELD_VALUE, offsetof(struct part, refusal), 0, 0, NULL, NULL},
    {"annotations", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"logprobs", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"parsed", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"citations", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"cache_control", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};

/* The text of one part of a content array. */
static int part_text(const json_t *part, const char *place, struct buf *out, struct wrong *w)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    const json_t *text;
    struct part p = {0};
    if (!json_is_object(part) || !type)
        return wrong_value(w, place, part, "a part with a type, like {\"type\": \"text\"}");
    if (strcmp(type, "refusal") != 0 && strcmp(type, "text") != 0 &&
        strcmp(type, "input_text") != 0 && strcmp(type, "output_text") != 0)
        return WRONG(w, E_UNSUPPORTED, place,
                     "%s: parts of type '%.40s' are not supported: this "
                     "model is given text only",
                     place, type);
    if (fields_read(part_fields, part, place, &p, w))
        return -w->e.code;
    text = strcmp(type, "refusal") == 0 ? p.refusal : p.text;
    if (!json_is_string(text))
        return wrong_value(w, place, text, "a string as text");
    buf_add(out, json_string_value(text), json_string_length(text));
    return 0;
}

/* Text, an array of parts, or null where `may_lack`. */
static int content_text(const json_t *content, bool may_lack, const char *place, struct buf *out,
                        struct wrong *w)
{
    if (json_is_string(content)) {
        buf_add(out, json_string_value(content), json_string_length(content));
        return 0;
    }
    if (!json_is_array(content)) {
        if (!content && may_lack)
            return 0;
        return wrong_value(w, place, content, "a string or an array of text parts");
    }
    for (size_t i = 0; i < json_array_size(content); i++) {
        char at[PLACE_MAX + 64];
        snprintf(at, sizeof at, "%s[%zu]", place, i);
        if (part_text(json_array_get(content, i), at, out, w))
            return -w->e.code;
    }
    return 0;
}

int messages_text(const json_t *content, const char *name, struct buf *out, struct wrong *w)
{
    if (content_text(content, false, name, out, w))
        return -w->e.code;
    return out->failed ? out_of_memory(w) : 0;
}

/* Arguments as an object: given as one, or as its text; empty text is {}. For json_decref. */
static int arguments(const json_t *v, const char *place, json_t **out, struct wrong *w)
{
    struct err e = {0};
    *out = NULL;
    if (json_is_object(v))
        *out = json_incref((json_t *)v);
    else if (!v || (json_is_string(v) && json_string_length(v) == 0))
        *out = json_object();
    else if (json_is_string(v))
        (void)json_parse(json_string_value(v), json_string_length(v), place, out, &e);
    if (json_is_object(*out))
        return 0;
    json_decref(*out);
    *out = NULL;
    if (e.code == E_LIMIT || e.code == E_NOMEM)
        return WRONG(w, e.code, place, "%s", e.msg);
    return wrong_value(w, place, v, "a JSON object, or its text");
}

/* A call of an earlier answer, and its function. */
struct call {
    const char *id, *type, *name;
    const json_t *function, *arguments;
};

#define AT(member) offsetof(struct call, member)
static const struct field function_fields[] = {
    {"name", FIELD_STRING, AT(name), 0, 0, NULL, NULL},
    {"arguments", FIELD_VALUE, AT(arguments), 0, 0, NULL, NULL},
    {"parsed_arguments", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"index", FIELD_HINT, 0, 0, 0, NULL, NULL}, /* Ollama's clients number calls here */
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
static const struct field call_fields[] = {
    {"id", FIELD_STRING, AT(id), 0, 0, NULL, NULL},
    {"type", FIELD_STRING, AT(type), 0, 0, NULL, NULL},
    {"function", FIELD_VALUE, AT(function), 0, 0, NULL, NULL},
    {"index", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"cache_control", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};
#undef AT

/* One call of a function {name, arguments}, appended to calls. */
static int add_call(const json_t *function, const char *id, const char *place, json_t *calls,
                    struct wrong *w)
{
    char at[PLACE_MAX + 96];
    struct call c = {0};
    json_t *args;
    if (!json_is_object(function))
        return wrong_value(w, place, function, "an object with name and arguments");
    if (fields_read(function_fields, function, place, &c, w))
        return -w->e.code;
    const char *name = c.name;
    if (!name || !*name || strlen(name) > NAME_BYTES_MAX)
        return WRONG(w, E_FORMAT, place,
                     "%s: want a function with a name of 1 to %d bytes, found %s", place,
                     NAME_BYTES_MAX,
                     !name   ? "none"
                     : *name ? "a longer one"
                             : "an empty one");
    snprintf(at, sizeof at, "%s.arguments", place);
    if (arguments(c.arguments, at, &args, w))
        return -w->e.code;
    json_t *call = json_pack("{s:s, s:s*, s:{s:s, s:o}}", "type", "function", "id", id, "function",
                             "name", name, "arguments", args);
    return json_array_append_new(calls, call) ? out_of_memory(w) : 0;
}

static int read_calls(const struct message *m, const char *place, json_t *calls, struct wrong *w)
{
    char at[PLACE_MAX + 64];
    if (m->function_call) {
        snprintf(at, sizeof at, "%s.function_call", place);
        if (add_call(m->function_call, NULL, at, calls, w))
            return -w->e.code;
    }
    snprintf(at, sizeof at, "%s.tool_calls", place);
    if (m->tool_calls && !json_is_array(m->tool_calls))
        return wrong_value(w, at, m->tool_calls, "an array");
    for (size_t i = 0; i < json_array_size(m->tool_calls); i++) {
        const json_t *call = json_array_get(m->tool_calls, i);
        struct call c = {0};
        snprintf(at, sizeof at, "%s.tool_calls[%zu]", place, i);
        if (!json_is_object(call))
            return wrong_value(w, at, call, "an object with a function");
        if (fields_read(call_fields, call, at, &c, w))
            return -w->e.code;
        snprintf(at, sizeof at, "%s.tool_calls[%zu].function", place, i);
        if (c.type && strcmp(c.type, "function") != 0)
            return WRONG(w, E_UNSUPPORTED, at,
                         "%s: only calls of functions are supported, found '%.40s'", at, c.type);
        if (add_call(c.function, c.id, at, calls, w))
            return -w->e.code;
    }
    return 0;
}

static int refuse_misplaced(const struct message *m, const char *place, struct wrong *w)
{
    const struct {
        bool given;
        const char *what;
        enum role role;
        const char *whose;
    } rules[] = {
        {m->tool_call_id != NULL, "tool_call_id", ROLE_TOOL, "tool"},
        {m->tool_calls != NULL, "tool_calls", ROLE_ASSISTANT, "assistant"},
        {m->function_call != NULL, "function_call", ROLE_ASSISTANT, "assistant"},
        {m->reasoning != NULL, "reasoning_content", ROLE_ASSISTANT, "assistant"},
    };
    if (m->role < 0)
        return WRONG(w, E_FORMAT, place, "%s.role: is required: one of %s", place, ROLES);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        char name[PLACE_MAX + 32];
        if (!rules[i].given || m->role == (int)rules[i].role)
            continue;
        snprintf(name, sizeof name, "%s.%s", place, rules[i].what);
        return WRONG(w, E_FORMAT, name, "%s: belongs to %s messages only", name, rules[i].whose);
    }
    return 0;
}

/* What a message becomes, without its role's special cases. For json_decref; NULL on failure. */
static json_t *convert(const struct message *m, const char *place, const struct buf *text,
                       struct wrong *w)
{
    static const char *const roles[] = {"system", "system", "user", "assistant", "tool"};
    json_t *calls = json_array();
    json_t *out = NULL;
    if (read_calls(m, place, calls, w) == 0) {
        out = json_pack("{s:s, s:s%, s:s*, s:s*, s:s*}", "role", roles[m->role], "content",
                        buf_str(text), text->len, "name", m->name, "reasoning_content",
                        m->reasoning, "tool_call_id", m->tool_call_id);
        if (!out || (json_array_size(calls) && json_object_set(out, "tool_calls", calls))) {
            json_decref(out);
            out = NULL;
            (void)out_of_memory(w);
        }
    }
    json_decref(calls);
    return out;
}

/* Text of system messages is gathered in `system`, the others are appended to a->messages. */
static int read_one(struct ask *a, const json_t *v, const char *place, struct buf *system,
                    struct wrong *w)
{
    struct message m = {.role = -1};
    struct buf text = BUF_INIT;
    char at[PLACE_MAX + 16];
    if (!json_is_object(v))
        return wrong_value(w, place, v, "an object with role and content");
    if (fields_read(fields, v, place, &m, w) || refuse_misplaced(&m, place, w))
        return -w->e.code;
    snprintf(at, sizeof at, "%s.content", place);
    int rc = content_text(m.content, m.role == ROLE_ASSISTANT, at, &text, w);
    if (!rc && m.role <= ROLE_DEVELOPER) {
        if (system->len && text.len)
            buf_puts(system, "\n\n");
        buf_add(system, buf_str(&text), text.len);
    } else if (!rc) {
        json_t *out = convert(&m, place, &text, w);
        if (!out || json_array_append_new(a->messages, out))
            rc = w->e.code ? -w->e.code : out_of_memory(w);
    }
    buf_free(&text);
    return rc;
}

int messages_read(struct ask *a, const json_t *messages, const char *name, struct wrong *w)
{
    struct buf system = BUF_INIT;
    int rc = 0;
    if (!json_is_array(messages) || json_array_size(messages) == 0)
        return wrong_value(w, name, messages, "an array of at least one message");
    json_decref(a->messages);
    a->messages = json_array();
    for (size_t i = 0; !rc && i < json_array_size(messages); i++) {
        char place[PLACE_MAX];
        snprintf(place, sizeof place, "%.40s[%zu]", name, i);
        rc = read_one(a, json_array_get(messages, i), place, &system, w);
    }
    if (!rc && system.len)
        rc = json_array_insert_new(a->messages, 0,
                                   json_pack("{s:s, s:s%}", "role", "system", "content",
                                             buf_str(&system), system.len))
                 ? out_of_memory(w)
                 : 0;
    if (!rc && system.failed)
        rc = out_of_memory(w);
    buf_free(&system);
    return rc;
}
