/* Memory that is freed all at once: many small pieces with one lifetime (a parsed template, one
 * rendering). Not for threads to share. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct arena_chunk;

struct arena {
    struct arena_chunk *chunks; /* the newest first */
    size_t room;                /* bytes left in the newest */
    size_t used;                /* bytes handed out */
    size_t limit;               /* of used; 0 means none */
    bool full;                  /* a request would have passed the limit */
};

#define ARENA_INIT ((struct arena){0})

/* n * bytes, aligned for any type, uninitialised, valid until arena_free. NULL when memory is short
 * or the limit would be passed (then `full` is set). */
void *arena_alloc(struct arena *a, size_t n, size_t bytes);
/* A copy of n bytes with a NUL behind them, or NULL as above. */
char *arena_copy(struct arena *a, const void *p, size_t n);
void arena_free(struct arena *a); /* everything; the arena is empty and usable again */

#endif
