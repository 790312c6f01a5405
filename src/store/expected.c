/* The table of tensors: see expected.h. A row is repeated for every place it belongs to: a layer of
 * its kind, a PLE module, the draft head. */
#include "store/expected.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/ngram.h"

/* Where a row belongs. */
enum place {
    IN_TRUNK,
    IN_TRUNK_UNTIED, /* absent when the head is the embedding */
    IN_LAYER,        /* every layer, the draft head's too */
    IN_LINEAR,
    IN_ATTENTION, /* the draft head's layer is one */
    IN_PLE,
    IN_MTP,
    IN_MIXER, /* before the head: of the trunk and of the draft head */
};

/* Sizes that shapes are made of. */
enum size {
    NONE,
    ONE,
    H,       /* hidden */
    SH,      /* all streams */
    STREAMS, /* S */
    LOWRANK,
    VOCAB,
    QKV,   /* 2 nk dk + nv dv */
    NV,    /* value heads */
    NV_DV, /* their width */
    DV,
    KERNEL,
    Q2, /* query and gate of all heads */
    Q1, /* all heads */
    KV,
    HEAD,
    INDEX, /* indexer queries and key */
    INDEX_HEAD,
    EXPERTS,
    INTER,
    SHARED,
    PLE_DIM,
    PLE_KERNEL,
    NGRAM_SIZE,
    NGRAM_HEADS,
    NGRAM_ROWS, /* padded, of the module at hand */
    NGRAM_ROW,
    SIZE_COUNT,
};

struct row {
    enum expected_role role;
    enum place place;
    enum expected_kind kind;
    const char *name, *suffix;
    enum size shape[3];
};

#define W ".weight"

static const struct row rows[] = {
    {ROLE_EMBED, IN_TRUNK, EXPECTED_MATRIX, "language_model.model.embed_tokens", W, {VOCAB, H}},
    {ROLE_HEAD, IN_TRUNK_UNTIED, EXPECTED_MATRIX, "language_model.lm_head", W, {VOCAB, H}},
    {ROLE_MIXER_NORM, IN_MIXER, EXPECTED_NORM, "hyper_connection_mixer.hc_norm", W, {SH}},
    {ROLE_MIXER_DOWN,
     IN_MIXER,
     EXPECTED_MATRIX,
     "hyper_connection_mixer.input_mix_weight_down",
     W,
     {LOWRANK, SH}},
    {ROLE_MIXER_UP,
     IN_MIXER,
     EXPECTED_MATRIX,
     "hyper_connection_mixer.input_mix_weight_up",
     W,
     {SH, LOWRANK}},

    {ROLE_ATTN_HYPER_NORM, IN_LAYER, EXPECTED_NORM, "attn_hyper_connection.hc_norm", W, {SH}},
    {ROLE_ATTN_HYPER_DOWN,
     IN_LAYER,
     EXPECTED_MATRIX,
     "attn_hyper_connection.input_mix_weight_down",
     W,
     {LOWRANK, SH}},
    {ROLE_ATTN_HYPER_UP,
     IN_LAYER,
     EXPECTED_MATRIX,
     "attn_hyper_connection.input_mix_weight_up",
     W,
     {SH, LOWRANK}},
    {ROLE_ATTN_HYPER_INJECT,
     IN_LAYER,
     EXPECTED_MATRIX,
     "attn_hyper_connection.block_inject_weight",
     W,
     {STREAMS, SH}},

    {ROLE_LINEAR_QKV, IN_LINEAR, EXPECTED_MATRIX, "linear_attn.in_proj_qkv", W, {QKV, H}},
    {ROLE_LINEAR_Z, IN_LINEAR, EXPECTED_MATRIX, "linear_attn.in_proj_z", W, {NV_DV, H}},
    {ROLE_LINEAR_A, IN_LINEAR, EXPECTED_MATRIX, "linear_attn.in_proj_a", W, {NV, H}},
    {ROLE_LINEAR_B, IN_LINEAR, EXPECTED_MATRIX, "linear_attn.in_proj_b", W, {NV, H}},
    {ROLE_LINEAR_A_LOG, IN_LINEAR, EXPECTED_VECTOR, "linear_attn.A_log", "", {NV}},
    {ROLE_LINEAR_DT_BIAS, IN_LINEAR, EXPECTED_VECTOR, "linear_attn.dt_bias", "", {NV}},
    {ROLE_LINEAR_CONV, IN_LINEAR, EXPECTED_CONV, "linear_attn.conv1d", W, {QKV, KERNEL}},
    {ROLE_LINEAR_NORM, IN_LINEAR, EXPECTED_VECTOR, "linear_attn.norm", W, {DV}},
    {ROLE_LINEAR_OUT, IN_LINEAR, EXPECTED_MATRIX, "linear_attn.out_proj", W, {H, NV_DV}},

    {ROLE_Q, IN_ATTENTION, EXPECTED_MATRIX, "self_attn.q_proj", W, {Q2, H}},
    {ROLE_K, IN_ATTENTION, EXPECTED_MATRIX, "self_attn.k_proj", W, {KV, H}},
    {ROLE_V, IN_ATTENTION, EXPECTED_MATRIX, "self_attn.v_proj", W, {KV, H}},
    {ROLE_O, IN_ATTENTION, EXPECTED_MATRIX, "self_attn.o_proj", W, {H, Q1}},
    {ROLE_Q_NORM, IN_ATTENTION, EXPECTED_NORM, "self_attn.q_norm", W, {HEAD}},
    {ROLE_K_NORM, IN_ATTENTION, EXPECTED_NORM, "self_attn.k_norm", W, {HEAD}},
    {ROLE_INDEX_QK,
     IN_ATTENTION,
     EXPECTED_MATRIX,
     "self_attn.indexer.index_qk_proj",
     W,
     {INDEX, H}},
    {ROLE_INDEX_Q_NORM,
     IN_ATTENTION,
     EXPECTED_NORM,
     "self_attn.indexer.q_layernorm",
     W,
     {INDEX_HEAD}},
    {ROLE_INDEX_K_NORM,
     IN_ATTENTION,
     EXPECTED_NORM,
     "self_attn.indexer.k_layernorm",
     W,
     {INDEX_HEAD}},

    {ROLE_MLP_HYPER_NORM, IN_LAYER, EXPECTED_NORM, "mlp_hyper_connection.hc_norm", W, {SH}},
    {ROLE_MLP_HYPER_DOWN,
     IN_LAYER,
     EXPECTED_MATRIX,
     "mlp_hyper_connection.input_mix_weight_down",
     W,
     {LOWRANK, SH}},
    {ROLE_MLP_HYPER_UP,
     IN_LAYER,
     EXPECTED_MATRIX,
     "mlp_hyper_connection.input_mix_weight_up",
     W,
     {SH, LOWRANK}},
    {ROLE_MLP_HYPER_INJECT,
     IN_LAYER,
     EXPECTED_MATRIX,
     "mlp_hyper_connection.block_inject_weight",
     W,
     {STREAMS, SH}},

    {ROLE_ROUTER, IN_LAYER, EXPECTED_EXACT, "mlp.gate", W, {EXPERTS, H}},
    {ROLE_SHARED_GATE, IN_LAYER, EXPECTED_EXACT, "mlp.shared_expert_gate", W, {ONE, H}},
    {ROLE_SHARED_EXPERT_GATE,
     IN_LAYER,
     EXPECTED_MATRIX,
     "mlp.shared_expert.gate_proj",
     W,
     {SHARED, H}},
    {ROLE_SHARED_EXPERT_UP, IN_LAYER, EXPECTED_MATRIX, "mlp.shared_expert.up_proj", W, {SHARED, H}},
    {ROLE_SHARED_EXPERT_DOWN,
     IN_LAYER,
     EXPECTED_MATRIX,
     "mlp.shared_expert.down_proj",
     W,
     {H, SHARED}},
    {ROLE_EXPERTS_GATE,
     IN_LAYER,
     EXPECTED_EXPERTS,
     "mlp.switch_mlp.gate_proj",
     W,
     {EXPERTS, INTER, H}},
    {ROLE_EXPERTS_UP, IN_LAYER, EXPECTED_EXPERTS, "mlp.switch_mlp.up_proj", W, {EXPERTS, INTER, H}},
    {ROLE_EXPERTS_DOWN,
     IN_LAYER,
     EXPECTED_EXPERTS,
     "mlp.switch_mlp.down_proj",
     W,
     {EXPERTS, H, INTER}},

    {ROLE_PLE_KEY, IN_PLE, EXPECTED_MATRIX, "ple.key_proj", W, {SH, PLE_DIM}},
    {ROLE_PLE_VALUE, IN_PLE, EXPECTED_MATRIX, "ple.value_proj", W, {H, PLE_DIM}},
    {ROLE_PLE_NORM_KEY, IN_PLE, EXPECTED_NORM, "ple.norm_key", W, {SH}},
    {ROLE_PLE_NORM_QUERY, IN_PLE, EXPECTED_NORM, "ple.norm_query", W, {SH}},
    {ROLE_PLE_NORM_CONV, IN_PLE, EXPECTED_NORM, "ple.norm_conv", W, {SH}},
    {ROLE_PLE_CONV, IN_PLE, EXPECTED_CONV, "ple.conv1d", W, {SH, PLE_KERNEL}},
    {ROLE_PLE_TABLE,
     IN_PLE,
     EXPECTED_NGRAM,
     "ple.ple_embedding.ngram_embedding",
     W,
     {NGRAM_ROWS, NGRAM_ROW}},
    {ROLE_PLE_MULTIPLIERS,
     IN_PLE,
     EXPECTED_HASH,
     "ple.ple_embedding.layer_multipliers",
     "",
     {NGRAM_SIZE}},
    {ROLE_PLE_OFFSETS,
     IN_PLE,
     EXPECTED_HASH,
     "ple.ple_embedding.ngram_heads_offsets",
     "",
     {NGRAM_HEADS}},
    {ROLE_PLE_SIZES,
     IN_PLE,
     EXPECTED_HASH,
     "ple.ple_embedding.ngram_heads_vocab_sizes",
     "",
     {NGRAM_HEADS}},

    {ROLE_MTP_NORM_EMBEDDING, IN_MTP, EXPECTED_NORM_RAW, "mtp.pre_fc_norm_embedding", W, {H}},
    {ROLE_MTP_NORM_HIDDEN, IN_MTP, EXPECTED_NORM_RAW, "mtp.pre_fc_norm_hidden", W, {SH}},
    {ROLE_MTP_FC_EMBEDDING, IN_MTP, EXPECTED_MATRIX, "mtp.fc_embedding", W, {H, H}},
    {ROLE_MTP_FC_HIDDEN, IN_MTP, EXPECTED_MATRIX, "mtp.fc_hidden", W, {H, H}},
};

/* The list while it is made. */
struct maker {
    uint64_t size[SIZE_COUNT];
    struct expected_list *list;
    size_t cap;
};

static void sizes_of(const struct config *c, uint64_t *size);
static int add_place(struct maker *k, enum place place, const char *prefix,
                     const struct expected *like);
static int add_layer(struct maker *k, const struct config *c, int il);
static int sort_names(struct expected_list *l);

int expected_init(const struct config *c, struct expected_list *out, struct err *e)
{
    static const struct expected top = {.layer = -1, .module = -1},
                                 mtp = {.layer = -1, .module = -1, .mtp = true};
    struct maker k = {.list = out};
    *out = (struct expected_list){0};
    sizes_of(c, k.size);
    int rc = add_place(&k, IN_TRUNK, "", &top);
    if (!rc && !c->tie_embeddings)
        rc = add_place(&k, IN_TRUNK_UNTIED, "", &top);
    if (!rc)
        rc = add_place(&k, IN_MIXER, "language_model.model.", &top);
    for (int il = 0; !rc && il < c->n_layers + c->n_mtp; il++)
        rc = add_layer(&k, c, il);
    if (!rc && c->n_mtp)
        rc = add_place(&k, IN_MTP, "", &mtp);
    if (!rc && c->n_mtp)
        rc = add_place(&k, IN_MIXER, "mtp.", &mtp);
    if (!rc)
        rc = sort_names(out);
    if (rc) {
        expected_free(out);
        return ERR(e, E_NOMEM, "out of memory listing the tensors of a model");
    }
    return 0;
}

void expected_free(struct expected_list *l)
{
    mem_free(l->at);
    mem_free(l->by_name);
    *l = (struct expected_list){0};
}

static void sizes_of(const struct config *c, uint64_t *size)
{
    int heads = (c->ngram_size - 1) * c->heads_per_ngram;
    const int value[SIZE_COUNT] = {
        [ONE] = 1,
        [H] = c->h,
        [SH] = c->S * c->h,
        [STREAMS] = c->S,
        [LOWRANK] = c->lowrank,
        [VOCAB] = c->vocab,
        [QKV] = 2 * c->nk * c->dk + c->nv * c->dv,
        [NV] = c->nv,
        [NV_DV] = c->nv * c->dv,
        [DV] = c->dv,
        [KERNEL] = c->conv_kernel,
        [Q2] = 2 * c->n_heads * c->head_dim,
        [Q1] = c->n_heads * c->head_dim,
        [KV] = c->n_kv * c->head_dim,
        [HEAD] = c->head_dim,
        [INDEX] = (c->index_heads + 1) * c->index_dim,
        [INDEX_HEAD] = c->index_dim,
        [EXPERTS] = c->E,
        [INTER] = c->inter,
        [SHARED] = c->shared_inter,
        [PLE_DIM] = c->ple_dim,
        [PLE_KERNEL] = c->ple_kernel,
        [NGRAM_SIZE] = c->ngram_size,
        [NGRAM_HEADS] = heads,
        [NGRAM_ROW] = c->ple_dim / heads,
    };
    for (int i = 0; i < SIZE_COUNT; i++)
        size[i] = (uint64_t)value[i];
}

static int add_place(struct maker *k, enum place place, const char *prefix,
                     const struct expected *like)
{
    struct expected_list *l = k->list;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].place != place)
            continue;
        if (l->n == k->cap) {
            size_t cap = k->cap ? 2 * k->cap : 64;
            struct expected *more = mem_realloc(l->at, cap * sizeof *more);
            if (!more)
                return -E_NOMEM;
            l->at = more;
            k->cap = cap;
        }
        struct expected *x = &l->at[l->n++];
        *x = *like;
        snprintf(x->name, sizeof x->name, "%s%s", prefix, rows[i].name);
        x->suffix = rows[i].suffix;
        x->kind = rows[i].kind;
        x->role = rows[i].role;
        while (x->n_dims < 3 && rows[i].shape[x->n_dims] != NONE) {
            x->shape[x->n_dims] = k->size[rows[i].shape[x->n_dims]];
            x->n_dims++;
        }
    }
    return 0;
}

static int add_layer(struct maker *k, const struct config *c, int il)
{
    struct expected like = {.layer = il, .module = -1, .mtp = il == c->n_layers};
    char prefix[64];
    if (like.mtp)
        snprintf(prefix, sizeof prefix, "mtp.layers.0.");
    else
        snprintf(prefix, sizeof prefix, "language_model.model.layers.%d.", il);
    bool attention = like.mtp || c->attention[il];
    int rc = 0;
    for (int m = 0; !rc && m < c->n_ple; m++) {
        struct ngram_module g;
        if (c->ple_layer[m] != il || like.mtp)
            continue;
        ngram_derive(c, m, &g);
        k->size[NGRAM_ROWS] = g.rows;
        like.module = m;
        rc = add_place(k, IN_PLE, prefix, &like);
        like.module = -1;
    }
    if (!rc)
        rc = add_place(k, IN_LAYER, prefix, &like);
    if (!rc)
        rc = add_place(k, attention ? IN_ATTENTION : IN_LINEAR, prefix, &like);
    return rc;
}

/* qsort has no room for a context: pairs carry the name along. */
struct named {
    const char *name;
    size_t i;
};

static int compare_named(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static int sort_names(struct expected_list *l)
{
    struct named *v = mem_array(l->n, sizeof *v);
    l->by_name = mem_array(l->n, sizeof *l->by_name);
    if (!v || !l->by_name) {
        mem_free(v);
        return -E_NOMEM;
    }
    for (size_t i = 0; i < l->n; i++)
        v[i] = (struct named){l->at[i].name, i};
    qsort(v, l->n, sizeof *v, compare_named);
    for (size_t i = 0; i < l->n; i++)
        l->by_name[i] = v[i].i;
    mem_free(v);
    return 0;
}

/* What a tensor's name is made of: module, part of a table, suffix. */
struct cut {
    size_t module;      /* length of the module's name */
    bool part;          /* ".shard_N" or ".shards.N" behind it */
    const char *suffix; /* ".weight", ".scales", ".biases" or "" */
};

static struct cut cut_name(const char *name)
{
    static const char *const suffixes[] = {".weight", ".scales", ".biases"};
    static const char *const parts[] = {".shard_", ".shards."};
    size_t n = strlen(name), digits = 0;
    struct cut c = {n, false, ""};
    for (size_t i = 0; i < 3; i++) {
        size_t k = strlen(suffixes[i]);
        if (n > k && strcmp(name + n - k, suffixes[i]) == 0)
            c = (struct cut){n - k, false, suffixes[i]};
    }
    n = c.module;
    while (digits < n && name[n - digits - 1] >= '0' && name[n - digits - 1] <= '9')
        digits++;
    for (size_t i = 0; digits && i < 2; i++) {
        size_t k = strlen(parts[i]);
        if (n > digits + k && memcmp(name + n - digits - k, parts[i], k) == 0) {
            c.module = n - digits - k;
            c.part = true;
        }
    }
    return c;
}

/* Whether the rest of a name, behind the module's, is one that x can have. */
static bool fits(const struct expected *x, const struct cut *c)
{
    if (c->part && x->kind != EXPECTED_NGRAM)
        return false;
    return !*c->suffix || strcmp(c->suffix, x->suffix) == 0 || expected_group(x);
}

const struct expected *expected_find(const struct expected_list *l, const char *name)
{
    struct cut c = cut_name(name);
    size_t lo = 0, hi = l->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct expected *x = &l->at[l->by_name[mid]];
        int order = strncmp(name, x->name, c.module);
        if (!order && x->name[c.module])
            order = -1;
        if (!order)
            return fits(x, &c) ? x : NULL;
        if (order < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return NULL;
}

int expected_group(const struct expected *x)
{
    uint64_t cols = x->shape[x->n_dims - 1];
    switch (x->kind) {
    case EXPECTED_EXPERTS:
        return 64;
    case EXPECTED_MATRIX:
        return cols % 64 ? 0 : 64;
    case EXPECTED_NGRAM:
        return cols % 64 == 0 ? 64 : cols % 32 == 0 ? 32 : cols % 16 == 0 ? 16 : 8;
    default:
        return 0;
    }
}
