/* Published names: every row of the two published tensor lists has a meaning, both lists mean the
 * same model, and their bytes are those published. */
#include "tests/aid_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/convention.h"
#include "checkpoint/names.h"

#define TRUNK "language_model.model."

static const struct {
    const char *published, *canonical, *meaning;
} cases[] = {
    {"model.language_model.embed_tokens.weight", TRUNK "embed_tokens.weight", "dense weight"},
    {"model.embed_tokens.weight", TRUNK "embed_tokens.weight", "dense weight"},
    {TRUNK "embed_tokens.scales", TRUNK "embed_tokens.scales", "dense scales"},
    {"lm_head.weight", "language_model.lm_head.weight", "dense weight"},
    {"language_model.lm_head.biases", "language_model.lm_head.biases", "dense biases"},
    {"model.layers.7.mlp.gate.weight", TRUNK "layers.7.mlp.gate.weight", "dense weight, layer 7"},
    {"model.language_model.layers.0.linear_attn.A_log", TRUNK "layers.0.linear_attn.A_log",
     "dense weight, layer 0"},
    {"model.language_model.layers.3.mlp.experts.gate_up_proj",
     TRUNK "layers.3.mlp.switch_mlp.gate_up_proj", "experts weight, layer 3, gate_up"},
    {"model.layers.3.mlp.experts.down_proj", TRUNK "layers.3.mlp.switch_mlp.down_proj",
     "experts weight, layer 3, down"},
    {TRUNK "layers.3.mlp.switch_mlp.up_proj.scales", TRUNK "layers.3.mlp.switch_mlp.up_proj",
     "experts scales, layer 3, up"},
    {"mtp.layers.0.mlp.switch_mlp.gate_proj.biases", "mtp.layers.0.mlp.switch_mlp.gate_proj",
     "experts biases, draft layer 0, gate"},
    {"mtp.layers.0.self_attn.q_norm.weight", "mtp.layers.0.self_attn.q_norm.weight",
     "dense weight, draft layer 0"},
    {"mtp.pre_fc_norm_hidden.weight", "mtp.pre_fc_norm_hidden.weight", "dense weight, draft"},
    {"model.language_model.layers.1.ple.ple_embedding.ngram_embedding.shard_127.weight",
     TRUNK "layers.1.ple.ple_embedding.ngram_embedding.shard_127",
     "ngram weight, layer 1, shard 127"},
    {TRUNK "layers.1.ple.ple_embedding.ngram_embedding.shards.5.biases",
     TRUNK "layers.1.ple.ple_embedding.ngram_embedding.shard_5", "ngram biases, layer 1, shard 5"},
    {"model.language_model.layers.1.ple.ple_embedding.ngram_embedding.weight_scale",
     TRUNK "layers.1.ple.ple_embedding.ngram_embedding", "ngram scale, layer 1"},
    {"model.language_model.layers.47.mlp.experts.511.gate_proj.weight",
     TRUNK "layers.47.mlp.experts.511.gate_proj", "expert weight, layer 47, gate, expert 511"},
    {"model.layers.0.mlp.experts.0.up_proj.weight_scale_inv",
     TRUNK "layers.0.mlp.experts.0.up_proj", "expert block scales, layer 0, up, expert 0"},
    {"mtp.layers.0.mlp.experts.7.down_proj.weight", "mtp.layers.0.mlp.experts.7.down_proj",
     "expert weight, draft layer 0, down, expert 7"},
    {"model.visual.blocks.3.attn.qkv.bias", "vision_tower.blocks.3.attn.qkv.bias", "vision weight"},
    {"vision_tower.pos_embed.scales", "vision_tower.pos_embed.scales", "vision weight"},
};

static const char *const unknown[] = {
    "",
    "model.",
    "embed_tokens.weight",
    "model.lm_head.weight",
    "lm_head.weight2",
    "lm_head",
    "model.language_model.norm.weight",
    "model.layers.7",
    "model.layers.7.",
    "model.layers.07.mlp.gate.weight",
    "model.layers.-1.mlp.gate.weight",
    "model.layers.99999999999999999999.mlp.gate.weight",
    "model.layers.7.embed_tokens.weight",
    "model.layers.7.mlp.gate",
    "model.layers.7.linear_attn.A_log.weight",
    "model.layers.7.self_attn.q_norm.scales",
    "model.layers.7.mlp.experts.gate_up_proj.weight",
    "model.layers.7.mlp.experts.1.gate_up_proj.weight",
    "model.layers.7.mlp.experts.1.gate_proj",
    "model.layers.7.mlp.experts.x.gate_proj.weight",
    "model.layers.7.mlp.experts.1.gate_proj.scales",
    "mtp.layers.0.linear_attn.A_log",
    "mtp.embed_tokens.weight",
    "mtp.layers.0.ple.key_proj.weight",
    "model.layers.1.ple.ple_embedding.ngram_embedding.shard_.weight",
    "model.layers.1.ple.ple_embedding.ngram_embedding.shard_01.weight",
    "model.layers.1.ple.ple_embedding.ngram_embedding.shard_1",
    "model.layers.1.ple.ple_embedding.ngram_embedding.shard_1234567890.weight",
    "model.layers.1.ple.ple_embedding.ngram_embedding.shard_1.weight_scale",
};

/* All that a name says, in words. */
static void describe(const struct name_info *i, char *out, size_t n)
{
    static const char *const kinds[] = {
        [NAME_DENSE] = "dense", [NAME_EXPERTS] = "experts", [NAME_EXPERT] = "expert",
        [NAME_NGRAM] = "ngram", [NAME_VISION] = "vision",   [NAME_UNKNOWN] = "unknown"};
    static const char *const parts[] = {[NAME_WEIGHT] = "weight",
                                        [NAME_SCALES] = "scales",
                                        [NAME_BIASES] = "biases",
                                        [NAME_BLOCK_SCALES] = "block scales",
                                        [NAME_SCALE] = "scale"};
    static const char *const matrices[] = {", gate", ", up", ", down", ", gate_up"};
    char layer[32] = "", shard[32] = "", expert[32] = "";
    if (i->layer >= 0)
        snprintf(layer, sizeof layer, "%slayer %d", i->mtp ? " " : ", ", i->layer);
    if (i->shard >= 0)
        snprintf(shard, sizeof shard, ", shard %lld", (long long)i->shard);
    if (i->expert >= 0)
        snprintf(expert, sizeof expert, ", expert %d", i->expert);
    bool routed = i->kind == NAME_EXPERTS || i->kind == NAME_EXPERT;
    snprintf(out, n, "%s %s%s%s%s%s%s", kinds[i->kind], parts[i->part], i->mtp ? ", draft" : "",
             layer, routed || i->matrix ? matrices[i->matrix] : "", shard, expert);
}

static void check_name(const char *published, const char *canonical, const char *meaning)
{
    struct name_info got;
    char said[128];
    name_parse(published, &got);
    describe(&got, said, sizeof said);
    if (strcmp(said, meaning) != 0 || strcmp(got.canonical, canonical) != 0)
        fail_msg("%s: became %s, %s", published, got.canonical, said);
}

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_name(cases[i].published, cases[i].canonical, cases[i].meaning);
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        check_name(unknown[i], unknown[i], "unknown weight");
    char longest[1000];
    struct name_info got;
    memset(longest, 'x', sizeof longest);
    memcpy(longest, "vision_tower.", 13);
    longest[sizeof longest - 1] = '\0';
    name_parse(longest, &got);
    assert_int_equal(got.kind, NAME_VISION);
    assert_int_equal(strlen(got.canonical), NAME_MAX_BYTES - 1);
}

/* Names without what a format adds to a module, as a growing, then sorted list. */
struct modules {
    char **name;
    size_t n, cap;
};

static void add_module(struct modules *m, const char *name, const char *with)
{
    static const char *const suffixes[] = {".weight", ".scales", ".biases"};
    char *copy = mem_alloc(NAME_MAX_BYTES + 16);
    snprintf(copy, NAME_MAX_BYTES + 16, "%s%s", name, with);
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(copy), k = strlen(suffixes[i]);
        if (n > k && strcmp(copy + n - k, suffixes[i]) == 0)
            copy[n - k] = '\0';
    }
    if (m->n == m->cap) {
        m->cap = m->cap * 2 + 1024;
        m->name = mem_realloc(m->name, m->cap * sizeof *m->name);
    }
    m->name[m->n++] = copy;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_unique(struct modules *m)
{
    size_t kept = 0;
    qsort(m->name, m->n, sizeof *m->name, compare);
    for (size_t i = 0; i < m->n; i++) {
        if (kept && strcmp(m->name[kept - 1], m->name[i]) == 0)
            mem_free(m->name[i]);
        else
            m->name[kept++] = m->name[i];
    }
    m->n = kept;
}

static void free_modules(struct modules *m)
{
    for (size_t i = 0; i < m->n; i++)
        mem_free(m->name[i]);
    mem_free(m->name);
}

static void add_published(struct modules *m, const char *published, int count[])
{
    struct name_info info;
    name_parse(published, &info);
    count[info.kind]++;
    if (info.kind == NAME_UNKNOWN)
        fail_msg("%s: has no meaning", published);
    if (info.kind != NAME_EXPERTS || info.matrix != NAME_GATE_UP) {
        add_module(m, info.canonical, "");
        return;
    }
    char *cut = strstr(info.canonical, "gate_up_proj");
    assert_non_null(cut);
    *cut = '\0';
    add_module(m, info.canonical, "gate_proj");
    add_module(m, info.canonical, "up_proj");
}

/* Reads a list of tensors; counts by kind, and the rows and bytes that make up a checkpoint. */
static void read_list(const char *path, struct modules *m, int count[], size_t *rows,
                      unsigned long long *bytes)
{
    struct buf text = BUF_INIT;
    struct err e = {0};
    assert_ok(file_read_all(path, 16 << 20, &text, &e), e);
    char *next = text.data;
    *rows = 0;
    *bytes = 0;
    for (char *line; (line = strsep(&next, "\n")) && *line;) {
        char name[NAME_MAX_BYTES];
        unsigned long long n;
        if (*line == '#')
            continue;
        assert_int_equal(sscanf(line, "%255[^\t]\t%*[^\t]\t%*[^\t]\t%llu", name, &n), 2);
        add_published(m, name, count);
        ++*rows;
        *bytes += n;
    }
    buf_free(&text);
    sort_unique(m);
}

static void test_published_lists(void **state)
{
    (void)state;
    struct modules bf16 = {0}, mlx4 = {0};
    int n_bf16[NAME_UNKNOWN + 1] = {0}, n_mlx4[NAME_UNKNOWN + 1] = {0};
    unsigned long long bytes;
    size_t rows;
    read_list(DATA "tensors/bf16.tsv", &bf16, n_bf16, &rows, &bytes);
    assert_int_equal(rows, 1658);
    assert_true(bytes == 359999963128);
    read_list(DATA "tensors/mlx4-sawfwair.tsv", &mlx4, n_mlx4, &rows, &bytes);
    assert_int_equal(rows, 3817);
    assert_true(bytes == 104741817208);
    assert_int_equal(n_bf16[NAME_VISION], 333);
    assert_int_equal(n_bf16[NAME_EXPERTS], 2 * 49);
    assert_int_equal(n_bf16[NAME_NGRAM], 128);
    assert_int_equal(n_mlx4[NAME_EXPERTS], 9 * 49);
    assert_int_equal(n_mlx4[NAME_NGRAM], 3 * 128);
    assert_int_equal(n_mlx4[NAME_DENSE], 2491);
    for (size_t i = 0; i < bf16.n && i < mlx4.n; i++)
        assert_string_equal(bf16.name[i], mlx4.name[i]);
    assert_int_equal(bf16.n, mlx4.n);
    printf("note: %zu modules in both lists\n", bf16.n);
    free_modules(&bf16);
    free_modules(&mlx4);
}

/* The goldens and the demo use both prefixes and both namings of table parts. */
static void test_checkpoints(void **state)
{
    (void)state;
    static const char *const dirs[] = {GOLDENS "micro/bf16",
                                       GOLDENS "micro/mlx4",
                                       GOLDENS "v-hc2/mlx4",
                                       GOLDENS "v-nople/mlx4",
                                       GOLDENS "v-ple2/mlx4",
                                       GOLDENS "v-silu/mlx4",
                                       GOLDENS "v-rope/mlx4",
                                       GOLDENS "v-nonorm/mlx4",
                                       GOLDENS "v-mtpall/mlx4",
                                       GOLDENS "v-head128/mlx4",
                                       DEMO};
    struct modules micro[2] = {{0}, {0}};
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        struct checkpoint *c;
        struct err e = {0};
        struct modules other = {0}, *to = i < 2 ? &micro[i] : &other;
        int count[NAME_UNKNOWN + 1] = {0};
        assert_ok(checkpoint_open(dirs[i], &c, &e), e);
        for (size_t k = 0; k < c->n_tensors; k++)
            add_published(to, c->tensors[k].name, count);
        sort_unique(to);
        assert_true(to->n > 90);
        checkpoint_close(c);
        free_modules(&other);
    }
    assert_int_equal(micro[0].n, micro[1].n);
    for (size_t i = 0; i < micro[0].n; i++)
        assert_string_equal(micro[0].name[i], micro[1].name[i]);
    free_modules(&micro[0]);
    free_modules(&micro[1]);
}

static void test_folded_norms(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int folded;
    } norms[] = {
        {TRUNK "hyper_connection_mixer.hc_norm.weight", 1},
        {TRUNK "layers.0.attn_hyper_connection.hc_norm.weight", 1},
        {TRUNK "layers.3.self_attn.q_norm.weight", 1},
        {TRUNK "layers.3.self_attn.k_norm.weight", 1},
        {TRUNK "layers.3.self_attn.indexer.q_layernorm.weight", 1},
        {"mtp.layers.0.self_attn.indexer.k_layernorm.weight", 1},
        {TRUNK "layers.1.ple.norm_key.weight", 1},
        {TRUNK "layers.1.ple.norm_query.weight", 1},
        {TRUNK "layers.1.ple.norm_conv.weight", 1},
        {"mtp.pre_fc_norm_embedding.weight", 0},
        {"mtp.pre_fc_norm_hidden.weight", 0},
        {TRUNK "layers.0.linear_attn.norm.weight", 0},
        {TRUNK "layers.0.linear_attn.conv1d.weight", 0},
        {TRUNK "layers.3.self_attn.q_proj.weight", 0},
        {"hc_norm", 0},
        {".weight", 0},
        {"", 0},
    };
    for (size_t i = 0; i < sizeof norms / sizeof norms[0]; i++)
        assert_int_equal(convention_is_folded_norm(norms[i].name), norms[i].folded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_published_lists),
        cmocka_unit_test(test_checkpoints),
        cmocka_unit_test(test_folded_norms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
