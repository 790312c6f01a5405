/* Engine "reference" on shapes that no golden has but the config reader accepts: one of everything,
 * all layers of one kind, kernels of one tap, widths that cannot be quantised. Weights are made up;
 * what is compared, bit for bit, is steps of several rows with rejections, saves, and drafts, with
 * one row at a time. The shapes also serve the sanitizers. */
#include "tests/aid_test.h"

#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "quant/half.h"
#include "reference/reference.h"
#include "tests/aid_tensors.h"

enum { N = 24, ROWS = 3 };

/* Fields of the micro golden's text_config that a case changes, as JSON. */
static const struct shape {
    const char *what, *fields;
} shapes[] = {
    {"all linear, no n-grams, no head",
     "{\"layer_types\": [\"linear_attention\", \"linear_attention\", \"linear_attention\","
     " \"linear_attention\"], \"ple_layer_ids\": [], \"mtp_num_hidden_layers\": 0, \"mtp\": null}"},
    {"all attention, blocks of one token, one block seen",
     "{\"layer_types\": [\"full_attention\", \"full_attention\", \"full_attention\","
     " \"full_attention\"], \"ple_layer_ids\": [], \"indexer_compress_ratio\": 1,"
     " \"indexer_budget\": 1, \"num_key_value_heads\": 4}"},
    {"one layer, whole heads rotated, tied embedding",
     "{\"num_hidden_layers\": 1, \"layer_types\": [\"qwen_sparse_attention\"], \"ple_layer_ids\": "
     "[],"
     " \"head_dim\": 32, \"rope_parameters\": {\"rope_theta\": 500}, \"partial_rotary_factor\": 1,"
     " \"mtp\": null, \"tie_word_embeddings\": true, \"indexer_n_heads\": 1,"
     " \"num_attention_heads\": 1, \"num_key_value_heads\": 1}"},
    {"kernels of one tap, bigrams alone",
     "{\"linear_conv_kernel_dim\": 1, \"ple_conv_kernel_size\": 1, \"ngram_size\": 2,"
     " \"heads_per_ngram\": 1, \"ple_embed_dim\": 8}"},
    {"long kernels",
     "{\"linear_conv_kernel_dim\": 9, \"ple_conv_kernel_size\": 7, \"ngram_size\": 5,"
     " \"heads_per_ngram\": 1, \"ple_embed_dim\": 32}"},
    {"odd widths, two streams, rank one",
     "{\"hc_count\": 2, \"hc_lowrank\": 1, \"shared_expert_intermediate_size\": 3,"
     " \"linear_key_head_dim\": 5, \"linear_value_head_dim\": 7, \"linear_num_key_heads\": 1,"
     " \"linear_num_value_heads\": 3, \"head_dim\": 6, \"partial_rotary_factor\": 0.34, \"mtp\": "
     "null,"
     " \"rope_parameters\": {\"rope_theta\": 10000}, \"indexer_head_dim\": 3, \"vocab_size\": "
     "491}"},
    {"all experts chosen, weights as they are",
     "{\"num_experts\": 5, \"num_experts_per_tok\": 5, \"norm_topk_prob\": false}"},
    {"one expert, sixteen streams, long blocks",
     "{\"num_experts\": 1, \"num_experts_per_tok\": 1, \"hc_count\": 16,"
     " \"indexer_compress_ratio\": 7, \"indexer_budget\": 7, \"output_gate_type\": \"silu\"}"},
};

/* Dense tensors, and experts and table rows out of one pool of codes. */
struct world {
    struct aid_tensors tensors;
    struct weight_source dense;
    struct weights w;
    uint8_t codes[1 << 16];
    uint16_t scales[1 << 12], biases[1 << 12];
    int row_dim;
};

static int find(void *ctx, const char *name, struct tensor_view *out, struct err *e)
{
    struct world *k = ctx;
    return k->dense.find(k->dense.ctx, name, out, e);
}

static int expert(void *ctx, int il, int ie, struct expert *out, struct err *e)
{
    struct world *k = ctx;
    const struct config *c = &k->tensors.config;
    const uint8_t *codes = k->codes + (size_t)(il * 7 + ie) % 512 * 64;
    struct matrix in = {MATRIX_Q4, c->inter, c->h, codes, k->scales, k->biases, 64};
    struct matrix back = {MATRIX_Q4, c->h, c->inter, codes, k->scales, k->biases, 64};
    (void)e;
    *out = (struct expert){in, in, back};
    out->up.w = codes + 8192;
    return 0;
}

static int ngram_row(void *ctx, int m, uint64_t row, float *out, struct err *e)
{
    const struct world *k = ctx;
    (void)e;
    for (int i = 0; i < k->row_dim; i++)
        out[i] = (float)rng_unit_at(row + (uint64_t)m, (uint64_t)i) * 2 - 1;
    return 0;
}

static void read_config(const char *fields, struct config *c)
{
    struct err e = {0};
    json_t *root, *changed;
    assert_ok(json_read_file(GOLDENS "micro/mlx4/config.json", 1 << 20, &root, &e), e);
    assert_ok(json_parse(fields, strlen(fields), "fields", &changed, &e), e);
    assert_int_equal(json_object_update(json_object_get(root, "text_config"), changed), 0);
    assert_ok(config_parse(root, "config.json", c, &e), e);
    json_decref(changed);
    json_decref(root);
}

/* Codes around zero: the made-up ones are all positive. */
static void centre(uint16_t *scales, uint16_t *biases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float scale = bf16_to_f32(scales[i]) / 16;
        scales[i] = bf16_from_f32(scale);
        biases[i] = bf16_from_f32(-7.5F * scale);
    }
}

static void world_open(struct world *k, const struct shape *s)
{
    struct err e = {0};
    struct config c;
    read_config(s->fields, &c);
    memset(k, 0, sizeof *k);
    aid_tensors_make(&c, &k->tensors);
    for (size_t i = 0; i < k->tensors.n; i++) {
        char name[sizeof k->tensors.at[i].name];
        snprintf(name, sizeof name, "%s", k->tensors.at[i].name);
        char *end = strstr(name, ".scales");
        if (!end)
            continue;
        memcpy(end, ".biases", 7);
        centre(k->tensors.at[i].data, aid_tensors_find(&k->tensors, name)->data,
               k->tensors.at[i].nbytes / 2);
    }
    for (size_t i = 0; i < sizeof k->codes; i++)
        k->codes[i] = (uint8_t)rng_at(11, i);
    for (size_t i = 0; i < sizeof k->scales / 2; i++)
        k->scales[i] = bf16_from_f32((float)rng_unit_at(12, i));
    centre(k->scales, k->biases, sizeof k->scales / 2);
    aid_tensors_source(&k->tensors, &k->dense);
    k->row_dim = c.ple_dim / ((c.ngram_size - 1) * c.heads_per_ngram);
    const struct weight_source source = {k, find, expert, ngram_row, NULL};
    assert_ok(weights_init(&c, &source, &k->w, &e), e);
}

static void world_close(struct world *k)
{
    weights_free(&k->w);
    aid_tensors_free(&k->tensors);
}

static void feed(struct engine *g, struct sequence *s, const int32_t *tokens, int R, int keep,
                 float *logits)
{
    struct err e = {0};
    struct row rows[ROWS];
    for (int r = 0; r < R; r++)
        rows[r] = (struct row){s, tokens[r]};
    assert_ok(g->ops->step(g, rows, R, NULL, logits, &e), e);
    assert_ok(g->ops->commit(g, s, keep, &e), e);
}

/* Restores a save of s into s, so that nothing but the save can carry on. */
static void save_and_restore(struct engine *g, struct sequence *s)
{
    struct err e = {0};
    struct buf b = BUF_INIT;
    assert_ok(g->ops->save(g, s, &b, &e), e);
    g->ops->sequence_reset(s);
    assert_ok(g->ops->restore(g, s, b.data, b.len, &e), e);
    buf_free(&b);
}

/* Rows right up to keep = 0, 1, 2, 3 in turn, against want [N][vocab]. */
static void check_rejections(struct engine *g, struct sequence *s, const int32_t *tokens,
                             const float *want, float *logits)
{
    size_t vocab = (size_t)g->weights->config.vocab;
    g->ops->sequence_reset(s);
    for (int p = 0, i = 0; p + ROWS <= N; i++) {
        int32_t fed[ROWS];
        int keep = i % (ROWS + 1);
        for (int r = 0; r < ROWS; r++)
            fed[r] = r < keep ? tokens[p + r] : (tokens[p + r] + 1) % (int32_t)vocab;
        feed(g, s, fed, ROWS, keep, logits);
        assert_memory_equal(logits, want + (size_t)p * vocab, (size_t)keep * vocab * sizeof(float));
        save_and_restore(g, s);
        p += keep;
    }
}

/* Drafts behind a row at a time and behind one step are the same bits. */
static void check_drafts(struct engine *g, struct sequence *s, const int32_t *tokens, float *logits)
{
    struct err e = {0};
    size_t n = ENGINE_DRAFTS_MAX * (size_t)g->weights->config.vocab;
    float *first = mem_array(n, sizeof *first);
    int32_t one[ENGINE_DRAFTS_MAX], two[ENGINE_DRAFTS_MAX];
    assert_non_null(first);
    g->ops->sequence_reset(s);
    for (int p = 0; p < ROWS; p++)
        feed(g, s, tokens + p, 1, 1, logits);
    assert_ok(g->ops->draft(s, tokens[ROWS], ENGINE_DRAFTS_MAX, one, first, &e), e);
    g->ops->sequence_reset(s);
    feed(g, s, tokens, ROWS, ROWS, logits);
    assert_ok(g->ops->draft(s, tokens[ROWS], ENGINE_DRAFTS_MAX, two, logits, &e), e);
    assert_memory_equal(first, logits, n * sizeof *first);
    assert_memory_equal(one, two, sizeof one);
    mem_free(first);
}

static void check_shape(const struct shape *shape, int expert_bits)
{
    struct err e = {0};
    const struct engine_options o = {.expert_bits = expert_bits, .mtp_norm = -1, .drafts = true};
    struct world *k = mem_alloc(sizeof *k);
    struct engine *g;
    struct sequence *s;
    int32_t tokens[N];
    assert_non_null(k);
    world_open(k, shape);
    size_t vocab = (size_t)k->w.config.vocab;
    float *want = mem_array(N * vocab, sizeof *want),
          *logits = mem_array(ROWS * vocab, sizeof *want);
    assert_true(want && logits);
    assert_ok(reference_engine.open(&k->w, &o, &g, &e), e);
    assert_ok(g->ops->sequence_open(g, N + ROWS, &s, &e), e);
    for (int p = 0; p < N; p++) {
        tokens[p] = (int32_t)(rng_at(77, (uint64_t)p) % vocab);
        feed(g, s, tokens + p, 1, 1, want + (size_t)p * vocab);
    }
    for (int p = 1; p < N; p++) /* the text matters */
        assert_true(memcmp(want, want + (size_t)p * vocab, vocab * sizeof *want) != 0);
    check_rejections(g, s, tokens, want, logits);
    if (k->w.config.n_mtp)
        check_drafts(g, s, tokens, logits);
    g->ops->sequence_close(s);
    g->ops->close(g);
    world_close(k);
    mem_free(want);
    mem_free(logits);
    mem_free(k);
}

static void test_shapes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        print_message("%s\n", shapes[i].what);
        check_shape(&shapes[i], 4);
        check_shape(&shapes[i], i % 2 ? 3 : 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
