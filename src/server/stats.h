/* The figures of a running server as JSON, for programs that show them: see docs/api.md. */
#ifndef SERVER_STATS_H
#define SERVER_STATS_H

#include "server/api.h"

void stats_all(struct server *s, struct exchange *x);
void stats_experts(struct server *s, struct exchange *x); /* of the layer that the path names */

#endif
