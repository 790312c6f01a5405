/* Declared tools: see toolset.h. */
#include "text/toolset.h"

#include <string.h>

#include "base/json.h"
#include "text/schema_parts.h"

enum { DEPTH_MAX = 16 }; /* of anyOf in anyOf and of $ref to $ref */

static const struct {
    const char *name;
    unsigned types;
} type_names[] = {
    {"string", TOOL_STRING},   {"integer", TOOL_INTEGER}, {"number", TOOL_NUMBER | TOOL_INTEGER},
    {"boolean", TOOL_BOOLEAN}, {"null", TOOL_NULL},       {"object", TOOL_OBJECT},
    {"array", TOOL_ARRAY},
};

static int check_name(const char *name, size_t i, struct err *e)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    if (!*name || strlen(name) > TOOL_NAME_MAX || name[strspn(name, allowed)])
        return ERR(e, E_FORMAT,
                   "tools[%zu].function.name is \"%.60s\", want 1 to %d characters of A-Z, a-z, "
                   "0-9, _ and -",
                   i, name, TOOL_NAME_MAX);
    return 0;
}

static int wrong(size_t i, const char *field, const json_t *found, const char *want, struct err *e)
{
    char room[96];
    return ERR(e, E_FORMAT, "tools[%zu].function%s: want %s, found %s", i, field, want,
               json_describe(found, room, sizeof room));
}

static int read_tool(const json_t *tool, size_t i, const char **name, json_t **parameters,
                     struct err *e)
{
    const json_t *type = json_object_get(tool, "type"), *f = json_object_get(tool, "function");
    const char *kind = type ? json_string_value(type) : "function";
    char room[96];
    if (!kind || strcmp(kind, "function") != 0)
        return ERR(e, E_FORMAT, "tools[%zu].type: want \"function\", found %s", i,
                   json_describe(type, room, sizeof room));
    if (!json_is_object(f))
        return wrong(i, "", f, "an object", e);
    *name = json_string_value(json_object_get(f, "name"));
    if (!*name)
        return wrong(i, ".name", json_object_get(f, "name"), "a string", e);
    *parameters = json_object_get(f, "parameters");
    if (*parameters && !json_is_object(*parameters) && !json_is_null(*parameters))
        return wrong(i, ".parameters", *parameters, "an object", e);
    return check_name(*name, i, e);
}

static int add_tool(struct toolset *t, const json_t *tool, size_t i, struct err *e)
{
    const char *name = NULL;
    json_t *parameters = NULL;
    if (read_tool(tool, i, &name, &parameters, e))
        return -e->code;
    json_t *known = json_object_get(t->tools, name), *value;
    bool none = !parameters || json_is_null(parameters);
    if (known)
        value = none || !json_equal(known, parameters) ? json_null() : json_incref(parameters);
    else
        value = none ? json_object() : json_incref(parameters);
    if (json_object_set_new(t->tools, name, value))
        return ERR(e, E_NOMEM, "no memory for the tool %s", name);
    return 0;
}

int toolset_init(struct toolset *t, const json_t *tools, struct err *e)
{
    char room[96];
    *t = (struct toolset){.tools = json_object()};
    int rc = t->tools ? 0 : ERR(e, E_NOMEM, "no memory for tools");
    if (!rc && tools && !json_is_array(tools) && !json_is_null(tools))
        rc = ERR(e, E_FORMAT, "tools: want an array, found %s",
                 json_describe(tools, room, sizeof room));
    for (size_t i = 0; i < json_array_size(tools) && !rc; i++)
        rc = add_tool(t, json_array_get(tools, i), i, e);
    if (rc)
        toolset_free(t);
    return rc;
}

void toolset_free(struct toolset *t)
{
    json_decref(t->tools);
    t->tools = NULL;
}

bool toolset_has(const struct toolset *t, const char *name)
{
    return json_object_get(t->tools, name) != NULL;
}

const json_t *toolset_parameters(const struct toolset *t, const char *name)
{
    const json_t *p = json_object_get(t->tools, name);
    return json_is_object(p) ? p : NULL;
}

bool toolset_takes(const struct toolset *t, const char *name, const char *parameter)
{
    const json_t *p = toolset_parameters(t, name);
    return json_object_get(json_object_get(p, "properties"), parameter) != NULL;
}

static unsigned types_of_value(const json_t *v)
{
    static const unsigned by_kind[] = {
        [JSON_OBJECT] = TOOL_OBJECT,   [JSON_ARRAY] = TOOL_ARRAY, [JSON_STRING] = TOOL_STRING,
        [JSON_INTEGER] = TOOL_INTEGER, [JSON_REAL] = TOOL_NUMBER, [JSON_TRUE] = TOOL_BOOLEAN,
        [JSON_FALSE] = TOOL_BOOLEAN,   [JSON_NULL] = TOOL_NULL,
    };
    return v ? by_kind[json_typeof(v)] : 0;
}

static unsigned types_of_name(const char *name)
{
    for (size_t i = 0; name && i < sizeof type_names / sizeof type_names[0]; i++)
        if (strcmp(type_names[i].name, name) == 0)
            return type_names[i].types;
    return 0;
}

static unsigned types_of_schema(const json_t *root, const json_t *schema, int depth)
{
    static const char *const lists[] = {"anyOf", "oneOf", "allOf"};
    const json_t *type = json_object_get(schema, "type"), *v;
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    unsigned types = types_of_name(json_string_value(type));
    size_t i;
    if (depth > DEPTH_MAX)
        return 0;
    json_array_foreach(type, i, v)
        types |= types_of_name(json_string_value(v));
    if (types)
        return types;
    for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++)
        json_array_foreach(json_object_get(schema, lists[k]), i, v)
            types |= types_of_schema(root, v, depth + 1);
    json_array_foreach(json_object_get(schema, "enum"), i, v)
        types |= types_of_value(v);
    types |= types_of_value(json_object_get(schema, "const"));
    if (ref)
        types |= types_of_schema(root, schema_follow(root, ref), depth + 1);
    return types;
}

unsigned toolset_types(const struct toolset *t, const char *name, const char *parameter)
{
    const json_t *p = toolset_parameters(t, name);
    return types_of_schema(p, json_object_get(json_object_get(p, "properties"), parameter), 0);
}
