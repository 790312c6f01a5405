/* What text/schema.c needs of schemas besides writing them: references, conjunction, and whether a
 * value is one of a schema's. */
#ifndef TEXT_SCHEMA_PARTS_H
#define TEXT_SCHEMA_PARTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define SCHEMA_REF "a part of this schema, as #/$defs/NAME" /* what a $ref must be */

/* What "#/a/b" names in root, borrowed, or NULL: a JSON pointer (~1 is /, ~0 is ~, numbers are
 * places of arrays) as a fragment (%20 is a blank) of up to 500 bytes. */
const json_t *schema_follow(const json_t *root, const char *ref);
/* A schema of the values that both a and b have, whose parts it shares; false when that is seen to
 * be none. For json_decref; NULL: e says why, with `where`. */
json_t *schema_both(const json_t *root, const char *where, const json_t *a, const json_t *b,
                    struct err *e);
/* Whether v is a value of the schema, by the keywords that text/grammar.h lists. */
bool schema_fits(const json_t *root, const json_t *schema, const json_t *v);
/* Whether no value can be one of both a and b, as far as is easily seen: their types differ, one
 * has certain values (const, enum) and none of them is the other's, or a property that both require
 * has other words in each. */
bool schema_disjoint(const json_t *root, const json_t *a, const json_t *b);

/* GBNF for the numbers from lo to hi (at most 18 digits each), with fractions unless whole. */
void schema_range(struct buf *out, int64_t lo, int64_t hi, bool whole);

#endif
