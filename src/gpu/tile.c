/* Tiles of products: see tile.h. */
#include "gpu/tile.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { CONSTANTS_MAX = 11 };

/* Dot products: 256 invocations, each with rows / 16 times outputs / 16. A device that is a
 * processor takes long to compile many of them. */
static int dot_constants(const struct device_info *d, const struct gpu_tile_shape *s,
                         struct gpu_tiling *t, u32 *to)
{
    t->rows = s->rows > 32 && d->kind != DEVICE_SOFTWARE ? 64 : s->rows > 16 ? 32 : 16;
    t->outputs = 64;
    const u32 constants[] = {256, (u32)s->cols, t->rows, t->outputs};
    memcpy(to, constants, sizeof constants);
    return 4;
}

/* Matrices: how many subgroups, and the rows and outputs of each. Experts have tiles of 32 rows at
 * most: many have few rows, and what a tile lacks is computed all the same.
 *
 * H200, b988a7f, bench_gpu_kernels with 4,096 rows, subgroups x rows x outputs, rows of a tile:
 * 8 x 32 x 32, 64 and 4 x 32 x 64, 64 are the same where outputs are many; where they are few
 * (hyper read) the latter takes 1.10 ms, 8 x 32 x 16, 64 takes 1.22. Experts take 7.6 ms with the
 * first, 6.8 with the second, 6.0 with 4 x 32 x 32, 32. */
static int matrix_constants(const struct device_info *d, const struct gpu_tile_shape *s,
                            struct gpu_tiling *t, u32 *to)
{
    const struct device_matrix *m = &d->matrix;
    const bool large = s->rows > 32;
    u32 subgroups = large ? 4 : 8, rows = s->rows > 16 ? 32 : 16;
    u32 outs = !large ? 16 : s->experts ? 32 : 64;
    t->rows = large && !s->experts ? 64 : rows;
    t->outputs = outs * subgroups / (t->rows / rows);
    const u32 constants[] = {subgroups * (u32)d->subgroup,
                             (u32)s->cols,
                             t->rows,
                             t->outputs,
                             (u32)m->m,
                             (u32)m->n,
                             (u32)m->k,
                             rows / (u32)m->m,
                             outs / (u32)m->n};
    memcpy(to, constants, sizeof constants);
    return 9;
}

int gpu_tiling_make(struct device *d, const char *name, const struct gpu_tile_shape *s,
                    struct gpu_tiling *out, struct err *e)
{
    const struct device_info *about = device_about(d);
    u32 constants[CONSTANTS_MAX];
    char kernel[32];
    bool matrix = about->matrix.m != 0;
    int n = matrix ? matrix_constants(about, s, out, constants)
                   : dot_constants(about, s, out, constants);
    assert(s->cols % 64 == 0);
    assert(!s->runs || (s->bits && s->cols / 64 % s->runs == 0));
    if (s->bits)
        constants[n++] = (u32)s->bits;
    if (s->runs)
        constants[n++] = (u32)s->runs;
    snprintf(kernel, sizeof kernel, "%s_%s", name, matrix ? "coop" : "tile");
    return device_kernel(d, kernel, constants, n, &out->k, e);
}
