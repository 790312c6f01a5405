/* Whether a value is one of a schema's: see schema_parts.h. */
#include "text/schema_parts.h"

#include <math.h>
#include <string.h>

enum { DEPTH_MAX = 64 };

static bool fits(const json_t *root, const json_t *s, const json_t *v, int depth);

bool schema_fits(const json_t *root, const json_t *schema, const json_t *v)
{
    return fits(root, schema, v, 0);
}

static bool is_of(const json_t *v, const char *type)
{
    if (!type)
        return false;
    const double real = json_number_value(v);
    if (strcmp(type, "integer") == 0)
        return json_is_number(v) && real == floor(real);
    return (json_is_string(v) && strcmp(type, "string") == 0) ||
           (json_is_number(v) && strcmp(type, "number") == 0) ||
           (json_is_boolean(v) && strcmp(type, "boolean") == 0) ||
           (json_is_null(v) && strcmp(type, "null") == 0) ||
           (json_is_object(v) && strcmp(type, "object") == 0) ||
           (json_is_array(v) && strcmp(type, "array") == 0);
}

static bool fits_type(const json_t *type, const json_t *v)
{
    if (!type || json_is_string(type))
        return !type || is_of(v, json_string_value(type));
    for (size_t i = 0; i < json_array_size(type); i++)
        if (is_of(v, json_string_value(json_array_get(type, i))))
            return true;
    return false;
}

static bool between(const json_t *s, const char *least, const char *most, double n)
{
    const json_t *lo = json_object_get(s, least), *hi = json_object_get(s, most);
    return (!lo || n >= json_number_value(lo)) && (!hi || n <= json_number_value(hi));
}

static size_t characters(const json_t *v)
{
    const char *s = json_string_value(v);
    size_t n = 0;
    for (size_t i = 0; i < json_string_length(v); i++)
        n += ((unsigned char)s[i] & 0xC0) != 0x80;
    return n;
}

static bool fits_array(const json_t *root, const json_t *s, const json_t *v, int depth)
{
    const json_t *items = json_object_get(s, "items");
    for (size_t i = 0; items && i < json_array_size(v); i++)
        if (!fits(root, items, json_array_get(v, i), depth))
            return false;
    return between(s, "minItems", "maxItems", (double)json_array_size(v));
}

static bool fits_object(const json_t *root, const json_t *s, const json_t *v, int depth)
{
    const json_t *properties = json_object_get(s, "properties"), *name;
    const json_t *others = json_object_get(s, "additionalProperties");
    const char *key;
    json_t *value;
    size_t i;
    json_array_foreach(json_object_get(s, "required"), i, name) {
        if (json_is_string(name) && !json_object_get(v, json_string_value(name)))
            return false;
    }
    json_object_foreach((json_t *)v, key, value) {
        const json_t *part = json_object_get(properties, key);
        part = part ? part : others;
        if (part && !fits(root, part, value, depth))
            return false;
    }
    return true;
}

/* How many of a list of schemas the value is one of. */
static size_t count(const json_t *root, const json_t *list, const json_t *v, int depth)
{
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        n += fits(root, json_array_get(list, i), v, depth);
    return n;
}

/* 1 and 1.0 are one value. */
static bool same(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    return json_equal((json_t *)a, (json_t *)b);
}

static bool fits_lists(const json_t *root, const json_t *s, const json_t *v, int depth)
{
    const json_t *any = json_object_get(s, "anyOf"), *one = json_object_get(s, "oneOf");
    const json_t *all = json_object_get(s, "allOf"), *values = json_object_get(s, "enum");
    const json_t *value = json_object_get(s, "const");
    bool found = !values;
    for (size_t i = 0; i < json_array_size(values); i++)
        found = found || same(json_array_get(values, i), v);
    return found && (!value || same(value, v)) && (!any || count(root, any, v, depth) > 0) &&
           (!one || count(root, one, v, depth) == 1) &&
           (!all || count(root, all, v, depth) == json_array_size(all));
}

static bool fits(const json_t *root, const json_t *s, const json_t *v, int depth)
{
    const char *ref = json_string_value(json_object_get(s, "$ref"));
    if (!json_is_object(s))
        return json_is_true(s);
    if (depth++ == DEPTH_MAX || !fits_type(json_object_get(s, "type"), v) ||
        !fits_lists(root, s, v, depth) || (ref && !fits(root, schema_follow(root, ref), v, depth)))
        return false;
    if (json_is_string(v))
        return between(s, "minLength", "maxLength", (double)characters(v));
    if (json_is_number(v))
        return between(s, "minimum", "maximum", json_number_value(v));
    return json_is_array(v)    ? fits_array(root, s, v, depth)
           : json_is_object(v) ? fits_object(root, s, v, depth)
                               : true;
}
