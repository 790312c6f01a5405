/* The threads of a step: a stage is one call, split into items that any member may take.
 *
 * Members spin for a while after a stage, because the next one follows within microseconds, then
 * sleep until there is one. What an item computes must depend on nothing but its number: who takes
 * it, and when, is chance. */
#ifndef BASE_TEAM_H
#define BASE_TEAM_H

#include "base/err.h"

struct team;

/* member: 0 .. size - 1; no two items run at once with the same one. */
typedef void team_fn(void *ctx, int item, int member);

/* size members, the caller among them. E_NOMEM, E_IO: a thread could not be started. */
int team_open(int size, struct team **out, struct err *e);
void team_close(struct team *t);
int team_size(const struct team *t);
/* fn for items 0 .. n-1; returns when all are done. The caller takes part, and is the only thread
 * that may call this. */
void team_run(struct team *t, int n, team_fn *fn, void *ctx);

#endif
