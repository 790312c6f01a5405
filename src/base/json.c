/* JSON: see json.h. */
#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/units.h"
#include "base/utf8.h"

enum {
    LEXER_BYTES = 64, /* of an empty buffer, and what it is ahead of its token */
    NAME_BYTES_MAX = 60,
    NAME_ROOM = NAME_BYTES_MAX + 8,
    BLOCK_BYTES = 16, /* that an allocation takes besides */
};

/* What its parser may still have once there is no memory. */
struct reserve {
    char *at;
    size_t bytes;
    bool spent;
    bool over; /* it took what it may */
};

/* Of the thread: the reserve while it parses, and whether an allocation failed. */
static _Thread_local struct reserve *reserve;
static _Thread_local bool starved;
/* And what its parses may take yet. */
static _Thread_local size_t allowance = SIZE_MAX;

void json_allow(size_t bytes)
{
    allowance = bytes;
}

/* Of a parse alone: values that are made by hand cost no more than what they are made of. */
static bool may_take(size_t bytes)
{
    if (!reserve || allowance == SIZE_MAX)
        return true;
    if (bytes > allowance || BLOCK_BYTES > allowance - bytes)
        reserve->over = true;
    else
        allowance -= bytes + BLOCK_BYTES;
    return !reserve->over;
}

/* jansson's memory comes from base/mem.h too, so that tests can make it fail. */
static void *take(size_t bytes)
{
    void *p = may_take(bytes) ? mem_alloc(bytes) : NULL;
    if (p)
        return p;
    starved = true;
    if (!reserve || reserve->spent || bytes > reserve->bytes)
        return NULL;
    reserve->spent = true;
    return reserve->at;
}

static void give(void *p)
{
    if (!reserve || p != reserve->at)
        mem_free(p);
}

/* mem_free is free, so values made before this switch are no problem. */
static void use_mem(void)
{
    json_set_alloc_funcs(take, give);
}

bool json_starved(void)
{
    const bool was = starved;
    starved = false;
    return was;
}

/* jansson names the flag that would allow it. */
static const char *in_our_words(const char *text)
{
    return strstr(text, "JSON_ALLOW_NUL") ? "\\u0000 is not allowed in a string" : text;
}

/* At least the bytes of the longest string, number or word. */
static size_t longest_token(const char *text, size_t len)
{
    size_t longest = 0, from = 0;
    const char *quote = text;
    for (size_t at; from < len && (quote = memchr(quote, '"', len - (size_t)(quote - text)));
         quote++) {
        at = (size_t)(quote - text);
        if (at && text[at - 1] == '\\') /* escaped, perhaps */
            continue;
        longest = at - from > longest ? at - from : longest;
        from = at + 1;
    }
    return len - from > longest ? len - from : longest;
}

struct source {
    const char *at, *end;
};

/* One byte at a time, and none once an allocation failed. */
static size_t next_byte(void *to, size_t room, void *ctx)
{
    struct source *s = ctx;
    (void)room;
    if (starved || s->at == s->end)
        return 0;
    *(char *)to = *s->at++;
    return 1;
}

/* jansson's lexer passes over a byte for which its buffer could not grow, and then reads behind the
 * end of a string whose quote was that byte. So the first allocation that fails is given the
 * reserve, which is as long as that buffer can become, and the text ends there: the lexer sees its
 * end, not the failure. */
static json_t *load(const char *text, size_t len, size_t flags, json_error_t *je)
{
    struct source s = {text, text + len};
    json_t *v = json_load_callback(next_byte, &s, flags, je);
    if (starved) { /* what there is may lack something, and have the reserve */
        json_decref(v);
        v = NULL;
    }
    return v;
}

/* '"seed": ' for the last name before a place, or "". */
static const char *name_before(const char *text, size_t len, char room[NAME_ROOM])
{
    *room = '\0';
    for (size_t i = 0; i < len; i++) {
        const size_t from = i + 1;
        if (text[i] != '"')
            continue;
        for (i = from; i < len && text[i] != '"'; i++)
            i += text[i] == '\\';
        if (i >= len) /* it ends within a string */
            break;
        size_t colon = i + 1, cut = i - from < NAME_BYTES_MAX ? i - from : NAME_BYTES_MAX;
        while (colon < len && strchr(" \t\r\n", text[colon]))
            colon++;
        cut -= utf8_incomplete_tail(text + from, cut);
        if (colon < len && text[colon] == ':')
            snprintf(room, NAME_ROOM, "\"%.*s\": ", (int)cut, text + from);
    }
    return room;
}

/* A number that is too large is that of the field before it, which jansson does not name. */
static int no_json(const char *text, const json_error_t *je, const char *where, struct err *e)
{
    char room[NAME_ROOM] = "";
    if (json_error_code(je) == json_error_numeric_overflow)
        name_before(text, (size_t)je->position, room);
    return ERR(e, E_FORMAT, "%s: line %d, column %d: %snot valid JSON: %s", where, je->line,
               je->column, room, in_our_words(je->text));
}

static int parse(const char *text, size_t len, size_t flags, const char *where, json_t **out,
                 struct err *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    json_error_t je;
    const bool before = json_starved();
    struct reserve r = {.bytes = 2 * longest_token(text, len) + LEXER_BYTES};
    pthread_once(&once, use_mem);
    r.at = mem_alloc(r.bytes);
    reserve = &r;
    *out = r.at ? load(text, len, flags | JSON_DECODE_ANY, &je) : NULL;
    reserve = NULL;
    const bool none = !r.at || starved;
    starved = before;
    mem_free(r.at);
    if (r.over)
        return ERR(e, E_LIMIT,
                   "%s: its JSON takes more memory than it may, for many small values up to a "
                   "hundred times their text: send fewer, or less at once",
                   where);
    if (none)
        return ERR(e, E_NOMEM, "%s: no memory to read its JSON", where);
    if (!*out)
        return no_json(text, &je, where, e);
    return 0;
}

int json_parse(const char *text, size_t len, const char *where, json_t **out, struct err *e)
{
    return parse(text, len, JSON_REJECT_DUPLICATES, where, out, e);
}

int json_parse_own(const char *text, size_t len, const char *where, json_t **out, struct err *e)
{
    return parse(text, len, JSON_ALLOW_NUL, where, out, e);
}

int json_read_file(const char *path, uint64_t max, json_t **out, struct err *e)
{
    struct buf b = BUF_INIT;
    *out = NULL;
    int rc = file_read_all(path, max, &b, e);
    if (!rc)
        rc = json_parse(buf_str(&b), b.len, path, out, e);
    buf_free(&b);
    return rc;
}

const char *json_describe(const json_t *v, char *room, size_t n)
{
    switch (v ? json_typeof(v) : JSON_NULL) {
    case JSON_OBJECT:
        return json_object_size(v) ? "an object" : "an empty object";
    case JSON_ARRAY:
        return json_array_size(v) ? "an array" : "an empty array";
    case JSON_STRING: {
        size_t len = json_string_length(v), cut = len > 60 ? 60 : len;
        cut -= utf8_incomplete_tail(json_string_value(v), cut);
        snprintf(room, n, "the string \"%.*s%s\"", (int)cut, json_string_value(v),
                 cut < len ? "..." : "");
        return room;
    }
    case JSON_INTEGER:
        snprintf(room, n, "the integer %" JSON_INTEGER_FORMAT, json_integer_value(v));
        return room;
    case JSON_REAL:
        snprintf(room, n, "the number %g", json_real_value(v));
        return room;
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    default:
        return v ? "null" : "nothing";
    }
}

/* The field, NULL when it is absent or null; an absent field that is needed is an error. */
static int field(const json_t *obj, const char *where, const char *key, bool need, json_t **v,
                 struct err *e)
{
    char room[96];
    *v = NULL;
    if (!json_is_object(obj))
        return ERR(e, E_FORMAT, "%s: want an object, found %s", where,
                   json_describe(obj, room, sizeof room));
    json_t *f = json_object_get(obj, key);
    if (f && !json_is_null(f))
        *v = f;
    else if (need)
        return ERR(e, E_FORMAT, "%s.%s: is required, found %s", where, key, f ? "null" : "nothing");
    return 0;
}

static int wrong(const json_t *v, const char *where, const char *key, const char *want,
                 struct err *e)
{
    char room[96];
    return ERR(e, E_FORMAT, "%s.%s: want %s, found %s", where, key, want,
               json_describe(v, room, sizeof room));
}

/* 1e7 and 4.0 are whole numbers too. */
static bool whole_number(const json_t *v, int64_t *n)
{
    double r = json_real_value(v); /* 0 for what is no real */
    bool real = json_is_real(v) && r == floor(r) && fabs(r) < 0x1p53;
    *n = real ? (int64_t)r : json_integer_value(v);
    return real || json_is_integer(v);
}

int json_field_int(const json_t *obj, const char *where, const char *key, bool need, int64_t lo,
                   int64_t hi, int64_t *out, struct err *e)
{
    json_t *v;
    int rc = field(obj, where, key, need, &v, e);
    if (rc || !v)
        return rc;
    int64_t n;
    if (whole_number(v, &n) && n >= lo && n <= hi) {
        *out = n;
        return 0;
    }
    char want[96];
    snprintf(want, sizeof want, "an integer from %" PRId64 " to %" PRId64, lo, hi);
    return wrong(v, where, key, want, e);
}

int json_field_real(const json_t *obj, const char *where, const char *key, bool need, double lo,
                    double hi, double *out, struct err *e)
{
    json_t *v;
    int rc = field(obj, where, key, need, &v, e);
    if (rc || !v)
        return rc;
    if (json_is_number(v)) {
        double r = json_number_value(v);
        if (r >= lo && r <= hi) {
            *out = r;
            return 0;
        }
    }
    char want[96];
    snprintf(want, sizeof want, "a number from %g to %g", lo, hi);
    return wrong(v, where, key, want, e);
}

int json_field_bool(const json_t *obj, const char *where, const char *key, bool need, bool *out,
                    struct err *e)
{
    json_t *v;
    int rc = field(obj, where, key, need, &v, e);
    if (rc || !v)
        return rc;
    if (!json_is_boolean(v))
        return wrong(v, where, key, "true or false", e);
    *out = json_is_true(v);
    return 0;
}

int json_field_str(const json_t *obj, const char *where, const char *key, bool need,
                   const char **out, struct err *e)
{
    json_t *v;
    int rc = field(obj, where, key, need, &v, e);
    if (rc || !v)
        return rc;
    if (!json_is_string(v))
        return wrong(v, where, key, "a string", e);
    *out = json_string_value(v);
    return 0;
}

int json_field_obj(const json_t *obj, const char *where, const char *key, bool need, json_t **out,
                   struct err *e)
{
    json_t *v;
    int rc = field(obj, where, key, need, &v, e);
    if (rc || !v)
        return rc;
    if (!json_is_object(v))
        return wrong(v, where, key, "an object", e);
    *out = v;
    return 0;
}

int json_field_arr(const json_t *obj, const char *where, const char *key, bool need, json_t **out,
                   struct err *e)
{
    json_t *v;
    int rc = field(obj, where, key, need, &v, e);
    if (rc || !v)
        return rc;
    if (!json_is_array(v))
        return wrong(v, where, key, "an array", e);
    *out = v;
    return 0;
}

static int append(const char *text, size_t n, void *out)
{
    buf_add(out, text, n);
    return 0;
}

/* The length of the string, quotes and all, that begins at a quote. */
static size_t string_len(const char *text)
{
    size_t n = 1;
    while (text[n] != '"')
        n += text[n] == '\\' ? 2 : 1;
    return n + 1;
}

/* A number of text in fewer digits, in its place, if it reads back as the same. */
static size_t shorten_number(char *text, size_t n)
{
    char room[UNITS_ROOM], *end;
    if (!memchr(text, '.', n))
        return n;
    units_real(room, strtod(text, &end));
    if (end != text + n) /* a locale's point is another */
        return n;
    const char *tail = strpbrk(room, ".e") ? "" : ".0";
    const size_t len = strlen(room) + strlen(tail);
    if (len >= n)
        return n;
    memcpy(text, room, strlen(room));
    memcpy(text + strlen(room), tail, strlen(tail));
    return len;
}

/* jansson prints all reals with as many digits as one of them may need. Text from `to` on gets the
 * fewest that read back as the same: 0.1 for 0.10000000000000001. */
static void shorten_numbers(struct buf *b, size_t to)
{
    static const char numeric[] = "+-.0123456789eE";
    for (size_t i = to, n; i < b->len; i += n) {
        const bool number = b->data[i] == '-' || (b->data[i] >= '0' && b->data[i] <= '9');
        n = number ? strspn(b->data + i, numeric) : b->data[i] == '"' ? string_len(b->data + i) : 1;
        const size_t len = number ? shorten_number(b->data + i, n) : n;
        if (to != i)
            memmove(b->data + to, b->data + i, len);
        to += len;
    }
    if (b->data) {
        b->len = to;
        b->data[to] = '\0';
    }
}

int json_print(const json_t *v, size_t flags, struct buf *out, struct err *e)
{
    const size_t before = out->len;
    if (json_dump_callback(v, append, out, flags))
        return ERR(e, E_NOMEM, "out of memory printing JSON");
    if (buf_check(out, e))
        return -e->code;
    shorten_numbers(out, before);
    return 0;
}
