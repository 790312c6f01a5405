/* The texts of a store: config.json, tokenizer*.json, chat_template.jinja, generation_config.json,
 * LICENSE* and NOTICE*. Their checksums are in a file of their own, since people edit texts; it is
 * what `xxhsum -H3` prints of them (version 0.8.1), so that `xxhsum -c texts.xxh3` compares too:
 *
 *   XXH3 (chat_template.jinja) = b34d1a3ab2bece70
 *
 * a line each, ordered by name. The manifest of a store that has the file names it. */
#ifndef PACK_TEXTS_H
#define PACK_TEXTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define TEXTS_FILE      "texts.xxh3"
#define TEXTS_BYTES_MAX ((uint64_t)256 << 20) /* the longest text */

/* Whether a file of this name is a text. Names with control characters, backslashes or others than
 * ASCII are none: lines of the file could not say them. */
bool texts_is_text(const char *name);

/* Whether the texts of dir can be read, without reading them: what opening one says, or E_LIMIT for
 * too many or one that is too long. */
int texts_can_be_read(const char *dir, struct err *e);

/* Writes the file for the texts that dir has. E_LIMIT: more than a store has. */
int texts_note(const char *dir, struct err *e);

/* Copies texts that the file names and dir lacks from a folder that has them, with the same
 * checksums; *n: how many. E_NOTFOUND: it lacks one, or has another. Without the file nothing is
 * done. */
int texts_restore(const char *dir, const char *from, size_t *n, struct err *e);

/* What texts_check found. */
struct texts_report {
    size_t n;          /* compared */
    size_t n_unsummed; /* texts of a store without the file */
    uint64_t bytes;    /* compared */
};

/* Compares the texts of dir with the file, and tells of each that is missing, has other bytes, or
 * is not in it; a text is a line without a final newline. due: the file should be there. */
int texts_check(const char *dir, bool due, struct texts_report *r,
                void (*tell)(void *ctx, const char *text), void *ctx, struct err *e);

#endif
