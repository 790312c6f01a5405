/* Tiles of products: see tile.h. */
#include "gpu/tile.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { CONSTANTS_MAX = 10, SUBGROUPS = 8 };

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

/* Matrices: subgroups of 32 by 32 outputs where there are enough of them. */
static int matrix_constants(const struct device_info *d, const struct gpu_tile_shape *s,
                            struct gpu_tiling *t, u32 *to)
{
    const struct device_matrix *m = &d->matrix;
    u32 rows = s->rows > 16 ? 32 : 16, outs = s->rows > 32 && s->outputs > 512 ? 32 : 16;
    t->rows = s->rows > 32 ? 64 : rows;
    t->outputs = outs * SUBGROUPS / (t->rows / rows);
    const u32 constants[] = {(u32)(SUBGROUPS * d->subgroup),
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
    if (s->bits)
        constants[n++] = (u32)s->bits;
    snprintf(kernel, sizeof kernel, "%s_%s", name, matrix ? "coop" : "tile");
    return device_kernel(d, kernel, constants, n, &out->k, e);
}
