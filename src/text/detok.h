/* Ids to text as they come: whole UTF-8 characters only, the tail of an unfinished one is held
 * back. What is released in pieces equals tokenizer_decode of the whole. */
#ifndef TEXT_DETOK_H
#define TEXT_DETOK_H

#include "text/tokenizer.h"

struct detok {
    const struct tokenizer *tokenizer; /* borrowed */
    bool skip_special;
    char held[4];
    size_t n_held;
};

void detok_init(struct detok *d, const struct tokenizer *t, bool skip_special);
void detok_push(struct detok *d, int32_t id, struct buf *out); /* appends what is complete */
void detok_finish(struct detok *d, struct buf *out);           /* the rest, as U+FFFD */

#endif
