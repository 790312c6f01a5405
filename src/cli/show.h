/* Bytes as a line of a terminal can show them. */
#ifndef CLI_SHOW_H
#define CLI_SHOW_H

#include "base/buf.h"

/* Appends text with controls, backslashes and bytes that are no character as escapes. */
void show_text(struct buf *out, const char *s, size_t n);

#endif
