/* What this machine can do at most: the two rates that tokens per second are measured against. */
#ifndef RUNNER_MACHINE_H
#define RUNNER_MACHINE_H

#include "store/store.h"

/* Bytes of memory read a second by n_threads threads (0: one per processor) at once, each its own
 * part of a large block; the best of several repetitions. Takes half a second and `bytes` of
 * memory. */
int machine_memory_rate(int n_threads, uint64_t bytes, double *rate, struct err *e);

/* Bytes a second that direct reads of whole records in random order bring, `depth` of them in
 * flight, for about `seconds`. The order starts somewhere else each time. E_UNSUPPORTED when the
 * file system has no direct reads. */
int machine_disk_rate(const struct records *r, int depth, double seconds, double *rate,
                      struct err *e);

#endif
