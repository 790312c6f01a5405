/* JSON through jansson, with messages that name file, field, what was wanted and what was found.
 *
 * A reader is a cursor: a value plus the words that say where it came from, e.g.
 * "config.json: text_config.hidden_size". Readers borrow the json_t and the strings. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* Whether an allocation of jansson's failed on this thread since the last call: then a value that
 * was made meanwhile may lack something. Parsing does not count, which says so itself. */
bool json_starved(void);

/* Parses a whole text. Refuses duplicate keys, text behind the value and over-deep nesting; `where`
 * opens the messages. The result is for json_decref. */
int json_parse(const char *text, size_t len, const char *where, json_t **out, struct err *e);
/* What this thread's parses from now on may take of memory together, SIZE_MAX: no limit, as at
 * first. A parse that would take more fails with E_LIMIT, and so do those behind it. All that
 * jansson asks for counts, given back or not: for `{},{},...` 100 bytes a byte of text. */
void json_allow(size_t bytes);
/* The same of a text that we printed: strings may have NUL. */
int json_parse_own(const char *text, size_t len, const char *where, json_t **out, struct err *e);
/* json_parse of a file of at most max bytes. */
int json_read_file(const char *path, uint64_t max, json_t **out, struct err *e);

/* Fields of an object. `where` names the object ("config.json: text_config"). A field that is
 * absent leaves *out at the value it has, and is an error only if `need`; null counts as
 * absent. */
int json_field_int(const json_t *obj, const char *where, const char *key, bool need, int64_t lo,
                   int64_t hi, int64_t *out, struct err *e);
int json_field_real(const json_t *obj, const char *where, const char *key, bool need, double lo,
                    double hi, double *out, struct err *e);
int json_field_bool(const json_t *obj, const char *where, const char *key, bool need, bool *out,
                    struct err *e);
/* Borrowed from obj. */
int json_field_str(const json_t *obj, const char *where, const char *key, bool need,
                   const char **out, struct err *e);
int json_field_obj(const json_t *obj, const char *where, const char *key, bool need, json_t **out,
                   struct err *e);
int json_field_arr(const json_t *obj, const char *where, const char *key, bool need, json_t **out,
                   struct err *e);

/* Appends the text of v to out, in the form that flags ask for (JSON_INDENT(2), JSON_COMPACT,
 * ...), reals in the fewest digits that read back as the same. */
int json_print(const json_t *v, size_t flags, struct buf *out, struct err *e);

/* "a string", "the integer 7", "null"...: what a message says was found. */
const char *json_describe(const json_t *v, char *room, size_t n);

#endif
