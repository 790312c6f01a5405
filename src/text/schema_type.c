/* The values of one type as GBNF, to what a schema says of them: see schema_inside.h. Lengths of
 * texts and arrays, bounds of numbers, members of objects. */
#include "text/schema_inside.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "text/schema_parts.h"

#define NUMBER_MAX 999999999999999999 /* of as many digits as rule integer. allows */

enum { LENGTH_MAX = 10000 };

/* A count of the schema (minItems...), if it is there. */
static int count_of(struct schema_writer *w, const json_t *schema, const char *where,
                    const char *key, int *out)
{
    const json_t *v = json_object_get(schema, key);
    char want[64];
    if (!v)
        return 0;
    snprintf(want, sizeof want, "a whole number from 0 to %d", LENGTH_MAX);
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > LENGTH_MAX)
        return schema_wrong(w, where, key, want, v);
    *out = (int)json_integer_value(v);
    return 0;
}

static int counts_of(struct schema_writer *w, const json_t *schema, const char *where,
                     const char *const keys[2], int out[2])
{
    char want[64];
    if (count_of(w, schema, where, keys[0], &out[0]) ||
        count_of(w, schema, where, keys[1], &out[1]))
        return -w->e->code;
    snprintf(want, sizeof want, "at least the %d of %s", out[0], keys[0]);
    if (out[1] >= 0 && out[1] < out[0])
        return schema_wrong(w, where, keys[1], want, json_object_get(schema, keys[1]));
    return 0;
}

int schema_lengths(struct schema_writer *w, const json_t *schema, const char *where, int *least,
                   int *most)
{
    int n[] = {*least, *most};
    if (counts_of(w, schema, where, (const char *const[]){"minLength", "maxLength"}, n))
        return -w->e->code;
    *least = n[0];
    *most = n[1];
    return 0;
}

/* {least,most} behind an item. */
static void put_times(struct buf *out, int least, int most)
{
    if (most < 0)
        buf_printf(out, "{%d,} ", least);
    else
        buf_printf(out, "{%d,%d} ", least, most);
}

static int put_string(struct schema_writer *w, const json_t *schema, const char *where)
{
    int least = 0, most = -1;
    if (schema_lengths(w, schema, where, &least, &most))
        return -w->e->code;
    if (!least && most < 0) {
        buf_puts(w->out, "string. ");
        return 0;
    }
    buf_puts(w->out, "\"\\\"\" char.");
    put_times(w->out, least, most);
    buf_puts(w->out, "\"\\\"\" ");
    return 0;
}

static int put_array(struct schema_writer *w, const json_t *schema, const char *where)
{
    const json_t *items = json_object_get(schema, "items");
    struct buf item = BUF_INIT;
    int n[] = {0, -1}, rc = 0;
    if (counts_of(w, schema, where, (const char *const[]){"minItems", "maxItems"}, n))
        return -w->e->code;
    const int least = n[0], most = json_is_false(items) ? 0 : n[1];
    if (most == 0 && least)
        return schema_wrong(w, where, "minItems", "0, as items is false",
                            json_object_get(schema, "minItems"));
    if (json_is_object(items))
        rc = schema_part(w, items, where, "items", &item);
    else if (json_is_array(items))
        rc = schema_refuse(w, where, "items that is an array");
    else if (items && !json_is_boolean(items))
        rc = schema_wrong(w, where, "items", "a schema, an object", items);
    else
        buf_puts(&item, "value. ");
    if (!rc && most == 0)
        buf_puts(w->out, "\"[\" ws. \"]\" ");
    else if (!rc) {
        buf_printf(w->out, "\"[\" ws. (%sws. (\",\" ws. %sws.)", item.data, item.data);
        put_times(w->out, least ? least - 1 : 0, most < 0 ? -1 : most - 1);
        buf_puts(w->out, least ? ") \"]\" " : ")? \"]\" ");
    }
    buf_free(&item);
    return rc;
}

/* A bound, as large as a number may be written where it is none; E_UNSUPPORTED of a fraction where
 * it must be whole, and of one that no number as we write them keeps to. */
static int bound_of(struct schema_writer *w, const json_t *schema, const char *where,
                    const char *key, bool whole, int64_t *out)
{
    const json_t *v = json_object_get(schema, key);
    const bool least = key[1] == 'i';
    const double real = json_number_value(v), most = (double)NUMBER_MAX; /* is 10^18 */
    if (!v)
        return 0;
    if (!json_is_number(v))
        return schema_wrong(w, where, key, "a number", v);
    if (!whole && real != floor(real))
        return schema_refuse(w, where,
                             least ? "minimum with a fraction" : "maximum with a fraction");
    const double round = least ? ceil(real) : floor(real);
    *out = round >= most ? INT64_MAX : round <= -most ? INT64_MIN : (int64_t)round;
    if (json_is_integer(v))
        *out = json_integer_value(v);
    if (least ? *out > NUMBER_MAX : *out < -NUMBER_MAX)
        return schema_refuse(w, where,
                             least ? "minimum of more than 18 digits"
                                   : "maximum below all numbers of 18 digits");
    *out = *out > NUMBER_MAX ? NUMBER_MAX : *out < -NUMBER_MAX ? -NUMBER_MAX : *out;
    return 0;
}

static int nothing_between(struct schema_writer *w, const char *type, const json_t *schema,
                           const char *where)
{
    char lo[96], hi[96];
    return ERR(w->e, E_FORMAT, "schema: %s: no %s lies between minimum, %s, and maximum, %s", where,
               type, json_describe(json_object_get(schema, "minimum"), lo, sizeof lo),
               json_describe(json_object_get(schema, "maximum"), hi, sizeof hi));
}

static int put_number(struct schema_writer *w, const char *type, const json_t *schema,
                      const char *where)
{
    const bool whole = strcmp(type, "integer") == 0;
    int64_t lo = -NUMBER_MAX, hi = NUMBER_MAX;
    if (bound_of(w, schema, where, "minimum", whole, &lo) ||
        bound_of(w, schema, where, "maximum", whole, &hi))
        return -w->e->code;
    if (lo > hi)
        return nothing_between(w, type, schema, where);
    if (!json_object_get(schema, "minimum") && !json_object_get(schema, "maximum"))
        buf_printf(w->out, "%s. ", type);
    else
        schema_range(w->out, lo, hi, whole);
    return 0;
}

bool schema_requires(const json_t *schema, const char *key)
{
    const json_t *v;
    size_t i;
    json_array_foreach(json_object_get(schema, "required"), i, v)
        if (json_is_string(v) && strcmp(json_string_value(v), key) == 0)
            return true;
    return false;
}

/* A property's text in an object: "name": value. */
static int put_member(struct schema_writer *w, const char *key, const struct buf *value,
                      struct buf *out)
{
    json_t *name = json_string(key);
    struct buf *before = w->out;
    int rc;
    w->out = out;
    rc = name ? schema_json(w, name) : ERR(w->e, E_NOMEM, "no memory for a schema");
    buf_printf(out, "ws. \":\" ws. %sws. ", buf_str(value));
    w->out = before;
    json_decref(name);
    return rc;
}

/* Declared properties in their order. A comma stands in front of all but the first that is there:
 * rule oN.K. is what may follow when none of the first K came, pN.K. when one did. */
static int put_properties(struct schema_writer *w, const json_t *properties, const json_t *schema,
                          const char *where, int id)
{
    struct buf rules = BUF_INIT;
    const char *key;
    json_t *part;
    int k = 0, rc = 0;
    json_object_foreach((json_t *)properties, key, part) {
        struct buf value = BUF_INIT, member = BUF_INIT;
        const char * or = schema_requires(schema, key) ? "" : "|";
        if (!rc)
            rc = schema_part(w, part, where, key, &value);
        if (!rc)
            rc = put_member(w, key, &value, &member);
        for (const char *p = "op"; *p; p++) {
            buf_printf(&rules, "%c%d.%d. ::= %s %sp%d.%d. %s ", *p, id, k,
                       *p == 'p' ? "\",\" ws." : "", buf_str(&member), id, k + 1, or);
            if (* or)
                buf_printf(&rules, "%c%d.%d. ", *p, id, k + 1);
            buf_puts(&rules, "\n");
        }
        k++;
        buf_free(&value);
        buf_free(&member);
    }
    buf_printf(&rules, "o%d.%d. ::= \"\"\np%d.%d. ::= \"\"\n", id, k, id, k);
    buf_printf(w->out, "\"{\" ws. o%d.0. \"}\" ", id);
    buf_add(w->done, rules.data, rules.len);
    buf_free(&rules);
    return rc;
}

static bool says_nothing_of_names(const json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    return !v || json_is_true(v) ||
           (json_object_size(v) <= 1 && type && strcmp(type, "string") == 0) ||
           (json_is_object(v) && !json_object_size(v));
}

/* That keywords of objects are of their kinds. */
static int check_object(struct schema_writer *w, const json_t *schema, const char *where)
{
    const json_t *properties = json_object_get(schema, "properties"), *v;
    const json_t *others = json_object_get(schema, "additionalProperties");
    const json_t *required = json_object_get(schema, "required");
    size_t i;
    if (properties && !json_is_object(properties))
        return schema_wrong(w, where, "properties", "an object of schemas", properties);
    if (others && !json_is_object(others) && !json_is_boolean(others))
        return schema_wrong(w, where, "additionalProperties", "a schema, true or false", others);
    if (required && !json_is_array(required))
        return schema_wrong(w, where, "required", "an array of strings", required);
    json_array_foreach(required, i, v) {
        if (!json_is_string(v))
            return schema_wrong(w, where, "required", "an array of strings", v);
    }
    return 0;
}

static int put_object(struct schema_writer *w, const json_t *schema, const char *where, int id)
{
    const json_t *properties = json_object_get(schema, "properties"), *v;
    const json_t *others = json_object_get(schema, "additionalProperties");
    struct buf value = BUF_INIT;
    size_t i;
    int rc = check_object(w, schema, where);
    if (rc)
        return rc;
    json_array_foreach(json_object_get(schema, "required"), i, v)
        if (!json_object_get(properties, json_string_value(v)))
            return schema_refuse(w, where,
                                 "required with a name that "
                                 "properties lacks");
    if (!says_nothing_of_names(json_object_get(schema, "propertyNames")))
        return schema_refuse(w, where, "propertyNames other than of strings");
    if (json_object_size(properties))
        return put_properties(w, properties, schema, where, id);
    if (json_is_false(others)) {
        buf_puts(w->out, "\"{\" ws. \"}\" ");
        return 0;
    }
    if (!json_is_object(others)) {
        buf_puts(w->out, "object. ");
        return 0;
    }
    rc = schema_part(w, others, where, "additionalProperties", &value);
    buf_printf(w->out,
               "\"{\" ws. (string. ws. \":\" ws. %sws. (\",\" ws. string. ws. \":\" ws. "
               "%sws.)*)? \"}\" ",
               buf_str(&value), buf_str(&value));
    buf_free(&value);
    return rc;
}

int schema_type(struct schema_writer *w, const char *type, const json_t *schema, const char *where,
                int id)
{
    if (strcmp(type, "string") == 0)
        return put_string(w, schema, where);
    if (strcmp(type, "array") == 0)
        return put_array(w, schema, where);
    if (strcmp(type, "object") == 0)
        return put_object(w, schema, where, id);
    if (strcmp(type, "integer") == 0 || strcmp(type, "number") == 0)
        return put_number(w, type, schema, where);
    if (strcmp(type, "boolean") != 0 && strcmp(type, "null") != 0)
        return ERR(w->e, E_FORMAT,
                   "schema: %s: type: want " SCHEMA_TYPES ", found the string \"%.60s\"", where,
                   type);
    buf_printf(w->out, "%s. ", type);
    return 0;
}
