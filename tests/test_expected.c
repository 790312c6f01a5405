/* The table of expected tensors against the released checkpoint's complete list. */
#include "tests/aid_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "store/expected.h"

static void make_list(const char *path, struct config *c, struct expected_list *l)
{
    struct err e = {0};
    assert_ok(config_load(path, c, &e), e);
    assert_ok(expected_init(c, l, &e), e);
}

/* One line of a tensor list: name, dtype, shape with commas, bytes. */
struct listed {
    char name[160], dtype[8];
    uint64_t shape[4], nbytes;
    int n_dims;
};

static void parse_line(const char *line, struct listed *t)
{
    char shape[64];
    unsigned long long nbytes;
    *t = (struct listed){0};
    assert_int_equal(
        sscanf(line, "%159[^\t]\t%7[^\t]\t%63[^\t]\t%llu", t->name, t->dtype, shape, &nbytes), 4);
    t->nbytes = nbytes;
    for (char *p = shape; *p && t->n_dims < 4; p += *p == ',')
        t->shape[t->n_dims++] = strtoull(p, &p, 10);
}

/* Whether t is a part of x in the form that the MLX conversion gives it. */
static bool has_form(const struct listed *t, const struct expected *x, int parts)
{
    uint64_t want[4] = {x->shape[0], x->shape[1], x->shape[2]}, count = 1, found = 1;
    size_t n = strlen(t->name);
    int group = expected_group(x), last = x->n_dims - 1;
    const char *dtype = x->kind == EXPECTED_HASH ? "I64" : "BF16";
    if (x->kind == EXPECTED_NGRAM)
        want[0] /= (uint64_t)parts;
    if (group && strcmp(t->name + n - 7, ".weight") == 0) {
        want[last] /= 8;
        dtype = "U32";
    } else if (group) {
        want[last] /= (uint64_t)group;
    }
    for (int i = 0; i < x->n_dims; i++)
        count *= want[i];
    for (int i = 0; i < t->n_dims; i++)
        found *= t->shape[i];
    if (strcmp(t->dtype, dtype) != 0 || count != found)
        return false;
    return x->kind == EXPECTED_CONV || memcmp(t->shape, want, sizeof want) == 0;
}

/* Every tensor of the released MLX checkpoint but vision is expected, with its shape; and every
 * expected one is there. Those for dense.bin, 64-byte aligned in order of name, take the bytes that
 * the original store's do. */
static void test_released_checkpoint(void **state)
{
    (void)state;
    struct config c;
    struct expected_list l;
    struct err e = {0};
    struct buf text = BUF_INIT;
    make_list(DATA "vectors/config.json", &c, &l);
    assert_ok(file_read_all(DATA "tensors/mlx4-sawfwair.tsv", 1 << 24, &text, &e), e);
    int *seen = mem_zalloc(l.n, sizeof *seen);
    size_t n_dense = 0, n_vision = 0;
    uint64_t dense = 0; /* bytes, each tensor rounded up */
    for (char *line = strtok(text.data, "\n"); line; line = strtok(NULL, "\n")) {
        struct listed t;
        if (*line == '#')
            continue;
        parse_line(line, &t);
        if (strncmp(t.name, "vision_tower", 12) == 0) {
            n_vision++;
            continue;
        }
        const struct expected *x = expected_find(&l, t.name);
        if (!x)
            fail_msg("%s is not expected", t.name);
        if (!has_form(&t, x, c.ngram_parts))
            fail_msg("%s has another shape", t.name);
        seen[x - l.at]++;
        if (x->kind == EXPECTED_EXPERTS || x->kind == EXPECTED_NGRAM)
            continue;
        n_dense++;
        dense += (t.nbytes + 63) / 64 * 64;
    }
    for (size_t i = 0; i < l.n; i++) {
        int parts = l.at[i].kind == EXPECTED_NGRAM ? c.ngram_parts : 1;
        if (seen[i] != parts * (expected_group(&l.at[i]) ? 3 : 1))
            fail_msg("%s was seen %d times", l.at[i].name, seen[i]);
    }
    assert_int_equal(n_dense, 2491);
    assert_true(n_vision > 300);
    assert_in_range(dense, 2930271040u, 2930271040u + 63);
    mem_free(seen);
    buf_free(&text);
    expected_free(&l);
}

static void test_names(void **state)
{
    (void)state;
    struct config c;
    struct expected_list l;
    make_list(GOLDENS "v-ple2/mlx4/config.json", &c, &l);
    static const struct {
        const char *name;
        int role, layer, module; /* role -1: not expected */
    } cases[] = {
        {"language_model.lm_head.scales", ROLE_HEAD, -1, -1},
        {"language_model.model.embed_tokens", ROLE_EMBED, -1, -1},
        {"language_model.model.layers.0.linear_attn.A_log", ROLE_LINEAR_A_LOG, 0, -1},
        {"language_model.model.layers.0.linear_attn.A_log.weight", -1, 0, 0},
        {"language_model.model.layers.3.self_attn.q_norm.weight", ROLE_Q_NORM, 3, -1},
        {"language_model.model.layers.3.self_attn.q_norm.scales", -1, 0, 0},
        {"language_model.model.layers.3.self_attn.q", -1, 0, 0},
        {"language_model.model.layers.3.self_attn.q_proj2.weight", -1, 0, 0},
        {"language_model.model.layers.3.self_attn.q_proj.shard_1.weight", -1, 0, 0},
        {"language_model.model.layers.1.ple.key_proj.weight", -1, 0, 0},
        {"language_model.model.layers.2.ple.key_proj.weight", ROLE_PLE_KEY, 2, 1},
        {"language_model.model.layers.2.ple.ple_embedding.ngram_embedding.shard_1.biases",
         ROLE_PLE_TABLE, 2, 1},
        {"language_model.model.layers.0.ple.ple_embedding.ngram_embedding.shards.12.weight",
         ROLE_PLE_TABLE, 0, 0},
        {"language_model.model.layers.0.ple.ple_embedding.ngram_embedding.weight", ROLE_PLE_TABLE,
         0, 0},
        {"language_model.model.layers.0.ple.ple_embedding.ngram_embedding.shard_", -1, 0, 0},
        {"mtp.layers.0.mlp.switch_mlp.up_proj.biases", ROLE_EXPERTS_UP, 4, -1},
        {"mtp.layers.0.self_attn.q_proj.weight", ROLE_Q, 4, -1},
        {"mtp.layers.0.linear_attn.in_proj_a.weight", -1, 0, 0},
        {"mtp.pre_fc_norm_hidden.weight", ROLE_MTP_NORM_HIDDEN, -1, -1},
        {"mtp.hyper_connection_mixer.hc_norm.weight", ROLE_MIXER_NORM, -1, -1},
        {"", -1, 0, 0},
        {".weight", -1, 0, 0},
        {"7", -1, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct expected *x = expected_find(&l, cases[i].name);
        if (cases[i].role < 0 ? x != NULL
                              : !x || (int)x->role != cases[i].role || x->layer != cases[i].layer ||
                                    x->module != cases[i].module)
            fail_msg("%s: found %s", cases[i].name, x ? x->name : "nothing");
    }
    expected_free(&l);
}

static void test_what_a_config_leaves_out(void **state)
{
    (void)state;
    struct config c;
    struct expected_list l;
    struct err e = {0};
    make_list(GOLDENS "v-nople/mlx4/config.json", &c, &l);
    for (size_t i = 0; i < l.n; i++)
        assert_true(!l.at[i].mtp && l.at[i].module < 0 && l.at[i].layer < c.n_layers);
    expected_free(&l);
    c.tie_embeddings = true;
    assert_ok(expected_init(&c, &l, &e), e);
    assert_null(expected_find(&l, "language_model.lm_head.weight"));
    assert_non_null(expected_find(&l, "language_model.model.embed_tokens.weight"));
    expected_free(&l);
}

static void test_groups(void **state)
{
    (void)state;
    static const struct {
        enum expected_kind kind;
        uint64_t cols;
        int group;
    } cases[] = {
        {EXPECTED_MATRIX, 320, 64}, {EXPECTED_MATRIX, 96, 0},   {EXPECTED_EXACT, 64, 0},
        {EXPECTED_NORM, 64, 0},     {EXPECTED_EXPERTS, 64, 64}, {EXPECTED_NGRAM, 128, 64},
        {EXPECTED_NGRAM, 160, 32},  {EXPECTED_NGRAM, 48, 16},   {EXPECTED_NGRAM, 40, 8},
        {EXPECTED_HASH, 64, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct expected x = {.kind = cases[i].kind, .n_dims = 2, .shape = {4, cases[i].cols}};
        assert_int_equal(expected_group(&x), cases[i].group);
    }
}

/* The longest name of the largest config fits, and no two tensors share one. */
static void test_largest_config(void **state)
{
    (void)state;
    struct config c;
    struct expected_list l;
    struct err e = {0};
    assert_ok(config_load(GOLDENS "v-ple2/mlx4/config.json", &c, &e), e);
    c.n_layers = CONFIG_LAYERS_MAX;
    for (int il = 4; il < c.n_layers; il++)
        c.attention[il] = il % 2;
    c.ple_layer[1] = CONFIG_LAYERS_MAX - 2;
    assert_ok(expected_init(&c, &l, &e), e);
    for (size_t i = 0; i < l.n; i++) {
        assert_true(strlen(l.at[i].name) < EXPECTED_NAME_BYTES - 32);
        assert_ptr_equal(expected_find(&l, l.at[i].name), &l.at[i]);
    }
    expected_free(&l);
}

static void test_allocation_failures(void **state)
{
    (void)state;
    struct config c;
    struct err e = {0};
    assert_ok(config_load(GOLDENS "micro/mlx4/config.json", &c, &e), e);
    for (long nth = 1;; nth++) {
        struct expected_list l;
        mem_fail_at(nth);
        int rc = expected_init(&c, &l, &e);
        mem_fail_at(0);
        if (!rc) {
            expected_free(&l);
            assert_true(nth > 3);
            return;
        }
        assert_int_equal(rc, -E_NOMEM);
        assert_null(l.at);
        err_clear(&e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_released_checkpoint),      cmocka_unit_test(test_names),
        cmocka_unit_test(test_what_a_config_leaves_out), cmocka_unit_test(test_groups),
        cmocka_unit_test(test_largest_config),           cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
