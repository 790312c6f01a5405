/* What this machine can do at most: the two rates that tokens per second are measured against. */
#ifndef RUNNER_MACHINE_H
#define RUNNER_MACHINE_H

#include "store/store.h"

/* Bytes of memory read a second by n_threads threads (0: one per processor) at once, each its own
 * part of a large block; the best of several repetitions. Takes half a second and `bytes` of
 * memory. */
int machine_memory_rate(int n_threads, uint64_t bytes, double *rate, struct err *e);

/* Bytes a second that direct reads of whole records of this precision, in random order, bring with
 * 16 of them in flight, measured for about `seconds` (stream/probe.h). */
int machine_disk_rate(const struct store *s, int bits, double seconds, double *rate, struct err *e);

#endif
