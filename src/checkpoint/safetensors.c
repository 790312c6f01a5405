/* One .safetensors file: see safetensors.h. The header is other people's text: everything that is
 * used later is checked here, once, in time linear in its length (and two sorts of its tensors).
 *
 * The scanner reads exactly the JSON that a header may be: 40,000 tensors in 18 ms, where the
 * general parser takes 300 (bench_checkpoint; EPYC, gcc 12) and many times the header's size in
 * memory. The general parser still reads what is rare: names with escapes, and the metadata. */
#include "checkpoint/safetensors.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"

#define LENGTH_BYTES     8
#define HEADER_BYTES_MAX (100 << 20)
#define METADATA         "__metadata__"

struct scan {
    const char *start, *p, *end;
    const char *path;
    uint64_t data_start; /* byte of the file */
    uint64_t data_bytes;
};

static int scan_header(struct scan *s, struct safetensors *out, struct err *e);
static int check_names(const struct safetensors *st, const struct scan *s, struct err *e);
static int check_spans(const struct safetensors *st, const struct scan *s, struct err *e);

int safetensors_read(const struct file *f, struct safetensors *out, struct err *e)
{
    uint8_t length[LENGTH_BYTES];
    uint64_t n = 0;
    *out = (struct safetensors){0};
    if (f->size < LENGTH_BYTES)
        return ERR(e, E_FORMAT,
                   "%s: is %llu bytes, want at least 8: not a safetensors file, or cut short",
                   f->path, (unsigned long long)f->size);
    int rc = file_read_at(f, 0, length, sizeof length, e);
    if (rc)
        return rc;
    for (int i = LENGTH_BYTES; i-- > 0;)
        n = n << 8 | length[i];
    if (n > HEADER_BYTES_MAX)
        return ERR(
            e, E_FORMAT,
            "%s: starts with a header length of %llu, want at most %d: not a safetensors file",
            f->path, (unsigned long long)n, HEADER_BYTES_MAX);
    if (n > f->size - LENGTH_BYTES)
        return ERR(e, E_FORMAT,
                   "%s: is %llu bytes, too short for its header of %llu: download it again",
                   f->path, (unsigned long long)f->size, (unsigned long long)n);
    char *header = mem_alloc((size_t)n);
    if (!header)
        return ERR(e, E_NOMEM, "%s: no memory for a header of %llu bytes", f->path,
                   (unsigned long long)n);
    rc = file_read_at(f, LENGTH_BYTES, header, (size_t)n, e);
    if (!rc)
        rc = safetensors_parse(header, (size_t)n, f->size, f->path, out, e);
    mem_free(header);
    return rc;
}

int safetensors_parse(const char *header, size_t n, uint64_t file_bytes, const char *path,
                      struct safetensors *out, struct err *e)
{
    *out = (struct safetensors){0};
    if (file_bytes < LENGTH_BYTES || file_bytes - LENGTH_BYTES < n)
        return ERR(e, E_FORMAT, "%s: is %llu bytes, too short for its header of %zu", path,
                   (unsigned long long)file_bytes, n);
    struct scan s = {header, header,           header + n,
                     path,   LENGTH_BYTES + n, file_bytes - LENGTH_BYTES - n};
    int rc = scan_header(&s, out, e);
    if (!rc)
        rc = check_names(out, &s, e);
    if (!rc)
        rc = check_spans(out, &s, e);
    if (rc)
        safetensors_free(out);
    return rc;
}

void safetensors_free(struct safetensors *s)
{
    for (size_t i = 0; i < s->n_tensors; i++)
        mem_free(s->tensors[i].name);
    mem_free(s->tensors);
    mem_free(s->metadata);
    *s = (struct safetensors){0};
}

/* ---- Tokens ---- */

static int unexpected(const struct scan *s, const char *want, struct err *e)
{
    char found[16] = "the end";
    if (s->p < s->end)
        snprintf(found, sizeof found, *s->p > 0x20 && *s->p < 0x7F ? "'%c'" : "byte 0x%02x",
                 (unsigned char)*s->p);
    return ERR(e, E_FORMAT, "%s: byte %zu of the header: want %s, found %s", s->path,
               (size_t)(s->p - s->start), want, found);
}

/* The next byte that is not white space, or 0 at the end. */
static char peek(struct scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\t' || *s->p == '\r'))
        s->p++;
    return s->p < s->end ? *s->p : 0;
}

static bool take(struct scan *s, char c)
{
    if (peek(s) != c)
        return false;
    s->p++;
    return true;
}

/* A string with its quotes, its contents not yet looked at but for escapes. */
static int take_string(struct scan *s, const char **from, size_t *n, bool *escaped, struct err *e)
{
    *escaped = false;
    if (!take(s, '"'))
        return unexpected(s, "a string", e);
    *from = s->p - 1;
    for (; s->p < s->end && *s->p != '"'; s->p++) {
        if (*s->p == '\\') {
            *escaped = true;
            if (++s->p == s->end)
                break;
        }
    }
    if (!take(s, '"'))
        return unexpected(s, "the end of a string", e);
    *n = (size_t)(s->p - *from);
    return 0;
}

/* Messages and listings print names, so that what would drive a terminal is refused. */
static bool is_printable(const char *name, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7F)
            return false;
    }
    return utf8_valid_prefix(name, n) == n;
}

/* A key or word, decoded, to free with mem_free. */
static int take_word(struct scan *s, char **out, struct err *e)
{
    const char *from = NULL;
    size_t n = 0;
    bool escaped = false;
    json_t *v = NULL;
    *out = NULL;
    int rc = take_string(s, &from, &n, &escaped, e);
    if (!rc && escaped)
        rc = json_parse(from, n, s->path, &v, e);
    if (rc)
        return rc;
    const char *text = escaped ? json_string_value(v) : from + 1;
    size_t len = escaped ? json_string_length(v) : n - 2;
    if (!is_printable(text, len))
        rc = ERR(e, E_FORMAT,
                 "%s: byte %zu of the header: a name with control characters or bytes that are not "
                 "UTF-8",
                 s->path, (size_t)(from - s->start));
    else if (!(*out = mem_strndup(text, len)))
        rc = ERR(e, E_NOMEM, "%s: no memory for the names of its tensors", s->path);
    json_decref(v);
    return rc;
}

static int take_number(struct scan *s, uint64_t *out, struct err *e)
{
    const char *want = "a whole number that is not negative and fits 64 bits";
    uint64_t v = 0;
    char c = peek(s);
    if (c < '0' || c > '9')
        return unexpected(s, want, e);
    const char *first = s->p;
    for (; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++) {
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *s->p - '0', &v))
            return unexpected(s, want, e);
    }
    bool padded = *first == '0' && s->p - first > 1;
    if (padded || (s->p < s->end && strchr(".eE", *s->p) && *s->p))
        return unexpected(s, want, e);
    *out = v;
    return 0;
}

/* [a, b, ...], at most max of them. */
static int take_numbers(struct scan *s, uint64_t *v, int max, int *n, struct err *e)
{
    *n = 0;
    if (!take(s, '['))
        return unexpected(s, "an array", e);
    if (take(s, ']'))
        return 0;
    do {
        if (*n == max)
            return ERR(e, E_FORMAT, "%s: byte %zu of the header: want at most %d numbers", s->path,
                       (size_t)(s->p - s->start), max);
        int rc = take_number(s, &v[*n], e);
        if (rc)
            return rc;
        ++*n;
    } while (take(s, ','));
    return take(s, ']') ? 0 : unexpected(s, "',' or ']'", e);
}

/* ---- The three fields of a tensor ---- */

enum { DTYPE = 1, SHAPE = 2, SPAN = 4 };

struct fields {
    int seen;
    char *dtype; /* owned */
    uint64_t span[2];
    int n_span;
};

static int take_field(struct scan *s, const char *key, struct fields *f, struct tensor *t,
                      struct err *e)
{
    int which = strcmp(key, "dtype") == 0          ? DTYPE
                : strcmp(key, "shape") == 0        ? SHAPE
                : strcmp(key, "data_offsets") == 0 ? SPAN
                                                   : 0;
    if (!which)
        return ERR(e, E_UNSUPPORTED, "%s: %s: has a field \"%.40s\" that is not known here",
                   s->path, t->name, key);
    if (f->seen & which)
        return ERR(e, E_FORMAT, "%s: %s: has two fields %s", s->path, t->name, key);
    f->seen |= which;
    if (which == DTYPE)
        return take_word(s, &f->dtype, e);
    if (which == SHAPE)
        return take_numbers(s, t->shape, TENSOR_DIMS_MAX, &t->n_dims, e);
    return take_numbers(s, f->span, 2, &f->n_span, e);
}

static int take_fields(struct scan *s, struct fields *f, struct tensor *t, struct err *e)
{
    if (!take(s, '{'))
        return unexpected(s, "an object", e);
    if (take(s, '}'))
        return 0;
    do {
        char *key;
        int rc = take_word(s, &key, e);
        if (!rc && !take(s, ':'))
            rc = unexpected(s, "':'", e);
        if (!rc)
            rc = take_field(s, key, f, t, e);
        mem_free(key);
        if (rc)
            return rc;
    } while (take(s, ','));
    return take(s, '}') ? 0 : unexpected(s, "',' or '}'", e);
}

static int check_fields(const struct scan *s, const struct fields *f, struct tensor *t,
                        struct err *e)
{
    if (f->seen != (DTYPE | SHAPE | SPAN))
        return ERR(e, E_FORMAT, "%s: %s: has no %s", s->path, t->name,
                   !(f->seen & DTYPE)   ? "dtype"
                   : !(f->seen & SHAPE) ? "shape"
                                        : "data_offsets");
    if (dtype_parse(f->dtype, &t->dtype))
        return ERR(e, E_UNSUPPORTED, "%s: %s: has dtype \"%.40s\", which is not known here",
                   s->path, t->name, f->dtype);
    t->nbytes = dtype_bytes(t->dtype);
    for (int i = 0; i < t->n_dims; i++) {
        if (__builtin_mul_overflow(t->nbytes, t->shape[i], &t->nbytes))
            return ERR(e, E_FORMAT, "%s: %s: has a shape of more bytes than 64 bits can count",
                       s->path, t->name);
    }
    unsigned long long from = f->span[0], to = f->span[1], bytes = t->nbytes;
    if (f->n_span != 2 || from > to)
        return ERR(e, E_FORMAT,
                   "%s: %s: data_offsets: want two offsets, the first not behind the second",
                   s->path, t->name);
    if (to > s->data_bytes)
        return ERR(
            e, E_FORMAT,
            "%s: %s: ends at byte %llu of the data, of which the file holds %llu: cut short, "
            "download it again",
            s->path, t->name, to, (unsigned long long)s->data_bytes);
    if (to - from != bytes)
        return ERR(e, E_FORMAT, "%s: %s: shape and dtype take %llu bytes, data_offsets span %llu",
                   s->path, t->name, bytes, to - from);
    t->offset = s->data_start + from;
    return 0;
}

static int take_tensor(struct scan *s, struct tensor *t, struct err *e)
{
    struct fields f = {0};
    int rc = take_fields(s, &f, t, e);
    if (!rc)
        rc = check_fields(s, &f, t, e);
    mem_free(f.dtype);
    return rc;
}

/* ---- The header ---- */

/* The metadata object, up to its closing brace; json_parse checks what is inside. */
static int take_metadata(struct scan *s, char **out, struct err *e)
{
    struct err why = {0};
    json_t *v;
    int depth = 0, rc;
    const char *from;
    if (*out)
        return ERR(e, E_FORMAT, "%s: has two %s", s->path, METADATA);
    if (peek(s) != '{')
        return unexpected(s, "an object of metadata", e);
    for (from = s->p; s->p < s->end; s->p++) {
        const char *quote;
        size_t n;
        bool escaped;
        depth += (*s->p == '{') - (*s->p == '}');
        if (!depth)
            break;
        if (*s->p == '"') {
            if ((rc = take_string(s, &quote, &n, &escaped, e)))
                return rc;
            s->p--;
        }
    }
    if (s->p == s->end)
        return unexpected(s, "'}'", e);
    s->p++;
    if (json_parse(from, (size_t)(s->p - from), METADATA, &v, &why))
        return ERR(e, why.code, "%s: %s", s->path, why.msg);
    json_decref(v);
    if (!(*out = mem_strndup(from, (size_t)(s->p - from))))
        return ERR(e, E_NOMEM, "%s: no memory for its metadata", s->path);
    return 0;
}

/* Room for one more tensor, zeroed. */
static struct tensor *next_tensor(struct safetensors *out, size_t *cap)
{
    if (out->n_tensors == *cap) {
        size_t more = *cap * 2 + 64;
        struct tensor *t = mem_realloc(out->tensors, more * sizeof *t);
        if (!t)
            return NULL;
        out->tensors = t;
        *cap = more;
    }
    struct tensor *t = &out->tensors[out->n_tensors];
    *t = (struct tensor){0};
    return t;
}

static int take_entry(struct scan *s, struct safetensors *out, size_t *cap, struct err *e)
{
    char *name;
    int rc = take_word(s, &name, e);
    if (rc)
        return rc;
    bool meta = strcmp(name, METADATA) == 0;
    struct tensor *t = meta ? NULL : next_tensor(out, cap);
    if (t) {
        t->name = name;
        out->n_tensors++;
    } else {
        mem_free(name);
    }
    if (!t && !meta)
        return ERR(e, E_NOMEM, "%s: no memory for more than %zu tensors", s->path, *cap);
    if (!take(s, ':'))
        return unexpected(s, "':'", e);
    return meta ? take_metadata(s, &out->metadata, e) : take_tensor(s, t, e);
}

static int scan_header(struct scan *s, struct safetensors *out, struct err *e)
{
    size_t cap = 0;
    if (!take(s, '{'))
        return unexpected(s, "an object", e);
    if (!take(s, '}')) {
        do {
            int rc = take_entry(s, out, &cap, e);
            if (rc)
                return rc;
        } while (take(s, ','));
        if (!take(s, '}'))
            return unexpected(s, "',' or '}'", e);
    }
    peek(s);
    return s->p == s->end ? 0 : unexpected(s, "the end", e);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

static int check_names(const struct safetensors *st, const struct scan *s, struct err *e)
{
    if (st->n_tensors)
        qsort(st->tensors, st->n_tensors, sizeof *st->tensors, compare_names);
    for (size_t i = 1; i < st->n_tensors; i++) {
        if (strcmp(st->tensors[i - 1].name, st->tensors[i].name) == 0)
            return ERR(e, E_FORMAT, "%s: describes %s twice", s->path, st->tensors[i].name);
    }
    return 0;
}

/* By offset; empty tensors, which share one with a neighbour, first; then by name. */
static int compare_spans(const void *pa, const void *pb)
{
    const struct tensor *a = pa, *b = pb;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    if (a->nbytes != b->nbytes)
        return a->nbytes < b->nbytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Sorts the tensors by offset and checks that they cover the data exactly. */
static int check_spans(const struct safetensors *st, const struct scan *s, struct err *e)
{
    uint64_t at = s->data_start, end = s->data_start + s->data_bytes;
    if (st->n_tensors)
        qsort(st->tensors, st->n_tensors, sizeof *st->tensors, compare_spans);
    for (size_t i = 0; i < st->n_tensors; i++) {
        const struct tensor *t = &st->tensors[i];
        if (t->offset != at)
            return ERR(e, E_FORMAT, "%s: %s: starts at byte %llu, %s byte %llu where %s ends",
                       s->path, t->name, (unsigned long long)t->offset,
                       t->offset < at ? "inside another tensor before" : "leaving a hole after",
                       (unsigned long long)at, i ? st->tensors[i - 1].name : "the header");
        at += t->nbytes;
    }
    if (at != end)
        return ERR(e, E_FORMAT, "%s: has %llu bytes behind its last tensor; want none", s->path,
                   (unsigned long long)(end - at));
    return 0;
}
