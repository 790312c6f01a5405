/* Command-line flags: see flags.h. */
#include "cli/flags.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_MAX = 64, FLAGS_MAX = 64 };

/* Levenshtein distance of two words; far apart if one is longer than WORD_MAX. */
static size_t distance(const char *a, const char *b)
{
    size_t row[WORD_MAX + 1], n = strlen(b);
    if (n > WORD_MAX || strlen(a) > WORD_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            size_t best = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            row[j + 1] = diagonal + 1 < best ? diagonal + 1 : best;
        }
    }
    return row[n];
}

const char *flags_nearest(const char *word, const char *const *words, size_t n)
{
    const char *best = NULL;
    size_t best_d = strlen(word) / 3 + 2;
    for (size_t i = 0; i < n; i++) {
        size_t d = distance(word, words[i]);
        if (d < best_d) {
            best_d = d;
            best = words[i];
        }
    }
    return best;
}

static void usage(const struct flags *f)
{
    const struct command *c = f->command;
    printf("usage: cherenkov %s%s%s%s\n\n%s\n", c->name, f->flag[0].name ? " [flags]" : "",
           *c->args ? " " : "", c->args, c->summary);
    if (f->flag[0].name)
        printf("\nflags:\n");
    for (const struct flag *g = f->flag; g->name; g++) {
        char left[80];
        snprintf(left, sizeof left, "--%s%s%s", g->name, g->meta ? " " : "",
                 g->meta ? g->meta : "");
        printf("  %-26s %s\n", left, g->help);
    }
}

static int unknown(const struct flags *f, const char *name, struct err *e)
{
    const char *names[FLAGS_MAX] = {"help"};
    size_t n = 1;
    for (const struct flag *g = f->flag; g->name && n < FLAGS_MAX; g++)
        names[n++] = g->name;
    const char *near = flags_nearest(name, names, n);
    return ERR(e, E_ARG, "%s: there is no flag --%s%s%s%s; `cherenkov %s --help` lists them",
               f->command->name, name, near ? ", did you mean --" : "", near ? near : "",
               near ? "?" : "", f->command->name);
}

/* strtod and strtoll also take leading blanks, "0x10" and "infinity". */
static bool is_decimal(const char *value)
{
    return *value && value[strspn(value, "+-.0123456789eE")] == '\0';
}

static int set_list(const struct flags *f, const struct flag *g, const char *value, struct err *e)
{
    struct flag_list *l = g->to;
    if (l->n == FLAG_LIST_MAX)
        return ERR(e, E_ARG, "%s: --%s given more than %d times", f->command->name, g->name,
                   FLAG_LIST_MAX);
    l->at[l->n++] = value;
    return 0;
}

static int set_int(const struct flags *f, const struct flag *g, const char *value, struct err *e)
{
    char *end;
    errno = 0;
    const long long n = strtoll(value, &end, 10);
    if (!is_decimal(value) || *end || errno || (double)n < g->lo || (double)n > g->hi)
        return ERR(e, E_ARG, "%s: --%s wants a whole number from %.0f to %.0f, found '%s'",
                   f->command->name, g->name, g->lo, g->hi, value);
    *(int64_t *)g->to = n;
    return 0;
}

static int set_real(const struct flags *f, const struct flag *g, const char *value, struct err *e)
{
    char *end;
    const double real = strtod(value, &end);
    if (!is_decimal(value) || *end || !isfinite(real) || real < g->lo || real > g->hi)
        return ERR(e, E_ARG, "%s: --%s wants a number from %g to %g, found '%s'", f->command->name,
                   g->name, g->lo, g->hi, value);
    *(double *)g->to = real;
    return 0;
}

/* The factor of "K", "MB", "Gi", "TiB", or of nothing; 0 for what is none. */
static double unit(const char *word)
{
    static const char letters[] = "KMGT";
    const char *letter = *word ? strchr(letters, *word) : NULL;
    if (!letter)
        return *word == '\0' || strcmp(word, "B") == 0 ? 1 : 0;
    const bool binary = word[1] == 'i';
    const char *rest = word + 1 + binary;
    return *rest && strcmp(rest, "B") != 0 ? 0 : pow(binary ? 1024 : 1000, letter - letters + 1.0);
}

static int set_size(const struct flags *f, const struct flag *g, const char *value, struct err *e)
{
    char number[32];
    const size_t n = strspn(value, "0123456789.");
    snprintf(number, sizeof number, "%.*s", (int)(n < sizeof number ? n : 0), value);
    char *end;
    const double factor = unit(value + n), bytes = strtod(number, &end) * factor;
    if (!*number || *end || factor == 0 || !(bytes >= g->lo && bytes <= g->hi))
        return ERR(e, E_ARG,
                   "%s: --%s wants a size like 8G or 512M (%.0f to %.0f bytes), found '%s'",
                   f->command->name, g->name, g->lo, g->hi, value);
    *(uint64_t *)g->to = (uint64_t)bytes;
    return 0;
}

static int set_word(const struct flags *f, const struct flag *g, const char *value, struct err *e)
{
    const size_t n = strlen(value);
    int i = 0;
    for (const char *word = g->meta;; i++) {
        const size_t len = strcspn(word, "|");
        if (n && len == n && memcmp(word, value, n) == 0)
            break;
        if (!word[len])
            return ERR(e, E_ARG, "%s: --%s wants one of %s, found '%s'", f->command->name, g->name,
                       g->meta, value);
        word += len + 1;
    }
    *(int *)g->to = i;
    return 0;
}

/* Where a path is wanted, none is a mistake, mostly of a script whose variable is not set; the
 * system would only say that there is no such file, of no name. */
static int set_string(const struct flags *f, const struct flag *g, const char *value, struct err *e)
{
    static const char *const paths[] = {"FILE", "DIR", "PATH|none"};
    for (size_t i = 0; !*value && i < sizeof paths / sizeof paths[0]; i++)
        if (strcmp(g->meta, paths[i]) == 0)
            return ERR(e, E_ARG, "%s: --%s is empty, want %s", f->command->name, g->name, g->meta);
    *(const char **)g->to = value;
    return 0;
}

int flags_set(const struct flags *f, const struct flag *g, const char *value, struct err *e)
{
    switch (g->type) {
    case FLAG_LIST:
        return set_list(f, g, value, e);
    case FLAG_INT:
        return set_int(f, g, value, e);
    case FLAG_REAL:
        return set_real(f, g, value, e);
    case FLAG_SIZE:
        return set_size(f, g, value, e);
    case FLAG_WORD:
        return set_word(f, g, value, e);
    default:
        return set_string(f, g, value, e);
    }
}

/* One flag at argv[i]; *used is 1 or, with a value in the next word, 2. */
static int one(struct flags *f, int argc, char **argv, int i, int *used, struct err *e)
{
    const char *word = argv[i] + 2, *value = strchr(word, '=');
    char name[WORD_MAX + 1];
    size_t n = value ? (size_t)(value - word) : strlen(word);
    *used = 1;
    snprintf(name, sizeof name, "%.*s", (int)(n < WORD_MAX ? n : WORD_MAX), word);
    for (const struct flag *g = f->flag; g->name; g++) {
        if (strcmp(g->name, name) != 0)
            continue;
        if (g->type == FLAG_BOOL) {
            if (value)
                return ERR(e, E_ARG, "%s: --%s takes no value", f->command->name, name);
            *(bool *)g->to = true;
            return 0;
        }
        if (value)
            return flags_set(f, g, value + 1, e);
        if (i + 1 >= argc)
            return ERR(e, E_ARG, "%s: --%s wants a value (%s)", f->command->name, name, g->meta);
        *used = 2;
        return flags_set(f, g, argv[i + 1], e);
    }
    return unknown(f, name, e);
}

int flags_parse(struct flags *f, int argc, char **argv, struct err *e)
{
    bool only_args = false;
    assert(f->max_args <= (int)(sizeof f->args / sizeof f->args[0]));
    f->n_args = 0;
    for (int i = 1; i < argc;) {
        const char *a = argv[i];
        int used = 1, rc = 0;
        if (!only_args && strcmp(a, "--") == 0) {
            only_args = true;
        } else if (!only_args && (strcmp(a, "-h") == 0 || strcmp(a, "--help") == 0)) {
            usage(f);
            f->help = true;
            return 0;
        } else if (!only_args && strncmp(a, "--", 2) == 0) {
            rc = one(f, argc, argv, i, &used, e);
        } else if (!only_args && a[0] == '-' && a[1]) {
            rc = ERR(e, E_ARG,
                     "%s: there is no flag %s: flags have two dashes; put -- before an "
                     "argument that starts with a dash",
                     f->command->name, a);
        } else if (f->n_args >= f->max_args) {
            rc = ERR(e, E_ARG, "%s: '%s' is one argument too many; usage: cherenkov %s %s",
                     f->command->name, a, f->command->name, f->command->args);
        } else if (f->n_args == 0 && !*a) {
            rc = ERR(e, E_ARG, "%s: the first argument is empty; usage: cherenkov %s %s",
                     f->command->name, f->command->name, f->command->args);
        } else {
            f->args[f->n_args++] = a;
        }
        if (rc)
            return rc;
        i += used;
    }
    if (f->n_args < f->min_args)
        return ERR(e, E_ARG, "%s: wants %d argument%s, found %d; usage: cherenkov %s %s",
                   f->command->name, f->min_args, f->min_args == 1 ? "" : "s", f->n_args,
                   f->command->name, f->command->args);
    return 0;
}
