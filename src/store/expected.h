/* Which tensors a config asks for: one table for those who write a store (pack), those who say what
 * is missing or unused (inspect), and those who compute (model/weights).
 *
 * Names are canonical (MLX names, docs/format.md). Shapes are those of the values, [out][in],
 * whatever their encoding: a matrix of [r][c] that is stored as Q4 is NAME.weight u32 [r][c/8],
 * NAME.scales and NAME.biases bf16 [r][c/group]. */
#ifndef STORE_EXPECTED_H
#define STORE_EXPECTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/config.h"

#define EXPECTED_NAME_BYTES 128

enum expected_kind {
    EXPECTED_MATRIX, /* stored as Q4 when its columns are a multiple of 64, else as it is */
    EXPECTED_EXACT,  /* a matrix that is never quantised: router, shared expert's gate */
    EXPECTED_NORM,   /* zero-centred: gamma is 1 + w in raw files, w in folded ones and in stores */
    EXPECTED_NORM_RAW, /* zero-centred and raw everywhere, in stores too: mtp.pre_fc_norm_* */
    EXPECTED_VECTOR,   /* plain values: A_log, dt_bias, linear_attn.norm */
    EXPECTED_CONV,     /* [channels][taps]; files say [C][1][K] or [C][K][1], the same bytes */
    EXPECTED_HASH,     /* I64 n-gram constants; may be absent, because they can be derived */
    EXPECTED_EXPERTS,  /* [E][out][in], always Q4: goes into records, not into dense.bin */
    EXPECTED_NGRAM,    /* [rows][row_dim], published in parts: goes into ngram.bin */
};

/* What a tensor is for, whatever layer it is in. */
enum expected_role {
    ROLE_EMBED,
    ROLE_HEAD,
    ROLE_MIXER_NORM,
    ROLE_MIXER_DOWN,
    ROLE_MIXER_UP,
    ROLE_ATTN_HYPER_NORM,
    ROLE_ATTN_HYPER_DOWN,
    ROLE_ATTN_HYPER_UP,
    ROLE_ATTN_HYPER_INJECT,
    ROLE_MLP_HYPER_NORM,
    ROLE_MLP_HYPER_DOWN,
    ROLE_MLP_HYPER_UP,
    ROLE_MLP_HYPER_INJECT,
    ROLE_LINEAR_QKV,
    ROLE_LINEAR_Z,
    ROLE_LINEAR_A,
    ROLE_LINEAR_B,
    ROLE_LINEAR_OUT,
    ROLE_LINEAR_CONV,
    ROLE_LINEAR_A_LOG,
    ROLE_LINEAR_DT_BIAS,
    ROLE_LINEAR_NORM,
    ROLE_Q,
    ROLE_K,
    ROLE_V,
    ROLE_O,
    ROLE_Q_NORM,
    ROLE_K_NORM,
    ROLE_INDEX_QK,
    ROLE_INDEX_Q_NORM,
    ROLE_INDEX_K_NORM,
    ROLE_ROUTER,
    ROLE_SHARED_GATE,
    ROLE_SHARED_EXPERT_GATE,
    ROLE_SHARED_EXPERT_UP,
    ROLE_SHARED_EXPERT_DOWN,
    ROLE_EXPERTS_GATE,
    ROLE_EXPERTS_UP,
    ROLE_EXPERTS_DOWN,
    ROLE_PLE_KEY,
    ROLE_PLE_VALUE,
    ROLE_PLE_NORM_KEY,
    ROLE_PLE_NORM_QUERY,
    ROLE_PLE_NORM_CONV,
    ROLE_PLE_CONV,
    ROLE_PLE_TABLE,
    ROLE_PLE_MULTIPLIERS,
    ROLE_PLE_OFFSETS,
    ROLE_PLE_SIZES,
    ROLE_MTP_NORM_EMBEDDING,
    ROLE_MTP_NORM_HIDDEN,
    ROLE_MTP_FC_EMBEDDING,
    ROLE_MTP_FC_HIDDEN,
    ROLE_COUNT,
};

struct expected {
    char name[EXPECTED_NAME_BYTES]; /* without ".weight": the module, "...in_proj_qkv" */
    const char *suffix;             /* ".weight", or "" for A_log, dt_bias and the hash constants */
    enum expected_kind kind;
    enum expected_role role;
    int layer;  /* record layer: 0..n_layers-1, n_layers for the draft head's; -1 outside layers */
    int module; /* of a PLE module's tensors; else -1 */
    bool mtp;   /* under "mtp." */
    int n_dims;
    uint64_t shape[3];
};

struct expected_list {
    struct expected *at; /* in order of layers: trunk, its layers, draft head; owned */
    size_t n;
    size_t *by_name; /* indices into at, by name without suffix; owned */
};

/* Every tensor that a model of this config has. E_NOMEM. */
int expected_init(const struct config *c, struct expected_list *out, struct err *e);
void expected_free(struct expected_list *l);

/* By module name, or by a whole tensor name: with the module's suffix, or with the ".scales" and
 * ".biases" of what may be Q4; a table's name may have ".shard_N" or ".shards.N" behind it. NULL:
 * the config does not ask for it. */
const struct expected *expected_find(const struct expected_list *l, const char *name);

/* Group of the Q4 form in a store: 64; for a table the largest of 64, 32, 16 and 8 that divides its
 * row; 0 for what a store keeps unquantised. */
int expected_group(const struct expected *x);

#endif
