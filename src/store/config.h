/* config.json, validated. Letters and defaults as in docs/architecture.md; every field's range is
 * in config.c. A config that loads is one that every engine may rely on without checking
 * again. */
#ifndef STORE_CONFIG_H
#define STORE_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum {
    CONFIG_LAYERS_MAX = 512,
    CONFIG_PLE_MAX = 16,
    CONFIG_EOS_MAX = 16,
    CONFIG_EXPERTS_MAX = 4096,
    CONFIG_TOP_K_MAX = 64,
    CONFIG_STREAMS_MAX = 16,
    CONFIG_NGRAM_SIZE_MAX = 8,
    CONFIG_NGRAM_HEADS_MAX = 128, /* (ngram_size - 1) * heads_per_ngram */
};

enum gate_act { GATE_SIGMOID, GATE_SILU };
enum mtp_norm { MTP_NORM_ALL, MTP_NORM_STREAM };

struct config {
    int h;                             /* hidden_size */
    int n_layers;                      /* num_hidden_layers */
    int vocab;                         /* vocab_size */
    double eps;                        /* rms_norm_eps */
    int max_pos;                       /* max_position_embeddings, 262144 when absent */
    bool attention[CONFIG_LAYERS_MAX]; /* layer il is sparse attention; else DeltaNet */

    int n_heads, n_kv, head_dim, rot; /* rot = head_dim * partial_rotary_factor, even */
    double rope_theta;
    int index_heads, index_dim, index_budget, index_ratio;

    int nk, nv, dk, dv, conv_kernel; /* linear_* */
    enum gate_act gate_act;          /* output_gate_type */

    int E, K, inter, shared_inter; /* experts, experts per token, widths */
    bool norm_topk;

    int S, lowrank; /* hc_count, hc_lowrank */

    int n_ple, ple_layer[CONFIG_PLE_MAX]; /* 0-based, ascending */
    int ple_dim, ple_kernel, ngram_size, heads_per_ngram, ngram_parts;
    int64_t ngram_base, ngram_divisible;
    uint64_t seed;

    int n_mtp; /* 0 or 1 */
    enum mtp_norm mtp_norm;
    bool tie_embeddings;
    int n_eos, eos[CONFIG_EOS_MAX]; /* of the text config: eos[0] cuts n-grams */
};

/* root is the outer config (with text_config) or the text config itself. `where` opens messages. */
int config_parse(const json_t *root, const char *where, struct config *out, struct err *e);
int config_load(const char *path, struct config *out, struct err *e);

#endif
