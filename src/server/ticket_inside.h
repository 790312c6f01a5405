/* What a ticket is to the scheduler: see ticket.h.
 *
 * The worker holds it from submit until it put the end event; whoever submitted it frees it, after
 * that, with ticket_close. */
#ifndef SERVER_TICKET_INSIDE_H
#define SERVER_TICKET_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/ticket.h"

struct schedule;
struct event_node;

struct ticket {
    /* Fixed when it was made. */
    struct schedule *schedule; /* borrowed; not looked at once it is over */
    struct request r;          /* its pointers are into what follows */
    char name[TICKET_NAME_MAX + 1], answer[TICKET_NAME_MAX + 1];
    struct tokens prompt;
    struct buf text;
    int *borders;
    char **stop;
    struct sample_bias *bias;
    uint64_t submitted_ns;
    int backlog;

    atomic_bool cancel;
    atomic_int n_fed, n_generated, n_cached; /* how far it is: the worker writes */

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    struct event_node *first, *last; /* not taken */
    struct event_node *taken;        /* lent by the latest ticket_take */
    struct event_node *end;          /* for the end event, which must not fail; NULL once put */
    int n_events;
    bool begun; /* an event was put */
    bool over;  /* the end event was put: the worker has let go */
    struct ending ending;
};

/* A copy of r; E_ARG, E_LIMIT: r cannot be right for this model. */
int ticket_open(struct model *m, const struct request *r, int backlog, struct ticket **out,
                struct err *e);
void ticket_free(struct ticket *t); /* of one that no worker has seen */

/* The worker puts a token event; text [len]. E_LIMIT: the reader is too slow; E_NOMEM. */
int ticket_put(struct ticket *t, const struct given *given, const char *text, size_t len,
               struct err *e);
/* The worker puts the end event and lets go: t is not to be used any more. */
void ticket_end(struct ticket *t, const struct ending *ending);

#endif
