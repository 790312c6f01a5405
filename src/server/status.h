/* What the server tells about itself and its requests. */
#ifndef SERVER_STATUS_H
#define SERVER_STATUS_H

#include "server/api.h"

/* "loading", "ok" or "draining". */
const char *status_word(struct server *s);
void status_health(struct server *s, struct exchange *x);
void status_metrics(struct server *s, struct exchange *x); /* for Prometheus */
void status_requests(struct server *s, struct exchange *x);
void status_cancel(struct server *s, struct exchange *x);

#endif
