/* Engine "gpu": the model in kernels of a GPU, for many rows at once; routed experts in its memory,
 * or streamed from the store into memory that it reads. Results depend on the store, the options
 * that change values, the tokens and the device: not on where experts lie, chunks or other
 * sequences (docs/numerics.md). Which device: gpu/device.h, device_pick. */
#ifndef GPU_GPU_H
#define GPU_GPU_H

#include "model/engine.h"
#include "stream/reader.h"

extern const struct engine_ops gpu_engine;

/* gpu_engine.open for tests of streaming: with a reader of the caller's between the engine and the
 * disk (it belongs to the engine once this succeeds; NULL: none), and, from a seed that is not 0,
 * with records that leave the pool at random. */
int gpu_open_tampered(const struct weights *w, const struct engine_options *o,
                      struct reader *reader, uint64_t evict_seed, struct engine **out,
                      struct err *e);

#endif
