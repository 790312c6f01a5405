/* The tools a request declares: their names, and of each parameter which JSON types its schema
 * allows. That is what reading the model's calls needs (text/toolcall.h); a grammar for them reads
 * the schemas whole (text/grammar.h). */
#ifndef TEXT_TOOLSET_H
#define TEXT_TOOLSET_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { TOOL_NAME_MAX = 128 }; /* bytes, of [A-Za-z0-9_-] */

enum tool_type {
    TOOL_STRING = 1,
    TOOL_INTEGER = 2,
    TOOL_NUMBER = 4,
    TOOL_BOOLEAN = 8,
    TOOL_NULL = 16,
    TOOL_OBJECT = 32,
    TOOL_ARRAY = 64,
};

struct toolset {
    json_t *tools; /* object: name -> parameters schema, {} or null when two tools differ; owned */
};

/* tools: array of {"type": "function", "function": {"name", "description"?, "parameters"?,
 * "strict"?}} or NULL. E_FORMAT names the field that is wrong: a type that is not function, a name
 * missing, longer than TOOL_NAME_MAX or with other characters, parameters that are no object
 * schema. Two tools of one name that differ lose their types. The schemas are borrowed by
 * reference count. */
int toolset_init(struct toolset *t, const json_t *tools, struct err *e);
void toolset_free(struct toolset *t);

bool toolset_has(const struct toolset *t, const char *name);
/* The schema of a tool's parameters, borrowed; NULL: not declared, or not known. */
const json_t *toolset_parameters(const struct toolset *t, const char *name);
/* The types that a parameter may have, as a set of enum tool_type; 0: nothing is said. */
unsigned toolset_types(const struct toolset *t, const char *name, const char *parameter);
/* Whether the tool declares such a parameter. */
bool toolset_takes(const struct toolset *t, const char *name, const char *parameter);

#endif
