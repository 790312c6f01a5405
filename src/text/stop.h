/* Stop strings over streamed text: finds the first of them to be complete, across pieces, and holds
 * back only what may still become one. Of several that end at the same byte the longest counts. So
 * the outcome does not depend on how the text was cut into pieces. */
#ifndef TEXT_STOP_H
#define TEXT_STOP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct stop_string;
struct stop {
    struct stop_string *strings; /* owned */
    size_t n;
    struct buf held; /* text not yet released: the longest prefix of a stop string it ends with */
    bool hit;
    size_t which; /* once hit: the number of the string, from 0 */
};

/* Strings that are empty or not UTF-8 are E_ARG. n 0 is fine. */
int stop_init(struct stop *s, const char *const *strings, size_t n, struct err *e);
void stop_free(struct stop *s);
/* Appends to out what is certain not to be part of a stop string. Returns true once a stop string
 * was seen: the text before it has been released, it and what follows are dropped. Whole characters
 * in give whole characters out. Allocates nothing but room in out; a step takes time in proportion
 * to len times the number of strings. */
bool stop_push(struct stop *s, const char *text, size_t len, struct buf *out);
void stop_finish(struct stop *s, struct buf *out); /* releases what was held back */
void stop_reset(struct stop *s);

#endif
