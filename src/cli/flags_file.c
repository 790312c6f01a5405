/* Flags from a file: see flags_file.h. */
#include "cli/flags_file.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <libconfig.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/units.h"

enum { FILE_BYTES_MAX = 1 << 20, NAME_ROOM = 64, VALUE_ROOM = 64, LINES_BACK_MAX = 100 };

/* What every step of reading needs. */
struct reading {
    const struct flags *flags;
    const char *where;
    struct flags_file *out;
};

/* "cors_origin" for "cors-origin", or the other way round. */
static void exchange_marks(const char *name, char from, char to, char room[NAME_ROOM])
{
    snprintf(room, NAME_ROOM, "%s", name);
    for (char *c = room; *c; c++)
        if (*c == from)
            *c = to;
}

static const struct flag *find(const struct flags *f, const char *key)
{
    char name[NAME_ROOM];
    for (const struct flag *g = f->flag; g->name; g++) {
        exchange_marks(g->name, '-', '_', name);
        if (strcmp(name, key) == 0)
            return g;
    }
    return NULL;
}

static int unknown(const struct reading *r, const char *key, int line, struct err *e)
{
    char rooms[FLAGS_FILE_MAX][NAME_ROOM];
    const char *names[FLAGS_FILE_MAX];
    size_t n = 0;
    for (const struct flag *g = r->flags->flag; g->name && n < FLAGS_FILE_MAX; g++, n++) {
        exchange_marks(g->name, '-', '_', rooms[n]);
        names[n] = rooms[n];
    }
    const char *near = flags_nearest(key, names, n);
    return ERR(e, E_FORMAT, "%s: line %d: there is no setting '%s'%s%s%s", r->where, line, key,
               near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* Sets a flag from text, which is kept. */
static int set_text(const struct reading *r, const struct flag *g, const char *text, struct err *e)
{
    char *kept = mem_strdup(text);
    const int most = (int)(sizeof r->out->strings / sizeof r->out->strings[0]);
    if (!kept || r->out->n_strings == most) {
        mem_free(kept);
        return ERR(e, E_NOMEM, "no memory for settings");
    }
    r->out->strings[r->out->n_strings++] = kept;
    return flags_set(r->flags, g, kept, e);
}

/* One value: a number or a string of the file, as the command line would have it. */
static int set_one(const struct reading *r, const struct flag *g, const config_setting_t *s,
                   struct err *e)
{
    char text[VALUE_ROOM] = "";
    switch (config_setting_type(s)) {
    case CONFIG_TYPE_INT:
        snprintf(text, sizeof text, "%d", config_setting_get_int(s));
        return set_text(r, g, text, e);
    case CONFIG_TYPE_INT64:
        snprintf(text, sizeof text, "%lld", config_setting_get_int64(s));
        return set_text(r, g, text, e);
    case CONFIG_TYPE_FLOAT:
        return set_text(r, g, units_real(text, config_setting_get_float(s)), e);
    case CONFIG_TYPE_STRING:
        return set_text(r, g, config_setting_get_string(s), e);
    default:
        return ERR(e, E_FORMAT, "--%s wants a number or a string", g->name);
    }
}

static int set(const struct reading *r, const struct flag *g, const config_setting_t *s,
               struct err *e)
{
    if (g->type == FLAG_BOOL) {
        if (config_setting_type(s) != CONFIG_TYPE_BOOL)
            return ERR(e, E_FORMAT, "--%s wants true or false", g->name);
        *(bool *)g->to = config_setting_get_bool(s);
        return 0;
    }
    if (g->type != FLAG_LIST || config_setting_type(s) == CONFIG_TYPE_STRING)
        return set_one(r, g, s, e);
    if (!config_setting_is_array(s) && !config_setting_is_list(s))
        return ERR(e, E_FORMAT, "--%s wants a string or an array of strings", g->name);
    for (int i = 0; i < config_setting_length(s); i++)
        if (set_one(r, g, config_setting_get_elem(s, (unsigned)i), e))
            return -e->code;
    return 0;
}

static int read_all(const struct reading *r, const config_t *c, struct err *e)
{
    const config_setting_t *root = config_root_setting(c);
    for (int i = 0; i < config_setting_length(root); i++) {
        const config_setting_t *s = config_setting_get_elem(root, (unsigned)i);
        const int line = (int)config_setting_source_line(s);
        const struct flag *g = find(r->flags, config_setting_name(s));
        if (!g)
            return unknown(r, config_setting_name(s), line, e);
        r->out->lines[g - r->flags->flag] = line;
        if (set(r, g, s, e))
            return err_prefix(e, "%s: line %d", r->where, line);
    }
    return 0;
}

/* The line of an @include, which libconfig would follow to other files; 0 without one. */
static int include_line(const char *text)
{
    const char *found = strstr(text, "@include");
    int line = 1;
    for (const char *c = text; found && c < found; c++)
        line += *c == '\n';
    return found ? line : 0;
}

/* The end of so many lines. */
static const char *lines_end(const char *text, int n)
{
    for (const char *end; n > 0 && (end = strchr(text, '\n')); n--)
        text = end + 1;
    return n > 0 ? text + strlen(text) : text;
}

/* Whether the first n lines could be all. */
static bool is_whole(const char *text, int n)
{
    config_t c;
    char *part = mem_strndup(text, (size_t)(lines_end(text, n) - text));
    config_init(&c);
    const bool whole = part && config_read_string(&c, part);
    config_destroy(&c);
    mem_free(part);
    return whole;
}

/* libconfig names the line where it could not go on; what it does not understand may have begun in
 * one before. */
static int syntax_error(const config_t *c, const char *text, const char *where, struct err *e)
{
    const char *why = config_error_text(c);
    const int line = config_error_line(c);
    int first = line;
    while (first > 1 && line - first < LINES_BACK_MAX && !is_whole(text, first - 1))
        first--;
    if (strcmp(why, "syntax error") == 0)
        why = "syntax error: want NAME = VALUE;";
    if (first < line)
        return ERR(e, E_FORMAT, "%s: lines %d to %d: %s", where, first, line, why);
    return ERR(e, E_FORMAT, "%s: line %d: %s", where, line, why);
}

/* What is skipped when numbers are looked for: a string or a comment that begins at c. Returns its
 * end, c where there is none. */
static const char *skip_text(const char *c)
{
    const char *end = c;
    if (*c == '#' || (c[0] == '/' && c[1] == '/'))
        return c + strcspn(c, "\n");
    if (c[0] == '/' && c[1] == '*')
        return (end = strstr(c + 2, "*/")) ? end + 2 : c + strlen(c);
    if (*c != '"')
        return c;
    for (end++; *end && *end != '"'; end++)
        end += *end == '\\' && end[1];
    return end + (*end == '"');
}

/* libconfig makes other numbers of whole ones that need more than 32 bits, unless an L follows.
 * Returns the first one, or NULL. */
static const char *find_too_long(const char *c)
{
    static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.*-";
    while (*c) {
        const char *behind = skip_text(c);
        const size_t digits = strspn(c, "0123456789"), letters = strspn(c, word);
        const bool long_one = digits && (letters == digits || tolower(c[digits]) == 'l');
        errno = 0;
        const long long n = long_one ? strtoll(c, NULL, 10) : 0;
        if (errno || (letters == digits && n > INT32_MAX))
            return c;
        c = behind > c ? behind : c + (letters ? letters : 1);
    }
    return NULL;
}

static int check_numbers(const char *text, const char *where, struct err *e)
{
    const char *found = find_too_long(text);
    int line = 1;
    for (const char *c = text; found && c < found; c++)
        line += *c == '\n';
    return found
               ? ERR(e, E_FORMAT,
                     "%s: line %d: the number %.*s has more than 32 bits: want up to 64, and an L "
                     "behind it",
                     where, line, (int)strspn(found, "0123456789"), found)
               : 0;
}

int flags_file_parse(const struct flags *f, const char *text, const char *where,
                     struct flags_file *out, struct err *e)
{
    const struct reading r = {f, where, out};
    const int include = include_line(text);
    config_t c;
    if (include)
        return ERR(e, E_UNSUPPORTED, "%s: line %d: @include is not supported", where, include);
    if (check_numbers(text, where, e))
        return -e->code;
    config_init(&c);
    int rc = 0;
    if (!config_read_string(&c, text))
        rc = syntax_error(&c, text, where, e);
    else
        rc = read_all(&r, &c, e);
    config_destroy(&c);
    return rc;
}

int flags_file_read(const struct flags *f, const char *path, struct flags_file *out, struct err *e)
{
    struct buf text = BUF_INIT;
    int rc = file_read_all(path, FILE_BYTES_MAX, &text, e);
    if (!rc && text.len && memchr(text.data, '\0', text.len))
        rc = ERR(e, E_FORMAT, "%s: is no text: there is a NUL in it", path);
    if (!rc)
        rc = flags_file_parse(f, buf_str(&text), path, out, e);
    buf_free(&text);
    return rc;
}

void flags_file_free(struct flags_file *c)
{
    for (int i = 0; i < c->n_strings; i++)
        mem_free(c->strings[i]);
    *c = (struct flags_file){0};
}

/* --- printing --- */

static void quote(const char *s, struct buf *out)
{
    buf_putc(out, '"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            buf_putc(out, '\\');
        if ((unsigned char)*s < ' ')
            buf_printf(out, "\\x%02x", (unsigned char)*s);
        else
            buf_putc(out, *s);
    }
    buf_putc(out, '"');
}

static void print_word(const struct flag *g, struct buf *out)
{
    const char *word = g->meta;
    for (int i = *(const int *)g->to; i > 0; i--)
        word += strcspn(word, "|") + 1;
    buf_printf(out, "\"%.*s\"", (int)strcspn(word, "|"), word);
}

static void print_list(const struct flag_list *l, struct buf *out)
{
    for (size_t i = 0; i < l->n; i++) {
        buf_puts(out, i ? ", " : "[");
        quote(l->at[i], out);
    }
    if (l->n)
        buf_putc(out, ']');
}

static void print_real(double v, struct buf *out)
{
    char text[UNITS_ROOM];
    units_real(text, v);
    buf_printf(out, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

void flags_file_value(const struct flag *g, struct buf *out)
{
    switch (g->type) {
    case FLAG_BOOL:
        buf_puts(out, *(const bool *)g->to ? "true" : "false");
        break;
    case FLAG_STRING:
        if (*(const char **)g->to)
            quote(*(const char **)g->to, out);
        break;
    case FLAG_INT:
        if ((double)*(const int64_t *)g->to >= g->lo)
            buf_printf(out, "%" PRId64 "%s", *(const int64_t *)g->to,
                       *(const int64_t *)g->to > INT32_MAX ? "L" : "");
        break;
    case FLAG_REAL:
        if (*(const double *)g->to >= g->lo)
            print_real(*(const double *)g->to, out);
        break;
    case FLAG_SIZE:
        if ((double)*(const uint64_t *)g->to >= g->lo)
            buf_printf(out, "\"%" PRIu64 "\"", *(const uint64_t *)g->to);
        break;
    case FLAG_WORD:
        if (*(const int *)g->to >= 0)
            print_word(g, out);
        break;
    case FLAG_LIST:
        print_list(g->to, out);
        break;
    }
}

void flags_file_print(const struct flags *f, const char *const *skip, struct buf *out)
{
    for (const struct flag *g = f->flag; g->name; g++) {
        struct buf value = BUF_INIT;
        char name[NAME_ROOM];
        const char *const *s = skip;
        while (*s && strcmp(*s, g->name) != 0)
            s++;
        if (*s)
            continue;
        exchange_marks(g->name, '-', '_', name);
        flags_file_value(g, &value);
        buf_printf(out, "# %s\n", g->help);
        if (value.len)
            buf_printf(out, "%s = %s;\n", name, buf_str(&value));
        else
            buf_printf(out, "# %s = ...;\n", name);
        out->failed |= value.failed;
        buf_free(&value);
    }
}
