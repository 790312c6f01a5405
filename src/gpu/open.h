/* Making and unmaking the engine. */
#ifndef GPU_OPEN_H
#define GPU_OPEN_H

#include "model/engine.h"

/* E_UNSUPPORTED: not a packed store, no device, or a model whose shapes kernels cannot take;
 * E_LIMIT: the memory is too small. Copies the dense weights to the device. */
int gpu_open(const struct weights *w, const struct engine_options *o, struct engine **out,
             struct err *e);
void gpu_close(struct engine *g);

#endif
