/* What an answer may say next: the hook between whoever knows a rule (a grammar, a schema, a budget
 * of thinking) and the runner, which draws tokens.
 *
 *      mask --a token is drawn--> accept(token) --> mask --> accept(token) --> ...
 *
 * Tokens are accepted once each, in the order of the text, whether a draft guessed them or not: a
 * draft counts only where the token drawn under the mask equals it. So nothing is ever taken back.
 * (Of an answer that ends early, a few accepted tokens may never be given to anyone.) Calls come
 * from the thread that steps the model, one at a time. */
#ifndef TEXT_CONSTRAINT_H
#define TEXT_CONSTRAINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct constraint {
    void *ctx;
    /* What may come next: false, anything, and bits is not looked at; true, the tokens whose bits
     * are set: token i is bit i % 32 of bits[i / 32], bits [(n_tokens + 31) / 32], zeroed before
     * the call. A rule that is fulfilled sets the bits of the ids that end an answer. No bit at
     * all fails the answer. */
    bool (*mask)(void *ctx, uint32_t *bits, int n_tokens);
    /* This token was drawn. A failure ends the answer with it. */
    int (*accept)(void *ctx, int32_t token, struct err *e);
};

#endif
