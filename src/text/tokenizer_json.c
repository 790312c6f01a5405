/* tokenizer.json: see tokenizer_json.h. */
#include "text/tokenizer_json.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/utf8.h"

/* A place in the text. A scan_* function reads one thing at `at` and leaves `at` behind it. */
struct scan {
    const char *s;
    size_t n, at;
    size_t origin; /* of s in the file, for messages */
    const char *where;
    struct err *e;
};

static int scan_broken(const struct scan *c, const char *want)
{
    if (c->at >= c->n)
        return ERR(c->e, E_FORMAT, "%s: byte %zu: want %s, found the end", c->where,
                   c->origin + c->at, want);
    unsigned char found = (unsigned char)c->s[c->at];
    return ERR(c->e, E_FORMAT,
               found > 32 && found < 127 ? "%s: byte %zu: want %s, found '%c'"
                                         : "%s: byte %zu: want %s, found byte %02x",
               c->where, c->origin + c->at, want, found);
}

/* The next byte that is no blank, or 0 at the end. */
static char scan_peek(struct scan *c)
{
    while (c->at < c->n && (c->s[c->at] == ' ' || c->s[c->at] == '\n' || c->s[c->at] == '\r' ||
                            c->s[c->at] == '\t'))
        c->at++;
    return c->at < c->n ? c->s[c->at] : '\0';
}

static int scan_char(struct scan *c, char want)
{
    const char name[] = {'\'', want, '\'', '\0'};
    if (scan_peek(c) != want)
        return scan_broken(c, name);
    c->at++;
    return 0;
}

/* Behind an element: a comma (then *more), or the closing bracket. */
static int scan_more(struct scan *c, char close, bool *more)
{
    char found = scan_peek(c);
    *more = found == ',';
    if (found != ',' && found != close)
        return scan_broken(c, close == '}' ? "',' or '}'" : "',' or ']'");
    c->at++;
    return 0;
}

static int scan_hex4(struct scan *c, uint32_t *v)
{
    *v = 0;
    for (int i = 0; i < 4; i++, c->at++) {
        static const char digits[] = "0123456789abcdef";
        char d = c->at < c->n ? c->s[c->at] : '\0';
        const char *p = d ? strchr(digits, d >= 'A' && d <= 'F' ? d + 32 : d) : NULL;
        if (!p)
            return scan_broken(c, "a hexadecimal digit");
        *v = *v << 4 | (uint32_t)(p - digits);
    }
    return 0;
}

/* Behind a backslash. */
static int scan_escape(struct scan *c, struct buf *out)
{
    static const char letters[] = "\"\\/bfnrt", meaning[] = "\"\\/\b\f\n\r\t";
    char s[4];
    char letter = c->at < c->n ? c->s[c->at] : '\0';
    const char *p = letter ? strchr(letters, letter) : NULL;
    if (p) {
        buf_putc(out, meaning[p - letters]);
        c->at++;
        return 0;
    }
    if (letter != 'u')
        return scan_broken(c, "an escape");
    uint32_t cp, low = 0;
    c->at++;
    int rc = scan_hex4(c, &cp);
    if (!rc && cp >= 0xD800 && cp <= 0xDBFF) {
        if (c->n - c->at < 2 || memcmp(c->s + c->at, "\\u", 2) != 0)
            return scan_broken(c, "the second half of a surrogate pair");
        c->at += 2;
        rc = scan_hex4(c, &low);
        if (!rc && (low < 0xDC00 || low > 0xDFFF))
            return scan_broken(c, "a surrogate pair before this place");
        cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
    } else if (!rc && cp >= 0xDC00 && cp <= 0xDFFF) {
        return scan_broken(c, "the first half of a surrogate pair before this place");
    }
    buf_add(out, s, rc ? 0 : (size_t)utf8_put(cp, s));
    return rc;
}

/* The plain bytes of a string from here on: up to a quote, a backslash or a control character. */
static size_t plain_bytes(const struct scan *c)
{
    size_t i = c->at;
    while (i < c->n && c->s[i] != '"' && c->s[i] != '\\' && (unsigned char)c->s[i] >= 0x20)
        i++;
    return i - c->at;
}

/* Sets *s and *n to the string's contents: inside the text if it has no escapes, else in room. */
static int scan_string(struct scan *c, struct buf *room, const char **s, size_t *n)
{
    int rc = scan_char(c, '"');
    if (rc)
        return rc;
    size_t k = plain_bytes(c);
    *s = c->s + c->at;
    *n = k;
    c->at += k;
    if (c->at < c->n && c->s[c->at] == '"') {
        c->at++;
        return 0;
    }
    buf_clear(room);
    buf_add(room, *s, *n);
    while (!rc && c->at < c->n && c->s[c->at] == '\\') {
        c->at++;
        rc = scan_escape(c, room);
        k = rc ? 0 : plain_bytes(c);
        buf_add(room, c->s + c->at, k);
        c->at += k;
    }
    rc = rc ? rc : buf_check(room, c->e);
    *s = buf_str(room);
    *n = room->len;
    return rc ? rc : scan_char(c, '"');
}

static int scan_integer(struct scan *c, int64_t *v)
{
    bool minus = scan_peek(c) == '-';
    uint64_t value = 0;
    c->at += minus;
    size_t from = c->at;
    for (; c->at < c->n && c->s[c->at] >= '0' && c->s[c->at] <= '9'; c->at++) {
        value = value * 10 + (uint64_t)(c->s[c->at] - '0');
        if (c->at - from >= 18)
            return scan_broken(c, "a smaller integer");
    }
    bool zeros = c->at - from > 1 && c->s[from] == '0';
    if (c->at == from || zeros || (c->at < c->n && strchr(".eE", c->s[c->at]) && c->s[c->at]))
        return scan_broken(c, "an integer");
    *v = minus ? -(int64_t)value : (int64_t)value;
    return 0;
}

/* Passes over one value, minding only strings and brackets: jansson reads it again. *commas: how
 * many there are directly in it. */
static int scan_value(struct scan *c, size_t *commas)
{
    int depth = 0;
    *commas = 0;
    do {
        char found = scan_peek(c);
        *commas += depth == 1 && found == ',';
        if (found == '"') {
            c->at++;
            for (c->at += plain_bytes(c); c->at < c->n && c->s[c->at] != '"';
                 c->at +=
                 plain_bytes(c)) /* an escape, or a control character for jansson to find */
                c->at += c->s[c->at] == '\\' && c->at + 1 < c->n ? 2 : 1;
        }
        if (c->at >= c->n)
            return scan_broken(c, "a value");
        depth += (found == '{' || found == '[') - (found == '}' || found == ']');
        c->at++;
        if (depth == 0 && !strchr("\"{}[]", found)) /* a number or a word: to its end */
            while (c->at < c->n && !strchr(",]} \t\r\n", c->s[c->at]))
                c->at++;
    } while (depth > 0);
    return 0;
}

/* What is left of the text when the two big values are cut out of it. */
struct cutting {
    struct buf rest;
    size_t copied; /* up to here the text is in rest, or was cut out */
};

/* Cuts out the value that starts here; its brackets and line ends stay, so that jansson's line
 * numbers hold. */
static int cut_value(struct scan *c, struct cutting *cut, struct json_part *part)
{
    size_t from = c->at, commas;
    int rc = scan_value(c, &commas);
    if (rc)
        return rc;
    *part = (struct json_part){c->s + from, c->at - from, from, commas + 1};
    buf_add(&cut->rest, c->s + cut->copied, from + 1 - cut->copied);
    for (size_t i = from; i < c->at; i++)
        if (c->s[i] == '\n')
            buf_putc(&cut->rest, '\n');
    cut->copied = c->at - 1;
    return 0;
}

/* Behind the key of a member: does it lead to a value to be cut out? */
typedef int (*member_fn)(struct scan *c, const char *key, size_t n, struct cutting *cut,
                         struct tokenizer_json *out);

static bool is_word(const char *s, size_t n, const char *word)
{
    return n == strlen(word) && memcmp(s, word, n) == 0;
}

static int scan_members(struct scan *c, struct cutting *cut, struct tokenizer_json *out,
                        member_fn fn)
{
    struct buf room = BUF_INIT;
    const char *key;
    size_t n;
    bool more = true;
    int rc = scan_char(c, '{');
    if (!rc && scan_peek(c) == '}') {
        c->at++;
        return 0;
    }
    while (!rc && more) {
        rc = scan_string(c, &room, &key, &n);
        rc = rc ? rc : scan_char(c, ':');
        rc = rc ? rc : fn(c, key, n, cut, out);
        rc = rc ? rc : scan_more(c, '}', &more);
    }
    buf_free(&room);
    return rc;
}

static int model_member(struct scan *c, const char *key, size_t n, struct cutting *cut,
                        struct tokenizer_json *out)
{
    size_t commas;
    char first = scan_peek(c);
    if (first == '{' && is_word(key, n, "vocab"))
        return cut_value(c, cut, &out->vocab);
    if (first == '[' && is_word(key, n, "merges"))
        return cut_value(c, cut, &out->merges);
    return scan_value(c, &commas);
}

static int top_member(struct scan *c, const char *key, size_t n, struct cutting *cut,
                      struct tokenizer_json *out)
{
    size_t commas;
    if (scan_peek(c) == '{' && is_word(key, n, "model"))
        return scan_members(c, cut, out, model_member);
    return scan_value(c, &commas);
}

int tokenizer_json_read(const char *text, size_t len, const char *where, struct tokenizer_json *out,
                        struct err *e)
{
    struct scan c = {.s = text, .n = len, .where = where, .e = e};
    struct cutting cut = {.rest = BUF_INIT};
    *out = (struct tokenizer_json){0};
    int rc = scan_members(&c, &cut, out, top_member);
    if (!rc) {
        buf_add(&cut.rest, text + cut.copied, len - cut.copied);
        rc = buf_check(&cut.rest, e);
    }
    if (!rc)
        rc = json_parse(buf_str(&cut.rest), cut.rest.len, where, &out->rest, e);
    buf_free(&cut.rest);
    return rc;
}

void tokenizer_json_free(struct tokenizer_json *j)
{
    json_decref(j->rest);
    *j = (struct tokenizer_json){0};
}

/* Opens a part: *empty if there is nothing in it. */
static int open_part(struct scan *c, char open, char close, bool *empty)
{
    int rc = scan_char(c, open);
    *empty = !rc && scan_peek(c) == close;
    return rc;
}

int tokenizer_json_vocab(const struct tokenizer_json *j, const char *where,
                         tokenizer_json_vocab_fn fn, void *ctx, struct err *e)
{
    struct scan c = {j->vocab.s, j->vocab.n, 0, j->vocab.at, where, e};
    struct buf room = BUF_INIT;
    bool empty;
    int rc = open_part(&c, '{', '}', &empty);
    for (bool more = !empty; !rc && more;) {
        const char *name;
        size_t n, from = c.origin + c.at;
        int64_t id = 0;
        rc = scan_string(&c, &room, &name, &n);
        rc = rc ? rc : scan_char(&c, ':');
        rc = rc ? rc : scan_integer(&c, &id);
        if (!rc && (rc = fn(ctx, name, n, id, e)))
            err_prefix(e, "%s: byte %zu", where, from);
        rc = rc ? rc : scan_more(&c, '}', &more);
    }
    buf_free(&room);
    return rc;
}

/* "left right" */
static int split_merge(const struct scan *c, const char *s, size_t n, size_t *left_n)
{
    const char *blank = memchr(s, ' ', n);
    *left_n = blank ? (size_t)(blank - s) : 0;
    if (!blank || memchr(blank + 1, ' ', n - *left_n - 1))
        return ERR(c->e, E_FORMAT, "%s: byte %zu: merge \"%.*s\": want two tokens with one blank",
                   c->where, c->origin + c->at, n < 60 ? (int)n : 60, s);
    return 0;
}

static int read_merge(struct scan *c, struct buf room[2], tokenizer_json_merge_fn fn, void *ctx)
{
    const char *left, *right;
    size_t left_n, right_n, from = c->origin + c->at;
    int rc;
    if (scan_peek(c) == '[') {
        c->at++;
        rc = scan_string(c, &room[0], &left, &left_n);
        rc = rc ? rc : scan_char(c, ',');
        rc = rc ? rc : scan_string(c, &room[1], &right, &right_n);
        rc = rc ? rc : scan_char(c, ']');
    } else {
        rc = scan_string(c, &room[0], &left, &right_n);
        rc = rc ? rc : split_merge(c, left, right_n, &left_n);
        if (!rc) {
            right = left + left_n + 1;
            right_n -= left_n + 1;
        }
    }
    if (!rc && (rc = fn(ctx, left, left_n, right, right_n, c->e)))
        err_prefix(c->e, "%s: byte %zu", c->where, from);
    return rc;
}

int tokenizer_json_merges(const struct tokenizer_json *j, const char *where,
                          tokenizer_json_merge_fn fn, void *ctx, struct err *e)
{
    struct scan c = {j->merges.s, j->merges.n, 0, j->merges.at, where, e};
    struct buf room[2] = {BUF_INIT, BUF_INIT};
    bool empty;
    int rc = open_part(&c, '[', ']', &empty);
    for (bool more = !empty; !rc && more;) {
        rc = read_merge(&c, room, fn, ctx);
        rc = rc ? rc : scan_more(&c, ']', &more);
    }
    buf_free(&room[0]);
    buf_free(&room[1]);
    return rc;
}
