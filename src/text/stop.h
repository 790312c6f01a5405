/* Stop strings over streamed text: finds the first occurrence of any of them, across pieces, and
 * holds back only what may still become one. */
#ifndef TEXT_STOP_H
#define TEXT_STOP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct stop {
    char **strings; /* owned copies */
    size_t n;
    struct buf held; /* text not yet released: a prefix of some stop string */
    bool hit;
};

/* Empty strings are E_ARG. */
int stop_init(struct stop *s, const char *const *strings, size_t n, struct err *e);
void stop_free(struct stop *s);
/* Appends to out what is certain not to be part of a stop string. Returns true once a stop string
 * was seen: the text before it has been released, it and what follows are dropped. */
bool stop_push(struct stop *s, const char *text, size_t len, struct buf *out);
void stop_finish(struct stop *s, struct buf *out); /* releases what was held back */
void stop_reset(struct stop *s);

#endif
