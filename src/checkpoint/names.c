/* Published names: see names.h. A name is a prefix, which says who published it and where in the
 * model it is; for layers, "layers.N."; and a tail, one row of the table below. */
#include "checkpoint/names.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define NUMBER_MAX 999999999 /* of layers and parts; more is no name of a tensor */

/* Where in the model a tail may stand. */
enum {
    TOP = 1,   /* beside the trunk */
    TRUNK = 2, /* the trunk, outside its layers */
    LAYER = 4, /* a layer of the trunk */
    MTP = 8,   /* the draft head, outside its layer */
    MTP_LAYER = 16,
    VISION = 32,
    EVERY_LAYER = LAYER | MTP_LAYER,
};

static const struct prefix {
    const char *published, *canonical;
    int where;
} prefixes[] = {
    /* the first that fits counts */
    {"model.language_model.", "language_model.model.", TRUNK},
    {"model.visual.", "vision_tower.", VISION},
    {"model.", "language_model.model.", TRUNK}, /* a text-only export */
    {"language_model.model.", "language_model.model.", TRUNK},
    {"language_model.", "language_model.", TOP},
    {"vision_tower.", "vision_tower.", VISION},
    {"mtp.", "mtp.", MTP},
    {"", "language_model.", TOP},
};

/* What may stand behind a tail. */
enum form {
    BARE,    /* nothing */
    PLAIN,   /* ".weight" */
    MATRIX,  /* ".weight", and ".scales" and ".biases" once it is quantised */
    STACKED, /* routed experts, as MATRIX */
    FUSED,   /* routed experts, bare: the originals */
    SINGLE,  /* "N.gate_proj" and so on: one routed expert, ".weight" and its FP8 scales */
    PARTS,   /* "shard_N" or "shards.N" of a table, each as MATRIX; ".weight_scale" of the table */
};

static const struct tail {
    const char *name;
    int where;
    enum form form;
    enum name_matrix matrix; /* STACKED and FUSED */
    const char *canonical;   /* NULL: the same */
} tails[] = {
    {"lm_head", TOP, MATRIX, 0, NULL},
    {"embed_tokens", TRUNK, MATRIX, 0, NULL},
    {"hyper_connection_mixer.hc_norm", TRUNK | MTP, PLAIN, 0, NULL},
    {"hyper_connection_mixer.input_mix_weight_down", TRUNK | MTP, MATRIX, 0, NULL},
    {"hyper_connection_mixer.input_mix_weight_up", TRUNK | MTP, MATRIX, 0, NULL},
    {"pre_fc_norm_embedding", MTP, PLAIN, 0, NULL},
    {"pre_fc_norm_hidden", MTP, PLAIN, 0, NULL},
    {"fc_embedding", MTP, MATRIX, 0, NULL},
    {"fc_hidden", MTP, MATRIX, 0, NULL},

    {"attn_hyper_connection.hc_norm", EVERY_LAYER, PLAIN, 0, NULL},
    {"attn_hyper_connection.input_mix_weight_down", EVERY_LAYER, MATRIX, 0, NULL},
    {"attn_hyper_connection.input_mix_weight_up", EVERY_LAYER, MATRIX, 0, NULL},
    {"attn_hyper_connection.block_inject_weight", EVERY_LAYER, MATRIX, 0, NULL},
    {"mlp_hyper_connection.hc_norm", EVERY_LAYER, PLAIN, 0, NULL},
    {"mlp_hyper_connection.input_mix_weight_down", EVERY_LAYER, MATRIX, 0, NULL},
    {"mlp_hyper_connection.input_mix_weight_up", EVERY_LAYER, MATRIX, 0, NULL},
    {"mlp_hyper_connection.block_inject_weight", EVERY_LAYER, MATRIX, 0, NULL},

    {"linear_attn.in_proj_qkv", LAYER, MATRIX, 0, NULL},
    {"linear_attn.in_proj_z", LAYER, MATRIX, 0, NULL},
    {"linear_attn.in_proj_a", LAYER, MATRIX, 0, NULL},
    {"linear_attn.in_proj_b", LAYER, MATRIX, 0, NULL},
    {"linear_attn.out_proj", LAYER, MATRIX, 0, NULL},
    {"linear_attn.A_log", LAYER, BARE, 0, NULL},
    {"linear_attn.dt_bias", LAYER, BARE, 0, NULL},
    {"linear_attn.conv1d", LAYER, PLAIN, 0, NULL},
    {"linear_attn.norm", LAYER, PLAIN, 0, NULL},

    {"self_attn.q_proj", EVERY_LAYER, MATRIX, 0, NULL},
    {"self_attn.k_proj", EVERY_LAYER, MATRIX, 0, NULL},
    {"self_attn.v_proj", EVERY_LAYER, MATRIX, 0, NULL},
    {"self_attn.o_proj", EVERY_LAYER, MATRIX, 0, NULL},
    {"self_attn.q_norm", EVERY_LAYER, PLAIN, 0, NULL},
    {"self_attn.k_norm", EVERY_LAYER, PLAIN, 0, NULL},
    {"self_attn.indexer.index_qk_proj", EVERY_LAYER, MATRIX, 0, NULL},
    {"self_attn.indexer.q_layernorm", EVERY_LAYER, PLAIN, 0, NULL},
    {"self_attn.indexer.k_layernorm", EVERY_LAYER, PLAIN, 0, NULL},

    {"mlp.gate", EVERY_LAYER, MATRIX, 0, NULL},
    {"mlp.shared_expert_gate", EVERY_LAYER, MATRIX, 0, NULL},
    {"mlp.shared_expert.gate_proj", EVERY_LAYER, MATRIX, 0, NULL},
    {"mlp.shared_expert.up_proj", EVERY_LAYER, MATRIX, 0, NULL},
    {"mlp.shared_expert.down_proj", EVERY_LAYER, MATRIX, 0, NULL},
    {"mlp.switch_mlp.gate_proj", EVERY_LAYER, STACKED, NAME_GATE, NULL},
    {"mlp.switch_mlp.up_proj", EVERY_LAYER, STACKED, NAME_UP, NULL},
    {"mlp.switch_mlp.down_proj", EVERY_LAYER, STACKED, NAME_DOWN, NULL},
    {"mlp.experts.gate_up_proj", EVERY_LAYER, FUSED, NAME_GATE_UP, "mlp.switch_mlp.gate_up_proj"},
    {"mlp.experts.down_proj", EVERY_LAYER, FUSED, NAME_DOWN, "mlp.switch_mlp.down_proj"},
    {"mlp.experts.", EVERY_LAYER, SINGLE, 0, NULL},

    {"ple.key_proj", LAYER, MATRIX, 0, NULL},
    {"ple.value_proj", LAYER, MATRIX, 0, NULL},
    {"ple.norm_key", LAYER, PLAIN, 0, NULL},
    {"ple.norm_query", LAYER, PLAIN, 0, NULL},
    {"ple.norm_conv", LAYER, PLAIN, 0, NULL},
    {"ple.conv1d", LAYER, PLAIN, 0, NULL},
    {"ple.ple_embedding.layer_multipliers", LAYER, BARE, 0, NULL},
    {"ple.ple_embedding.ngram_heads_offsets", LAYER, BARE, 0, NULL},
    {"ple.ple_embedding.ngram_heads_vocab_sizes", LAYER, BARE, 0, NULL},
    {"ple.ple_embedding.ngram_embedding", LAYER, PARTS, 0, NULL},
};

static bool parse_place(const char *published, struct name_info *out, struct prefix *place,
                        const char **rest);
static bool parse_tail(const struct tail *t, const char *suffix, struct name_info *out);
static void write_canonical(const struct prefix *p, const struct tail *t, const char *published,
                            struct name_info *out);

void name_parse(const char *published, struct name_info *out)
{
    struct prefix place;
    const char *rest;
    *out = (struct name_info){.kind = NAME_UNKNOWN, .layer = -1, .shard = -1, .expert = -1};
    snprintf(out->canonical, sizeof out->canonical, "%s", published);
    bool known = parse_place(published, out, &place, &rest);
    if (known && place.where == VISION) {
        out->kind = NAME_VISION;
        snprintf(out->canonical, sizeof out->canonical, "%s%s", place.canonical, rest);
        return;
    }
    for (size_t i = 0; known && i < sizeof tails / sizeof tails[0]; i++) {
        const struct tail *t = &tails[i];
        size_t n = strlen(t->name);
        if ((t->where & place.where) && strncmp(rest, t->name, n) == 0 &&
            parse_tail(t, rest + n, out)) {
            write_canonical(&place, t, rest + n, out);
            return;
        }
    }
    out->layer = -1;
    out->mtp = 0;
}

/* Takes `word` off the front of *s. */
static bool cut(const char **s, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(*s, word, n) != 0)
        return false;
    *s += n;
    return true;
}

/* Takes a decimal number as published names have them: no sign, no leading zeros. */
static bool cut_number(const char **s, int *out)
{
    const char *p = *s;
    long v = 0;
    if (*p < '0' || *p > '9' || (p[0] == '0' && p[1] >= '0' && p[1] <= '9'))
        return false;
    for (; *p >= '0' && *p <= '9'; p++) {
        v = v * 10 + (*p - '0');
        if (v > NUMBER_MAX)
            return false;
    }
    *out = (int)v;
    *s = p;
    return true;
}

/* The prefix and the layer; *rest is what stands behind them. */
static bool parse_place(const char *published, struct name_info *out, struct prefix *place,
                        const char **rest)
{
    const struct prefix *p = prefixes;
    for (*rest = published; !cut(rest, p->published); p++)
        continue; /* the last one fits everything */
    *place = *p;
    out->mtp = p->where == MTP;
    if (!(p->where & (TRUNK | MTP)) || !cut(rest, "layers."))
        return true;
    place->where = p->where == MTP ? MTP_LAYER : LAYER;
    return cut_number(rest, &out->layer) && cut(rest, ".");
}

static bool parse_part(const char *suffix, enum name_part *part)
{
    static const char *const words[] = {
        [NAME_WEIGHT] = ".weight", [NAME_SCALES] = ".scales", [NAME_BIASES] = ".biases"};
    for (int i = NAME_WEIGHT; i <= NAME_BIASES; i++) {
        if (strcmp(suffix, words[i]) == 0) {
            *part = (enum name_part)i;
            return true;
        }
    }
    return false;
}

/* "17.gate_proj.weight" */
static bool parse_single(const char *suffix, struct name_info *out)
{
    static const char *const modules[] = {
        [NAME_GATE] = ".gate_proj", [NAME_UP] = ".up_proj", [NAME_DOWN] = ".down_proj"};
    int expert, m = NAME_GATE;
    if (!cut_number(&suffix, &expert))
        return false;
    while (m <= NAME_DOWN && !cut(&suffix, modules[m]))
        m++;
    bool weight = strcmp(suffix, ".weight") == 0;
    if (m > NAME_DOWN || !(weight || strcmp(suffix, ".weight_scale_inv") == 0))
        return false;
    out->part = weight ? NAME_WEIGHT : NAME_BLOCK_SCALES;
    out->matrix = (enum name_matrix)m;
    out->expert = expert;
    return true;
}

static bool parse_table_part(const char *suffix, struct name_info *out)
{
    int shard;
    if (strcmp(suffix, ".weight_scale") == 0) {
        out->part = NAME_SCALE;
        return true;
    }
    if (!(cut(&suffix, ".shard_") || cut(&suffix, ".shards.")) || !cut_number(&suffix, &shard) ||
        !parse_part(suffix, &out->part))
        return false;
    out->shard = shard;
    return true;
}

/* Whether the suffix suits the row; if it does, all of out but its canonical name is set. */
static bool parse_tail(const struct tail *t, const char *suffix, struct name_info *out)
{
    bool fits = false;
    switch (t->form) {
    case BARE:
    case FUSED:
        fits = *suffix == '\0';
        break;
    case PLAIN:
        fits = strcmp(suffix, ".weight") == 0;
        break;
    case MATRIX:
    case STACKED:
        fits = parse_part(suffix, &out->part);
        break;
    case SINGLE:
        fits = parse_single(suffix, out);
        break;
    case PARTS:
        fits = parse_table_part(suffix, out);
        break;
    }
    if (!fits)
        return false;
    static const enum name_kind kinds[] = {
        [STACKED] = NAME_EXPERTS, [FUSED] = NAME_EXPERTS, [SINGLE] = NAME_EXPERT,
        [PARTS] = NAME_NGRAM,     [BARE] = NAME_DENSE,    [PLAIN] = NAME_DENSE,
        [MATRIX] = NAME_DENSE};
    out->kind = kinds[t->form];
    if (out->kind == NAME_EXPERTS)
        out->matrix = t->matrix;
    return true;
}

static void write_canonical(const struct prefix *p, const struct tail *t, const char *suffix,
                            struct name_info *out)
{
    char layer[32] = "", behind[32] = "";
    if (out->layer >= 0)
        snprintf(layer, sizeof layer, "layers.%d.", out->layer);
    if (out->kind == NAME_DENSE)
        snprintf(behind, sizeof behind, "%s", suffix);
    else if (out->kind == NAME_EXPERT)
        snprintf(behind, sizeof behind, "%.*s", (int)(strrchr(suffix, '.') - suffix), suffix);
    else if (out->shard >= 0)
        snprintf(behind, sizeof behind, ".shard_%d", (int)out->shard);
    snprintf(out->canonical, sizeof out->canonical, "%s%s%s%s", p->canonical, layer,
             t->canonical ? t->canonical : t->name, behind);
}
