/* Merges: turns the bytes of one piece into ids by joining neighbouring pairs, the pair of lowest
 * rank first and, of equal ones, the leftmost. A piece of n bytes takes n log n steps.
 *
 * The table is filled once and then immutable; what changes while merging is in struct bpe_work. */
#ifndef TEXT_BPE_H
#define TEXT_BPE_H

#include "text/tokenizer.h"

struct bpe_pair;
struct bpe {
    struct bpe_pair
        *pairs; /* open addressing, mask + 1 places, at most half of them used; NULL while empty */
    size_t mask;
    uint32_t n; /* merges added: the rank of the next */
    int32_t byte_id[256];
};

struct bpe_node;
struct bpe_work {
    struct bpe_node *nodes;
    uint64_t *heap;
    size_t n_heap, nodes_cap, heap_cap;
};

void bpe_init(struct bpe *b);
void bpe_free(struct bpe *b);
int bpe_reserve(struct bpe *b, size_t n, struct err *e); /* room for n merges in all; saves time */
/* The next merge: left and right become merged. E_FORMAT, with no place in the message, if this
 * pair is there already. */
int bpe_add(struct bpe *b, int32_t left, int32_t right, int32_t merged, struct err *e);

void bpe_work_free(struct bpe_work *w); /* {0} is a fresh one */
/* Appends the ids of a piece. n: 1 .. 2^31 - 1. */
int bpe_encode(const struct bpe *b, struct bpe_work *w, const char *s, size_t n, struct tokens *out,
               struct err *e);

#endif
