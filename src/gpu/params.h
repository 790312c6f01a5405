/* What host and kernels share: parameter structs and tables, declared once. Included by C and by
 * GLSL (which defines GPU_GLSL). One section per stem; each owner adds there.
 *
 * Only u32, i32, f32 and u64, in C's order with natural alignment and without holes, so that C and
 * the scalar block layout agree; GPU_SIZE asserts each size in C. An address is a u64; 0: there is
 * none. A struct of parameters is pushed with its dispatch: at most 128 bytes. */
#ifndef GPU_PARAMS_H
#define GPU_PARAMS_H

#include "gpu/params_linear.h"

/* --- rows and segments: the tables of a step, written by the host before each submission --- */

/* A row of the batch. */
struct gpu_row {
    i32 pos; /* position in its sequence */
    i32 token;
    u32 segment; /* index into the segments */
    u32 nth;     /* row of its segment */
};
GPU_SIZE(gpu_row, 16);

/* The rows first .. first + n - 1, all of one sequence. Parts of its state whose place does not
 * depend on the context lie at the same offsets from `state` in every sequence (struct places, in
 * parameters); the caches of attention layers and of the draft head follow one another from
 * `cache` on, each cache_bytes long, with keys at its front. */
struct gpu_segment {
    u64 state;
    u64 cache, cache_bytes;
    u64 v, k_scale, v_scale, index, block; /* offsets in a cache */
    u64 score; /* room of the indexer: f32 [ATTEND_ROWS][blocks], for the rows of a group */
    u32 first, n;
    u32 plane;   /* 0 or 1: the committed one */
    u32 pending; /* row of the pending arrays that its first row has; 0 in a prefill */
    u32 cells;   /* of a cache */
    u32 blocks;  /* of the indexer */
    u32 len;     /* committed tokens: position of its first row */
    u32 spare;
};
GPU_SIZE(gpu_segment, 104);

/* --- copy.comp: words from one place to another --- */

struct copy_params {
    u64 from, to;
    u32 words;                  /* of a row */
    u32 from_stride, to_stride; /* words from one row to the next; workgroup y: the row */
    u32 fill;                   /* from 0: every word is this */
};
GPU_SIZE(copy_params, 32);
#define COPY_WORDS 16384 /* of a row in one workgroup */

/* --- read.comp: for measuring --- */

struct read_params {
    u64 from, to; /* to: u32 of each workgroup */
    u32 n;        /* units of 16 bytes, a multiple of READ_UNITS */
    u32 pad;
};
GPU_SIZE(read_params, 24);
#define READ_UNITS 2048

/* --- linear: params_linear.h --- */

struct quantise_params {
    u64 x, q;
    u32 n, pad;
};
GPU_SIZE(quantise_params, 24);

/* --- hyper --- */

struct hyper_norm_params {
    u64 hyper, add, inj, gamma; /* [R][S][h], [R][h] or 0, [R][S], [S*h] */
    u64 x, q;                   /* [R][S*h] normed, as floats and as activations; q 0: only add */
    u64 bad;                    /* u32: the lowest row that is not finite */
    f32 by_S, by_h, eps;        /* 1 / S, 1 / h */
    u32 first;                  /* row of the batch that row 0 is */
};
GPU_SIZE(hyper_norm_params, 72);

/* A quantised matrix. */
struct quant_matrix {
    u64 w, scales, biases;
};

/* What hyper_down leaves for hyper_mix. kept: f32 [R][2][S], weights that `add` goes by and scales
 * of the norms; parts: f32 [R][S][lowrank + S], each stream's part of the two products. */
struct hyper_down_params {
    u64 hyper, add, inj, gamma; /* as above; hyper and inj stay as they are */
    u64 parts, kept;
    GPU_STRUCT(quant_matrix) down, inject; /* inject.w 0: none */
    u64 bad;
    f32 by_S, by_h, eps;
    u32 first;
};
GPU_SIZE(hyper_down_params, 120);

struct hyper_mix_params {
    u64 low;                     /* [R][lowrank], or parts */
    GPU_STRUCT(quant_matrix) up; /* [S*h][lowrank] */
    u64 x, q;                    /* [R][h] mixed, as floats and as activations */
    u64 norm;                    /* [R][S*h]; 0: made again of what follows, and written to hyper */
    u64 hyper, add, gamma, kept, inj; /* inj 0: stays as it is */
    f32 by_S;
    u32 pad;
};
GPU_SIZE(hyper_mix_params, 104);

/* Many rows: the parts of hyper_mix before and behind its product. */
struct hyper_low_params {
    u64 x, q; /* f32 [R][n]; silu(x / S), as activations */
    f32 by_S;
    u32 n;
};
GPU_SIZE(hyper_low_params, 24);

struct hyper_gate_params {
    u64 gate, norm; /* f32 [R][S*h]: before sigmoid; what it opens */
    u64 x, q;       /* [R][h] mixed, as floats and as activations */
    f32 by_S;
    u32 h, S, pad;
};
GPU_SIZE(hyper_gate_params, 48);

/* --- moe --- */

struct moe_route_params {
    u64 logits, route, weight; /* [R][E]; u32 [R][K], f32 [R][K] */
};
GPU_SIZE(moe_route_params, 24);

/* A matrix of the shared expert. */
struct moe_matrix {
    u64 w, scales, biases;
};

/* An entry of a layer's table (params_linear.h): the host has computed this expert, and its output
 * for pair r * K + k is row r * K + k of f32 [R * K][h] at the address in the entry. */
#ifdef GPU_GLSL
#define GPU_RECORD_HOST 0x2000000000000000ul
#else
#define GPU_RECORD_HOST ((u64)1 << 61)
#endif

struct moe_up_params {
    u64 x, table, route; /* activations [R][h]; u64 [E]; u32 [R][K] */
    u64 act, shared_act; /* activations [R][K][inter], [R][shared_inter] */
    GPU_STRUCT(moe_matrix) gate, up;
    u64 logits, weight; /* [R][E] that the choice is made of; f32 [R][K], written with route */
    u32 R, pad;
};
GPU_SIZE(moe_up_params, 112);

/* Pairs r * K + k by expert, and tiles of them. */
struct moe_sort_params {
    u64 route, list, tiles; /* u32 [pairs] twice, struct gpu_tile [n_tiles] */
    u32 pairs, n_tiles;     /* tiles there may be: ceil(pairs / rows) + min(pairs, E) */
    u32 rows, pad;          /* of a tile at most */
};
GPU_SIZE(moe_sort_params, 40);

struct moe_act_params {
    u64 x, act; /* f32 [rows][2][n]: gate, up; activations [rows][n] */
    u32 n, rows;
};
GPU_SIZE(moe_act_params, 24);

struct moe_sum_params {
    u64 table, route, weight, open; /* as in moe_down_params */
    u64 routed, of_shared, to;      /* f32 [R][K][h], f32 [R][h] twice */
    u32 h, K;
};
GPU_SIZE(moe_sum_params, 64);

struct moe_down_params {
    u64 table, route, weight, open; /* u64 [E]; u32 [R][K], f32 [R][K]; f32 [R] before sigmoid */
    u64 act, shared_act, to;        /* f32 [R][h] */
    GPU_STRUCT(moe_matrix) down;
};
GPU_SIZE(moe_down_params, 80);

/* --- head --- */

/* Of HEAD_PART logits. */
struct head_part {
    u32 order, id; /* of the largest: num_order, and which it is */
    u32 hash[2];   /* low half first */
};
GPU_SIZE(head_part, 16);

struct head_best_params {
    u64 logits, parts, best, bad; /* f32 [R][vocab]; struct head_part [R][n_parts]; u32 [R]; u32 */
    u32 vocab, limit;             /* of these, ids that may be best */
    u32 n_parts, first;           /* ceil(vocab / HEAD_PART); row of the batch that row 0 is */
};
GPU_SIZE(head_best_params, 48);
#define HEAD_PART 1024

/* --- deltanet --- */

struct deltanet_params {
    u64 segments;                   /* struct gpu_segment [] */
    u64 conv, z, a, b;              /* rows of [2*nk*dk + nv*dv], [nv*dv], [nv], [nv] */
    u64 taps, a_log, dt_bias, norm; /* [2*nk*dk + nv*dv][kernel], [nv], [nv], [dv] */
    u64 log;        /* pending rows, GPU_DELTANET_LOG floats each: inputs of the convolution,
                       [nk*dk] keys, [nv*dv] deltas, [nv] decays; 0: not kept */
    u64 to;         /* rows of [nv*dv]: activations, or f32 */
    u64 room;       /* for many rows, GPU_DELTANET_ROOM floats each; 0: none */
    u32 st_at[2];   /* by plane, floats from a sequence's state on: [nv][dk][dv] */
    u32 conv_at[2]; /* the same: [kernel - 1][2*nk*dk + nv*dv] */
    f32 eps;
    u32 R; /* rows of all segments */
};
GPU_SIZE(deltanet_params, 120);
/* Queries, keys, values (then y), decay and beta of each value head; whole units of 16 bytes. */
#define GPU_DELTANET_ROOM(nk, nv, dk, dv) ((2 * (nk) * (dk) + (nv) * (dv) + 2 * (nv) + 3) / 4 * 4)
#define GPU_DELTANET_LOG(nk, nv, dk, dv)  (3 * (nk) * (dk) + 2 * (nv) * (dv) + (nv))

struct deltanet_replay_params {
    u64 st_from, st_to, conv_from, conv_to; /* the committed plane's, the other's */
    u64 log;                                /* the sequence's first pending row */
    u32 n;                                  /* rows */
    u32 spare;
};
GPU_SIZE(deltanet_replay_params, 48);

/* --- qsa --- */

struct qsa_prepare_params {
    u64 rows, segments;
    u64 q, k, v, index; /* rows of [n_heads][2*head_dim] (queries change in place), [n_kv*head_dim]
                             twice, [index_heads + 1][index_dim] (the same) */
    u64 rope, rope_block; /* rows of [rot]: cosines, then sines, of the row's position; of the first
                             position of the block that it completes */
    u64 q_norm, k_norm, index_q_norm, index_k_norm;
    u64 bad;   /* u32: the lowest row with a value that is not finite */
    u32 cache; /* which of a sequence's */
    u32 units; /* of a row: all, or without queries 2*n_kv + 2 */
    f32 eps;
    u32 spare;
};
GPU_SIZE(qsa_prepare_params, 120);

/* Rows first .. are under way: the others' tables begin at the batch's first row. */
struct select_params {
    u64 rows, segments;
    u64 index;  /* rows of [index_heads + 1][index_dim] */
    u64 chosen; /* rows of u32 [budget/ratio]: blocks, ascending */
    u32 cache;
    u32 first;
};
GPU_SIZE(select_params, 40);

struct attend_params {
    u64 rows, segments;
    u64 q;                  /* rows of [n_heads][2*head_dim] */
    u64 chosen;             /* rows of u32 [budget/ratio] */
    u64 part_max, part_sum; /* of rows under way: [n_heads][parts] */
    u64 part_out;           /* [n_heads][parts][head_dim] */
    u64 to;                 /* rows of [n_heads*head_dim]: activations, or f32 */
    u32 cache;
    u32 first;
};
GPU_SIZE(attend_params, 72);

/* --- ple --- */

struct ple_params {
    u64 rows, segments;
    u64 hyper;      /* rows of [S*h]: the residual */
    u64 key, value; /* the same: [S*h], which becomes what is added; [h] */
    u64 normed;     /* pending rows of [S*h] */
    u64 norm_key, norm_query, norm_conv, taps; /* [S*h] each, [S*h][kernel] */
    u32 keep_at[2]; /* by plane, floats from a sequence's state on: [dilation*(kernel-1)][S*h] */
    u32 n;          /* rows */
    f32 eps;
};
GPU_SIZE(ple_params, 96);

/* --- mtp, embed --- */

struct embed_params {
    u64 rows;
    u64 w, scales, biases; /* the embedding matrix */
    u64 to;                /* rows of [S][h] */
};
GPU_SIZE(embed_params, 40);

struct mtp_norm_params {
    u64 rows;
    u64 w, scales, biases;           /* the embedding matrix */
    u64 wide;                        /* u64 [rows]: addresses of residuals, [S*h] each */
    u64 norm_embedding, norm_hidden; /* [h], [S*h] */
    u64 embed, streams;              /* rows of [h], [S][h]: activations, or f32 */
    f32 eps;
    u32 spare;
};
GPU_SIZE(mtp_norm_params, 80);

struct mtp_add_params {
    u64 hyper, fold; /* rows of [S][h], [h] */
};
GPU_SIZE(mtp_add_params, 16);

#endif
