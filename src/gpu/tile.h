/* Products of many rows in tiles: tile.glsl. Which of its kernels a device gets, and how the
 * outputs are cut. Bits depend on neither. */
#ifndef GPU_TILE_H
#define GPU_TILE_H

#include "gpu/device.h"
#include "gpu/params.h"

struct gpu_tiling {
    const struct kernel *k;
    u32 rows, outputs; /* of a workgroup */
};

/* What is multiplied: up to `rows` rows that go with the same weights, matrices of `cols`
 * columns. */
struct gpu_tile_shape {
    int cols, rows;
    int bits;     /* of weights; 0: records say it */
    bool experts; /* "moe": tiles of their own shape */
    int runs;     /* "linear": as in struct gpu_linear */
};

/* name: "linear" or "moe". */
int gpu_tiling_make(struct device *d, const char *name, const struct gpu_tile_shape *s,
                    struct gpu_tiling *out, struct err *e);

#endif
