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

/* What may be said: one of the first four, or nothing of them; or calls; or either. */
struct grammar_spec {
    enum grammar_start start;
    const char *gbnf; /* a text of gbnf_len bytes */
    size_t gbnf_len;
    bool object; /* any JSON object */
    const json_t *schema;
    bool lenient; /* of the schema, what cannot be kept to is passed over, not refused */
    /* Calls in the model's form (text/toolcall.h), at the end of any text, or in the place of what
     * is said above; NULL: none. */
    const struct toolset *tools;
    const json_t *strict; /* {"NAME": true}: tools to whose schemas all arguments keep, or that is
                             E_UNSUPPORTED; others are kept to as far as they are known */
    const char *only;     /* calls of this tool, or NULL: of any */
    bool several;         /* one call after another */
    bool must_call;       /* calls, and nothing else */
};

/* Nothing of the spec is kept. */
int grammar_open(const struct grammar_spec *s, struct grammar **out, struct err *e);
void grammar_close(struct grammar *g);

#endif
