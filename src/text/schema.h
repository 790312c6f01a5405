/* JSON schemas and calls of tools, written as GBNF: for text/grammar.c. */
#ifndef TEXT_SCHEMA_H
#define TEXT_SCHEMA_H

#include "base/buf.h"
#include "text/grammar.h"

/* Rules with answer. for what a spec asks for; of a spec with a GBNF text they use its root. */
int schema_write(const struct grammar_spec *s, struct buf *out, struct err *e);
/* Rules PREFIX0, PREFIX1...: any text up to and with the first `end`, of ASCII, whose first
 * character is nowhere else in it. */
void schema_until(struct buf *out, const char *prefix, const char *end);

#endif
