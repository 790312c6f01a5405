/* Engine "cpu": the model in vector instructions of the processor, for many rows at once, with
 * routed experts streamed from the store. Results depend on the store, the options that change
 * values, and the tokens: not on threads, pool, disk, chunks or other sequences
 * (docs/numerics.md). */
#ifndef CPU_CPU_H
#define CPU_CPU_H

#include "model/engine.h"

extern const struct engine_ops cpu_engine;

#endif
