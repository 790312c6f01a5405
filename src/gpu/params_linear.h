/* The part of params.h that products of many rows need, and nothing else: the kernels of
 * src/gpu/coop are kept compiled, and would have to be compiled again whenever it changes. */
#ifndef GPU_PARAMS_LINEAR_H
#define GPU_PARAMS_LINEAR_H

#ifdef GPU_GLSL
#define u32 uint
#define i32 int
#define f32 float
#define u64 uint64_t
#define GPU_SIZE(name, bytes)
#define GPU_STRUCT(name) name
#else
#include <stdint.h>
typedef uint32_t u32;
typedef int32_t i32;
typedef float f32;
typedef uint64_t u64;
#define GPU_STRUCT(name) struct name
#define GPU_SIZE(name, bytes)                                                                      \
    _Static_assert(sizeof(struct name) == (bytes), "host and kernels must agree")
#endif

/* --- records of experts --- */

/* An entry of a layer's table is the address of a record, with its precision in the top bits;
 * 0: this expert adds nothing (it was cut). */
#ifdef GPU_GLSL
#define GPU_RECORD_Q3 0x8000000000000000ul
#define GPU_RECORD_Q2 0x4000000000000000ul
#else
#define GPU_RECORD_Q3 ((u64)1 << 63)
#define GPU_RECORD_Q2 ((u64)1 << 62)
#endif
#define GPU_RECORD_ADDRESS(entry) ((entry) & ~(GPU_RECORD_Q3 | GPU_RECORD_Q2))

/* --- linear --- */

/* Bytes of a row of n quantised activations, n a multiple of 64. A unit of 16 bytes for 8 elements:
 * the high bytes of elements 0, 2, 4, 6, of 1, 3, 5, 7, and their low bytes. The first units of all
 * groups of 64, then the second ones (GPU_ACTS_UNIT), so that lanes with neighbouring groups read
 * neighbouring memory. Then f32 scales [n/64] and sums [n/64] of the groups (numbers.h). */
#define GPU_ACTS_BYTES(n) (((n)*2 + (n) / 64 * 8 + 15) / 16 * 16)
/* Where unit j of group g is, in units. */
#define GPU_ACTS_UNIT(n, g, j) ((j) * ((n) / 64) + (g))
/* Lanes that share a row of n quantised weights: lane t adds groups t, t + lanes, ... */
#define GPU_LANES(n) ((n) >= 4096 ? 32 : (n) >= 1024 ? 8 : 2)
#define LINEAR_SIZE  128 /* invocations of a workgroup */
#define LINEAR_LIST  4   /* matrices of a dispatch */

struct linear_matrix {
    u32 w, scales, biases; /* from base, in 16 bytes */
    u32 to;                /* from to, in floats */
    u32 rows, stride;      /* outputs; floats from a row of outputs to the next */
};
struct linear_params {
    u64 base, x, to; /* x: activations, or f32 [R][n] */
    u32 R, pad;
    GPU_STRUCT(linear_matrix) m[LINEAR_LIST];
};
GPU_SIZE(linear_params, 128);

/* --- tiles: the rows that name an expert, in tiles of TILE rows at most --- */

struct gpu_tile {
    u32 expert, first, n; /* n pairs of `list` from first on; n 0: there is no such tile */
};
GPU_SIZE(gpu_tile, 12);

/* A product with matrices of routed experts' records. A pair is r * K + k. */
struct moe_tile_params {
    u64 x, to;    /* activations, a row for `share` pairs; f32 [pairs][n_matrices][outputs] */
    u64 table;    /* u64 [E] */
    u64 list;     /* u32: pairs, those of an expert side by side */
    u64 tiles;    /* struct gpu_tile [] */
    u32 share;    /* pairs that have a row of x in common: K, or 1 */
    u32 elements; /* of a matrix of a record */
    u32 outputs;  /* of a matrix */
    u32 matrix, n_matrices; /* the first one: 0 gate, 1 up, 2 down */
    u32 pad;
};
GPU_SIZE(moe_tile_params, 64);

#endif
