/* A view of a tensor in memory: what checkpoints (after reading) and stores (after mapping) hand to
 * the model. Row-major, the last dimension contiguous. */
#ifndef QUANT_TENSOR_H
#define QUANT_TENSOR_H

#include <stdint.h>

#include "quant/dtype.h"

#define TENSOR_DIMS_MAX 8

struct tensor_view {
    const char *name; /* borrowed from the owner, as is data */
    enum dtype dtype;
    int n_dims;
    uint64_t shape[TENSOR_DIMS_MAX];
    const void *data; /* may be unaligned only in checkpoints read in place */
    uint64_t nbytes;
};

#endif
