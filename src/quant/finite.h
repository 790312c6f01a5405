/* Finding values that are not numbers in arrays of floats. */
#ifndef QUANT_FINITE_H
#define QUANT_FINITE_H

#include <stddef.h>

#include "quant/dtype.h"

/* Index of the first of n values that is infinite or NaN; n when there is none, or when the type is
 * not BF16, F16 or F32. values are aligned for their type. */
size_t finite_find(enum dtype type, const void *values, size_t n);

#endif
