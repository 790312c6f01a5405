/* Which tokens may come next under a grammar: a walk through the tree of tokens (text/lexicon.h)
 * along the states of an automaton. Where all characters below a node lead on alike, as inside a
 * string, the tokens there are taken at once. Masks of states are kept.
 *
 * With Qwen3's 151,669 tokens a mask took 0.09 to 0.28 ms in the mean of the first answer under a
 * grammar and 0.002 ms of the next ones; strings of bounded length, each of whose places is a state
 * of its own, up to 18 ms for one mask and 1.6 ms in that mean (bench_mask; Zen 5, 2 busy
 * processors). */
#ifndef TEXT_MASK_H
#define TEXT_MASK_H

#include "text/grammar.h"
#include "text/lexicon.h"

/* What is known so far of a grammar's places and states: shared by all answers under it, whose
 * masks may be asked by any threads at once. */
struct mask_table;
/* One answer under a grammar: how far its text has come. */
struct mask;

/* g and x are borrowed. */
int mask_table_open(const struct grammar *g, const struct lexicon *x, struct mask_table **out,
                    struct err *e);
void mask_table_close(struct mask_table *t);   /* no mask of it is open */
size_t mask_table_bytes(struct mask_table *t); /* of memory, about */

/* t is borrowed. One thread at a time. */
int mask_open(struct mask_table *t, struct mask **out, struct err *e);
void mask_close(struct mask *m);
/* Sets the bits of tokens that may follow: token i is bit i % 32 of bits[i / 32], i < n_tokens.
 * *done: the text may end here. E_LIMIT, E_NOMEM: the grammar is too ambiguous at this place. */
int mask_fill(struct mask *m, uint32_t *bits, int n_tokens, bool *done, struct err *e);
/* Goes on behind text. E_FORMAT if the grammar has no such text; then nothing has changed. */
int mask_feed(struct mask *m, const char *text, size_t len, struct err *e);
bool mask_done(const struct mask *m); /* the text may end here */

#endif
