/* Lines from a person or a pipe: edited and remembered at a terminal, read as they are
 * otherwise. */
#ifndef CLI_LINE_H
#define CLI_LINE_H

#include "base/buf.h"
#include "base/err.h"

enum line_event { LINE_READ, LINE_CANCELLED, LINE_END };

struct line;

/* history: a file to read and write, or NULL. A missing or unreadable one is no error. */
int line_open(const char *history, struct line **out, struct err *e);
/* Writes the history, readable by its owner alone. */
void line_close(struct line *l);
/* *out: the line without its end, whenever *event is LINE_READ. LINE_CANCELLED: Ctrl-C at a
 * terminal. LINE_END: Ctrl-D on an empty line, or the end of input. */
int line_read(struct line *l, struct buf *out, enum line_event *event, struct err *e);

#endif
