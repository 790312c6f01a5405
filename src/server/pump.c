/* The thread that carries answers from tickets to clients: see reply.h. It waits for nobody: a
 * ticket that has nothing is left, and a client that does not read is lost.
 *
 * It goes in rounds: one takes all that woke, and begins ROUND_NS behind the beginning of the last,
 * or sooner if something is to be carried at once: an answer's first token, its end. A token that
 * comes after a rest is carried when it comes; of a model that is faster than that, several go with
 * one waking of this thread, the connection's and the client. */
#include "server/reply_inside.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"

enum { ROUND_NS = 16000000 };

struct pump {
    pthread_mutex_t lock; /* guards all below, and live, listed and next of replies */
    pthread_cond_t more;
    struct reply *first, *last; /* that woke */
    bool at_once;               /* the next round does not wait */
    uint64_t round_ns;          /* when the next begins otherwise */
    int n_replies;
    bool stop;
    struct thread thread;
};

static void run(void *ctx);
static void release(struct pump *p);

int pump_open(struct pump **out, struct err *e)
{
    struct pump *p = mem_zalloc(1, sizeof *p);
    *out = NULL;
    if (!p)
        return ERR(e, E_NOMEM, "no memory for the server");
    pthread_mutex_init(&p->lock, NULL);
    thread_cond_init(&p->more);
    if (thread_start(&p->thread, run, p, e)) {
        release(p);
        return -e->code;
    }
    *out = p;
    return 0;
}

/* Without its thread. */
static void release(struct pump *p)
{
    pthread_cond_destroy(&p->more);
    pthread_mutex_destroy(&p->lock);
    mem_free(p);
}

void pump_close(struct pump *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_signal(&p->more);
    pthread_mutex_unlock(&p->lock);
    thread_join(&p->thread);
    release(p);
}

int pump_replies(struct pump *p)
{
    pthread_mutex_lock(&p->lock);
    const int n = p->n_replies;
    pthread_mutex_unlock(&p->lock);
    return n;
}

/* With the lock held. Whoever lists it signals without: the thread that wakes asks for the lock. */
static void list(struct pump *p, struct reply *r)
{
    r->listed = true;
    r->next = NULL;
    if (p->last)
        p->last->next = r;
    else
        p->first = r;
    p->last = r;
}

void pump_begin(struct pump *p, struct reply *r)
{
    pthread_mutex_lock(&p->lock);
    p->n_replies++;
    r->live = true;
    list(p, r); /* it may have woken before */
    pthread_mutex_unlock(&p->lock);
    pthread_cond_signal(&p->more);
}

void pump_wake(struct pump *p, struct reply *r, bool at_once)
{
    pthread_mutex_lock(&p->lock);
    const bool first = r->live && !p->first; /* otherwise the pump knows when to look */
    if (r->live && !r->listed)
        list(p, r);
    p->at_once |= r->live && at_once;
    pthread_mutex_unlock(&p->lock);
    if (first || at_once)
        pthread_cond_signal(&p->more);
}

/* Nobody wakes it any more. With the lock held. */
static void unlist(struct pump *p, struct reply *r)
{
    struct reply *before = NULL;
    for (struct reply *x = p->first; x && x != r; x = x->next)
        before = x;
    if (before)
        before->next = r->next;
    else
        p->first = r->next;
    if (p->last == r)
        p->last = before;
    r->listed = false;
}

void pump_end(struct pump *p, struct reply *r)
{
    pthread_mutex_lock(&p->lock);
    r->live = false;
    if (r->listed)
        unlist(p, r);
    p->n_replies--;
    pthread_mutex_unlock(&p->lock);
}

/* Until something is listed and the next round may begin. With the lock held. */
static void rest(struct pump *p)
{
    while (!p->first && !p->stop)
        pthread_cond_wait(&p->more, &p->lock);
    while (!p->at_once && !p->stop && clock_ns() < p->round_ns)
        thread_wait_until(&p->more, &p->lock, p->round_ns);
    p->at_once = false;
    p->round_ns = clock_ns() + ROUND_NS;
}

/* The next that woke; NULL at the end. */
static struct reply *next(struct pump *p)
{
    pthread_mutex_lock(&p->lock);
    while (!p->first && !p->stop)
        rest(p);
    struct reply *r = p->first;
    if (r)
        unlist(p, r);
    pthread_mutex_unlock(&p->lock);
    return r;
}

static void run(void *ctx)
{
    struct pump *p = ctx;
    for (struct reply *r = next(p); r; r = next(p))
        reply_advance(r);
}
