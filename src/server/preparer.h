/* The threads that read large requests: to parse, render and encode megabytes takes seconds, in
 * which an HTTP thread would serve nobody. Small requests need no other thread.
 *
 * A request waits in a bounded queue, its connection asleep; one whose client left meanwhile is not
 * read. */
#ifndef SERVER_PREPARER_H
#define SERVER_PREPARER_H

#include "server/http.h"

struct server;
struct preparer;

enum { PREPARER_BODY_MIN = 64 << 10 }; /* bytes from which a body is large */

/* s is borrowed. */
int preparer_open(struct server *s, struct preparer **out, struct err *e);
/* Calls answer(s, x) on one of the threads, and keeps x until it returned; from any thread. false:
 * too many wait already, and nothing was done. */
bool preparer_give(struct preparer *p, struct exchange *x,
                   void (*answer)(struct server *s, struct exchange *x));
/* Waits for what is being read and drops what waits, so all exchanges must be gone. NULL is
 * fine. */
void preparer_close(struct preparer *p);

#endif
