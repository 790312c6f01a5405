/* A command's flags from a configuration file: `name = value;` lines of libconfig's language, where
 * a name is that of a flag with _ for -. What is there means what the flag would. */
#ifndef CLI_FLAGS_FILE_H
#define CLI_FLAGS_FILE_H

#include "base/buf.h"
#include "cli/flags.h"

enum { FLAGS_FILE_MAX = 96 };

/* What a file gave; the flags' strings are borrowed from it until flags_file_free. */
struct flags_file {
    char *strings[FLAGS_FILE_MAX + FLAG_LIST_MAX]; /* owned */
    int n_strings;
    int lines[FLAGS_FILE_MAX]; /* of each flag of the table; 0: not there */
};

/* Sets the flags that the file names. E_FORMAT and E_ARG name file, line and setting. */
int flags_file_read(const struct flags *f, const char *path, struct flags_file *out, struct err *e);
/* The same from a text; where opens the messages. */
int flags_file_parse(const struct flags *f, const char *text, const char *where,
                     struct flags_file *out, struct err *e);
void flags_file_free(struct flags_file *c);
/* A file that says what the flags say now, with a line of help for each; those that say nothing
 * are in a comment. `skip` are not settings (NULL at the end). */
void flags_file_print(const struct flags *f, const char *const *skip, struct buf *out);
/* The value of a flag as in a file, appended; nothing when it has none. */
void flags_file_value(const struct flag *g, struct buf *out);

#endif
