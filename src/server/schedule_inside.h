/* What schedule.c (the interface), worker.c (the loop), admit.c (who goes where) and recover.c (an
 * engine that was lost) share.
 *
 * The worker alone touches the model, slots, and what is below "the worker's own". The lock guards
 * the rest, and slot.t, which only the worker changes and others look at. No lock of a ticket is
 * held while the scheduler's is asked for. */
#ifndef SERVER_SCHEDULE_INSIDE_H
#define SERVER_SCHEDULE_INSIDE_H

#include <stdatomic.h>

#include "base/thread.h"
#include "server/prefix.h"
#include "server/schedule.h"
#include "server/ticket_inside.h"
#include "server/turns.h"

enum { CUTS_MAX = 4, RECENT_MAX = 16 };

/* A sequence and the request that has it.
 *
 *      free --slot_admit--> prefill --last chunk--> decode --slot_end--> free
 *
 * A free slot holds what its last request left there. */
struct slot {
    struct sequence *seq;
    struct tokens held; /* what seq holds, while the slot is free; room for ctx */
    struct ticket *t;   /* NULL: free */
    struct generation *g;
    bool decoding;
    int cuts[CUTS_MAX]; /* chunks of the prompt end here, and the state is kept; 0: none */
    uint64_t admitted_ns;
    bool kept;     /* what it holds was offered to prefix_keep */
    uint64_t used; /* the admission that used it last */
};

struct look {
    void (*fn)(void *ctx, struct model *m);
    void *ctx;
    bool done;
    struct look *next;
};

struct schedule {
    struct model *m;
    struct draft_options draft;
    int backlog, n_waiting_max;
    struct batch *batch;
    struct prefix *prefix;
    struct turns *turns; /* NULL without a tokenizer */
    struct thread worker;

    pthread_mutex_t lock;
    pthread_cond_t work;   /* the worker waits on it */
    pthread_cond_t rested; /* nothing is left to do, or a look is done */
    struct ticket **queue; /* [n_queued], room for n_waiting_max + n_slots */
    int n_queued, n_running;
    bool draining, stop;
    struct look *looks;
    struct schedule_stats sums;

    pthread_mutex_t engine_lock; /* while others read its counters, or it is opened again */

    atomic_uint_fast64_t fed_tokens, made_tokens; /* the worker adds, anyone reads */

    /* The worker's own. */
    struct slot slots[BATCH_MAX];
    int n_slots;
    uint64_t n_admitted;
    struct tokens recent[RECENT_MAX]; /* prompts admitted lately, a ring */
    int32_t im_start;                 /* the token that opens a message, or -1 */
    bool saves;                       /* states are worth a file */
    int tokens_min;                   /* shorter states are not kept */
    int turn;                         /* the slot whose prompt was fed last */
    double owed_s;                    /* time that answers have to decode before a chunk */
    double token_s;                   /* what a token of a chunk took lately; 0: unknown */
};

/* The sequences of all slots. */
int slots_open(struct schedule *s, struct err *e);
void slots_close(struct schedule *s);
/* Whether there is an engine that works. One that was lost is opened again first; when that fails,
 * whoever waits is told. */
bool recover(struct schedule *s);

void schedule_wake(struct schedule *s); /* the worker looks around */
void worker_main(void *schedule);

/* Gives queued tickets to free slots. */
void admit(struct schedule *s);
/* The request of a slot is over, by why or as its generation says. */
void slot_end(struct schedule *s, struct slot *x, const struct err *why);
/* A ticket that no slot has had is over. */
void ticket_drop(struct schedule *s, struct ticket *t, const struct err *why);

#endif
