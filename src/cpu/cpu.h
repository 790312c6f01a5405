/* Engine "cpu": the model in vector instructions of the processor, for many rows at once, with
 * routed experts streamed from the store. Results depend on the store, the options that change
 * values, and the tokens: not on threads, pool, disk, chunks or other sequences
 * (docs/numerics.md). */
#ifndef CPU_CPU_H
#define CPU_CPU_H

#include "model/engine.h"
#include "stream/reader.h"

extern const struct engine_ops cpu_engine;

/* cpu_engine.open for tests of streaming: with a reader of the caller's between the engine and the
 * disk, where reads are spoilt (it belongs to the engine once this succeeds; NULL: none), and, from
 * a seed that is not 0, with records that leave the pool at random. */
int cpu_open_tampered(const struct weights *w, const struct engine_options *o,
                      struct reader *reader, uint64_t evict_seed, struct engine **out,
                      struct err *e);

#endif
