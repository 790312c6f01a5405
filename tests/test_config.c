/* config.json: every published and golden config loads, and every rule refuses what breaks it with
 * a message that names the field. */
#include "tests/aid_test.h"

#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "store/config.h"

#define MICRO GOLDENS "micro/mlx4/config.json"

static const char *const published[] = {
    DATA "vectors/config.json",          DATA "vectors/config.fp8.json",
    DATA "vectors/config.mlx4.json",     DEMO "/config.json",
    GOLDENS "micro/bf16/config.json",    MICRO,
    GOLDENS "wide/mlx4/config.json",     GOLDENS "deep/mlx4/config.json",
    GOLDENS "v-hc2/mlx4/config.json",    GOLDENS "v-head128/mlx4/config.json",
    GOLDENS "v-mtpall/mlx4/config.json", GOLDENS "v-nonorm/mlx4/config.json",
    GOLDENS "v-nople/mlx4/config.json",  GOLDENS "v-ple2/mlx4/config.json",
    GOLDENS "v-rope/mlx4/config.json",   GOLDENS "v-silu/mlx4/config.json",
};

static struct config read_config(const char *path)
{
    struct err e = {0};
    struct config c;
    assert_ok(config_load(path, &c, &e), e);
    return c;
}

static void test_published_configs_load(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        struct config c = read_config(published[i]);
        assert_true(c.h >= 128 && c.rot >= 2);
    }
}

static void test_released_values(void **state)
{
    (void)state;
    struct config c = read_config(DATA "vectors/config.json");
    int n_attention = 0;
    for (int il = 0; il < c.n_layers; il++)
        n_attention += c.attention[il];
    const int found[] = {c.h,           c.n_layers,
                         c.vocab,       c.max_pos,
                         c.n_heads,     c.n_kv,
                         c.head_dim,    c.rot,
                         c.index_heads, c.index_dim,
                         c.nk,          c.nv,
                         c.dk,          c.dv,
                         c.conv_kernel, c.E,
                         c.K,           c.inter,
                         c.S,           c.lowrank,
                         c.n_ple,       c.ple_layer[0],
                         c.ple_dim,     c.ngram_size,
                         c.n_mtp,       c.n_eos,
                         c.eos[0],      c.ngram_parts,
                         n_attention,   c.index_budget,
                         c.gate_act,    c.mtp_norm,
                         c.norm_topk,   c.tie_embeddings};
    const int want[] = {
        2560, 48,   248320,       262144,       24, 2,   256, 64, 4,    128, 16, 48, 128,    128,
        4,    512,  10,           640,          4,  320, 1,   1,  2560, 3,   1,  1,  248044, 128,
        12,   2048, GATE_SIGMOID, MTP_NORM_ALL, 1,  0};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        if (found[i] != want[i])
            fail_msg("value %zu is %d, want %d", i, found[i], want[i]);
    assert_true(c.rope_theta == 1e7 && c.eps == 1e-6);
    assert_int_equal(c.seed, 1234); /* absent from the file: the default is load-bearing */
    assert_int_equal(c.ngram_base, 20000000);
}

/* The micro config with a patch laid over it (objects merge, null removes). */
static json_t *patched(const char *patch)
{
    struct err e = {0};
    json_t *root, *p;
    assert_ok(json_read_file(MICRO, 1 << 20, &root, &e), e);
    assert_ok(json_parse(patch, strlen(patch), patch, &p, &e), e);
    assert_int_equal(json_object_update_recursive(root, p), 0);
    json_decref(p);
    return root;
}

static struct config parse_patched(const char *patch)
{
    struct err e = {0};
    struct config c;
    json_t *root = patched(patch);
    assert_ok(config_parse(root, patch, &c, &e), e);
    json_decref(root);
    return c;
}

#define T(fields) "{\"text_config\": {" fields "}}"

static void test_defaults(void **state)
{
    (void)state;
    struct config c = parse_patched(T(
        "\"rms_norm_eps\": null, \"hc_count\": null, \"hc_lowrank\": null, \"num_experts\": null,"
        "\"num_experts_per_tok\": null, \"norm_topk_prob\": null, \"ple_layer_ids\": null,"
        "\"linear_conv_kernel_dim\": null, \"ple_embed_dim\": null, \"layer_types\": null,"
        "\"ple_conv_kernel_size\": null, \"ngram_size\": null, \"heads_per_ngram\": null,"
        "\"ngram_vocab_size_base\": null, \"make_ngram_vocab_size_divisible_by\": null,"
        "\"seed\": null, \"tie_word_embeddings\": null, \"full_attention_interval\": null,"
        "\"mtp\": null, \"mtp_num_hidden_layers\": null, \"mtp_hidden_norm\": null,"
        "\"hidden_act\": null, \"output_gate_type\": null, \"max_position_embeddings\": null,"
        "\"attention_bias\": null, \"model_type\": null, \"head_dim\": 32,"
        "\"partial_rotary_factor\": null, \"rope_parameters\": {\"partial_rotary_factor\": null}"));
    assert_true(c.eps == 1e-6);
    const int found[] = {
        c.S,           c.lowrank, c.E,        c.K,          c.norm_topk,  c.n_ple,
        c.conv_kernel, c.ple_dim, c.rot,      c.ple_kernel, c.ngram_size, c.heads_per_ngram,
        c.seed,        c.n_mtp,   c.mtp_norm, c.gate_act,   c.max_pos,    c.tie_embeddings};
    const int want[] = {4, 320,  512, 10,           1,         0,      4, 128, 32, 4, 3,
                        8, 1234, 0,   MTP_NORM_ALL, GATE_SILU, 262144, 0};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        if (found[i] != want[i])
            fail_msg("default %zu is %d, want %d", i, found[i], want[i]);
    assert_int_equal(c.ngram_base, 20000000);
    assert_int_equal(c.ngram_divisible, 128);
    for (int il = 0; il < c.n_layers; il++)
        assert_int_equal(c.attention[il], il == 3);
}

static void test_ways_to_say_the_same(void **state)
{
    (void)state;
    static const char *const rope[] = {
        T("\"rope_parameters\": null, \"rope_theta\": 10000000"),
        T("\"rope_parameters\": {\"rope_theta\": 1e7}, \"rope_theta\": 10000000"),
        T("\"rope_parameters\": {\"partial_rotary_factor\": null, \"rope_type\": null}"),
        T("\"partial_rotary_factor\": null, \"rope_scaling\": {\"type\": \"default\"}"),
    };
    for (size_t i = 0; i < sizeof rope / sizeof rope[0]; i++) {
        struct config c = parse_patched(rope[i]);
        assert_true(c.rope_theta == 1e7 && c.rot == 16);
    }
    assert_int_equal(parse_patched(T("\"mtp_num_hidden_layers\": null")).n_mtp, 1);
    assert_int_equal(parse_patched(T("\"mtp\": null")).n_mtp, 1);
    assert_int_equal(
        parse_patched(T("\"mtp\": {\"num_hidden_layers\": 0}, \"mtp_num_hidden_layers\": 0")).n_mtp,
        0);
    assert_int_equal(parse_patched(T("\"mtp_hidden_norm\": \"stream\"")).mtp_norm, MTP_NORM_STREAM);
    /* An end token and the tie may be in the outer object; the inner one wins. */
    struct config c = parse_patched("{\"eos_token_id\": 7, \"tie_word_embeddings\": true,"
                                    "\"text_config\": {\"eos_token_id\": null,"
                                    "\"tie_word_embeddings\": null}}");
    assert_true(c.n_eos == 1 && c.eos[0] == 7 && c.tie_embeddings);
    c = parse_patched(T("\"tie_word_embeddings\": true"));
    assert_true(c.tie_embeddings); /* the outer object says false */
    c = parse_patched("{\"eos_token_id\": 7}");
    assert_true(c.n_eos == 2 && c.eos[0] == 486 && c.eos[1] == 488);
    /* Layers come out ascending whatever their order. */
    c = parse_patched(T("\"ple_layer_ids\": [3, 1]"));
    assert_true(c.n_ple == 2 && c.ple_layer[0] == 0 && c.ple_layer[1] == 2);
    /* layer_types decide, whatever the interval says. */
    c = parse_patched(T("\"full_attention_interval\": 2"));
    assert_true(!c.attention[1] && c.attention[3]);
    c = parse_patched(T("\"full_attention_interval\": 2, \"layer_types\": null,"
                        "\"ple_layer_ids\": [1]"));
    assert_true(c.attention[1] && !c.attention[2] && c.attention[3]);
}

static void test_text_config_alone(void **state)
{
    (void)state;
    struct err e = {0};
    struct config a = read_config(MICRO), b;
    json_t *root = patched("{}");
    assert_ok(config_parse(json_object_get(root, "text_config"), "inner", &b, &e), e);
    assert_memory_equal(&a, &b, sizeof a);
    json_decref(root);
}

struct bad {
    const char *patch;
    const char *names; /* the message must name this field... */
    const char *says;  /* ... and say this */
};

static const struct bad bad[] = {
    {"{\"model_type\": \"llama\"}", "model_type", "llama"},
    {"{\"model_type\": null}", "model_type", "required"},
    {T("\"model_type\": \"qwen3\""), "text_config.model_type", "qwen3"},
    {"{\"text_config\": 3}", "text_config", "the integer 3"},
    {"{\"text_config\": null}", "hidden_size", "required"},
    {T("\"hidden_size\": null"), "text_config.hidden_size", "required"},
    {T("\"hidden_size\": \"128\""), "text_config.hidden_size", "the string \"128\""},
    {T("\"hidden_size\": 128.5"), "hidden_size", "128.5"},
    {T("\"hidden_size\": 96"), "hidden_size", "multiple of 64"},
    {T("\"hidden_size\": 0"), "hidden_size", "from 64 to 65536"},
    {T("\"hidden_size\": 9223372036854775807"), "hidden_size", "from 64"},
    {T("\"num_hidden_layers\": 0"), "num_hidden_layers", "from 1"},
    {T("\"num_hidden_layers\": 513"), "num_hidden_layers", "513"},
    {T("\"vocab_size\": 1"), "vocab_size", "from 2"},
    {T("\"vocab_size\": []"), "vocab_size", "an empty array"},
    {T("\"max_position_embeddings\": 0"), "max_position_embeddings", "from 1"},
    {T("\"rms_norm_eps\": 0"), "rms_norm_eps", "the integer 0"},
    {T("\"rms_norm_eps\": true"), "rms_norm_eps", "true"},
    {T("\"num_attention_heads\": 3"), "num_attention_heads", "num_key_value_heads (2)"},
    {T("\"num_attention_heads\": null"), "num_attention_heads", "required"},
    {T("\"num_key_value_heads\": 0"), "num_key_value_heads", "from 1"},
    {T("\"head_dim\": null"), "head_dim", "required"},
    {T("\"head_dim\": 20"), "partial_rotary_factor", "even number"},
    {T("\"partial_rotary_factor\": 0.5"), "partial_rotary_factor", "want the same value"},
    {T("\"partial_rotary_factor\": null, \"rope_parameters\": {\"partial_rotary_factor\": 0.11}"),
     "partial_rotary_factor", "rotates 7 dimensions"},
    {T("\"partial_rotary_factor\": null, \"rope_parameters\": {\"partial_rotary_factor\": 0.75}"),
     "partial_rotary_factor", "indexer_head_dim"},
    {T("\"partial_rotary_factor\": null, \"rope_parameters\": {\"partial_rotary_factor\": 1.5}"),
     "rope_parameters.partial_rotary_factor", "1.5"},
    {T("\"partial_rotary_factor\": null, \"rope_parameters\": {\"partial_rotary_factor\": 0}"),
     "rope_parameters.partial_rotary_factor", "the integer 0"},
    {T("\"rope_parameters\": null"), "rope_theta", "required"},
    {T("\"rope_parameters\": {\"rope_theta\": null}"), "rope_theta", "required"},
    {T("\"rope_parameters\": {\"rope_theta\": -1}"), "rope_theta", "-1"},
    {T("\"rope_theta\": 10000"), "rope_theta", "10000"},
    {T("\"rope_parameters\": 4"), "rope_parameters", "an object"},
    {T("\"rope_parameters\": {\"rope_type\": \"yarn\"}"), "rope_parameters.rope_type", "yarn"},
    {T("\"rope_scaling\": {\"type\": \"linear\"}"), "rope_scaling.type", "linear"},
    {T("\"layer_types\": [\"linear_attention\"]"), "layer_types", "want 4"},
    {T("\"layer_types\": [\"linear_attention\", \"mamba\", \"linear_attention\","
       "\"full_attention\"]"),
     "layer_types[1]", "mamba"},
    {T("\"layer_types\": [\"linear_attention\", 1, 2, 3]"), "layer_types[1]", "the integer 1"},
    {T("\"layer_types\": null, \"full_attention_interval\": 0"), "full_attention_interval", "0"},
    {T("\"linear_num_key_heads\": 3"), "linear_num_value_heads", "linear_num_key_heads (3)"},
    {T("\"linear_num_key_heads\": null"), "linear_num_key_heads", "required"},
    {T("\"linear_num_value_heads\": 6"), "linear_num_value_heads", "multiple"},
    {T("\"linear_key_head_dim\": -3"), "linear_key_head_dim", "-3"},
    {T("\"linear_value_head_dim\": null"), "linear_value_head_dim", "required"},
    {T("\"linear_conv_kernel_dim\": 0"), "linear_conv_kernel_dim", "from 1"},
    {T("\"num_experts\": 5000"), "num_experts", "4096"},
    {T("\"num_experts\": 3"), "num_experts_per_tok", "num_experts (3)"},
    {T("\"num_experts_per_tok\": 0"), "num_experts_per_tok", "from 1"},
    {T("\"norm_topk_prob\": 1"), "norm_topk_prob", "true or false"},
    {T("\"moe_intermediate_size\": 100"), "moe_intermediate_size", "multiple of 64"},
    {T("\"shared_expert_intermediate_size\": null"), "shared_expert_intermediate_size", "required"},
    {T("\"hc_count\": 1"), "hc_count", "from 2"},
    {T("\"hc_lowrank\": 0"), "hc_lowrank", "from 1"},
    {T("\"ple_layer_ids\": [0]"), "ple_layer_ids", "the integer 0"},
    {T("\"ple_layer_ids\": [5]"), "ple_layer_ids", "from 1 to 4"},
    {T("\"ple_layer_ids\": [4]"), "ple_layer_ids", "attention layer"},
    {T("\"ple_layer_ids\": [2, 2]"), "ple_layer_ids", "twice"},
    {T("\"ple_layer_ids\": 2"), "ple_layer_ids", "an array"},
    {T("\"ple_layer_ids\": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"), "ple_layer_ids", "at most 16"},
    {T("\"ple_embed_dim\": 250"), "ple_embed_dim", "heads (8)"},
    {T("\"ple_embed_dim\": 96"), "ple_embed_dim", "rows of 12"},
    {T("\"ple_conv_kernel_size\": 0"), "ple_conv_kernel_size", "from 1"},
    {T("\"ngram_size\": 1"), "ngram_size", "from 2"},
    {T("\"heads_per_ngram\": 0"), "heads_per_ngram", "from 1"},
    {T("\"heads_per_ngram\": 100"), "heads_per_ngram", "200 heads"},
    {T("\"ngram_vocab_size_base\": 0"), "ngram_vocab_size_base", "from 1"},
    {T("\"make_ngram_vocab_size_divisible_by\": 0"), "make_ngram_vocab_size_divisible_by", "1"},
    {T("\"split_ngram_parts\": 0"), "split_ngram_parts", "from 1"},
    {T("\"seed\": -1"), "seed", "-1"},
    {T("\"eos_token_id\": null"), "eos_token_id", "required with ple_layer_ids"},
    {T("\"eos_token_id\": 512"), "eos_token_id", "512"},
    {T("\"eos_token_id\": [3, \"x\"]"), "eos_token_id", "the string"},
    {T("\"eos_token_id\": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]"), "eos_token_id", "17"},
    {"{\"eos_token_id\": -1, \"text_config\": {\"eos_token_id\": null}}", "config.eos_token_id",
     "-1"},
    {T("\"indexer_n_heads\": null"), "indexer_n_heads", "required"},
    {T("\"indexer_kv_heads\": 2"), "indexer_kv_heads", "2"},
    {T("\"indexer_kv_heads\": null"), "indexer_kv_heads", "required"},
    {T("\"indexer_head_dim\": null"), "indexer_head_dim", "required"},
    {T("\"indexer_head_dim\": 8"), "indexer_head_dim", "rotates 16"},
    {T("\"indexer_budget\": 18"), "indexer_budget", "indexer_compress_ratio (4)"},
    {T("\"indexer_budget\": null"), "indexer_budget", "required"},
    {T("\"indexer_compress_ratio\": 0"), "indexer_compress_ratio", "from 1"},
    {T("\"output_gate_type\": \"tanh\""), "output_gate_type", "tanh"},
    {T("\"hidden_act\": \"gelu\""), "hidden_act", "gelu"},
    {T("\"attention_bias\": true"), "attention_bias", "want false"},
    {T("\"mtp_num_hidden_layers\": 2"), "mtp_num_hidden_layers", "0 to 1"},
    {T("\"mtp_num_hidden_layers\": 0"), "mtp_num_hidden_layers", "want the same"},
    {T("\"mtp\": []"), "mtp", "an object"},
    {T("\"mtp\": {\"num_hidden_layers\": 3}"), "mtp.num_hidden_layers", "3"},
    {T("\"mtp\": {\"layer_types\": [\"linear_attention\"]}"), "mtp.layer_types[0]", "linear"},
    {T("\"mtp\": {\"rope_theta\": 5}"), "mtp.rope_theta", "the trunk's"},
    {T("\"mtp\": {\"mtp_use_hidden_state_from_layer\": 2}"), "mtp_use_hidden_state_from_layer",
     "want null"},
    {T("\"mtp_use_dedicated_embeddings\": true"), "mtp_use_dedicated_embeddings", "want false"},
    {T("\"mtp_hidden_norm\": \"both\""), "mtp_hidden_norm", "both"},
    {T("\"tie_word_embeddings\": \"no\""), "tie_word_embeddings", "true or false"},
};

static void test_each_bad_field_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err e = {0};
        struct config c, untouched;
        memset(&c, 0x5A, sizeof c);
        memset(&untouched, 0x5A, sizeof c);
        json_t *root = patched(bad[i].patch);
        int rc = config_parse(root, "x/config.json", &c, &e);
        json_decref(root);
        if (!rc)
            fail_msg("loads: %s", bad[i].patch);
        assert_int_equal(rc, -e.code);
        if (strncmp(e.msg, "x/config.json: ", 15) || !strstr(e.msg, bad[i].names) ||
            !strstr(e.msg, bad[i].says))
            fail_msg("%s: \"%s\" does not name %s and say %s", bad[i].patch, e.msg, bad[i].names,
                     bad[i].says);
        assert_memory_equal(&c, &untouched, sizeof c);
    }
    print_message("note: %zu bad configs, each with its own message\n", sizeof bad / sizeof bad[0]);
}

static void test_not_an_object(void **state)
{
    (void)state;
    struct err e = {0};
    struct config c;
    json_t *v = json_integer(3);
    assert_int_equal(config_parse(v, "c", &c, &e), -E_FORMAT);
    assert_string_equal(e.msg, "c: config: want an object, found the integer 3");
    json_decref(v);
    err_clear(&e);
    assert_int_equal(config_load("no/such/config.json", &c, &e), -E_NOTFOUND);
}

static void test_allocation_failures(void **state)
{
    (void)state;
    for (long nth = 1;; nth++) {
        struct err e = {0};
        struct config c;
        mem_fail_at(nth);
        int rc = config_load(MICRO, &c, &e);
        mem_fail_at(0);
        if (!rc) {
            assert_true(nth > 1);
            break;
        }
        assert_int_equal(rc, -E_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_configs_load),
        cmocka_unit_test(test_released_values),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_ways_to_say_the_same),
        cmocka_unit_test(test_text_config_alone),
        cmocka_unit_test(test_each_bad_field_is_named),
        cmocka_unit_test(test_not_an_object),
        cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
