/* What a model writes, cut into thinking, text and calls of tools as it comes. */
#ifndef SERVER_PARTS_H
#define SERVER_PARTS_H

#include "text/reasoning.h"
#include "text/toolcall.h"

struct parts_events {
    void *ctx;
    void (*thinking)(void *ctx, const char *text, size_t len);
    void (*call)(void *ctx, const struct toolcall_event *event); /* text too */
};

struct parts {
    struct parts_events on;
    bool raw; /* all of it is text */
    struct reasoning reasoning;
    struct toolcall *calls;
    struct buf thinking, answer; /* scratch */
};

/* tools: borrowed, or NULL. opened: the prompt ends in an open <think>. */
int parts_init(struct parts *p, const struct parts_events *on, const struct toolset *tools,
               bool opened, struct err *e);
void parts_init_raw(struct parts *p, const struct parts_events *on);
void parts_free(struct parts *p); /* zeros are fine */
int parts_push(struct parts *p, const char *text, size_t len, struct err *e);
/* Before parts_finish: the answer was cut, not ended by the model, so that a piece of a tag at its
 * end is no text. only: it was to be calls alone. */
void parts_cut(struct parts *p, bool only);
int parts_finish(struct parts *p, struct err *e);
bool parts_thinking(const struct parts *p); /* the answer has not begun */

#endif
