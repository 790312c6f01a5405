/* Plain threads for work that is not a model step (packing, verifying, tests). */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <stddef.h>

#include "base/err.h"

/* Calls fn(ctx, worker, i) for i in 0..n-1, each once, from n_threads threads (worker is 0 ..
 * n_threads-1); waits for all. fn returns 0 or a negative code with its message in e; after a
 * failure no new i is started, and the failure of the lowest i that failed is returned. */
int thread_for(int n_threads, size_t n, int (*fn)(void *ctx, int worker, size_t i, struct err *e),
               void *ctx, struct err *e);

#endif
