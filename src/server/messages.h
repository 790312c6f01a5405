/* The messages of a chat as the model's template wants them, from the form in which OpenAI's
 * clients send them. The other APIs bring theirs into that form first. */
#ifndef SERVER_MESSAGES_H
#define SERVER_MESSAGES_H

#include "server/ask.h"

/* Sets a->messages: content as one string each, system and developer messages merged into one in
 * front, arguments of tool calls as objects. `name` is the field's, for messages. */
int messages_read(struct ask *a, const json_t *messages, const char *name, struct wrong *w);
/* Content, a string or an array of text parts, as one text behind out; `name` is the field's. */
int messages_text(const json_t *content, const char *name, struct buf *out, struct wrong *w);

#endif
