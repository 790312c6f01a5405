/* What a tensor's published name means, and what the store calls it.
 *
 * Every published form (Hugging Face BF16 with or without "language_model.", MLX with
 * "language_model.model.", text-only exports) maps onto the MLX names of docs/format.md, which are
 * the names inside a store. Table-driven; knows no shapes, and allocates nothing. */
#ifndef CHECKPOINT_NAMES_H
#define CHECKPOINT_NAMES_H

#include <stdint.h>

enum name_kind {
    NAME_DENSE,   /* goes into dense.bin under its canonical name */
    NAME_EXPERTS, /* stacked routed experts of one layer */
    NAME_EXPERT,  /* one routed expert by itself (FP8 checkpoints): packing refuses it */
    NAME_NGRAM,   /* one part of an n-gram table */
    NAME_VISION,  /* skipped and counted */
    NAME_UNKNOWN, /* nothing we know: listed, and refused unless forced */
};

enum name_matrix { NAME_GATE, NAME_UP, NAME_DOWN, NAME_GATE_UP }; /* of NAME_EXPERTS, NAME_EXPERT */

enum name_part {
    NAME_WEIGHT,
    NAME_SCALES, /* of MLX's 4-bit modules */
    NAME_BIASES,
    NAME_BLOCK_SCALES, /* FP8, ".weight_scale_inv": one for each 128 x 128 weights */
    NAME_SCALE,        /* FP8, ".weight_scale": one for a whole n-gram table */
};

#define NAME_MAX_BYTES 256

struct name_info {
    enum name_kind kind;
    /* NAME_DENSE: MLX name with its suffix. NAME_EXPERTS: "...mlp.switch_mlp.gate_proj", up_proj,
     * down_proj, gate_up_proj. NAME_EXPERT: "...mlp.experts.N.gate_proj" and so on. NAME_NGRAM:
     * "...ngram_embedding.shard_N", or without a part for NAME_SCALE. NAME_VISION:
     * "vision_tower....". NAME_UNKNOWN: as published, cut to the room here. */
    char canonical[NAME_MAX_BYTES];
    enum name_part part;
    int layer;               /* 0-based; -1 outside layers; for mtp.layers.0 it is 0 with mtp set */
    int mtp;                 /* 1 under "mtp." */
    enum name_matrix matrix; /* NAME_EXPERTS, NAME_EXPERT */
    int64_t shard;           /* NAME_NGRAM: 0, 1, ...; else, and for NAME_SCALE, -1 */
    int expert;              /* NAME_EXPERT: 0, 1, ...; else -1 */
};

/* Of every name: one that we do not know is NAME_UNKNOWN. */
void name_parse(const char *published, struct name_info *out);

#endif
