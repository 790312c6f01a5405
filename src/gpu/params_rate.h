/* The part of params.h that coop/rate_coop.comp needs; see params_linear.h for why it is apart. */
#ifndef GPU_PARAMS_RATE_H
#define GPU_PARAMS_RATE_H

#include "gpu/params_linear.h"

struct rate_params {
    u64 to;     /* u32 [workgroups][invocations] */
    u32 groups; /* of 64 elements */
    u32 seed;
};
GPU_SIZE(rate_params, 16);

/* What is repeated for each group, constant 10. */
#define RATE_MATRICES 1 /* products of matrices, whose operands stay in registers */
#define RATE_SHARED   2 /* operands come from shared memory, sums stay whole numbers */
#define RATE_SUMS     3 /* all of tile_group: a group's sums become floats, scaled and added */

#endif
