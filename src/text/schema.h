/* JSON schemas and calls of tools, written as GBNF: for text/grammar.c. */
#ifndef TEXT_SCHEMA_H
#define TEXT_SCHEMA_H

#include <jansson.h>

#include "base/buf.h"
#include "text/toolset.h"

/* Rules with `root` for a value of the schema. What is known of schemas: text/grammar.h. */
int schema_write(const json_t *schema, struct buf *out, struct err *e);
/* Rules with `root` for calls in the model's form. */
int schema_write_tools(const struct toolset *t, const char *only, bool several, struct buf *out,
                       struct err *e);
/* Rules PREFIX0, PREFIX1...: any text up to and with the first `end`, of ASCII, whose first
 * character is nowhere else in it. */
void schema_until(struct buf *out, const char *prefix, const char *end);

#endif
