/* The hashed n-gram table's constants and row ids. The n-gram of size 2, 3, .. that ends at a
 * position has heads_per_ngram rows, one in the range of each of its heads:
 *
 *   hash = token[pos] * mult[0] ^ token[pos-1] * mult[1] ^ ..     size terms
 *   row  = offset[head] + hash % size[head]
 *
 * Of the tokens before it an end-of-text one and all in front of that count as end of text, and so
 * does what would lie in front of the start. */
#ifndef STORE_NGRAM_H
#define STORE_NGRAM_H

#include <stdint.h>

#include "store/config.h"

struct ngram_module {
    int layer;                               /* 0-based */
    int n_heads;                             /* (ngram_size - 1) * heads_per_ngram */
    int row_dim;                             /* ple_dim / n_heads */
    uint64_t rows;                           /* padded; rows in this module's table */
    uint64_t size[CONFIG_NGRAM_HEADS_MAX];   /* vocabulary of a head, a prime */
    uint64_t offset[CONFIG_NGRAM_HEADS_MAX]; /* first row of a head inside the table */
    uint64_t mult[CONFIG_NGRAM_SIZE_MAX];    /* odd multipliers */
};

/* Derives module m (index in ple_layer) from the config: what training used, unless somebody
 * changed a field of it. */
void ngram_derive(const struct config *c, int m, struct ngram_module *out);

/* E_FORMAT, "wrong n-gram constants", when stored constants are not those of the config. `where`
 * opens the message, which names the constant and both values. Layers are not compared. */
int ngram_compare(const struct ngram_module *stored, const struct ngram_module *derived,
                  const char *where, struct err *e);

/* row[0..n_heads): rows of the module's table for the token at position pos of tokens[0..pos];
 * bigram heads first. Reads at most ngram_size - 1 tokens back. Tokens must be below vocab. */
void ngram_rows(const struct ngram_module *g, const struct config *c, const int32_t *tokens,
                int pos, uint64_t *row);

#endif
