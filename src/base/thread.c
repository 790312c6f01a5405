/* Plain threads: see thread.h. */
#include "base/thread.h"

#include <errno.h>
#include <time.h>

#include "base/mem.h"

struct job {
    pthread_mutex_t lock; /* guards all below but fn and ctx */
    size_t next, n;
    size_t failed_i; /* the lowest i that failed, n while none has */
    struct err err;  /* its message */
    int (*fn)(void *ctx, int worker, size_t i, struct err *e);
    void *ctx;
};

struct worker {
    struct job *job;
    int id;
    pthread_t thread;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    struct job *j = w->job;
    for (;;) {
        pthread_mutex_lock(&j->lock);
        bool stop = j->failed_i < j->n || j->next >= j->n;
        size_t i = stop ? 0 : j->next++;
        pthread_mutex_unlock(&j->lock);
        if (stop)
            return NULL;
        struct err e = {0};
        int rc = j->fn(j->ctx, w->id, i, &e);
        if (!rc)
            continue;
        if (!e.code)
            ERR(&e, rc < 0 ? -rc : rc, "item %zu failed without saying why", i);
        pthread_mutex_lock(&j->lock);
        if (i < j->failed_i) {
            j->failed_i = i;
            j->err = e;
        }
        pthread_mutex_unlock(&j->lock);
    }
}

int thread_for(int n_threads, size_t n, int (*fn)(void *ctx, int worker, size_t i, struct err *e),
               void *ctx, struct err *e)
{
    if (n_threads < 1)
        n_threads = 1;
    if ((size_t)n_threads > n)
        n_threads = n ? (int)n : 1;
    struct job j = {.n = n, .failed_i = n, .fn = fn, .ctx = ctx};
    struct worker *w = mem_zalloc((size_t)n_threads, sizeof *w);
    if (!w)
        return ERR(e, E_NOMEM, "out of memory starting %d threads", n_threads);
    pthread_mutex_init(&j.lock, NULL);
    int started =
        1; /* this thread is worker 0; fewer threads than asked for still do all the work */
    for (int t = 0; t < n_threads; t++)
        w[t] = (struct worker){.job = &j, .id = t};
    while (started < n_threads && !pthread_create(&w[started].thread, NULL, work, &w[started]))
        started++;
    work(&w[0]);
    for (int t = 1; t < started; t++)
        pthread_join(w[t].thread, NULL);
    pthread_mutex_destroy(&j.lock);
    mem_free(w);
    if (j.failed_i == n)
        return 0;
    return ERR(e, j.err.code, "%s", j.err.msg);
}

static void *enter(void *arg)
{
    struct thread *t = arg;
    t->fn(t->ctx);
    return NULL;
}

int thread_start(struct thread *t, void (*fn)(void *ctx), void *ctx, struct err *e)
{
    t->fn = fn;
    t->ctx = ctx;
    const int code = pthread_create(&t->id, NULL, enter, t);
    if (code) {
        errno = code;
        return err_sys(e, "cannot start a thread (ulimit -u and -v set limits)");
    }
    return 0;
}

void thread_join(struct thread *t)
{
    pthread_join(t->id, NULL);
}

void thread_cond_init(pthread_cond_t *c)
{
    pthread_condattr_t a;
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_cond_init(c, &a);
    pthread_condattr_destroy(&a);
}

bool thread_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, uint64_t until_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
                                   .tv_nsec = (long)(until_ns % 1000000000)};
    return pthread_cond_timedwait(c, lock, &until) != ETIMEDOUT;
}
