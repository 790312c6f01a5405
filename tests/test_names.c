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

static const struct {
    const char *published, *canonical;
    enum name_kind kind;
    enum name_part part;
    int layer, mtp;
    enum name_matrix matrix;
    int64_t shard;
} cases[] = {
#define TRUNK "language_model.model."
    {"model.language_model.embed_tokens.weight", TRUNK "embed_tokens.weight", NAME_DENSE, 0, -1, 0,
     0, -1},
    {"model.embed_tokens.weight", TRUNK "embed_tokens.weight", NAME_DENSE, 0, -1, 0, 0, -1},
    {TRUNK "embed_tokens.scales", TRUNK "embed_tokens.scales", NAME_DENSE, NAME_SCALES, -1, 0, 0,
     -1},
    {"lm_head.weight", "language_model.lm_head.weight", NAME_DENSE, 0, -1, 0, 0, -1},
    {"language_model.lm_head.biases", "language_model.lm_head.biases", NAME_DENSE, NAME_BIASES, -1,
     0, 0, -1},
    {"model.layers.7.mlp.gate.weight", TRUNK "layers.7.mlp.gate.weight", NAME_DENSE, 0, 7, 0, 0,
     -1},
    {"model.language_model.layers.0.linear_attn.A_log", TRUNK "layers.0.linear_attn.A_log",
     NAME_DENSE, 0, 0, 0, 0, -1},
    {"model.language_model.layers.3.mlp.experts.gate_up_proj",
     TRUNK "layers.3.mlp.switch_mlp.gate_up_proj", NAME_EXPERTS, 0, 3, 0, NAME_GATE_UP, -1},
    {"model.layers.3.mlp.experts.down_proj", TRUNK "layers.3.mlp.switch_mlp.down_proj",
     NAME_EXPERTS, 0, 3, 0, NAME_DOWN, -1},
    {TRUNK "layers.3.mlp.switch_mlp.up_proj.scales", TRUNK "layers.3.mlp.switch_mlp.up_proj",
     NAME_EXPERTS, NAME_SCALES, 3, 0, NAME_UP, -1},
    {"mtp.layers.0.mlp.switch_mlp.gate_proj.biases", "mtp.layers.0.mlp.switch_mlp.gate_proj",
     NAME_EXPERTS, NAME_BIASES, 0, 1, NAME_GATE, -1},
    {"mtp.layers.0.self_attn.q_norm.weight", "mtp.layers.0.self_attn.q_norm.weight", NAME_DENSE, 0,
     0, 1, 0, -1},
    {"mtp.pre_fc_norm_hidden.weight", "mtp.pre_fc_norm_hidden.weight", NAME_DENSE, 0, -1, 1, 0, -1},
    {"model.language_model.layers.1.ple.ple_embedding.ngram_embedding.shard_127.weight",
     TRUNK "layers.1.ple.ple_embedding.ngram_embedding.shard_127", NAME_NGRAM, 0, 1, 0, 0, 127},
    {TRUNK "layers.1.ple.ple_embedding.ngram_embedding.shards.5.biases",
     TRUNK "layers.1.ple.ple_embedding.ngram_embedding.shard_5", NAME_NGRAM, NAME_BIASES, 1, 0, 0,
     5},
    {"model.visual.blocks.3.attn.qkv.bias", "vision_tower.blocks.3.attn.qkv.bias", NAME_VISION, 0,
     -1, 0, 0, -1},
    {"vision_tower.pos_embed.scales", "vision_tower.pos_embed.scales", NAME_VISION, 0, -1, 0, 0,
     -1},
#define UNKNOWN(name)                                                                              \
    {                                                                                              \
        name, name, NAME_UNKNOWN, 0, -1, 0, 0, -1                                                  \
    }
    UNKNOWN(""),
    UNKNOWN("model."),
    UNKNOWN("embed_tokens.weight"),
    UNKNOWN("model.lm_head.weight"),
    UNKNOWN("lm_head.weight2"),
    UNKNOWN("lm_head"),
    UNKNOWN("model.language_model.norm.weight"),
    UNKNOWN("model.layers.7"),
    UNKNOWN("model.layers.7."),
    UNKNOWN("model.layers.07.mlp.gate.weight"),
    UNKNOWN("model.layers.-1.mlp.gate.weight"),
    UNKNOWN("model.layers.99999999999999999999.mlp.gate.weight"),
    UNKNOWN("model.layers.7.embed_tokens.weight"),
    UNKNOWN("model.layers.7.mlp.gate"),
    UNKNOWN("model.layers.7.linear_attn.A_log.weight"),
    UNKNOWN("model.layers.7.self_attn.q_norm.scales"),
    UNKNOWN("model.layers.7.mlp.experts.gate_up_proj.weight"),
    UNKNOWN("mtp.layers.0.linear_attn.A_log"),
    UNKNOWN("mtp.embed_tokens.weight"),
    UNKNOWN("mtp.layers.0.ple.key_proj.weight"),
    UNKNOWN("model.layers.1.ple.ple_embedding.ngram_embedding.shard_.weight"),
    UNKNOWN("model.layers.1.ple.ple_embedding.ngram_embedding.shard_01.weight"),
    UNKNOWN("model.layers.1.ple.ple_embedding.ngram_embedding.shard_1"),
    UNKNOWN("model.layers.1.ple.ple_embedding.ngram_embedding.shard_1234567890.weight"),
};

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct name_info got;
        name_parse(cases[i].published, &got);
        bool same = got.kind == cases[i].kind && got.part == cases[i].part &&
                    got.layer == cases[i].layer && got.mtp == cases[i].mtp &&
                    got.matrix == cases[i].matrix && got.shard == cases[i].shard;
        if (!same || strcmp(got.canonical, cases[i].canonical) != 0)
            fail_msg("%s: became %s, kind %d, part %d, layer %d, mtp %d, matrix %d, shard %d",
                     cases[i].published, got.canonical, got.kind, got.part, got.layer, got.mtp,
                     got.matrix, (int)got.shard);
    }
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
