/* Added tokens: cut out of the text before anything else looks at it. At each place the longest one
 * counts, and the search goes on behind it. Those that are `normalized` are sought only in what the
 * others left, after normalisation, by their own normal form; so there are two sets of them.
 *
 * `lstrip` and `rstrip` take the White_Space next to the token along. `single_word` is refused. */
#ifndef TEXT_ADDED_H
#define TEXT_ADDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct added_node;
struct added {
    struct added_node *nodes; /* a trie by bytes, node 0 its root; NULL while empty */
    size_t n, cap;
    uint32_t first[256]; /* children of the root by byte, 0 none */
};

struct added_token {
    int32_t id;
    bool lstrip, rstrip;
};

void added_free(struct added *a); /* {0} is an empty one */
int added_put(struct added *a, const char *content, size_t n, struct added_token token,
              struct err *e);

/* A token found: [from, to) is what it takes of the text. */
struct added_hit {
    size_t from, to;
    int32_t id;
};
/* The first token in s from byte `at` on (a place between characters). Returns false if there is
 * none. Repeated from hit.to it takes time linear in the text. */
bool added_find(const struct added *a, const char *s, size_t n, size_t at, struct added_hit *hit);

#endif
