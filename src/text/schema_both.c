/* Two schemas at once: see schema_parts.h. Keywords of JSON schemas are conditions that all hold,
 * so that of one schema which the other lacks is taken over; those that both have are narrowed. */
#include "text/schema_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"

enum { DEPTH_MAX = 32, PRODUCT_MAX = 64, REF_ROOM = 512 };

struct both {
    const json_t *root;
    const char *where;
    struct err *e;
    int depth;
};

static json_t *both(struct both *b, const json_t *x, const json_t *y);

static int hex_of(char c)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) % 16 : -1;
}

/* The text of a URI's fragment: %20 and the like are undone. false: it is none, or too long. */
static bool undo_percent(const char *s, char out[REF_ROOM])
{
    size_t n = 0;
    for (; *s && n + 1 < REF_ROOM; s++, n++) {
        out[n] = *s;
        if (*s != '%')
            continue;
        if (hex_of(s[1]) < 0 || hex_of(s[2]) < 0)
            return false;
        out[n] = (char)(hex_of(s[1]) * 16 + hex_of(s[2]));
        if (!out[n])
            return false;
        s += 2;
    }
    out[n] = '\0';
    return !*s;
}

/* One step of a JSON pointer, in which ~1 is / and ~0 is ~. part is overwritten. */
static const json_t *follow_part(const json_t *at, char *part)
{
    char *to = part;
    const size_t digits = strspn(part, "0123456789");
    if (json_is_array(at)) {
        const bool index = digits && digits < 8 && !part[digits] && (*part != '0' || digits == 1);
        return index ? json_array_get(at, strtoul(part, NULL, 10)) : NULL;
    }
    for (const char *p = part; *p; p++, to++) {
        *to = *p;
        if (*p != '~')
            continue;
        p++;
        if (*p != '0' && *p != '1')
            return NULL;
        *to = *p == '1' ? '/' : '~';
    }
    *to = '\0';
    return json_object_get(at, part);
}

const json_t *schema_follow(const json_t *root, const char *ref)
{
    char text[REF_ROOM], *part = text;
    const json_t *at = root;
    if (*ref != '#' || !undo_percent(ref + 1, text))
        return NULL;
    while (at && *part == '/') {
        part++;
        char *next = part + strcspn(part, "/");
        const char ended = *next;
        *next = '\0';
        at = follow_part(at, part);
        *next = ended;
        part = next;
    }
    return *part ? NULL : at;
}

json_t *schema_both(const json_t *root, const char *where, const json_t *a, const json_t *b,
                    struct err *e)
{
    return both(&(struct both){.root = root, .where = where, .e = e}, a, b);
}

static int no_memory(struct both *b)
{
    return ERR(b->e, E_NOMEM, "no memory for a schema");
}

/* Without its $ref: what that names, and what is said besides. A new reference; NULL on failure. */
static json_t *resolve(struct both *b, const json_t *s)
{
    const char *ref = json_string_value(json_object_get(s, "$ref"));
    if (!ref)
        return json_incref((json_t *)s);
    const json_t *to = schema_follow(b->root, ref);
    json_t *rest = json_copy((json_t *)s), *out = NULL;
    if (!to)
        ERR(b->e, E_FORMAT, "schema: %s: $ref: want " SCHEMA_REF ", found the string \"%.60s\"",
            b->where, ref);
    else if (!rest || json_object_del(rest, "$ref"))
        no_memory(b);
    else
        out = both(b, to, rest);
    json_decref(rest);
    return out;
}

/* *nothing is set when no value is left. */
static int join(struct both *b, json_t *out, const char *key, json_t *v, bool *nothing);

/* {"allOf": [x, y]}. A new reference. */
static json_t *all_of(const json_t *x, const json_t *y)
{
    return json_pack("{s:[O,O]}", "allOf", x, y);
}

static bool is_in(const json_t *list, const json_t *v)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_equal(json_array_get(list, i), (json_t *)v))
            return true;
    return false;
}

/* Of the properties of x, those that y allows, as y allows those that it does not declare. */
static json_t *narrowed(const json_t *x, const json_t *y)
{
    const json_t *others = json_object_get(y, "additionalProperties");
    const json_t *declared = json_object_get(y, "properties");
    json_t *out = json_object(), *part;
    const char *key;
    json_object_foreach(json_object_get(x, "properties"), key, part) {
        if (json_object_get(declared, key) || !others || json_is_true(others))
            json_object_set(out, key, part);
        else if (!json_is_false(others))
            json_object_set_new(out, key, all_of(part, others));
    }
    return out;
}

/* Whether const or enum of a schema name a value that fits the rest of it, or are not there. */
static bool has_value(const json_t *root, const json_t *s)
{
    const json_t *one = json_object_get(s, "const"), *list = json_object_get(s, "enum");
    bool found = !list && (!one || schema_fits(root, s, one));
    for (size_t i = 0; !found && i < json_array_size(list); i++)
        found = schema_fits(root, s, json_array_get(list, i));
    return found;
}

/* p and q, neither with a $ref, at least one of them an object. */
static json_t *joined(struct both *b, const json_t *p, const json_t *q)
{
    json_t *mine = narrowed(p, q), *theirs = narrowed(q, p), *out = json_copy((json_t *)p), *v;
    const char *key;
    bool nothing = false;
    int rc = 0;
    if (json_object_get(p, "properties"))
        rc = json_object_set(out, "properties", mine) ? no_memory(b) : 0;
    json_object_foreach((json_t *)q, key, v) {
        if (!rc)
            rc = join(b, out, key, strcmp(key, "properties") == 0 ? theirs : v, &nothing);
    }
    json_decref(mine);
    json_decref(theirs);
    if (!rc && !nothing && has_value(b->root, out))
        return out;
    json_decref(out);
    return rc ? NULL : json_false();
}

static json_t *both(struct both *b, const json_t *x, const json_t *y)
{
    json_t *p = NULL, *q = NULL, *out = NULL;
    char room[96];
    if (json_is_boolean(x) || json_is_false(y))
        return json_incref((json_t *)(json_is_true(x) ? y : json_is_false(x) ? x : y));
    if (json_is_true(y))
        return json_incref((json_t *)x);
    if (!json_is_object(x) || !json_is_object(y))
        ERR(b->e, E_FORMAT, "schema: %s: want schemas, objects, as its parts, found %s", b->where,
            json_describe(json_is_object(x) ? y : x, room, sizeof room));
    else if (++b->depth > DEPTH_MAX)
        ERR(b->e, E_LIMIT, "schema: %s: $ref and allOf lead to one another more than %d times",
            b->where, DEPTH_MAX);
    else if ((p = resolve(b, x)) && (q = resolve(b, y)))
        out = json_is_object(p) && json_is_object(q) ? joined(b, p, q) : both(b, p, q);
    b->depth--;
    json_decref(p);
    json_decref(q);
    return out;
}

/* --- one keyword that both have --- */

static bool has_type(const json_t *list, const char *type)
{
    const json_t *word = json_string_value(list) ? list : NULL;
    if (word)
        return strcmp(json_string_value(word), type) == 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *s = json_string_value(json_array_get(list, i));
        if (s && strcmp(s, type) == 0)
            return true;
    }
    return false;
}

/* The types of both; an integer is a number too. */
static json_t *types_of_both(const json_t *x, const json_t *y)
{
    static const char *const all[] = {"string", "number", "integer", "boolean",
                                      "null",   "object", "array"};
    json_t *out = json_array();
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const bool whole = strcmp(all[i], "integer") == 0;
        const bool in_x = has_type(x, all[i]) || (whole && has_type(x, "number"));
        const bool in_y = has_type(y, all[i]) || (whole && has_type(y, "number"));
        if (in_x && in_y && !(whole && has_type(out, "number")))
            json_array_append_new(out, json_string(all[i]));
    }
    return out;
}

/* Pairs of alternatives, one of each list, that have a value in common. */
static json_t *product(struct both *b, const json_t *x, const json_t *y, const char *key)
{
    json_t *out = json_array();
    if (json_array_size(x) * json_array_size(y) > PRODUCT_MAX)
        ERR(b->e, E_LIMIT, "schema: %s: more than %d pairs of %s hold together", b->where,
            PRODUCT_MAX, key);
    for (size_t i = 0; i < json_array_size(x); i++)
        for (size_t k = 0; k < json_array_size(y) && !b->e->code; k++) {
            json_t *pair = both(b, json_array_get(x, i), json_array_get(y, k));
            if (pair && !json_is_false(pair))
                json_array_append(out, pair);
            json_decref(pair);
        }
    return out;
}

/* Those of y that x lacks, behind x; or, of enums, those that both have. */
static json_t *lists(const json_t *x, const json_t *y, bool united)
{
    json_t *out = united ? json_copy((json_t *)x) : json_array();
    for (size_t i = 0; i < json_array_size(y); i++)
        if (is_in(x, json_array_get(y, i)) != united)
            json_array_append(out, json_array_get(y, i));
    return out;
}

static json_t *properties_of_both(const json_t *x, const json_t *y)
{
    json_t *out = json_copy((json_t *)x), *part;
    const char *key;
    json_object_foreach((json_t *)y, key, part) {
        const json_t *have = json_object_get(x, key);
        if (have && !json_equal((json_t *)have, part))
            json_object_set_new(out, key, all_of(have, part));
        else
            json_object_set(out, key, part);
    }
    return out;
}

/* Two conditions on values that are not there by name. */
static json_t *parts_of_both(const json_t *x, const json_t *y)
{
    if (json_is_boolean(x))
        return json_incref((json_t *)(json_is_true(x) ? y : x));
    if (json_is_boolean(y))
        return json_incref((json_t *)(json_is_true(y) ? x : y));
    return all_of(x, y);
}

static json_t *narrower(const json_t *x, const json_t *y, bool least)
{
    const bool first = (json_number_value(x) > json_number_value(y)) == least;
    return json_incref((json_t *)(first ? x : y));
}

static int join(struct both *b, json_t *out, const char *key, json_t *v, bool *nothing)
{
    const json_t *have = json_object_get(out, key);
    json_t *narrow = NULL;
    if (!have)
        return json_object_set(out, key, v) ? no_memory(b) : 0;
    if (json_equal((json_t *)have, v))
        return 0;
    if (strcmp(key, "type") == 0)
        narrow = types_of_both(have, v);
    else if (strcmp(key, "properties") == 0)
        narrow = properties_of_both(have, v);
    else if (strcmp(key, "items") == 0 || strcmp(key, "additionalProperties") == 0)
        narrow = parts_of_both(have, v);
    else if (strcmp(key, "anyOf") == 0 || strcmp(key, "oneOf") == 0)
        narrow = product(b, have, v, key);
    else if (strcmp(key, "required") == 0 || strcmp(key, "allOf") == 0)
        narrow = lists(have, v, true);
    else if (strcmp(key, "enum") == 0)
        narrow = lists(have, v, false);
    else if (strncmp(key, "min", 3) == 0 || strncmp(key, "max", 3) == 0)
        narrow = narrower(have, v, key[1] == 'i');
    else if (strcmp(key, "const") != 0)
        return 0; /* it says nothing, or is refused where the whole is written */
    *nothing = *nothing || !narrow || (json_is_array(narrow) && !json_array_size(narrow));
    if (narrow && json_object_set_new(out, key, narrow))
        return no_memory(b);
    return b->e->code ? -b->e->code : 0;
}

/* --- alternatives --- */

/* The words that a schema allows as the value of a property: of const or enum. */
static json_t *words_of(const json_t *root, const json_t *s, const char *key)
{
    const json_t *part = json_object_get(json_object_get(s, "properties"), key);
    const char *ref = json_string_value(json_object_get(part, "$ref"));
    part = ref ? schema_follow(root, ref) : part;
    const json_t *one = json_object_get(part, "const"), *list = json_object_get(part, "enum");
    return one ? json_pack("[O]", one) : json_is_array(list) ? json_incref((json_t *)list) : NULL;
}

/* Whether a schema is of certain values (const, enum), of which the other one has none. */
static bool shares_no_value(const json_t *root, const json_t *s, const json_t *other)
{
    const json_t *one = json_object_get(s, "const"), *list = json_object_get(s, "enum");
    bool shared = (one && schema_fits(root, other, one)) || (!one && !json_is_array(list));
    for (size_t i = 0; !one && !shared && i < json_array_size(list); i++)
        shared = schema_fits(root, other, json_array_get(list, i));
    return !shared;
}

bool schema_disjoint(const json_t *root, const json_t *a, const json_t *b)
{
    const char *ref_a = json_string_value(json_object_get(a, "$ref"));
    const char *ref_b = json_string_value(json_object_get(b, "$ref"));
    a = ref_a ? schema_follow(root, ref_a) : a;
    b = ref_b ? schema_follow(root, ref_b) : b;
    const json_t *x = json_object_get(a, "type"), *y = json_object_get(b, "type"), *name;
    json_t *types = x && y ? types_of_both(x, y) : NULL;
    bool apart = types && !json_array_size(types);
    size_t i;
    apart = apart || shares_no_value(root, a, b) || shares_no_value(root, b, a);
    json_decref(types);
    json_array_foreach(json_object_get(a, "required"), i, name) {
        const char *key = json_string_value(name);
        if (!key || !is_in(json_object_get(b, "required"), name))
            continue;
        json_t *p = words_of(root, a, key), *q = words_of(root, b, key);
        json_t *common = p && q ? lists(p, q, false) : NULL;
        apart = apart || (common && !json_array_size(common));
        json_decref(common);
        json_decref(p);
        json_decref(q);
    }
    return apart;
}
