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
    uint64_t kinds;         /* of the characters that begin here or below: bits of lexicon_kind */
    int32_t end;            /* the first node behind those below this one */
    int32_t first, n_ids;   /* tokens that end here: ids[first ...]; behind them those below */
    uint16_t depth, height; /* height: of the longest way down, 0 without any */
    uint8_t byte;
};

enum {
    LEXICON_KINDS = 42,
    LEXICON_TORN = 4, /* what is no character of UTF-8, nor the beginning of one */
    LEXICON_TWO = 5,  /* characters of two bytes, three, four */
    LEXICON_THREE = 6,
    LEXICON_FOUR = 7,
};
/* Characters that rules mostly take alike are of one kind, by their first byte: small letters (0),
 * large ones, digits, ...; each other printable one of ASCII is a kind of its own. */
int lexicon_kind(uint8_t byte);

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
/* Where in ids those end that are at a node or below it. */
int32_t lexicon_ids_end(const struct lexicon *x, int32_t node);

#endif
