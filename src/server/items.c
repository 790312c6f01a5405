/* Items of responses: see items.h. Messages are built in the form of OpenAI's chat, so that
 * messages.c is the one place that knows what the template wants. */
#include "server/items.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "server/messages.h"

#define ID_PREFIX "resp_"

enum { PLACE_MAX = 96, HEX_MAX = 40 };

static int out_of_memory(struct wrong *w)
{
    return WRONG(w, E_NOMEM, "", "no memory for the input");
}

static const char *string_of(const json_t *v, const char *key)
{
    return json_string_value(json_object_get(v, key));
}

/* --- ids --- */

void items_id(const char *prefix, const char *response_id, int place, char to[ITEM_ID_ROOM])
{
    snprintf(to, ITEM_ID_ROOM, "%s_%s_%d", prefix, response_id + strlen(ID_PREFIX), place);
}

size_t items_n_input(const json_t *stored)
{
    const size_t all = json_array_size(json_object_get(stored, "items"));
    const size_t own =
        json_array_size(json_object_get(json_object_get(stored, "response"), "output"));
    return all > own ? all - own : 0;
}

/* Borrowed from what is stored under that name; NULL: it has no such item. */
static json_t *item_of(const json_t *stored, const char *name, const char *id)
{
    const json_t *output = json_object_get(json_object_get(stored, "response"), "output");
    const json_t *items = json_object_get(stored, "items");
    for (size_t i = 0; i < json_array_size(output); i++)
        if (strcmp(string_of(json_array_get(output, i), "id"), id) == 0)
            return json_array_get(output, i);
    for (size_t i = 0; i < items_n_input(stored); i++) {
        char given[ITEM_ID_ROOM];
        items_id("in", name, (int)i, given);
        if (!string_of(json_array_get(items, i), "id") && strcmp(given, id) == 0)
            return json_array_get(items, i);
    }
    return NULL;
}

/* The stored item of an id made by items_id. */
static int find_item(struct kept *responses, const char *id, const char *place, json_t **out,
                     struct wrong *w)
{
    char name[HEX_MAX + 16];
    const char *hex = strchr(id, '_');
    struct err e = {0};
    json_t *stored = NULL;
    snprintf(name, sizeof name, ID_PREFIX "%.*s", hex ? (int)strcspn(hex + 1, "_") : 0,
             hex ? hex + 1 : "");
    (void)kept_get(responses, name, &stored, &e);
    *out = json_incref(item_of(stored, name, id));
    json_decref(stored);
    return *out ? 0
                : WRONG(w, E_ARG, place,
                        "%s: there is no item '%.80s' here, or not any more: want an id of a "
                        "stored response's output, or of its input_items where the item came "
                        "without one; or send the item itself",
                        place, id);
}

int items_before(struct kept *responses, const char *id, json_t **items, struct wrong *w)
{
    struct err e = {0};
    json_t *stored = NULL;
    *items = NULL;
    if (kept_get(responses, id, &stored, &e))
        return WRONG(w, E_ARG, "previous_response_id",
                     "previous_response_id: %s: send what was said as input", e.msg);
    *items = json_incref(json_object_get(stored, "items"));
    json_decref(stored);
    return 0;
}

/* --- checks --- */

/* What a part may have. */
static const struct field part_fields[] = {
    {"type", FIELD_HINT, 0, 0, 0, NULL, NULL},     {"text", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"refusal", FIELD_HINT, 0, 0, 0, NULL, NULL},  {"annotations", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"logprobs", FIELD_HINT, 0, 0, 0, NULL, NULL}, {"parsed", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};

static int check_text(const json_t *part, const char *key, const char *place, struct wrong *w)
{
    const json_t *v = json_object_get(part, key);
    if (!json_is_string(v))
        return wrong_member(w, place, key, v, "a string");
    return fields_read(part_fields, part, place, NULL, w);
}

static int check_part(const json_t *part, bool thinking, const char *place, struct wrong *w)
{
    static const char *const texts[] = {"input_text", "output_text", "text", "reasoning_text",
                                        "summary_text"};
    const size_t first = thinking ? 3 : 0, behind = thinking ? 5 : 3;
    const char *type = string_of(part, "type");
    if (!type)
        return wrong_value(w, place, part, "a part with a type, like {\"type\": \"input_text\"}");
    for (size_t i = first; i < behind; i++)
        if (strcmp(type, texts[i]) == 0)
            return check_text(part, "text", place, w);
    if (!thinking && strcmp(type, "refusal") == 0)
        return check_text(part, "refusal", place, w);
    return WRONG(w, E_UNSUPPORTED, place,
                 "%s: parts of type '%.40s' are not supported: this model is given text only",
                 place, type);
}

/* A string, or an array of parts; of thinking an array alone. */
static int check_content(const json_t *v, bool thinking, const char *place, struct wrong *w)
{
    if (json_is_string(v) && !thinking)
        return 0;
    if (!json_is_array(v))
        return wrong_value(w, place, v,
                           thinking ? "an array of text parts"
                                    : "a string or an array of text parts");
    for (size_t i = 0; i < json_array_size(v); i++) {
        char at[PLACE_MAX + 32];
        snprintf(at, sizeof at, "%s[%zu]", place, i);
        if (check_part(json_array_get(v, i), thinking, at, w))
            return -w->e.code;
    }
    return 0;
}

/* What may be said of an item, by its type; the fields of what clients send back of answers too. */
struct item_fields {
    const char *role, *name, *call_id, *id, *space;
    const json_t *content, *summary, *arguments, *output;
};

#define AT(member) offsetof(struct item_fields, member)
#define HINTS                                                                                      \
    {"type", FIELD_HINT, 0, 0, 0, NULL, NULL}, {"id", FIELD_HINT, 0, 0, 0, NULL, NULL},            \
        {"status", FIELD_HINT, 0, 0, 0, NULL, NULL},                                               \
    {                                                                                              \
        NULL, FIELD_HINT, 0, 0, 0, NULL, NULL                                                      \
    }
static const struct field message_fields[] = {
    {"role", FIELD_STRING, AT(role), 0, 0, NULL, NULL},
    {"content", FIELD_VALUE, AT(content), 0, 0, NULL, NULL},
    {"phase", FIELD_HINT, 0, 0, 0, NULL, NULL},
    HINTS,
};
static const struct field reasoning_fields[] = {
    {"summary", FIELD_VALUE, AT(summary), 0, 0, NULL, NULL},
    {"content", FIELD_VALUE, AT(content), 0, 0, NULL, NULL},
    {"encrypted_content", FIELD_HINT, 0, 0, 0, NULL, NULL},
    HINTS,
};
static const struct field call_fields[] = {
    {"call_id", FIELD_STRING, AT(call_id), 0, 0, NULL, NULL},
    {"name", FIELD_STRING, AT(name), 0, 0, NULL, NULL},
    {"namespace", FIELD_STRING, AT(space), 0, 0, NULL, NULL},
    {"arguments", FIELD_VALUE, AT(arguments), 0, 0, NULL, NULL},
    {"parsed_arguments", FIELD_HINT, 0, 0, 0, NULL, NULL},
    HINTS,
};
static const struct field output_fields[] = {
    {"call_id", FIELD_STRING, AT(call_id), 0, 0, NULL, NULL},
    {"output", FIELD_VALUE, AT(output), 0, 0, NULL, NULL},
    HINTS,
};
#undef HINTS
#undef AT

static int check_message(const struct item_fields *f, const char *place, struct wrong *w)
{
    static const char *const roles[] = {"user", "assistant", "system", "developer"};
    char at[PLACE_MAX];
    bool known = false;
    for (int i = 0; f->role && i < 4; i++)
        known |= strcmp(f->role, roles[i]) == 0;
    if (!known)
        return WRONG(w, E_FORMAT, place,
                     "%s.role: want user, assistant, system or developer, found '%.40s'", place,
                     f->role ? f->role : "");
    snprintf(at, sizeof at, "%s.content", place);
    return check_content(f->content, false, at, w);
}

static int check_reasoning(const struct item_fields *f, const char *place, struct wrong *w)
{
    char at[PLACE_MAX];
    snprintf(at, sizeof at, "%s.content", place);
    if (f->content && check_content(f->content, true, at, w))
        return -w->e.code;
    snprintf(at, sizeof at, "%s.summary", place);
    return f->summary ? check_content(f->summary, true, at, w) : 0;
}

static int check_call(const struct item_fields *f, const char *place, struct wrong *w)
{
    if (!f->call_id || !f->name)
        return wrong_member(w, place, f->call_id ? "name" : "call_id", NULL, "a string");
    if (!json_is_string(f->arguments))
        return wrong_member(w, place, "arguments", f->arguments, "the text of a JSON object");
    struct err e = {0};
    json_t *arguments = NULL;
    const size_t n = json_string_length(f->arguments);
    const bool good =
        n == 0 || (json_parse(json_string_value(f->arguments), n, place, &arguments, &e) == 0 &&
                   json_is_object(arguments));
    json_decref(arguments);
    if (e.code == E_LIMIT || e.code == E_NOMEM)
        return WRONG(w, e.code, place, "%s", e.msg);
    if (!good)
        return wrong_member(w, place, "arguments", f->arguments, "the text of a JSON object");
    return 0;
}

static int check_output(const struct item_fields *f, const char *place, struct wrong *w)
{
    char at[PLACE_MAX];
    if (!f->call_id)
        return WRONG(w, E_FORMAT, place, "%s.call_id: is required", place);
    snprintf(at, sizeof at, "%s.output", place);
    return check_content(f->output, false, at, w);
}

static const struct {
    const char *type;
    const struct field *fields;
    int (*check)(const struct item_fields *f, const char *place, struct wrong *w);
} kinds[] = {
    {"message", message_fields, check_message},
    {"reasoning", reasoning_fields, check_reasoning},
    {"function_call", call_fields, check_call},
    {"function_call_output", output_fields, check_output},
};

static int check_item(const json_t *item, const char *type, const char *place, struct wrong *w)
{
    struct item_fields f = {0};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(type, kinds[i].type) == 0)
            return fields_read(kinds[i].fields, item, place, &f, w) ? -w->e.code
                                                                    : kinds[i].check(&f, place, w);
    return WRONG(w, E_UNSUPPORTED, place, "%s: items of type '%.40s' are not supported", place,
                 type);
}

static const struct field reference_fields[] = {
    {"type", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {"id", FIELD_HINT, 0, 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};

static int add_item(struct kept *responses, json_t *item, const char *place, json_t *items,
                    struct wrong *w)
{
    const char *type = string_of(item, "type"), *id = string_of(item, "id");
    json_t *found;
    if (!json_is_object(item))
        return wrong_value(w, place, item, "an object with a type");
    if (!type && json_object_get(item, "type"))
        return wrong_member(w, place, "type", json_object_get(item, "type"), "a string");
    if (type && strcmp(type, "item_reference") == 0) {
        if (fields_read(reference_fields, item, place, NULL, w))
            return -w->e.code;
        if (!id)
            return wrong_member(w, place, "id", json_object_get(item, "id"), "a string");
        if (find_item(responses, id, place, &found, w))
            return -w->e.code;
        return json_array_append_new(items, found) ? out_of_memory(w) : 0;
    }
    if (check_item(item, type ? type : "message", place, w))
        return -w->e.code;
    return json_array_append(items, item) ? out_of_memory(w) : 0;
}

int items_add(struct kept *responses, const json_t *input, json_t *items, struct wrong *w)
{
    if (json_is_string(input)) {
        json_t *v =
            json_pack("{s:s, s:s, s:O}", "type", "message", "role", "user", "content", input);
        return json_array_append_new(items, v) ? out_of_memory(w) : 0;
    }
    if (input && !json_is_array(input))
        return wrong_value(w, "input", input, "a string or an array of at least one item");
    for (size_t i = 0; i < json_array_size(input); i++) {
        char place[32];
        snprintf(place, sizeof place, "input[%zu]", i);
        if (add_item(responses, json_array_get(input, i), place, items, w))
            return -w->e.code;
    }
    return 0;
}

/* --- messages --- */

/* The messages so far, and the assistant's that is open: what the model thought, said and called
 * in a row is one message. */
struct draft {
    json_t *out;
    json_t *open; /* borrowed from out, or NULL */
};

static json_t *open_message(struct draft *d)
{
    if (!d->open) {
        d->open = json_pack("{s:s}", "role", "assistant");
        json_array_append_new(d->out, d->open);
    }
    return d->open;
}

static int add_message(struct draft *d, const json_t *item, struct wrong *w)
{
    const char *role = string_of(item, "role");
    json_t *content = json_object_get(item, "content");
    if (strcmp(role, "assistant") != 0) {
        d->open = NULL;
        json_t *m = json_pack("{s:s, s:O}", "role", role, "content", content);
        return json_array_append_new(d->out, m) ? out_of_memory(w) : 0;
    }
    if (json_object_get(d->open, "content") || json_object_get(d->open, "tool_calls"))
        d->open = NULL;
    return json_object_set(open_message(d), "content", content) ? out_of_memory(w) : 0;
}

static void add_texts(const json_t *parts, struct buf *out)
{
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const char *text = string_of(json_array_get(parts, i), "text");
        if (out->len)
            buf_puts(out, "\n\n");
        buf_puts(out, text ? text : "");
    }
}

/* The thinking itself, or else what was said of it. */
static int add_reasoning(struct draft *d, const json_t *item, struct wrong *w)
{
    struct buf text = BUF_INIT;
    int rc = 0;
    add_texts(json_object_get(item, "content"), &text);
    if (!text.len)
        add_texts(json_object_get(item, "summary"), &text);
    if (text.len) {
        if (json_object_size(d->open) > 1)
            d->open = NULL;
        rc = json_object_set_new(open_message(d), "reasoning_content",
                                 json_stringn(buf_str(&text), text.len));
    }
    rc = rc || text.failed ? out_of_memory(w) : 0;
    buf_free(&text);
    return rc;
}

static int add_call(struct draft *d, const json_t *item, struct wrong *w)
{
    json_t *m = open_message(d), *calls = json_object_get(m, "tool_calls");
    if (!calls && json_object_set_new(m, "tool_calls", calls = json_array()))
        return out_of_memory(w);
    const char *space = string_of(item, "namespace"), *name = string_of(item, "name");
    json_t *call =
        json_pack("{s:s, s:O, s:{s:o, s:O}}", "type", "function", "id",
                  json_object_get(item, "call_id"), "function", "name",
                  json_sprintf("%s%s%s", space ? space : "", space ? ITEM_SPACE_END : "", name),
                  "arguments", json_object_get(item, "arguments"));
    return json_array_append_new(calls, call) ? out_of_memory(w) : 0;
}

static int add_output(struct draft *d, const json_t *item, struct wrong *w)
{
    d->open = NULL;
    json_t *m =
        json_pack("{s:s, s:O, s:O}", "role", "tool", "tool_call_id",
                  json_object_get(item, "call_id"), "content", json_object_get(item, "output"));
    return json_array_append_new(d->out, m) ? out_of_memory(w) : 0;
}

static int add_any(struct draft *d, const json_t *item, struct wrong *w)
{
    const char *type = string_of(item, "type");
    if (!type || strcmp(type, "message") == 0)
        return add_message(d, item, w);
    if (strcmp(type, "reasoning") == 0)
        return add_reasoning(d, item, w);
    return strcmp(type, "function_call") == 0 ? add_call(d, item, w) : add_output(d, item, w);
}

int items_messages(struct ask *a, const char *instructions, const json_t *items, struct wrong *w)
{
    struct draft d = {.out = json_array()};
    int rc = 0;
    if (instructions)
        json_array_append_new(d.out,
                              json_pack("{s:s, s:s}", "role", "system", "content", instructions));
    for (size_t i = 0; !rc && i < json_array_size(items); i++)
        rc = add_any(&d, json_array_get(items, i), w);
    if (!rc)
        rc = messages_read(a, d.out, "input", w);
    json_decref(d.out);
    return rc;
}
