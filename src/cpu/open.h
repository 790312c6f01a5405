/* Making and unmaking the engine. */
#ifndef CPU_OPEN_H
#define CPU_OPEN_H

#include "model/engine.h"

/* E_UNSUPPORTED: not a packed store, or a model whose shapes kernels cannot take; E_LIMIT: the
 * memory is too small. Reads the dense weights. */
int cpu_open(const struct weights *w, const struct engine_options *o, struct engine **out,
             struct err *e);
void cpu_close(struct engine *g);

#endif
