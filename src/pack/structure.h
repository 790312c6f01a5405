/* Whether a store holds the tensors that its config.json asks for, in shapes that fit.
 * store_open has checked what it needs to be safe; this names everything that an engine would
 * miss. */
#ifndef PACK_STRUCTURE_H
#define PACK_STRUCTURE_H

#include "store/store.h"

enum structure_problem { STRUCTURE_MISSING, STRUCTURE_WRONG, STRUCTURE_UNUSED, STRUCTURE_PROBLEMS };

/* Calls tell for each problem: the name of a tensor that is missing or unused, or a sentence
 * about one that is wrong. E_NOMEM. */
int structure_check(const struct store *s,
                    void (*tell)(void *ctx, enum structure_problem kind, const char *text),
                    void *ctx, struct err *e);

#endif
