/* An observer that remembers the last thing it was told of each kind and layer. */
#ifndef TESTS_AID_WITNESS_H
#define TESTS_AID_WITNESS_H

#include "base/buf.h"
#include "model/engine.h"

struct witness {
    struct observer observer; /* for engine_options.observe */
    int n_layers;
    struct buf *slots; /* [SEEN_COUNT][n_layers + 2]: layers -1 .. n_layers */
    int *pos;          /* the same: position of what is there, -1 when nothing is */
    long calls;        /* all of them */
    long told[SEEN_COUNT];
};

void witness_init(struct witness *w, int n_layers);
void witness_free(struct witness *w);
/* What was seen last of this kind at this position; n is how many values there must be, or 0 when
 * any number will do (then *n_out says how many). Fails the test if the last was at another
 * position. */
const float *witness_floats(const struct witness *w, enum seen what, int il, int pos, size_t n);
const long *witness_ints(const struct witness *w, enum seen what, int il, int pos, size_t *n_out);

#endif
