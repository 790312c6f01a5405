/* Plain threads: a parallel loop for packing, verifying and tests, and threads that stay. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Calls fn(ctx, worker, i) for i in 0..n-1, each once, from n_threads threads (worker is 0 ..
 * n_threads-1); waits for all. fn returns 0 or a negative code with its message in e; after a
 * failure no new i is started, and the failure of the lowest i that failed is returned. */
int thread_for(int n_threads, size_t n, int (*fn)(void *ctx, int worker, size_t i, struct err *e),
               void *ctx, struct err *e);

/* One thread that runs fn(ctx) and ends with it. The struct stays where it is until thread_join,
 * which waits for that. */
struct thread {
    pthread_t id;
    void (*fn)(void *ctx);
    void *ctx;
};
int thread_start(struct thread *t, void (*fn)(void *ctx), void *ctx, struct err *e);
void thread_join(struct thread *t);

/* A condition that thread_wait_until may wait on. */
void thread_cond_init(pthread_cond_t *c);
/* Like pthread_cond_wait, until a moment of clock_ns; false once that has passed. */
bool thread_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, uint64_t until_ns);

#endif
