/* The bytes of all tokens as a tree, made once for a vocabulary: tokens that begin alike share the
 * beginning, so that a grammar (text/mask.h) looks at it once. Special tokens are left out. Nodes
 * are in the order of a walk: behind a node come those below it, up to `end`.
 *
 *      node  byte  depth  end
 *        0    a      0     3      the token "a", and below it
 *        1    b      1     2      "ab"
 *        2    c      1     3      "ac"
 *        3    b      0     4      "b"
 */
#ifndef TEXT_LEXICON_H
#define TEXT_LEXICON_H

#include "text/tokenizer.h"

struct lexicon_node {
    int32_t end;          /* the first node behind those below this one */
    int32_t first, n_ids; /* tokens that end here: ids[first ...] */
    uint16_t depth;
    uint8_t byte;
};

struct lexicon {
    const struct tokenizer *tokenizer; /* borrowed */
    struct lexicon_node *nodes;
    int32_t n_nodes, cap;
    int32_t *ids; /* of tokens, sorted by their bytes */
    int32_t n_ids, n_tokens;
    int depth_max;
};

/* Immutable afterwards; any number of threads may use it. */
int lexicon_open(const struct tokenizer *t, struct lexicon **out, struct err *e);
void lexicon_close(struct lexicon *x);

#endif
