/* Command-line flags, table-driven: --name VALUE, --name=VALUE, --switch; "--" ends the flags,
 * "-" is an argument. An unknown flag is E_ARG with the nearest known one suggested; -h and
 * --help print the command's usage from the same table. */
#ifndef CLI_FLAGS_H
#define CLI_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cli/command.h"

enum flag_type {
    FLAG_BOOL,   /* bool: present means true */
    FLAG_STRING, /* const char *, borrowed from argv */
    FLAG_INT,    /* int64_t in lo..hi */
    FLAG_REAL,   /* double in lo..hi */
    FLAG_SIZE,   /* uint64_t in lo..hi, bytes: 8G, 1.5G, 512M, 2Gi */
    FLAG_WORD,   /* int: which of the words of meta ("copy|map"), 0 the first */
    FLAG_LIST,   /* struct flag_list: may be given many times */
};

enum { FLAG_LIST_MAX = 64 };
struct flag_list {
    const char *at[FLAG_LIST_MAX];
    size_t n;
};

struct flag {
    const char *name; /* without "--" */
    enum flag_type type;
    void *to;
    const char *meta; /* "N", "DIR": what the value is called; NULL for FLAG_BOOL */
    const char *help; /* one line */
    double lo, hi;    /* FLAG_INT, FLAG_REAL, FLAG_SIZE */
};

struct flags {
    const struct command *command;
    const struct flag *flag; /* ends with a NULL name */
    int min_args, max_args;  /* how many arguments are not flags */
    const char *args[8];     /* filled by flags_parse */
    int n_args;
    bool help; /* usage was asked for and printed: the command returns 0 at once */
};

/* argv[0] is the command's name; strings are borrowed from argv. E_ARG: what is wrong with the
 * line, and how it should be. */
int flags_parse(struct flags *f, int argc, char **argv, struct err *e);
/* Sets one flag from text, as the command line would. */
int flags_set(const struct flags *f, const struct flag *g, const char *value, struct err *e);
/* The entry of a list of words that is nearest to word, or NULL when none is near. */
const char *flags_nearest(const char *word, const char *const *words, size_t n);

#endif
