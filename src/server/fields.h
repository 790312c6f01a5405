/* Fields of a JSON object as a table: name, type, range, place. Every API reads its requests
 * through one, so that an unknown field, a wrong type or a value out of range is an error that
 * names the field, and none is passed over in silence. */
#ifndef SERVER_FIELDS_H
#define SERVER_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* What is wrong with a request: the message, and the field it is about ("" when none is). */
struct wrong {
    struct err e;
    char param[128];
};

enum field_type {
    FIELD_BOOL,   /* bool */
    FIELD_SWITCH, /* int: 1 or 0, so that a struct can say -1 for what was not given */
    FIELD_INT,    /* int64_t in lo..hi */
    FIELD_REAL,   /* double in lo..hi */
    FIELD_STRING, /* const char *, borrowed; no NUL inside */
    FIELD_WORD,   /* int: which of the words of `words` ("none|auto"), 0 the first */
    FIELD_VALUE,  /* const json_t *, borrowed; read by who knows its form */
    FIELD_FIELDS, /* an object with a table of its own: `sub`, into the same struct */
    FIELD_ONLY,   /* nothing: only values of `words` ("false|null|1", JSON) are taken */
    FIELD_HINT,   /* nothing: says something about the client that changes no answer */
    FIELD_TABLE,  /* no field: all those of `sub`, whose places are in the same struct */
};

struct field {
    const char *name;
    enum field_type type;
    size_t at; /* offset of the place in the struct */
    double lo, hi;
    const char *words;
    const struct field *sub; /* ends with a NULL name */
};

/* Sets what is there; null counts as absent. `where` opens names of nested fields ("" or
 * "thinking"); to may be NULL where all are hints. E_FORMAT, or E_UNSUPPORTED for FIELD_ONLY. */
int fields_read(const struct field *table, const json_t *object, const char *where, void *to,
                struct wrong *w);
/* Records what is wrong with a field and evaluates to -code; param is printf's. */
#define WRONG(w, code, name, ...)                                                                  \
    (wrong_name((w), name), err_failed((err_set)(&(w)->e, (code), __VA_ARGS__)))
void wrong_name(struct wrong *w, const char *name);
/* A field has a value of the wrong kind: "NAME: want WHAT, found ..."; v NULL: nothing. */
int wrong_value(struct wrong *w, const char *name, const json_t *v, const char *what);
/* The same of member `key` of what stands at `place` ("messages[0]"). */
int wrong_member(struct wrong *w, const char *place, const char *key, const json_t *v,
                 const char *what);
/* A failure in w->e of a part that knows no fields is that of this one; failures of the server
 * itself (memory, disk) stay as they are. Where the message has the field's last word in front
 * already, it is there once. -code. */
int wrong_field(struct wrong *w, const char *name);

#endif
