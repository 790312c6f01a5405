/* Schemas as rules: see schema.h. Each schema becomes a rule vN. of its own; a $ref is the rule of
 * what it names, so recursion needs nothing more. */
#include "text/schema_inside.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "text/schema_parts.h"

enum { DEPTH_MAX = 64 };

static const char json_rules[] =
    "ws. ::= (\" \" | \"\\n\" \" \"{0,40})?\n"
    "escape. ::= \"\\\\\" ([\"\\\\/bfnrt] | \"u\" hex.)\n"
    "hex. ::= [1-9a-cA-Ce-fE-F] h. h. h. | \"0\" [1-9a-fA-F] h. h. | \"00\" [1-9a-fA-F] h."
    " | \"000\" [1-9a-fA-F] | [dD] [0-7] h. h."
    " | [dD] [89abAB] h. h. \"\\\\u\" [dD] [c-fC-F] h. h.\n"
    "h. ::= [0-9a-fA-F]\n"
    "string. ::= \"\\\"\" chars.\n"
    "integer. ::= \"-\"? (\"0\" | [1-9] [0-9]{0,17})\n"
    "number. ::= \"-\"? (\"0\" | [1-9] [0-9]{0,17}) (\".\" [0-9]{1,20})?"
    " ([eE] [+\\-]? [0-9]{1,2})?\n"
    "boolean. ::= \"true\" | \"false\"\n"
    "null. ::= \"null\"\n"
    "value. ::= string. | number. | boolean. | null. | object. | array.\n"
    "member. ::= string. ws. \":\" ws. value. ws.\n"
    "object. ::= \"{\" ws. (member. (\",\" ws. member.)*)? \"}\"\n"
    "array. ::= \"[\" ws. (value. ws. (\",\" ws. value. ws.)*)? \"]\"\n";

static const char plain_strings[] = "char. ::= [^\"\\\\\\x00-\\x1F\\x7F] | escape.\n"
                                    "chars. ::= char. chars. | \"\\\"\"\n";

static const char *const silent[] = {"title", "description", "default",    "examples", "$schema",
                                     "$id",   "$comment",    "deprecated", "readOnly", "writeOnly",
                                     "$defs", "definitions", "strict",     NULL};

static const char *const spoken[] = {
    "type",     "enum",     "const",         "anyOf",     "oneOf",
    "allOf",    "$ref",     "properties",    "required",  "items",
    "minItems", "maxItems", "minLength",     "maxLength", "additionalProperties",
    "minimum",  "maximum",  "propertyNames", NULL};

static bool is_in(const char *const *list, const char *key)
{
    while (*list && strcmp(*list, key) != 0)
        list++;
    return *list != NULL;
}

int schema_refuse(struct schema_writer *w, const char *where, const char *key)
{
    return ERR(w->e, E_UNSUPPORTED,
               "schema: %s: %.60s cannot be kept to by this server; leave it out, or say it in the "
               "description",
               *where ? where : "root", key);
}

int schema_wrong(struct schema_writer *w, const char *where, const char *key, const char *want,
                 const json_t *found)
{
    char room[96];
    return ERR(w->e, E_FORMAT, "schema: %s: %.60s: want %s, found %s", where, key, want,
               json_describe(found, room, sizeof room));
}

void schema_literal(struct buf *out, const char *s, size_t n)
{
    buf_putc(out, '"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c < 0x20 || c == '"' || c == '\\' || c == 0x7F)
            buf_printf(out, "\\x%02x", c);
        else
            buf_putc(out, s[i]);
    }
    buf_puts(out, "\" ");
}

int schema_json(struct schema_writer *w, const json_t *v)
{
    struct buf text = BUF_INIT;
    int rc = json_print(v, JSON_COMPACT | JSON_ENCODE_ANY, &text, w->e);
    if (!rc)
        schema_literal(w->out, text.data, text.len);
    buf_free(&text);
    return rc;
}

static int put_types(struct schema_writer *w, const json_t *type, const json_t *schema,
                     const char *where, int id)
{
    size_t i;
    const json_t *v;
    if (json_is_string(type))
        return schema_type(w, json_string_value(type), schema, where, id);
    if (!json_array_size(type))
        return schema_wrong(w, where, "type", SCHEMA_TYPES ", or an array of them", type);
    json_array_foreach(type, i, v) {
        if (!json_is_string(v))
            return schema_wrong(w, where, "type", SCHEMA_TYPES ", or an array of them", v);
        buf_puts(w->out, i ? "| " : "");
        if (schema_type(w, json_string_value(v), schema, where, id))
            return -w->e->code;
    }
    return 0;
}

static int nothing_fits(struct schema_writer *w, const char *where)
{
    return ERR(
        w->e, E_FORMAT,
        "schema: %s: what is said there leaves no value over, whether by type, enum or const",
        where);
}

/* One more of *n alternatives: all that is said in a and b together, if a value is left. */
static int put_both(struct schema_writer *w, const json_t *a, const json_t *b, const char *where,
                    int *n)
{
    json_t *joined = schema_both(w->root, where, a, b, w->e);
    if (!joined)
        return -w->e->code;
    if (json_array_append_new(w->made, joined))
        return ERR(w->e, E_NOMEM, "no memory for a schema");
    if (json_is_false(joined))
        return 0;
    buf_puts(w->out, (*n)++ ? "| " : "");
    return schema_part(w, joined, where, "allOf", w->out);
}

/* The schema without `key` and without what says nothing; NULL when nothing is left. *rest is for
 * json_decref in any case. */
static const json_t *without(const json_t *schema, const char *key, json_t **rest)
{
    const char *k;
    json_t *v;
    *rest = json_object();
    json_object_foreach((json_t *)schema, k, v) {
        if (strcmp(k, key) != 0 && is_in(spoken, k))
            json_object_set(*rest, k, v);
    }
    return json_object_size(*rest) ? *rest : NULL;
}

static int put_ref(struct schema_writer *w, const json_t *schema, const char *where)
{
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    const json_t *to = ref ? schema_follow(w->root, ref) : NULL;
    json_t *copy;
    int n = 0;
    if (!to)
        return schema_wrong(w, where, "$ref", SCHEMA_REF, json_object_get(schema, "$ref"));
    const json_t *rest = without(schema, "$ref", &copy);
    const int rc =
        rest ? put_both(w, to, rest, where, &n) : schema_part(w, to, where, "$ref", w->out);
    json_decref(copy);
    return !rc && rest && !n ? nothing_fits(w, where) : rc;
}

/* anyOf, and oneOf whose parts have nothing in common; what else the schema says holds in each. */
static int put_choice(struct schema_writer *w, const json_t *schema, const char *where,
                      const char *key)
{
    const json_t *list = json_object_get(schema, key);
    json_t *copy;
    int n = 0, rc = 0;
    if (!json_array_size(list))
        return schema_wrong(w, where, key, "an array of schemas, not empty", list);
    const json_t *rest = without(schema, key, &copy);
    for (size_t i = 0; !rc && i < json_array_size(list); i++) {
        const json_t *part = json_array_get(list, i);
        for (size_t k = 0; !rc && key[0] == 'o' && k < i; k++)
            if (!schema_disjoint(w->root, part, json_array_get(list, k)))
                rc = schema_refuse(w, where,
                                   "oneOf of parts that may have values in common (anyOf)");
        if (!rc && rest) {
            rc = put_both(w, part, rest, where, &n);
        } else if (!rc) {
            buf_puts(w->out, n++ ? "| " : "");
            rc = schema_part(w, part, where, key, w->out);
        }
    }
    json_decref(copy);
    return !rc && !n ? nothing_fits(w, where) : rc;
}

static int put_all(struct schema_writer *w, const json_t *schema, const char *where)
{
    const json_t *list = json_object_get(schema, "allOf");
    const size_t n = json_array_size(list);
    json_t *copy, *all;
    int left = 0, rc = 0;
    if (!n)
        return schema_wrong(w, where, "allOf", "an array of schemas, not empty", list);
    const json_t *rest = without(schema, "allOf", &copy);
    if (!rest && n == 1) {
        json_decref(copy);
        return schema_part(w, json_array_get(list, 0), where, "allOf", w->out);
    }
    all = json_incref(copy);
    for (size_t i = 0; !rc && i < n; i++) {
        json_t *more = schema_both(w->root, where, all, json_array_get(list, i), w->e);
        json_decref(all);
        all = more;
        rc = more ? 0 : -w->e->code;
    }
    if (!rc)
        rc = put_both(w, all, json_true(), where, &left);
    json_decref(all);
    json_decref(copy);
    return !rc && !left ? nothing_fits(w, where) : rc;
}

/* Those of enum, or the one of const, that fit what else the schema says. */
static int put_values(struct schema_writer *w, const json_t *schema, const char *where,
                      const char *key)
{
    const json_t *v = json_object_get(schema, key);
    const bool several = strcmp(key, "enum") == 0;
    struct buf name = BUF_INIT;
    json_t *copy;
    int n = 0, rc = 0;
    if (several && !json_array_size(v))
        return schema_wrong(w, where, key, "an array of values, not empty", v);
    const json_t *rest = without(schema, key, &copy);
    rc = json_array_append_new(w->made, copy) ? ERR(w->e, E_NOMEM, "no memory for a schema") : 0;
    if (rest && !rc) /* the rule is not used: what cannot be kept to is refused by it */
        rc = schema_part(w, rest, where, key, &name);
    for (size_t i = 0; !rc && i < (several ? json_array_size(v) : 1); i++) {
        const json_t *one = several ? json_array_get(v, i) : v;
        if (rest && !schema_fits(w->root, rest, one))
            continue;
        buf_puts(w->out, n++ ? "| " : "");
        rc = schema_json(w, one);
    }
    buf_free(&name);
    if (!rc && !n)
        rc = ERR(w->e, E_FORMAT, "schema: %s: no value of %s fits what else is said there", where,
                 key);
    return rc;
}

/* Without a type: those whose keywords are there. */
static int put_implied(struct schema_writer *w, const json_t *schema, const char *where, int id)
{
    static const char *const implied[][5] = {
        {"object", "properties", "required", "additionalProperties", "propertyNames"},
        {"array", "items", "minItems", "maxItems", NULL},
        {"string", "minLength", "maxLength", NULL, NULL},
        {"number", "minimum", "maximum", NULL, NULL},
    };
    int n = 0;
    for (size_t i = 0; i < sizeof implied / sizeof implied[0]; i++) {
        bool said = false;
        for (int k = 1; k < 5 && implied[i][k]; k++)
            said = said || json_object_get(schema, implied[i][k]);
        if (!said)
            continue;
        buf_puts(w->out, n++ ? "| " : "");
        if (schema_type(w, implied[i][0], schema, where, id))
            return -w->e->code;
    }
    buf_puts(w->out, n ? "" : "value. ");
    return 0;
}

static int put_body(struct schema_writer *w, const json_t *schema, const char *where, int id)
{
    const json_t *type = json_object_get(schema, "type");
    if (json_object_get(schema, "const"))
        return put_values(w, schema, where, "const");
    if (json_object_get(schema, "enum"))
        return put_values(w, schema, where, "enum");
    if (json_object_get(schema, "$ref"))
        return put_ref(w, schema, where);
    if (json_object_get(schema, "allOf"))
        return put_all(w, schema, where);
    if (json_object_get(schema, "anyOf"))
        return put_choice(w, schema, where, "anyOf");
    if (json_object_get(schema, "oneOf"))
        return put_choice(w, schema, where, "oneOf");
    return type ? put_types(w, type, schema, where, id) : put_implied(w, schema, where, id);
}

static int check_keys(struct schema_writer *w, const json_t *schema, const char *where)
{
    const char *key;
    json_t *v;
    char room[96];
    if (json_is_true(schema))
        return 0;
    if (!json_is_object(schema))
        return ERR(w->e, E_FORMAT, "schema: %s: want a schema, an object, found %s", where,
                   json_describe(schema, room, sizeof room));
    json_object_foreach((json_t *)schema, key, v) {
        if (!w->lenient && !is_in(spoken, key) && !is_in(silent, key))
            return schema_refuse(w, where, key);
    }
    return 0;
}

bool schema_says(const json_t *schema, const char *key)
{
    const char *k;
    json_t *v;
    json_object_foreach((json_t *)schema, k, v) {
        if ((!key || strcmp(k, key) != 0) && !is_in(silent, k))
            return true;
    }
    return false;
}

int schema_rule(struct schema_writer *w, const json_t *schema, const char *where, int *number)
{
    struct buf body = BUF_INIT, *before = w->out;
    const size_t done = w->done->len;
    for (int i = 0; i < w->n_seen; i++)
        if (w->seen[i] == schema && json_is_object(schema)) {
            *number = i;
            return 0;
        }
    if (w->n_seen == SCHEMA_PARTS_MAX || w->depth == DEPTH_MAX)
        return ERR(w->e, E_LIMIT, "schema: %s: more than %d parts, or deeper than %d", where,
                   SCHEMA_PARTS_MAX, DEPTH_MAX);
    *number = w->n_seen;
    w->seen[w->n_seen++] = schema;
    w->out = &body;
    w->depth++;
    int rc = check_keys(w, schema, where);
    if (!rc)
        rc = put_body(w, schema, where, *number);
    if (rc == -E_UNSUPPORTED && w->lenient) { /* this part of it is any JSON */
        err_clear(w->e);
        w->n_seen = *number + 1;
        w->done->len = done;
        buf_clear(&body);
        buf_puts(&body, "value. ");
        rc = 0;
    }
    w->depth--;
    w->out = before;
    buf_printf(w->done, "v%d. ::= %s\n", *number, buf_str(&body));
    buf_free(&body);
    return rc;
}

int schema_part(struct schema_writer *w, const json_t *part, const char *where, const char *key,
                struct buf *name)
{
    char place[200];
    int number;
    snprintf(place, sizeof place, "%.120s/%.60s", where, key);
    if (schema_rule(w, part, place, &number))
        return -w->e->code;
    buf_printf(name, "v%d. ", number);
    return 0;
}

/* answer. of a spec whose other rules are written; number: of its schema's. */
static void put_answer(struct buf *out, const struct grammar_spec *s, int number)
{
    buf_puts(out, "answer. ::= ");
    if (s->tools && s->must_call)
        buf_puts(out, "calls.");
    else if (s->gbnf)
        buf_puts(out, "root");
    else if (s->schema || s->object)
        buf_printf(out, s->schema ? "v%d." : "object.", number);
    else
        buf_puts(out, "free.");
    if (s->tools && !s->must_call && (s->gbnf || s->schema || s->object))
        buf_puts(out, " | calls.");
    buf_putc(out, '\n');
}

int schema_write(const struct grammar_spec *s, struct buf *out, struct err *e)
{
    struct schema_writer *w = mem_zalloc(1, sizeof *w);
    json_t *made = json_array();
    int number = 0, rc = 0;
    if (!w || !made) {
        mem_free(w);
        json_decref(made);
        return ERR(e, E_NOMEM, "no memory for a schema");
    }
    *w = (struct schema_writer){.e = e, .done = out, .made = made};
    buf_puts(out, json_rules);
    if (s->tools)
        schema_call_strings(out);
    else
        buf_puts(out, plain_strings);
    if (s->schema && !(s->tools && s->must_call)) {
        w->root = s->schema;
        w->lenient = s->lenient;
        rc = schema_rule(w, s->schema, "root", &number);
    }
    if (!rc && s->tools)
        rc = schema_calls(w, s);
    put_answer(out, s, number);
    mem_free(w);
    json_decref(made);
    return rc ? rc : buf_check(out, e);
}

void schema_until(struct buf *out, const char *prefix, const char *end)
{
    size_t n = strlen(end);
    for (size_t k = 0; k < n; k++) {
        buf_printf(out, "%s%zu ::= [\\x%02x] ", prefix, k, (unsigned char)end[k]);
        if (k + 1 < n)
            buf_printf(out, "%s%zu ", prefix, k + 1);
        if (k)
            buf_printf(out, "| [\\x%02x] %s1 | [^\\x%02x\\x%02x] %s0\n", (unsigned char)end[0],
                       prefix, (unsigned char)end[k], (unsigned char)end[0], prefix);
        else
            buf_printf(out, "| [^\\x%02x] %s0\n", (unsigned char)end[0], prefix);
    }
}
