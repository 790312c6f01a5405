/* Tools whose calls cannot be written: see toolcheck.h. Values are put into a call and read again,
 * as text, since tags count inside of JSON too. */
#include "text/toolcheck.h"

#include <string.h>

#include "base/json.h"
#include "text/toolcall.h"
#include "text/tooltag.h"

enum { DEPTH_MAX = 64 };

#define NAME "f"

struct checker {
    struct toolset tools; /* one tool, NAME, whose parameters are all text */
    const char *key;      /* the parameter that is looked at */
    struct err *e;
};

static bool can_name(const char *key)
{
    struct buf text = BUF_INIT;
    struct tag t;
    buf_printf(&text, "<parameter=%s>", key);
    tag_read(buf_str(&text), text.len, &t);
    const bool good = t.kind == TAG_PARAMETER && t.len == text.len && strcmp(t.name, key) == 0;
    buf_free(&text);
    return good;
}

/* Whether a value comes back. Without a < it does. */
static int check_text(struct checker *c, const char *s, size_t n)
{
    struct buf text = BUF_INIT, said = BUF_INIT;
    json_t *calls = NULL, *args = NULL;
    bool good = false;
    if (!memchr(s, '<', n))
        return 0;
    buf_printf(&text, "<tool_call>\n<function=" NAME ">\n<parameter=%s>\n", c->key);
    buf_add(&text, s, n);
    buf_puts(&text, "\n</parameter>\n</function>\n</tool_call>");
    int rc = buf_check(&text, c->e);
    if (!rc)
        rc = toolcall_read(&c->tools, true, &text, &said, &calls, c->e);
    if (!rc && json_array_size(calls) == 1) {
        struct err none = {0}; /* then it does not come back */
        const json_t *all = json_object_get(json_array_get(calls, 0), "arguments");
        if (json_parse_own(json_string_value(all), json_string_length(all), "arguments", &args,
                           &none) == -E_NOMEM)
            rc = ERR(c->e, E_NOMEM, "%s", none.msg);
        const json_t *back = json_object_get(args, c->key);
        good = json_object_size(args) == 1 && json_string_length(back) == n &&
               memcmp(json_string_value(back), s, n) == 0;
    }
    json_decref(args);
    json_decref(calls);
    buf_free(&said);
    buf_free(&text);
    if (rc || good)
        return rc;
    return ERR(c->e, E_UNSUPPORTED,
               "parameter '%.60s': the value '%.60s' cannot be written in the calls of this "
               "model, whose tags it holds",
               c->key, s);
}

/* A value of enum or const: text as it is where the parameter itself may be text, else as JSON. */
static int check_value(struct checker *c, const json_t *v, bool nested)
{
    struct buf text = BUF_INIT;
    if (json_is_string(v) && !nested)
        return check_text(c, json_string_value(v), json_string_length(v));
    int rc = json_print(v, JSON_COMPACT | JSON_ENCODE_ANY, &text, c->e);
    if (!rc)
        rc = check_text(c, buf_str(&text), text.len);
    buf_free(&text);
    return rc;
}

/* All that a schema and those within it name. */
static int check_schema(struct checker *c, const json_t *schema, int depth)
{
    static const char *const alternatives[] = {"anyOf", "oneOf", "allOf"};
    const json_t *list = json_object_get(schema, "enum"), *one = json_object_get(schema, "const");
    const char *key;
    json_t *part;
    int rc = one ? check_value(c, one, depth > 0) : 0;
    for (size_t i = 0; !rc && i < json_array_size(list); i++)
        rc = check_value(c, json_array_get(list, i), depth > 0);
    for (size_t k = 0; depth < DEPTH_MAX && k < 3; k++) {
        const json_t *parts = json_object_get(schema, alternatives[k]);
        for (size_t i = 0; !rc && i < json_array_size(parts); i++) /* of this very value */
            rc = check_schema(c, json_array_get(parts, i), depth ? depth + 1 : 0);
    }
    json_object_foreach(json_object_get(schema, "properties"), key, part) {
        if (!rc) /* it is in the text of the parameter's value */
            rc = check_text(c, key, strlen(key));
        if (!rc && depth < DEPTH_MAX)
            rc = check_schema(c, part, depth + 1);
    }
    if (!rc && depth < DEPTH_MAX && json_is_object(json_object_get(schema, "items")))
        rc = check_schema(c, json_object_get(schema, "items"), depth + 1);
    return rc;
}

/* The same parameters, all of them text. For json_decref. */
static json_t *as_texts(const json_t *properties)
{
    json_t *texts = json_object(), *part;
    const char *key;
    json_object_foreach((json_t *)properties, key, part)
        json_object_set_new(texts, key, json_pack("{s:s}", "type", "string"));
    return json_pack("[{s:{s:s, s:{s:o}}}]", "function", "name", NAME, "parameters", "properties",
                     texts);
}

int toolcheck(const json_t *parameters, struct err *e)
{
    const json_t *properties = json_object_get(parameters, "properties");
    struct checker c = {.e = e};
    json_t *tools = as_texts(properties), *part;
    int rc = tools ? toolset_init(&c.tools, tools, e) : ERR(e, E_NOMEM, "no memory for a tool");
    json_decref(tools);
    if (rc)
        return rc;
    json_object_foreach((json_t *)properties, c.key, part) {
        if (!rc && !can_name(c.key))
            rc = ERR(e, E_UNSUPPORTED,
                     "parameter '%.60s' cannot be written in the calls of this model: its name "
                     "wants 1 to %d bytes without <, > and line ends",
                     c.key, TOOL_NAME_MAX);
        if (!rc)
            rc = check_schema(&c, part, 0);
    }
    toolset_free(&c.tools);
    return rc;
}
