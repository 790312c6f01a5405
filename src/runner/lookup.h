/* Prompt lookup: what followed the last tokens where they stood before. Texts that repeat (code
 * being edited, a quoted document) are guessed this way at no cost to speak of.
 *
 * An index of every run of LOOKUP_KEY tokens, made as tokens come: a push and a guess take a
 * bounded number of steps. */
#ifndef RUNNER_LOOKUP_H
#define RUNNER_LOOKUP_H

#include <stdint.h>

#include "base/err.h"

/* A guess wants KEY equal tokens. Of the TRIES latest places the one with most of them counts, up
 * to LENGTH_MAX; the latest of equals. */
enum { LOOKUP_KEY = 3, LOOKUP_TRIES = 16, LOOKUP_LENGTH_MAX = 32 };

struct lookup {
    int32_t *tokens; /* [cap], n so far */
    int32_t *before; /* [cap]: the place before with the same hash of its last KEY tokens, or -1 */
    int32_t *latest; /* [1 << bits]: the latest place of a hash, or -1 */
    int n, cap, bits;
};

int lookup_init(struct lookup *l, int cap, struct err *e); /* cap: tokens it will hold */
void lookup_free(struct lookup *l);
void lookup_push(struct lookup *l, int32_t token); /* at most cap of them */
/* What may come next: out [most]; returns how many, 0 or most. A match that reaches the end is
 * taken to repeat. */
int lookup_guess(const struct lookup *l, int most, int32_t *out);

#endif
