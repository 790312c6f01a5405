/* Checksums of a store's texts: see texts.h. */
#include "pack/texts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/file.h"
#include "base/mem.h"
#include "pack/sums.h"

enum { NAMES_MAX = 128, NAME_BYTES = 256, FILE_BYTES_MAX = 1 << 20 };

/* The texts of a directory, by name. */
struct texts {
    const char *dir;
    char *name[NAMES_MAX];
    bool listed[NAMES_MAX]; /* in the file of checksums */
    size_t n;
};

static int list(const char *dir, struct texts *t, struct err *e);
static void list_free(struct texts *t);
static int sum_of(const char *dir, const char *name, uint64_t *sum, uint64_t *bytes, struct err *e);

bool texts_is_text(const char *name)
{
    size_t n = strlen(name);
    if (n >= NAME_BYTES)
        return false;
    for (size_t i = 0; i < n; i++)
        if (name[i] < ' ' || name[i] > '~' || name[i] == '\\')
            return false;
    if (strncmp(name, "LICENSE", 7) == 0 || strncmp(name, "NOTICE", 6) == 0)
        return true;
    if (strncmp(name, "tokenizer", 9) == 0)
        return n > 5 && strcmp(name + n - 5, ".json") == 0;
    return strcmp(name, "config.json") == 0 || strcmp(name, "chat_template.jinja") == 0 ||
           strcmp(name, "generation_config.json") == 0;
}

int texts_can_be_read(const char *dir, struct err *e)
{
    struct texts t;
    int rc = list(dir, &t, e);
    for (size_t i = 0; !rc && i < t.n; i++) {
        struct file f = FILE_CLOSED;
        char *path = file_join(dir, t.name[i]);
        rc = path ? file_open(path, &f, e) : ERR(e, E_NOMEM, "out of memory listing %s", dir);
        if (!rc && f.size > TEXTS_BYTES_MAX)
            rc = ERR(e, E_LIMIT, "%s: is %llu bytes, want at most %llu", path,
                     (unsigned long long)f.size, (unsigned long long)TEXTS_BYTES_MAX);
        file_drop(&f);
        mem_free(path);
    }
    list_free(&t);
    return rc;
}

int texts_note(const char *dir, struct err *e)
{
    struct texts t;
    struct buf lines = BUF_INIT;
    char hex[SUMS_HEX];
    uint64_t sum = 0, bytes;
    int rc = list(dir, &t, e);
    for (size_t i = 0; !rc && i < t.n; i++) {
        rc = sum_of(dir, t.name[i], &sum, &bytes, e);
        buf_printf(&lines, "XXH3 (%s) = %s\n", t.name[i], sums_hex(sum, hex));
    }
    if (!rc)
        rc = buf_check(&lines, e);
    char *path = file_join(dir, TEXTS_FILE);
    if (!rc)
        rc = path ? file_replace(path, buf_str(&lines), lines.len, e)
                  : ERR(e, E_NOMEM, "out of memory writing %s/" TEXTS_FILE, dir);
    mem_free(path);
    buf_free(&lines);
    list_free(&t);
    return rc;
}

static int add_name(void *ctx, const char *name, struct err *e)
{
    struct texts *t = ctx;
    char *path = file_join(t->dir, name);
    bool dir = path && file_is_dir(path);
    mem_free(path);
    if (!path)
        return ERR(e, E_NOMEM, "out of memory listing %s", t->dir);
    if (!texts_is_text(name) || dir)
        return 0;
    if (t->n == NAMES_MAX)
        return ERR(e, E_LIMIT, "%s: has more than %d texts (LICENSE*, tokenizer*.json)", t->dir,
                   NAMES_MAX);
    t->name[t->n] = mem_strdup(name);
    if (!t->name[t->n])
        return ERR(e, E_NOMEM, "out of memory listing %s", t->dir);
    t->n++;
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list(const char *dir, struct texts *t, struct err *e)
{
    *t = (struct texts){.dir = dir};
    int rc = file_each(dir, add_name, t, e);
    qsort(t->name, t->n, sizeof t->name[0], compare_names);
    return rc;
}

static void list_free(struct texts *t)
{
    for (size_t i = 0; i < t->n; i++)
        mem_free(t->name[i]);
}

static int sum_of(const char *dir, const char *name, uint64_t *sum, uint64_t *bytes, struct err *e)
{
    struct buf text = BUF_INIT;
    char *path = file_join(dir, name);
    int rc = path ? file_read_all(path, TEXTS_BYTES_MAX, &text, e)
                  : ERR(e, E_NOMEM, "out of memory reading %s/%s", dir, name);
    if (!rc)
        *sum = XXH3_64bits(text.data, text.len);
    *bytes = text.len;
    buf_free(&text);
    mem_free(path);
    return rc;
}

/* A check under way. */
struct check {
    struct texts texts;
    struct texts_report *report;
    void (*tell)(void *ctx, const char *text);
    void *ctx;
};

/* "XXH3 (NAME) = DIGITS" of len bytes: 0, or -1. */
static int parse_line(const char *line, size_t len, char name[NAME_BYTES], uint64_t *sum)
{
    static const char head[] = "XXH3 (", middle[] = ") = ";
    const size_t around = sizeof head - 1 + sizeof middle - 1 + SUMS_HEX - 1;
    if (len <= around || len - around >= NAME_BYTES || strncmp(line, head, sizeof head - 1) != 0)
        return -1;
    const char *rest = line + sizeof head - 1 + (len - around);
    char hex[SUMS_HEX];
    memcpy(name, line + sizeof head - 1, len - around);
    name[len - around] = '\0';
    memcpy(hex, rest + sizeof middle - 1, sizeof hex - 1);
    hex[sizeof hex - 1] = '\0';
    return strncmp(rest, middle, sizeof middle - 1) != 0 || sums_unhex(hex, sum) ||
                   !texts_is_text(name)
               ? -1
               : 0;
}

/* The text of this name among those that are there; NULL if it is not. */
static bool *find_listed(struct texts *t, const char *name)
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->name[i], name) == 0)
            return &t->listed[i];
    return NULL;
}

static int check_line(struct check *c, const char *line, size_t len, int number, struct err *e)
{
    char name[NAME_BYTES], say[NAME_BYTES + 128];
    uint64_t want, is = 0, bytes = 0;
    if (parse_line(line, len, name, &want)) {
        snprintf(say, sizeof say, TEXTS_FILE ": line %d is no checksum of a text", number);
        c->tell(c->ctx, say);
        return 0;
    }
    bool *listed = find_listed(&c->texts, name);
    if (!listed) {
        snprintf(say, sizeof say, "%s: is not there, and " TEXTS_FILE " names it", name);
        c->tell(c->ctx, say);
        return 0;
    }
    *listed = true;
    int rc = sum_of(c->texts.dir, name, &is, &bytes, e);
    c->report->n++;
    c->report->bytes += bytes;
    snprintf(say, sizeof say, "%s: does not have its checksum", name);
    if (!rc && is != want)
        c->tell(c->ctx, say);
    return rc;
}

static int check_lines(struct check *c, const struct buf *file, struct err *e)
{
    const char *line = buf_str(file), *end = line + file->len;
    int rc = 0;
    for (int number = 1; !rc && line < end; number++) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *stop = newline ? newline : end;
        rc = check_line(c, line, (size_t)(stop - line), number, e);
        line = stop + 1;
    }
    for (size_t i = 0; !rc && i < c->texts.n; i++) {
        char say[NAME_BYTES + 128];
        snprintf(say, sizeof say, "%s: is not in " TEXTS_FILE, c->texts.name[i]);
        if (!c->texts.listed[i])
            c->tell(c->ctx, say);
    }
    return rc;
}

int texts_check(const char *dir, bool due, struct texts_report *r,
                void (*tell)(void *ctx, const char *text), void *ctx, struct err *e)
{
    struct check c = {.report = r, .tell = tell, .ctx = ctx};
    struct buf file = BUF_INIT;
    char *path = file_join(dir, TEXTS_FILE);
    *r = (struct texts_report){0};
    int rc = list(dir, &c.texts, e);
    if (!rc && !path)
        rc = ERR(e, E_NOMEM, "out of memory reading %s/" TEXTS_FILE, dir);
    bool there = path && file_exists(path);
    if (!rc && there)
        rc = file_read_all(path, FILE_BYTES_MAX, &file, e);
    if (!rc && there)
        rc = check_lines(&c, &file, e);
    if (!rc && !there && due)
        tell(ctx, TEXTS_FILE ": is not there, and manifest.json names it");
    if (!there)
        r->n_unsummed = c.texts.n;
    buf_free(&file);
    mem_free(path);
    list_free(&c.texts);
    return rc;
}

/* One text, if dir lacks it. */
static int restore(const char *from, const char *to, uint64_t want, size_t *n, struct err *e)
{
    struct buf text = BUF_INIT;
    struct err why = {0};
    if (file_exists(to))
        return 0;
    int rc = file_read_all(from, TEXTS_BYTES_MAX, &text, &why);
    if (rc || XXH3_64bits(text.data, text.len) != want)
        rc = ERR(e, rc ? why.code : E_NOTFOUND, "%s: is not there, and was made of another %s%s%s",
                 to, from, rc ? ": " : "", rc ? why.msg : "");
    else if (!(rc = file_replace(to, buf_str(&text), text.len, e)))
        ++*n;
    buf_free(&text);
    return rc;
}

int texts_restore(const char *dir, const char *from, size_t *n, struct err *e)
{
    struct buf file = BUF_INIT;
    char *path = file_join(dir, TEXTS_FILE), name[NAME_BYTES];
    uint64_t want;
    int rc = path ? 0 : ERR(e, E_NOMEM, "out of memory reading %s/" TEXTS_FILE, dir);
    *n = 0;
    if (!rc && file_exists(path))
        rc = file_read_all(path, FILE_BYTES_MAX, &file, e);
    for (const char *line = buf_str(&file), *stop; !rc && *line; line = stop + (*stop == '\n')) {
        stop = line + strcspn(line, "\n");
        if (parse_line(line, (size_t)(stop - line), name, &want)) /* verify tells of it */
            continue;
        char *source = file_join(from, name), *to = file_join(dir, name);
        rc = source && to ? restore(source, to, want, n, e)
                          : ERR(e, E_NOMEM, "out of memory copying %s", name);
        mem_free(source);
        mem_free(to);
    }
    buf_free(&file);
    mem_free(path);
    return rc;
}
