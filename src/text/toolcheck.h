/* Whether a tool's calls can be written at all: what its schema names must come back as it was when
 * it stands in the form of text/toolcall.h, whose tags it may hold. */
#ifndef TEXT_TOOLCHECK_H
#define TEXT_TOOLCHECK_H

#include <jansson.h>

#include "base/err.h"

/* parameters: a tool's schema, an object. E_UNSUPPORTED names the parameter whose name, or whose
 * value of enum or const, cannot be written. */
int toolcheck(const json_t *parameters, struct err *e);

#endif
