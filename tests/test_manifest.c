/* manifest.json: the released layout to the byte, and every broken field refused by name. */
#include "tests/aid_test.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tests/aid_store.h"

static json_t *make_manifest(const char *config, struct config *c)
{
    struct err e = {0};
    struct aid_tensors t;
    assert_ok(config_load(config, c, &e), e);
    aid_tensors_make(c, &t);
    json_t *root = aid_store_manifest(&t);
    aid_tensors_free(&t);
    return root;
}

/* formats of the original store: 49 x 512 experts of 640 x 2560. */
static void test_released_record(void **state)
{
    (void)state;
    struct err e = {0};
    struct expert_layout x;
    assert_ok(expert_layout_make(49, 512, 640, 2560, &x, &e), e);
    assert_int_equal(x.w[EXPERT_GATE], 0);
    assert_int_equal(x.w[EXPERT_UP], 819200);
    assert_int_equal(x.w[EXPERT_DOWN], 1638400);
    assert_int_equal(x.s[EXPERT_GATE], 2457600);
    assert_int_equal(x.b[EXPERT_GATE], 2508800);
    assert_int_equal(x.s[EXPERT_UP], 2560000);
    assert_int_equal(x.b[EXPERT_UP], 2611200);
    assert_int_equal(x.s[EXPERT_DOWN], 2662400);
    assert_int_equal(x.b[EXPERT_DOWN], 2713600);
    assert_int_equal(x.bytes, 2764800);
    assert_int_equal(x.stride, 2768896);
    assert_int_equal(x.stride * 49 * 512, 69466062848u);
    assert_int_equal(x.group, 64);
}

static void test_other_records(void **state)
{
    (void)state;
    struct err e = {0};
    struct expert_layout x;
    assert_ok(expert_layout_make(5, 16, 64, 128, &x, &e), e);
    assert_int_equal(x.bytes, 3 * 64 * 128 / 2 + 6 * 64 * 2 * 2);
    assert_int_equal(x.stride, STORE_PAGE);
    assert_ok(expert_layout_make(1, 1, 256, 128, &x, &e), e);
    assert_int_equal(x.stride % STORE_PAGE, 0);
    assert_int_equal(x.s[EXPERT_GATE], 3 * 256 * 128 / 2);
    assert_int_equal(expert_layout_make(1, 1, 96, 128, &x, &e), -E_UNSUPPORTED);
    err_clear(&e);
    assert_int_equal(expert_layout_make(1, 1, 64, 80, &x, &e), -E_UNSUPPORTED);
}

static void test_everything_is_read(void **state)
{
    (void)state;
    struct err e = {0};
    struct config c;
    struct manifest m;
    struct expert_layout want;
    json_t *root = make_manifest(GOLDENS "v-ple2/mlx4/config.json", &c);
    aid_json_set(root, "dense.0.xxh3", "\"00ff00ff12345678\"");
    aid_json_set(root, "something_of_ours", "[1, 2]");
    assert_ok(manifest_parse(root, "m", &m, &e), e);
    json_decref(root); /* the manifest holds its own */
    assert_string_equal(m.source_dir, "/made/up");
    assert_int_equal(json_array_size(json_object_get(m.root, "something_of_ours")), 2);
    assert_ok(expert_layout_make(c.n_layers + 1, c.E, c.inter, c.h, &want, &e), e);
    assert_memory_equal(&m.experts, &want, sizeof want);
    assert_string_equal(m.layer_prefixes[4], "mtp.layers.0.mlp.switch_mlp");
    assert_int_equal(m.ngram.n_modules, 2);
    assert_int_equal(m.ngram.rows, 768 + 1408);
    assert_int_equal(m.ngram.first_row[1], 768);
    for (int i = 0; i < 2; i++) {
        struct ngram_module g;
        ngram_derive(&c, i, &g);
        assert_memory_equal(&m.ngram.module[i], &g, sizeof g);
    }
    for (size_t i = 1; i < m.n_dense; i++)
        assert_true(strcmp(m.dense[i - 1].name, m.dense[i].name) < 0);
    assert_true(m.dense[0].has_sum && m.dense[0].xxh3 == 0x00ff00ff12345678u);
    assert_false(m.dense[1].has_sum);
    manifest_free(&m);
}

/* The order of dense tensors in the file is free. */
static void test_dense_in_any_order(void **state)
{
    (void)state;
    struct err e = {0};
    struct config c;
    struct manifest m;
    json_t *root = make_manifest(GOLDENS "micro/mlx4/config.json", &c);
    json_t *list = json_object_get(root, "dense"), *first = json_incref(json_array_get(list, 0));
    json_array_remove(list, 0);
    json_array_append_new(list, first);
    assert_ok(manifest_parse(root, "m", &m, &e), e);
    assert_string_equal(m.dense[0].name, json_string_value(json_object_get(first, "name")));
    assert_int_equal(m.ngram.n_modules, 1);
    assert_int_equal(m.ngram.module[0].layer, -1); /* the config's to say */
    manifest_free(&m);
    json_decref(root);
}

struct bad {
    const char *path, *value; /* value NULL: removed */
    const char *names, *says;
};

static const struct bad bad[] = {
    {"version", NULL, "version", "required"},
    {"version", "2", "version 2", "want 1"},
    {"version", "\"1\"", "version", "the string"},
    {"source_dir", "3", "source_dir", "a string"},
    {"dense", NULL, "dense", "required"},
    {"dense", "{}", "dense", "an array"},
    {"dense.0", "7", "dense[0]", "an object"},
    {"dense.1.name", NULL, "dense[1].name", "required"},
    {"dense.1.dtype", "\"U8\"", "dense[1].dtype", "U8"},
    {"dense.1.dtype", "\"Q4\"", "dense[1].dtype", "Q4"},
    {"dense.1.shape", "[]", "dense[1].shape", "0 entries"},
    {"dense.1.shape", "[1,1,1,1,1,1,1,1,1]", "dense[1].shape", "9 entries"},
    {"dense.1.shape.0", "-4", "dense[1].shape[0]", "-4"},
    {"dense.1.shape.0", "4611686018427387904", "dense[1].nbytes", "want shape times"},
    {"dense.1.shape", "[4294967296, 4294967296, 4294967296]", "dense[1].nbytes", "want shape"},
    {"dense.1.offset", "-64", "dense[1].offset", "-64"},
    {"dense.1.offset", "9223372036854775807", "dense[1].offset", "9223372036854775807"},
    {"dense.1.offset", "65", "dense[1].offset", "multiple of 64"},
    {"dense.1.offset", "0", "overlap", "biases"},
    {"dense.1.nbytes", "1", "dense[1].nbytes", "is 1"},
    {"dense.1.xxh3", "\"12\"", "dense[1].xxh3", "16 hexadecimal digits"},
    {"dense.1.xxh3", "\"00ff00ff1234567x\"", "dense[1].xxh3", "16 hexadecimal digits"},
    {"experts", "null", "experts", "required"},
    {"experts.layers", "0", "experts.layers", "from 1"},
    {"experts.layers", "4", "layer_prefixes", "want 4"},
    {"experts.experts", "0", "experts.experts", "from 1"},
    {"experts.inter", "65", "inter 65", "multiples of 64"},
    {"experts.hidden", "1e30", "experts.hidden", "1e+30"},
    {"experts.group", "32", "experts.group", "want 64"},
    {"experts.record_bytes", "100", "gate_w", "inside record_bytes"},
    {"experts.record_stride", "16383", "record_stride", "multiple of 16384"},
    {"experts.record_stride", "0", "record_stride", "record_bytes"},
    {"experts.gate_w", "4096", "overlap", "gate_w"},
    {"experts.gate_s", "1", "gate_s", "multiple of 4"},
    {"experts.down_b", "13824", "down_b", "inside record_bytes"},
    {"experts.down_b", NULL, "experts.down_b", "required"},
    {"experts.up_s", "1099511627777", "experts.up_s", "1099511627776"},
    {"experts.layer_prefixes", "{}", "layer_prefixes", "an array"},
    {"experts.layer_prefixes.2", "4", "layer_prefixes[2]", "a string"},
    {"ngram", "[]", "ngram", "an object"},
    {"ngram", "null", "ngram_modules", "no ngram"},
    {"ngram.rows", "0", "ngram.rows", "from 1"},
    {"ngram.rows", "2177", "2176 rows", "ngram has 2177"},
    {"ngram.rows", "10", "ngram.head_vocab_sizes[0]", "31"},
    {"ngram.dim", "31", "rows of 31", "multiples of 8"},
    {"ngram.group", "24", "groups of 24", "whole groups"},
    {"ngram.row_bytes", "100", "row_bytes 20", "100"},
    {"ngram.weight_bytes", "80", "weight_bytes 16", "80"},
    {"ngram.scale_bytes", "4", "scale_bytes 2", "4"},
    {"ngram.head_offsets.2", "7", "head_offsets[2]", "the sum of the sizes"},
    {"ngram.head_offsets.3", NULL, "head_offsets", "go together"},
    {"ngram.head_vocab_sizes.0", "-1", "head_vocab_sizes[0]", "-1"},
    {"ngram.head_vocab_sizes.0", "0", "head_vocab_sizes[0]", "is 0"},
    {"ngram.layer_multipliers", "[1]", "layer_multipliers", "go together"},
    {"ngram.layer_multipliers", "[1,3,5,7,9,11,13,15,17]", "layer_multipliers", "9 entries"},
    {"ngram.layer_multipliers.1", "5", "layer_multipliers[1]", "is 5"},
    {"ngram_modules", "[]", "ngram_modules", "0 entries"},
    {"ngram_modules.1.layer", "0", "ngram_modules[1].layer", "ascending"},
    {"ngram_modules.1.layer", "512", "ngram_modules[1].layer", "512"},
    {"ngram_modules.1.first_row", "767", "ngram_modules[1].first_row", "want 768"},
    {"ngram_modules.1.rows", "1409", "ngram_modules", "2177"},
    {"ngram_modules.1.rows", "0", "ngram_modules[1].rows", "from 1"},
    {"ngram_modules.0", "3", "ngram_modules[0]", "an object"},
    {"ngram_modules.1", NULL, "ngram_modules have 768 rows", "2176"},
};

static void test_each_bad_field_is_named(void **state)
{
    (void)state;
    struct config c;
    json_t *good = make_manifest(GOLDENS "v-ple2/mlx4/config.json", &c);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err e = {0};
        struct manifest m = {.n_dense = 77};
        json_t *root = json_deep_copy(good);
        aid_json_set(root, bad[i].path, bad[i].value);
        int rc = manifest_parse(root, "s/manifest.json", &m, &e);
        json_decref(root);
        if (!rc)
            fail_msg("%s = %s is accepted", bad[i].path, bad[i].value);
        assert_int_equal(rc, -e.code);
        if (strncmp(e.msg, "s/manifest.json", 15) != 0 || !strstr(e.msg, bad[i].names) ||
            !strstr(e.msg, bad[i].says))
            fail_msg("%s = %s: \"%s\" does not name %s and say %s", bad[i].path, bad[i].value,
                     e.msg, bad[i].names, bad[i].says);
        assert_int_equal(m.n_dense, 77);
    }
    json_decref(good);
    print_message("note: %zu bad manifests, each with its own message\n",
                  sizeof bad / sizeof bad[0]);
}

static void test_a_name_listed_twice(void **state)
{
    (void)state;
    struct err e = {0};
    struct config c;
    struct manifest m;
    json_t *root = make_manifest(GOLDENS "micro/mlx4/config.json", &c);
    char *name =
        json_dumps(json_object_get(json_array_get(json_object_get(root, "dense"), 4), "name"),
                   JSON_ENCODE_ANY);
    aid_json_set(root, "dense.9.name", name);
    assert_int_equal(manifest_parse(root, "m", &m, &e), -E_FORMAT);
    assert_non_null(strstr(e.msg, "listed twice"));
    free(name);
    json_decref(root);
}

static void test_allocation_failures(void **state)
{
    (void)state;
    struct config c;
    json_t *root = make_manifest(GOLDENS "micro/mlx4/config.json", &c);
    for (long nth = 1;; nth++) {
        struct err e = {0};
        struct manifest m;
        mem_fail_at(nth);
        int rc = manifest_parse(root, "m", &m, &e);
        mem_fail_at(0);
        if (!rc) {
            assert_true(nth > 100); /* a name each */
            manifest_free(&m);
            break;
        }
        assert_int_equal(rc, -E_NOMEM);
    }
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_released_record),         cmocka_unit_test(test_other_records),
        cmocka_unit_test(test_everything_is_read),      cmocka_unit_test(test_dense_in_any_order),
        cmocka_unit_test(test_each_bad_field_is_named), cmocka_unit_test(test_a_name_listed_twice),
        cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
