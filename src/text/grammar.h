/* What an answer may say, as rules that an automaton follows: made of a GBNF text, a JSON schema,
 * or declared tools. Immutable afterwards.
 *
 * Schemas: a subset, all of which is kept to. Known: type (one or several), enum, const, $ref into
 * the same schema (recursion too), $defs, definitions, anyOf, allOf, oneOf of parts that have no
 * value in common; properties, required, additionalProperties, propertyNames of strings; items,
 * minItems, maxItems; minLength, maxLength; minimum, maximum, whole ones for numbers. title,
 * description, default, examples, $schema, $id, $comment, deprecated, readOnly, writeOnly, strict
 * say nothing. Any other keyword is E_UNSUPPORTED with its name and place, and so are two that hold
 * together and cannot be joined. Properties come in the order in which they are declared; numbers
 * have no useless 0 in front, whole ones neither . nor e; bounded ones have no e. Between tokens of
 * JSON may stand one space, or a line end and up to 40 spaces.
 *
 * Some is read more narrowly than it is meant, so that every answer is valid: an object that
 * declares properties gets no others, whatever additionalProperties says, and keywords of a type
 * (minLength) without `type` ask for that type.
 */
#ifndef TEXT_GRAMMAR_H
#define TEXT_GRAMMAR_H

#include <jansson.h>

#include "text/automaton.h"
#include "text/toolset.h"

struct grammar {
    struct rules rules;
};

/* Behind a prompt with an open <think>, the thinking, </think> and two newlines at most come
 * first. */
enum grammar_start { GRAMMAR_ANSWER, GRAMMAR_THINKING };

int grammar_of_gbnf(const char *text, size_t len, enum grammar_start start, struct grammar **out,
                    struct err *e);
/* Any JSON object. */
int grammar_of_object(enum grammar_start start, struct grammar **out, struct err *e);
int grammar_of_schema(const json_t *schema, enum grammar_start start, struct grammar **out,
                      struct err *e);
/* One call in the model's form (text/toolcall.h), or several: of the tool `only`, or NULL: of any.
 * Values of a schema that is not known here are any JSON. */
int grammar_of_tools(const struct toolset *t, const char *only, bool several,
                     enum grammar_start start, struct grammar **out, struct err *e);
void grammar_free(struct grammar *g);

#endif
