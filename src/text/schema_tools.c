/* Calls of tools as rules, in the form that text/toolcall.h reads: see schema.h. */
#include <string.h>

#include "base/json.h"
#include "text/schema_inside.h"
#include "text/schema_parts.h"

enum { REFS_MAX = 32 };

#define CALL_OPEN "<tool_call>"
#define NAME_OPEN "<function="

/* What a $ref that stands alone names; schema itself without one. */
static const json_t *resolved(const json_t *root, const json_t *schema)
{
    for (int i = 0; i < REFS_MAX; i++) {
        const char *ref = json_string_value(json_object_get(schema, "$ref"));
        if (!ref || schema_says(schema, "$ref"))
            return schema;
        schema = schema_follow(root, ref);
    }
    return NULL;
}

/* Whether every text is a value of the schema. */
static bool is_any_text(const json_t *root, const json_t *schema)
{
    const json_t *s = resolved(root, schema), *type = json_object_get(s, "type");
    const json_t *any = json_object_get(s, "anyOf");
    bool found = json_is_true(s) || (json_is_object(s) && !schema_says(s, NULL));
    if (type && !schema_says(s, "type")) {
        found = json_is_string(type) && strcmp(json_string_value(type), "string") == 0;
        for (size_t i = 0; i < json_array_size(type); i++) {
            const char *word = json_string_value(json_array_get(type, i));
            found = found || (word && strcmp(word, "string") == 0);
        }
    }
    for (size_t i = 0; any && !schema_says(s, "anyOf") && i < json_array_size(any); i++)
        found = found || is_any_text(root, json_array_get(any, i));
    return found;
}

/* Adds the words that a value may be, those of const or enum, in each of its alternatives; what is
 * no text is passed over. false: it may be other text too. */
static bool gather_words(const json_t *root, const json_t *schema, int depth, json_t *words)
{
    const json_t *s = resolved(root, schema), *type = json_object_get(s, "type");
    const json_t *list = json_object_get(s, "enum"), *one = json_object_get(s, "const");
    const json_t *any = json_object_get(s, json_object_get(s, "anyOf") ? "anyOf" : "oneOf");
    for (size_t i = 0; one || i < json_array_size(list); i++) {
        json_t *v = (json_t *)(one ? one : json_array_get(list, i));
        if (json_is_string(v))
            json_array_append(words, v);
        if (one)
            break;
    }
    if (one || list)
        return true;
    if (json_is_string(type) && strcmp(json_string_value(type), "string") != 0)
        return true;
    for (size_t i = 0; i < json_array_size(any); i++)
        if (depth == REFS_MAX || !gather_words(root, json_array_get(any, i), depth + 1, words))
            return false;
    return json_array_size(any) > 0;
}

/* The words that a parameter may be, if it may be no other text. */
static bool put_words(struct schema_writer *w, const json_t *schema)
{
    json_t *words = json_array();
    const bool only = gather_words(w->root, schema, 0, words);
    int n = 0;
    for (size_t i = 0; only && i < json_array_size(words); i++) {
        const json_t *word = json_array_get(words, i);
        if (!schema_fits(w->root, schema, word))
            continue;
        buf_puts(w->out, n++ ? "| " : "( ");
        schema_literal(w->out, json_string_value(word), json_string_length(word));
    }
    buf_puts(w->out, n ? ") \"\\n</parameter>\" " : "");
    json_decref(words);
    return n > 0;
}

/* Text of a length: without <, so that its end is nowhere inside. */
static int put_measured(struct schema_writer *w, const json_t *schema, const char *where)
{
    json_t *plain = json_copy((json_t *)schema);
    const json_t *type = json_object_get(schema, "type");
    json_object_del(plain, "minLength");
    json_object_del(plain, "maxLength");
    const bool only = json_is_string(type) && is_any_text(w->root, plain);
    json_decref(plain);
    if (!only)
        return schema_refuse(w, where, "a parameter that may be text, with conditions on it,");
    int least = 0, most = -1;
    if (schema_lengths(w, schema, where, &least, &most))
        return -w->e->code;
    buf_printf(w->out, "[^<]{%d,", least);
    if (most >= 0)
        buf_printf(w->out, "%d", most);
    buf_puts(w->out, "} \"\\n</parameter>\" ");
    return 0;
}

/* A value and its closing tag: one of some words, any text, or JSON. */
static int put_value(struct schema_writer *w, const struct toolset *t, const char *tool,
                     const char *key, const json_t *schema)
{
    const unsigned types = toolset_types(t, tool, key);
    const json_t *s = resolved(w->root, schema);
    const size_t done = w->done->len;
    const int seen = w->n_seen;
    int number, rc = 0;
    if (put_words(w, s))
        return 0;
    if (!types || (types & TOOL_STRING)) {
        if (!w->lenient && !is_any_text(w->root, schema))
            return put_measured(w, s, key);
        buf_puts(w->out, "raw.0 ");
        return 0;
    }
    rc = schema_rule(w, schema, key, &number);
    if (rc && !w->lenient)
        return rc;
    if (rc) { /* the client checks arguments anyway */
        err_clear(w->e);
        w->n_seen = seen;
        w->done->len = done;
        buf_puts(w->out, "value. ");
    } else {
        buf_printf(w->out, "v%d. ", number);
    }
    buf_puts(w->out, "\"\\n</parameter>\" ");
    return 0;
}

static int check_required(struct schema_writer *w, const char *tool)
{
    const json_t *list = json_object_get(w->root, "required");
    const json_t *properties = json_object_get(w->root, "properties");
    for (size_t i = 0; !w->lenient && i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (!json_object_get(properties, name ? name : ""))
            return schema_refuse(w, tool, "required with a name that properties lacks");
    }
    return 0;
}

static int put_tool(struct schema_writer *w, const struct toolset *t, const char *name)
{
    static const char *const whole[] = {"$ref", "anyOf", "oneOf", "allOf", "enum", "const", NULL};
    const char *key;
    json_t *part;
    w->root = toolset_parameters(t, name);
    for (int i = 0; !w->lenient && whole[i]; i++)
        if (json_object_get(w->root, whole[i]))
            return schema_refuse(w, name, whole[i]);
    if (check_required(w, name))
        return -w->e->code;
    schema_literal(w->out, name, strlen(name));
    buf_puts(w->out, "\">\\n\" ");
    json_object_foreach(json_object_get(w->root, "properties"), key, part) {
        buf_puts(w->out, "( \"<parameter=\" ");
        schema_literal(w->out, key, strlen(key));
        buf_puts(w->out, "\">\\n\" ");
        if (put_value(w, t, name, key, part))
            return -w->e->code;
        buf_puts(w->out, schema_requires(w->root, key) ? "\"\\n\" ) " : "\"\\n\" )? ");
    }
    return 0;
}

/* Rules free., cN., fN.: any text, in which <tool_call> begins the calls that end it, and in which
 * <function= is not, since a reader takes that for a call too. cN. stands behind the first N + 1
 * characters of the one, fN. behind those of the other. */
static void put_free(struct buf *out)
{
    static const char *const tags[] = {CALL_OPEN, NAME_OPEN};
    buf_puts(out, "free. ::= ([^<] free. | \"<\" open.)?\n"
                  "open. ::= (\"<\" open. | \"t\" c1. | \"f\" f1. | [^<tf] free.)?\n");
    for (int k = 0; k < 2; k++)
        for (size_t i = 2; i < strlen(tags[k]); i++) {
            const char c = tags[k][i];
            const bool last = !tags[k][i + 1];
            buf_printf(out, "%c%zu. ::= (\"<\" open. | [^<%c] free.", "cf"[k], i - 1, c);
            if (!last)
                buf_printf(out, " | \"%c\" %c%zu.", c, "cf"[k], i);
            else if (k == 0)
                buf_printf(out, " | \"%c\" behind.", c);
            buf_puts(out, ")?\n");
        }
}

void schema_call_strings(struct buf *out)
{
    static const char tag[] = "<parameter=";
    const char *rest = "\"\\\"\" | \"<\" lt1. | escape. chars.";
    buf_printf(out,
               "char. ::= [^\"\\\\\\x00-\\x1F\\x7F<] | escape.\n"
               "chars. ::= [^\"\\\\\\x00-\\x1F\\x7F<] chars. | %s\n",
               rest);
    for (size_t i = 1; tag[i]; i++) { /* behind the first i of the tag; < and / begin all others */
        buf_printf(out, "lt%zu. ::= [^\"\\\\\\x00-\\x1F\\x7F<%c%s] chars. | %s", i, tag[i],
                   i == 1 ? "/" : "", rest);
        if (tag[i + 1])
            buf_printf(out, " | \"%c\" lt%zu.", tag[i], i + 1);
        buf_putc(out, '\n');
    }
}

int schema_calls(struct schema_writer *w, const struct grammar_spec *s)
{
    struct buf names = BUF_INIT;
    const char *name;
    json_t *parameters;
    int rc = 0;
    w->out = &names;
    schema_until(w->done, "raw.", "\n</parameter>");
    json_object_foreach(s->tools->tools, name, parameters) {
        if (rc || (s->only && strcmp(s->only, name) != 0))
            continue;
        w->lenient = !json_is_true(json_object_get(s->strict, name));
        buf_puts(&names, names.len ? "| " : "");
        rc = put_tool(w, s->tools, name);
    }
    if (!rc && !names.len)
        rc = ERR(w->e, E_ARG, "tool_choice names %.80s, which tools does not declare",
                 s->only ? s->only : "a tool");
    buf_printf(w->done,
               "call. ::= \"\\n" NAME_OPEN "\" ( %s) \"</function>\\n</tool_call>\"\n"
               "behind. ::= call. %s\n"
               "calls. ::= \"" CALL_OPEN "\" behind.\n",
               buf_str(&names), s->several ? "(\"\\n" CALL_OPEN "\" call.)*" : "");
    if (!s->must_call && !s->gbnf && !s->schema && !s->object)
        put_free(w->done);
    rc = rc ? rc : buf_check(&names, w->e);
    buf_free(&names);
    return rc;
}
