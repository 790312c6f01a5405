/* What reply.c, reply_start.c and pump.c share. */
#ifndef SERVER_REPLY_INSIDE_H
#define SERVER_REPLY_INSIDE_H

#include "server/server_inside.h"

/* pump.c */
void pump_begin(struct pump *p, struct reply *r); /* all is ready: the pump may touch it */
/* From any thread; never waits. at_once: not only at the pump's next round. */
void pump_wake(struct pump *p, struct reply *r, bool at_once);
void pump_end(struct pump *p, struct reply *r); /* nobody wakes it any more */

/* reply.c: takes what its tickets have. On the pump's thread. */
void reply_advance(struct reply *r);
void reply_free(struct reply *r);
/* Events of a choice's parts. */
extern const struct parts_events reply_events;

#endif
