/* The text of a parameter that is not a string, as JSON: the typing that text/toolcall.h tells. */
#ifndef TEXT_TOOLVALUE_H
#define TEXT_TOOLVALUE_H

#include "base/buf.h"
#include "text/toolset.h"

/* Appends the JSON of text [len] to out, or nothing if it is empty. types: set of enum tool_type
 * without TOOL_STRING, or 0 for no schema. Returns true when the value is of one of them. */
bool toolvalue_json(unsigned types, const char *text, size_t len, struct buf *out);
/* Appends text as the inside of a JSON string. Bytes from 0x80 on stay as they are. */
void toolvalue_escape(const char *text, size_t len, struct buf *out);

#endif
