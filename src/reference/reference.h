/* Engine "reference": the equations of the model in plain f32, one token at a time. Slow by design:
 * it is the oracle that everything faster is held against. */
#ifndef REFERENCE_REFERENCE_H
#define REFERENCE_REFERENCE_H

#include "model/engine.h"

extern const struct engine_ops reference_engine;

#endif
