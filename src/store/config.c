/* config.json to struct config: every field's name, range and default is in the tables below, the
 * rules between fields are in the check_ functions. See config.h. */
#include "store/config.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

enum { CONFIG_FILE_MAX = 16 << 20, WHERE_BYTES = 512, DEFAULT_INTERVAL = 4 };

/* Where messages say a field is, and the two objects it can be in. */
struct source {
    const json_t *text, *outer; /* the same object when there is no text_config */
    char where[WHERE_BYTES], where_outer[WHERE_BYTES];
};

struct int_field {
    const char *key;
    bool need;
    int lo, hi, absent;
    size_t at; /* of an int in struct config */
};

#define AT(member) offsetof(struct config, member)
#define NEED(key, lo, hi, m)                                                                       \
    {                                                                                              \
        key, true, lo, hi, 0, AT(m)                                                                \
    }
#define ELSE(key, lo, hi, absent, m)                                                               \
    {                                                                                              \
        key, false, lo, hi, absent, AT(m)                                                          \
    }

/* The upper ends keep every product of two sizes inside an int and every file offset in 63 bits. */
static const struct int_field int_fields[] = {
    NEED("hidden_size", 64, 65536, h),
    NEED("num_hidden_layers", 1, CONFIG_LAYERS_MAX, n_layers),
    NEED("vocab_size", 2, 1 << 24, vocab),
    ELSE("max_position_embeddings", 1, 1 << 30, 262144, max_pos),
    NEED("num_attention_heads", 1, 1024, n_heads),
    NEED("num_key_value_heads", 1, 1024, n_kv),
    NEED("head_dim", 2, 4096, head_dim),
    NEED("indexer_n_heads", 1, 1024, index_heads),
    NEED("indexer_head_dim", 2, 4096, index_dim),
    NEED("indexer_budget", 1, 1 << 24, index_budget),
    NEED("indexer_compress_ratio", 1, 1 << 16, index_ratio),
    NEED("linear_num_key_heads", 1, 1024, nk),
    NEED("linear_num_value_heads", 1, 1024, nv),
    NEED("linear_key_head_dim", 1, 4096, dk),
    NEED("linear_value_head_dim", 1, 4096, dv),
    ELSE("linear_conv_kernel_dim", 1, 64, 4, conv_kernel),
    ELSE("num_experts", 1, CONFIG_EXPERTS_MAX, 512, E),
    ELSE("num_experts_per_tok", 1, CONFIG_TOP_K_MAX, 10, K),
    NEED("moe_intermediate_size", 64, 65536, inter),
    NEED("shared_expert_intermediate_size", 1, 65536, shared_inter),
    ELSE("hc_count", 2, CONFIG_STREAMS_MAX, 4, S),
    ELSE("hc_lowrank", 1, 65536, 320, lowrank),
    ELSE("ple_conv_kernel_size", 1, 64, 4, ple_kernel),
    ELSE("ngram_size", 2, CONFIG_NGRAM_SIZE_MAX, 3, ngram_size),
    ELSE("heads_per_ngram", 1, CONFIG_NGRAM_HEADS_MAX, 8, heads_per_ngram),
    ELSE("split_ngram_parts", 1, 65536, 1, ngram_parts),
};

static int source_init(struct source *s, const json_t *root, const char *where, struct err *e);
static int parse_sizes(const struct source *s, struct config *c, struct err *e);
static int parse_rope(const struct source *s, struct config *c, struct err *e);
static int parse_layers(const struct source *s, struct config *c, struct err *e);
static int parse_eos(const struct source *s, struct config *c, struct err *e);
static int parse_ple(const struct source *s, struct config *c, struct err *e);
static int parse_mtp(const struct source *s, struct config *c, struct err *e);
static int parse_switches(const struct source *s, struct config *c, struct err *e);
static int check_attention(const struct source *s, const struct config *c, struct err *e);
static int check_experts(const struct source *s, const struct config *c, struct err *e);
static int check_ple(const struct source *s, const struct config *c, struct err *e);

int config_parse(const json_t *root, const char *where, struct config *out, struct err *e)
{
    static int (*const parts[])(const struct source *, struct config *, struct err *) = {
        parse_sizes, parse_rope, parse_layers, parse_eos, parse_ple, parse_mtp, parse_switches};
    static int (*const checks[])(const struct source *, const struct config *,
                                 struct err *) = {check_attention, check_experts, check_ple};
    struct source s = {0};
    struct config c = {0};
    int rc = source_init(&s, root, where, e);
    for (size_t i = 0; !rc && i < sizeof parts / sizeof parts[0]; i++)
        rc = parts[i](&s, &c, e);
    for (size_t i = 0; !rc && i < sizeof checks / sizeof checks[0]; i++)
        rc = checks[i](&s, &c, e);
    if (!rc)
        *out = c;
    return rc;
}

int config_load(const char *path, struct config *out, struct err *e)
{
    json_t *root;
    int rc = json_read_file(path, CONFIG_FILE_MAX, &root, e);
    if (rc)
        return rc;
    rc = config_parse(root, path, out, e);
    json_decref(root);
    return rc;
}

/* A model_type that is not one of the words (NULL at the end) is another model. */
static int check_type(const json_t *obj, const char *where, bool need, const char *const *words,
                      struct err *e)
{
    const char *found = NULL;
    int rc = json_field_str(obj, where, "model_type", need, &found, e);
    if (rc || !found)
        return rc;
    for (size_t i = 0; words[i]; i++)
        if (strcmp(found, words[i]) == 0)
            return 0;
    return ERR(e, E_UNSUPPORTED, "%s.model_type: want \"%s\", found \"%.60s\": another model",
               where, words[0], found);
}

static int source_init(struct source *s, const json_t *root, const char *where, struct err *e)
{
    static const char *const outer_types[] = {"qwen4_exp", "qwen4_exp_text", NULL};
    json_t *text = NULL;
    snprintf(s->where_outer, sizeof s->where_outer, "%s: config", where);
    int rc = check_type(root, s->where_outer, true, outer_types, e);
    if (!rc)
        rc = json_field_obj(root, s->where_outer, "text_config", false, &text, e);
    if (rc)
        return rc;
    s->outer = root;
    s->text = text ? text : root;
    snprintf(s->where, sizeof s->where, "%s: %s", where, text ? "text_config" : "config");
    return text ? check_type(text, s->where, false, outer_types + 1, e) : 0;
}

static int parse_sizes(const struct source *s, struct config *c, struct err *e)
{
    for (size_t i = 0; i < sizeof int_fields / sizeof int_fields[0]; i++) {
        const struct int_field *f = &int_fields[i];
        int64_t v = f->absent;
        int rc = json_field_int(s->text, s->where, f->key, f->need, f->lo, f->hi, &v, e);
        if (rc)
            return rc;
        *(int *)((char *)c + f->at) = (int)v;
    }
    c->eps = 1e-6;
    return json_field_real(s->text, s->where, "rms_norm_eps", false, 1e-20, 1, &c->eps, e);
}

/* A number that may be in rope_parameters, beside it, or (equal) in both. */
static int rope_real(const struct source *s, const json_t *rope, const char *key, const double *lim,
                     double *out, struct err *e)
{
    char where[WHERE_BYTES + 32];
    double flat = NAN, in = NAN;
    snprintf(where, sizeof where, "%s.rope_parameters", s->where);
    int rc = json_field_real(s->text, s->where, key, false, lim[0], lim[1], &flat, e);
    if (!rc && rope)
        rc = json_field_real(rope, where, key, false, lim[0], lim[1], &in, e);
    if (rc)
        return rc;
    if (!isnan(flat) && !isnan(in) && flat != in)
        return ERR(e, E_FORMAT, "%s.%s: is %g but %s.%s is %g: want the same value, or only one",
                   s->where, key, flat, where, key, in);
    *out = isnan(in) ? flat : in;
    return 0;
}

/* key: of the object, which may be absent. */
static int check_rope_type(const struct source *s, const char *key, json_t **rope, struct err *e)
{
    static const char *const words[] = {"rope_type", "type"};
    char where[WHERE_BYTES + 32];
    snprintf(where, sizeof where, "%s.%s", s->where, key);
    int rc = json_field_obj(s->text, s->where, key, false, rope, e);
    for (size_t i = 0; !rc && *rope && i < 2; i++) {
        const char *type = "default";
        rc = json_field_str(*rope, where, words[i], false, &type, e);
        if (!rc && strcmp(type, "default") != 0)
            rc = ERR(e, E_UNSUPPORTED, "%s.%s: want \"default\", found \"%.60s\"", where, words[i],
                     type);
    }
    return rc;
}

static int parse_rope(const struct source *s, struct config *c, struct err *e)
{
    static const double theta_lim[2] = {1, 1e15}, factor_lim[2] = {1e-6, 1};
    json_t *rope = NULL, *scaling = NULL;
    double factor = 1;
    int rc = check_rope_type(s, "rope_parameters", &rope, e);
    if (!rc)
        rc = check_rope_type(s, "rope_scaling", &scaling, e);
    if (!rc)
        rc = rope_real(s, rope, "rope_theta", theta_lim, &c->rope_theta, e);
    if (!rc)
        rc = rope_real(s, rope, "partial_rotary_factor", factor_lim, &factor, e);
    if (rc)
        return rc;
    if (isnan(c->rope_theta))
        return ERR(e, E_FORMAT, "%s.rope_theta: is required (in rope_parameters), found nothing",
                   s->where);
    if (isnan(factor))
        factor = 1;
    c->rot = (int)(c->head_dim * factor); /* rounded down, as the public implementation does */
    int most = c->head_dim < c->index_dim ? c->head_dim : c->index_dim;
    if (c->rot < 2 || c->rot % 2 || c->rot > most)
        return ERR(
            e, E_FORMAT,
            "%s.partial_rotary_factor: %g of head_dim %d rotates %d dimensions, want an even "
            "number from 2 to %d (at most head_dim and indexer_head_dim)",
            s->where, factor, c->head_dim, c->rot, most);
    return 0;
}

static int parse_layers(const struct source *s, struct config *c, struct err *e)
{
    char room[96];
    json_t *types = NULL;
    int64_t interval = DEFAULT_INTERVAL;
    int rc = json_field_arr(s->text, s->where, "layer_types", false, &types, e);
    if (!rc)
        rc = json_field_int(s->text, s->where, "full_attention_interval", false, 1, 1 << 20,
                            &interval, e);
    if (rc)
        return rc;
    if (types && json_array_size(types) != (size_t)c->n_layers)
        return ERR(e, E_FORMAT, "%s.layer_types: has %zu entries, want %d (num_hidden_layers)",
                   s->where, json_array_size(types), c->n_layers);
    for (int il = 0; il < c->n_layers; il++) {
        if (!types) {
            c->attention[il] = (il + 1) % interval == 0;
            continue;
        }
        const json_t *v = json_array_get(types, (size_t)il);
        const char *type = json_is_string(v) ? json_string_value(v) : "";
        c->attention[il] =
            !strcmp(type, "full_attention") || !strcmp(type, "qwen_sparse_attention");
        if (!c->attention[il] && strcmp(type, "linear_attention") != 0)
            return ERR(e, E_UNSUPPORTED,
                       "%s.layer_types[%d]: want \"linear_attention\", \"full_attention\" or "
                       "\"qwen_sparse_attention\", found %s",
                       s->where, il, json_describe(v, room, sizeof room));
    }
    return 0;
}

/* The text config's ids, or the outer ones when it has none. */
static int parse_eos(const struct source *s, struct config *c, struct err *e)
{
    char room[96];
    bool own = json_object_get(s->text, "eos_token_id") &&
               !json_is_null(json_object_get(s->text, "eos_token_id"));
    const json_t *v = json_object_get(own ? s->text : s->outer, "eos_token_id");
    const char *where = own ? s->where : s->where_outer;
    size_t n = json_is_array(v) ? json_array_size(v) : v && !json_is_null(v);
    if (n > CONFIG_EOS_MAX)
        return ERR(e, E_LIMIT, "%s.eos_token_id: has %zu ids, want at most %d", where, n,
                   CONFIG_EOS_MAX);
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_is_array(v) ? json_array_get(v, i) : v;
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= c->vocab)
            return ERR(e, E_FORMAT, "%s.eos_token_id: want integers from 0 to %d, found %s", where,
                       c->vocab - 1, json_describe(id, room, sizeof room));
        c->eos[i] = (int)json_integer_value(id);
    }
    c->n_eos = (int)n;
    return 0;
}

static int compare_int(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static int parse_ple(const struct source *s, struct config *c, struct err *e)
{
    char room[96];
    json_t *ids = NULL;
    int64_t dim = c->h, seed = 1234;
    int rc = json_field_int(s->text, s->where, "ple_embed_dim", false, 1, 1 << 20, &dim, e);
    if (!rc)
        rc = json_field_int(s->text, s->where, "seed", false, 0, INT64_MAX, &seed, e);
    c->ngram_base = 20000000;
    c->ngram_divisible = 128;
    if (!rc)
        rc = json_field_int(s->text, s->where, "ngram_vocab_size_base", false, 1, (int64_t)1 << 31,
                            &c->ngram_base, e);
    if (!rc)
        rc = json_field_int(s->text, s->where, "make_ngram_vocab_size_divisible_by", false, 1,
                            1 << 30, &c->ngram_divisible, e);
    if (!rc)
        rc = json_field_arr(s->text, s->where, "ple_layer_ids", false, &ids, e);
    if (rc)
        return rc;
    c->ple_dim = (int)dim;
    c->seed = (uint64_t)seed;
    if (json_array_size(ids) > CONFIG_PLE_MAX)
        return ERR(e, E_LIMIT, "%s.ple_layer_ids: has %zu layers, want at most %d", s->where,
                   json_array_size(ids), CONFIG_PLE_MAX);
    c->n_ple = (int)json_array_size(ids);
    for (int m = 0; m < c->n_ple; m++) {
        const json_t *v = json_array_get(ids, (size_t)m);
        if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > c->n_layers)
            return ERR(e, E_FORMAT,
                       "%s.ple_layer_ids: want layers from 1 to %d (the first is 1), found %s",
                       s->where, c->n_layers, json_describe(v, room, sizeof room));
        c->ple_layer[m] = (int)json_integer_value(v) - 1;
    }
    qsort(c->ple_layer, (size_t)c->n_ple, sizeof c->ple_layer[0], compare_int);
    return 0;
}

/* What the mtp object may say beside the number of layers; absent is always fine. */
static int check_mtp_object(const struct source *s, const json_t *mtp, const struct config *c,
                            struct err *e)
{
    char where[WHERE_BYTES + 8], room[96];
    json_t *types = NULL;
    double theta = c->rope_theta;
    snprintf(where, sizeof where, "%s.mtp", s->where);
    int rc = json_field_arr(mtp, where, "layer_types", false, &types, e);
    if (!rc)
        rc = json_field_real(mtp, where, "rope_theta", false, 1, 1e15, &theta, e);
    if (rc)
        return rc;
    const json_t *from = json_object_get(mtp, "mtp_use_hidden_state_from_layer");
    if (from && !json_is_null(from))
        return ERR(e, E_UNSUPPORTED, "%s.mtp_use_hidden_state_from_layer: want null, found %s",
                   where, json_describe(from, room, sizeof room));
    if (theta != c->rope_theta)
        return ERR(e, E_UNSUPPORTED, "%s.rope_theta: is %g, want the trunk's %g", where, theta,
                   c->rope_theta);
    for (size_t i = 0; i < json_array_size(types); i++) {
        const json_t *v = json_array_get(types, i);
        const char *type = json_is_string(v) ? json_string_value(v) : "";
        if (strcmp(type, "full_attention") != 0 && strcmp(type, "qwen_sparse_attention") != 0)
            return ERR(e, E_UNSUPPORTED,
                       "%s.layer_types[%zu]: want \"full_attention\" or \"qwen_sparse_attention\", "
                       "found %s",
                       where, i, json_describe(v, room, sizeof room));
    }
    return 0;
}

static int parse_mtp(const struct source *s, struct config *c, struct err *e)
{
    char where[WHERE_BYTES + 8];
    json_t *mtp = NULL;
    int64_t n = -1, inside = -1;
    bool own_embedding = false;
    const char *norm = "all";
    snprintf(where, sizeof where, "%s.mtp", s->where);
    int rc = json_field_obj(s->text, s->where, "mtp", false, &mtp, e);
    if (!rc)
        rc = json_field_int(s->text, s->where, "mtp_num_hidden_layers", false, 0, 1, &n, e);
    if (!rc && mtp)
        rc = json_field_int(mtp, where, "num_hidden_layers", false, 0, 1, &inside, e);
    if (!rc)
        rc = json_field_bool(s->text, s->where, "mtp_use_dedicated_embeddings", false,
                             &own_embedding, e);
    if (!rc)
        rc = json_field_str(s->text, s->where, "mtp_hidden_norm", false, &norm, e);
    if (rc)
        return rc;
    if (n >= 0 && inside >= 0 && n != inside)
        return ERR(e, E_FORMAT,
                   "%s.mtp_num_hidden_layers: is %d but %s.num_hidden_layers is %d: want the same",
                   s->where, (int)n, where, (int)inside);
    c->n_mtp = n > 0 || inside > 0;
    if (c->n_mtp && own_embedding)
        return ERR(e, E_UNSUPPORTED, "%s.mtp_use_dedicated_embeddings: want false, found true",
                   s->where);
    if (strcmp(norm, "all") != 0 && strcmp(norm, "stream") != 0)
        return ERR(e, E_FORMAT, "%s.mtp_hidden_norm: want \"all\" or \"stream\", found \"%.60s\"",
                   s->where, norm);
    c->mtp_norm = strcmp(norm, "all") == 0 ? MTP_NORM_ALL : MTP_NORM_STREAM;
    return c->n_mtp && mtp ? check_mtp_object(s, mtp, c, e) : 0;
}

/* The text config's word, or the outer one's when it has none. If the word is wrong the head is
 * missing or left over, which whoever reads tensors notices. */
static int parse_tie(const struct source *s, struct config *c, struct err *e)
{
    static const char key[] = "tie_word_embeddings";
    bool outer = false;
    int rc = json_field_bool(s->outer, s->where_outer, key, false, &outer, e);
    c->tie_embeddings = outer;
    return rc ? rc : json_field_bool(s->text, s->where, key, false, &c->tie_embeddings, e);
}

static int parse_switches(const struct source *s, struct config *c, struct err *e)
{
    bool bias = false;
    int64_t index_kv = 0;
    const char *act = "silu", *gate = NULL;
    c->norm_topk = true;
    int rc = json_field_bool(s->text, s->where, "norm_topk_prob", false, &c->norm_topk, e);
    if (!rc)
        rc = json_field_bool(s->text, s->where, "attention_bias", false, &bias, e);
    if (!rc)
        rc = json_field_int(s->text, s->where, "indexer_kv_heads", true, 1, 1, &index_kv, e);
    if (!rc)
        rc = json_field_str(s->text, s->where, "hidden_act", false, &act, e);
    if (!rc)
        rc = json_field_str(s->text, s->where, "output_gate_type", false, &gate, e);
    if (rc)
        return rc;
    if (bias)
        return ERR(e, E_UNSUPPORTED, "%s.attention_bias: want false, found true", s->where);
    if (strcmp(act, "silu") != 0)
        return ERR(e, E_UNSUPPORTED, "%s.hidden_act: want \"silu\", found \"%.60s\"", s->where,
                   act);
    if (!gate)
        gate = act;
    if (strcmp(gate, "silu") != 0 && strcmp(gate, "sigmoid") != 0)
        return ERR(e, E_UNSUPPORTED,
                   "%s.output_gate_type: want \"sigmoid\" or \"silu\", found \"%.60s\"", s->where,
                   gate);
    c->gate_act = strcmp(gate, "silu") == 0 ? GATE_SILU : GATE_SIGMOID;
    return parse_tie(s, c, e);
}

/* field must be a multiple of (or: divide into) another; the message has both. */
static int multiple(const struct source *s, const char *key, int value, const char *of, int divisor,
                    struct err *e)
{
    if (value % divisor == 0)
        return 0;
    return ERR(e, E_FORMAT, "%s.%s: is %d, want a multiple of %s%d%s", s->where, key, value, of,
               divisor, *of ? ")" : "");
}

static int check_attention(const struct source *s, const struct config *c, struct err *e)
{
    int rc = multiple(s, "num_attention_heads", c->n_heads, "num_key_value_heads (", c->n_kv, e);
    if (!rc)
        rc = multiple(s, "indexer_budget", c->index_budget, "indexer_compress_ratio (",
                      c->index_ratio, e);
    if (!rc)
        rc = multiple(s, "linear_num_value_heads", c->nv, "linear_num_key_heads (", c->nk, e);
    return rc;
}

/* Routed experts are stored in groups of 64 columns: both of their widths are made of them. */
static int check_experts(const struct source *s, const struct config *c, struct err *e)
{
    int rc = multiple(s, "hidden_size", c->h, "", 64, e);
    if (!rc)
        rc = multiple(s, "moe_intermediate_size", c->inter, "", 64, e);
    if (!rc && c->K > c->E)
        rc = ERR(e, E_FORMAT, "%s.num_experts_per_tok: is %d, want at most num_experts (%d)",
                 s->where, c->K, c->E);
    return rc;
}

static int check_ple(const struct source *s, const struct config *c, struct err *e)
{
    int heads = (c->ngram_size - 1) * c->heads_per_ngram;
    if (!c->n_ple)
        return 0;
    for (int m = 0; m < c->n_ple; m++) {
        int il = c->ple_layer[m];
        if (m && il == c->ple_layer[m - 1])
            return ERR(e, E_FORMAT, "%s.ple_layer_ids: has %d twice, want each layer once",
                       s->where, il + 1);
        if (c->attention[il])
            return ERR(e, E_FORMAT,
                       "%s.ple_layer_ids: has %d, an attention layer; want linear_attention layers",
                       s->where, il + 1);
    }
    if (!c->n_eos)
        return ERR(e, E_FORMAT, "%s.eos_token_id: is required with ple_layer_ids, found nothing",
                   s->where);
    if (heads > CONFIG_NGRAM_HEADS_MAX)
        return ERR(e, E_LIMIT,
                   "%s.heads_per_ngram: %d for each of %d orders makes %d heads, want at most %d",
                   s->where, c->heads_per_ngram, c->ngram_size - 1, heads, CONFIG_NGRAM_HEADS_MAX);
    int rc = multiple(s, "ple_embed_dim", c->ple_dim, "its n-gram heads (", heads, e);
    if (!rc && c->ple_dim / heads % 8)
        rc = ERR(e, E_UNSUPPORTED,
                 "%s.ple_embed_dim: %d over %d heads makes rows of %d, want a multiple of 8",
                 s->where, c->ple_dim, heads, c->ple_dim / heads);
    return rc;
}
