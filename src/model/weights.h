/* The model's weights as an engine wants them: every tensor found, its shape checked, under the
 * word that the equations use (src/reference/). Owns no tensor data; all pointers are borrowed from
 * the source.
 *
 * A source is anything that finds tensors by canonical name: a store, or (in tests) a
 * checkpoint. */
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include "base/err.h"
#include "quant/tensor.h"
#include "store/manifest.h"
#include "store/store.h"

enum matrix_format { MATRIX_F32, MATRIX_BF16, MATRIX_Q4, MATRIX_Q3, MATRIX_Q2 };

/* out x in, row-major. */
struct matrix {
    enum matrix_format format;
    int rows, cols;
    const void *w;                   /* values or codes; rows are contiguous without padding */
    const uint16_t *scales, *biases; /* Q4 and below: [rows][cols / group] bf16 */
    int group;
};

/* n values; convolution kernels are flattened [channels][taps]. bf16 or f32 in the file, f32
 * here. */
struct vector {
    const float *x; /* owned by struct weights, 64-byte aligned */
    int n;
};

struct hyper_weights {
    struct vector norm;     /* [S*h] gamma, already 1 + w */
    struct matrix down, up; /* [lowrank][S*h], [S*h][lowrank] */
    struct matrix inject;   /* [S][S*h]; rows 0 in a mixer */
};

struct deltanet_weights {
    struct matrix qkv, z, a, b, out;
    struct vector conv; /* [2*nk*dk + nv*dv][conv_kernel], oldest tap first */
    struct vector A_log, dt_bias, norm;
};

struct qsa_weights {
    struct matrix q, k, v, o, index_qk;
    struct vector q_norm, k_norm, index_q_norm, index_k_norm;
};

struct moe_weights {
    struct matrix router;         /* bf16 [E][h] */
    struct matrix shared_gate;    /* [1][h] */
    struct matrix gate, up, down; /* shared expert */
    int record_layer;             /* routed experts: which record layer */
};

struct ple_weights {
    int module; /* index among PLE modules */
    struct matrix key, value;
    struct vector norm_key, norm_query, norm_conv;
    struct vector conv; /* [S*h][ple_kernel] */
};

struct layer_weights {
    struct hyper_weights attn_hyper, mlp_hyper;
    struct deltanet_weights deltanet; /* of a linear layer */
    struct qsa_weights qsa;           /* of an attention layer */
    struct moe_weights moe;
    int ple; /* index into weights.ple, or -1 */
};

struct mtp_weights {
    struct vector norm_embedding, norm_hidden; /* gamma, already 1 + w: [h], [S*h] */
    struct matrix fc_embedding, fc_hidden;
    struct layer_weights layer;
    struct hyper_weights mixer;
};

/* One routed expert: its three matrices. */
struct expert {
    struct matrix gate, up, down;
};

struct weight_source {
    void *ctx;
    /* A dense tensor by canonical name with suffix; E_NOTFOUND when it is not there. */
    int (*find)(void *ctx, const char *name, struct tensor_view *out, struct err *e);
    /* Views of expert (record layer il, ie); borrowed until the source closes. */
    int (*expert)(void *ctx, int il, int ie, struct expert *out, struct err *e);
    /* out[0..row_dim) = a row of PLE module m's table. */
    int (*ngram_row)(void *ctx, int m, uint64_t row, float *out, struct err *e);
    const struct store *store; /* what stands behind it, or NULL: a checkpoint */
};

struct weights {
    struct config config;
    struct weight_source source;
    struct ngram_module ngram[CONFIG_PLE_MAX];
    struct matrix embed, head; /* head is embed when tied */
    struct hyper_weights mixer;
    struct layer_weights *layers; /* n_layers */
    struct ple_weights ple[CONFIG_PLE_MAX];
    struct mtp_weights mtp; /* if config.n_mtp */
    void *arena;            /* the f32 vectors, for those who copy them; owned */
    size_t arena_bytes;
};

/* Finds every tensor that the config asks for; a missing one or a wrong shape is an error that
 * names it. Vectors are widened to f32 and folded to plain gamma. Non-finite vectors, scales and
 * biases of the dense part are refused. */
int weights_init(const struct config *c, const struct weight_source *src, struct weights *out,
                 struct err *e);
void weights_free(struct weights *w);
/* A source over an open store; src->ctx borrows it. Experts are those of the highest precision that
 * the store has. */
void weights_source_store(struct store *s, struct weight_source *src);
/* The same for an engine that wants experts of so many bits: 4-bit ones where the store has them
 * (bits below 4 are made from those), else those of exactly so many bits; E_NOTFOUND or E_FORMAT as
 * store_records. */
int weights_source_bits(struct store *s, int bits, struct weight_source *src, struct err *e);
/* The matrices of a record; borrowed from it. */
void weights_expert(const struct expert_layout *x, const struct records *r, const uint8_t *record,
                    struct expert *out);

#endif
