/* One engine step for several answers: their rows share the reading of weights. So do the rests of
 * prompts, as far as they fit and the engine likes it; other prompts are fed one after another.
 *
 *   rows of a step:  answer 0: its last token, drafts | answer 1: its last token | ...
 *                    ... | the rest of a prompt | ...
 *
 * What an answer says does not depend on who shares its steps. If a step fails, each answer is
 * stepped alone and without drafts, so that a bad answer, or a bad draft, ends no others. */
#ifndef RUNNER_BATCH_H
#define RUNNER_BATCH_H

#include "runner/model.h"

enum { BATCH_MAX = ENGINE_ROWS_MAX / (1 + ENGINE_DRAFTS_MAX) }; /* answers in a step */

struct batch;
struct generation;

/* Room for steps of so many answers (1..BATCH_MAX) with so many drafts each. m is borrowed. */
int batch_open(struct model *m, int answers, int drafts, struct batch **out, struct err *e);
void batch_close(struct batch *b);
/* One chunk of the prompt of g, at most `most` tokens (1 or more); behind the last one the first
 * token is made. For callers that share out time: batch_run feeds a prompt whole. Nothing happens
 * where no prompt is left, or g is over. */
void batch_feed(struct batch *b, struct generation *g, int most);
/* shares[i]: batch_run would feed the prompt of g[i], of these [n], in the step of the others. It
 * would do the same without those that have a prompt and do not share. */
void batch_shares(const struct batch *b, struct generation *const *g, int n, bool *shares);
/* Makes at least one token for each of g [n] that has none to give and is not finished. n at most
 * what the batch was opened for. Failures are kept by the answers: generation_next returns them. */
void batch_run(struct batch *b, struct generation *const *g, int n);

#endif
