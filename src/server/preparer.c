/* Threads for large requests: see preparer.h. */
#include "server/preparer.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/thread.h"

enum { THREADS = 2, PLACES = 16 };

struct job {
    struct exchange *x; /* kept */
    void (*answer)(struct server *s, struct exchange *x);
};

struct preparer {
    struct server *server;
    pthread_mutex_t lock; /* guards all below but the threads */
    pthread_cond_t more;
    struct job jobs[PLACES]; /* a ring */
    int first, n;
    bool stop;
    struct thread threads[THREADS];
    int n_threads;
};

static void run(void *ctx);

int preparer_open(struct server *s, struct preparer **out, struct err *e)
{
    struct preparer *p = mem_zalloc(1, sizeof *p);
    *out = NULL;
    if (!p)
        return ERR(e, E_NOMEM, "no memory for the server");
    p->server = s;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->more, NULL);
    while (p->n_threads < THREADS) {
        if (thread_start(&p->threads[p->n_threads], run, p, e)) {
            preparer_close(p);
            return -e->code;
        }
        p->n_threads++;
    }
    *out = p;
    return 0;
}

void preparer_close(struct preparer *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->more);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->n_threads; i++)
        thread_join(&p->threads[i]);
    for (int i = 0; i < p->n; i++)
        exchange_release(p->jobs[(p->first + i) % PLACES].x);
    pthread_cond_destroy(&p->more);
    pthread_mutex_destroy(&p->lock);
    mem_free(p);
}

bool preparer_give(struct preparer *p, struct exchange *x,
                   void (*answer)(struct server *s, struct exchange *x))
{
    pthread_mutex_lock(&p->lock);
    const bool room = p->n < PLACES;
    if (room) {
        exchange_keep(x);
        p->jobs[(p->first + p->n++) % PLACES] = (struct job){x, answer};
        pthread_cond_signal(&p->more);
    }
    pthread_mutex_unlock(&p->lock);
    return room;
}

/* The next one; false at the end. */
static bool next(struct preparer *p, struct job *out)
{
    pthread_mutex_lock(&p->lock);
    while (!p->n && !p->stop)
        pthread_cond_wait(&p->more, &p->lock);
    const bool go = !p->stop;
    if (go) {
        *out = p->jobs[p->first];
        p->first = (p->first + 1) % PLACES;
        p->n--;
    }
    pthread_mutex_unlock(&p->lock);
    return go;
}

static void run(void *ctx)
{
    struct preparer *p = ctx;
    struct job job;
    while (next(p, &job)) {
        (void)json_starved(); /* what was of another request */
        if (!exchange_is_gone(job.x))
            job.answer(p->server, job.x);
        exchange_release(job.x);
    }
}
