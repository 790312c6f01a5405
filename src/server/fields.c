/* Fields of a JSON object: see fields.h. */
#include "server/fields.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"

enum { NAME_MAX_BYTES = 120 };

void wrong_name(struct wrong *w, const char *name)
{
    if (!w->e.code)
        snprintf(w->param, sizeof w->param, "%s", name);
}

/* "schema: root: ..." of the field "format.schema" needs its "schema: " but once. */
static void cut_word(struct err *e, const char *name)
{
    const char *dot = strrchr(name, '.'), *word = dot ? dot + 1 : name;
    const size_t n = strlen(word);
    if (strncmp(e->msg, word, n) == 0 && e->msg[n] == ':' && e->msg[n + 1] == ' ')
        memmove(e->msg, e->msg + n + 2, strlen(e->msg + n + 2) + 1);
}

int wrong_field(struct wrong *w, const char *name)
{
    const int code = w->e.code;
    if (*w->param ||
        (code != E_ARG && code != E_FORMAT && code != E_LIMIT && code != E_UNSUPPORTED))
        return -code;
    snprintf(w->param, sizeof w->param, "%s", name);
    cut_word(&w->e, name);
    return err_prefix(&w->e, "%s", name);
}

int wrong_value(struct wrong *w, const char *name, const json_t *v, const char *what)
{
    char room[96];
    return WRONG(w, E_FORMAT, name, "%s: want %s, found %s", name, what,
                 json_describe(v, room, sizeof room));
}

int wrong_member(struct wrong *w, const char *place, const char *key, const json_t *v,
                 const char *what)
{
    char name[sizeof w->param];
    snprintf(name, sizeof name, "%s.%s", place, key);
    return wrong_value(w, name, v, what);
}

static int read_bool(const struct field *f, const json_t *v, const char *name, void *to,
                     struct wrong *w)
{
    if (!json_is_boolean(v))
        return wrong_value(w, name, v, "true or false");
    if (f->type == FIELD_SWITCH)
        *(int *)to = json_is_true(v);
    else
        *(bool *)to = json_is_true(v);
    return 0;
}

static int read_int(const struct field *f, const json_t *v, const char *name, void *to,
                    struct wrong *w)
{
    char what[96];
    const double real = json_number_value(v);
    const int64_t n = json_integer_value(v); /* 0 for what is none */
    if (json_is_integer(v)
            ? n >= (int64_t)f->lo && n <= (int64_t)f->hi
            : json_is_real(v) && real == floor(real) && real >= f->lo && real <= f->hi) {
        *(int64_t *)to = json_is_integer(v) ? n : (int64_t)real;
        return 0;
    }
    snprintf(what, sizeof what, "a whole number from %.0f to %.0f", f->lo, f->hi);
    return wrong_value(w, name, v, what);
}

static int read_real(const struct field *f, const json_t *v, const char *name, void *to,
                     struct wrong *w)
{
    char what[96];
    const double real = json_number_value(v);
    if (json_is_number(v) && real >= f->lo && real <= f->hi) {
        *(double *)to = real;
        return 0;
    }
    snprintf(what, sizeof what, "a number from %g to %g", f->lo, f->hi);
    return wrong_value(w, name, v, what);
}

static int read_string(const json_t *v, const char *name, void *to, struct wrong *w)
{
    if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
        return wrong_value(w, name, v, "a string without NUL characters");
    *(const char **)to = json_string_value(v);
    return 0;
}

static int read_word(const struct field *f, const json_t *v, const char *name, void *to,
                     struct wrong *w)
{
    char what[160];
    const char *value = json_is_string(v) ? json_string_value(v) : "";
    const size_t n = strlen(value);
    int i = 0;
    for (const char *word = f->words; n; i++) {
        const size_t len = strcspn(word, "|");
        if (len == n && memcmp(word, value, n) == 0) {
            *(int *)to = i;
            return 0;
        }
        if (!word[len])
            break;
        word += len + 1;
    }
    snprintf(what, sizeof what, "one of %s", f->words);
    return wrong_value(w, name, v, what);
}

/* Whether the compact text of v is one of the words. */
static int read_only(const struct field *f, const json_t *v, const char *name, struct wrong *w)
{
    char text[64];
    const size_t n = json_dumpb(v, text, sizeof text, JSON_COMPACT | JSON_ENCODE_ANY);
    for (const char *word = f->words; word && n && n <= sizeof text;) {
        const size_t len = strcspn(word, "|");
        if (len == n && memcmp(word, text, n) == 0)
            return 0;
        if (!word[len])
            break;
        word += len + 1;
    }
    char room[96];
    const char *found = json_describe(v, room, sizeof room);
    if (!f->words)
        return WRONG(w, E_UNSUPPORTED, name, "%s: is not supported; leave it out", name);
    return WRONG(w, E_UNSUPPORTED, name, "%s: only %s is supported, found %s", name, f->words,
                 found);
}

static int read_one(const struct field *f, const json_t *v, const char *name, void *to,
                    struct wrong *w)
{
    void *place = to ? (char *)to + f->at : NULL;
    assert(to || f->type >= FIELD_ONLY);
    switch (f->type) {
    case FIELD_BOOL:
    case FIELD_SWITCH:
        return read_bool(f, v, name, place, w);
    case FIELD_INT:
        return read_int(f, v, name, place, w);
    case FIELD_REAL:
        return read_real(f, v, name, place, w);
    case FIELD_STRING:
        return read_string(v, name, place, w);
    case FIELD_WORD:
        return read_word(f, v, name, place, w);
    case FIELD_VALUE:
        *(const json_t **)place = v;
        return 0;
    case FIELD_FIELDS:
        return json_is_object(v) ? fields_read(f->sub, v, name, to, w)
                                 : wrong_value(w, name, v, "an object");
    case FIELD_ONLY:
        return read_only(f, v, name, w);
    case FIELD_HINT:
    case FIELD_TABLE:
        return 0;
    }
    return 0;
}

static const struct field *find(const struct field *table, const char *key)
{
    const struct field *found = NULL;
    for (const struct field *f = table; f->name && !found; f++)
        found = f->type == FIELD_TABLE ? find(f->sub, key) : strcmp(f->name, key) ? NULL : f;
    return found;
}

int fields_read(const struct field *table, const json_t *object, const char *where, void *to,
                struct wrong *w)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)object, key, v) {
        char name[NAME_MAX_BYTES];
        const struct field *f = find(table, key);
        snprintf(name, sizeof name, "%s%s%s", where, *where ? "." : "", key);
        if (!f)
            return WRONG(w, E_FORMAT, name, "%s: there is no such field", name);
        if (!json_is_null(v) && read_one(f, v, name, to, w))
            return -w->e.code;
    }
    return 0;
}
