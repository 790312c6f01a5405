/* What schema.c (one schema, and all rules), schema_type.c (the values of a type) and
 * schema_tools.c (calls of tools) share. */
#ifndef TEXT_SCHEMA_INSIDE_H
#define TEXT_SCHEMA_INSIDE_H

#include "text/schema.h"

#define SCHEMA_TYPES "string, number, integer, boolean, object, array or null"

enum { SCHEMA_PARTS_MAX = 2000 };

struct schema_writer {
    const json_t *root;                   /* what a $ref is looked for in */
    const json_t *seen[SCHEMA_PARTS_MAX]; /* number N: the schema of rule vN. */
    json_t *made;                         /* array: schemas joined of others, owned */
    int n_seen, depth;
    bool lenient;     /* what cannot be kept to is passed over */
    struct buf *out;  /* the body of the rule in the making */
    struct buf *done; /* whole rules */
    struct err *e;
};

/* A rule vN. for a schema; *number is N. */
int schema_rule(struct schema_writer *w, const json_t *schema, const char *where, int *number);
/* Appends the name of such a rule, for what keyword `key` of the schema at `where` has. */
int schema_part(struct schema_writer *w, const json_t *part, const char *where, const char *key,
                struct buf *name);
/* The values of one type, as the body of the rule of schema `id`. E_FORMAT: there is no such. */
int schema_type(struct schema_writer *w, const char *type, const json_t *schema, const char *where,
                int id);
/* The rules calls. and free. (text with calls at its end) of a spec. */
int schema_calls(struct schema_writer *w, const struct grammar_spec *s);
/* Rules char. and chars. for JSON within calls: strings in which none of a call's tags is. */
void schema_call_strings(struct buf *out);
int schema_refuse(struct schema_writer *w, const char *where, const char *key);
/* E_FORMAT: a keyword's value (NULL: there is none) is not what it must be. */
int schema_wrong(struct schema_writer *w, const char *where, const char *key, const char *want,
                 const json_t *found);
/* A text's least and most characters; those that are not said stay. */
int schema_lengths(struct schema_writer *w, const json_t *schema, const char *where, int *least,
                   int *most);
void schema_literal(struct buf *out, const char *s, size_t n);
int schema_json(struct schema_writer *w, const json_t *v); /* the text of a value, as a literal */
bool schema_requires(const json_t *schema, const char *key);
/* Whether a schema says more than its keyword `key` (or NULL: than nothing). */
bool schema_says(const json_t *schema, const char *key);

#endif
