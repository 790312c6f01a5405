/* Weights that are not numbers: found while packing, refused with the tensor and the element. */
#ifndef PACK_FINITE_H
#define PACK_FINITE_H

#include "checkpoint/checkpoint.h"

/* Checks n values of tensor t, which are its elements first, first + 1, ...; values [n] of t's
 * type, aligned for it. Types other than BF16, F16 and F32 pass. 0, or E_NONFINITE. */
int finite_check(const struct tensor *t, uint64_t first, const void *values, size_t n,
                 struct err *e);

#endif
