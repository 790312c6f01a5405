/* N-gram constants and row ids, against the released model's vectors and every golden. */
#include "tests/aid_test.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "store/ngram.h"

static json_t *read_json(const char *path)
{
    struct err e = {0};
    json_t *root;
    assert_ok(json_read_file(path, 64 << 20, &root, &e), e);
    return root;
}

static struct config read_config(const char *path)
{
    struct err e = {0};
    struct config c;
    assert_ok(config_load(path, &c, &e), e);
    return c;
}

static int64_t int_at(const json_t *array, size_t i)
{
    assert_true(i < json_array_size(array));
    return json_integer_value(json_array_get(array, i));
}

static void assert_values(const json_t *want, const uint64_t *found, int n)
{
    assert_int_equal(json_array_size(want), n);
    for (int i = 0; i < n; i++)
        assert_int_equal(found[i], int_at(want, (size_t)i));
}

/* want[position][head] for one token sequence; returns the number of rows compared. */
static size_t compare_rows(const struct config *c, const struct ngram_module *g,
                           const json_t *tokens, const json_t *want)
{
    size_t n = json_array_size(tokens);
    int32_t *t = mem_array(n, sizeof *t);
    assert_int_equal(json_array_size(want), n);
    for (size_t i = 0; i < n; i++)
        t[i] = (int32_t)int_at(tokens, i);
    for (size_t i = 0; i < n; i++) {
        uint64_t row[CONFIG_NGRAM_HEADS_MAX];
        ngram_rows(g, c, t, (int)i, row);
        assert_values(json_array_get(want, i), row, g->n_heads);
    }
    mem_free(t);
    return n * (size_t)g->n_heads;
}

static void test_released_constants_and_rows(void **state)
{
    (void)state;
    struct config c = read_config(DATA "vectors/config.json");
    struct ngram_module g;
    uint64_t start = clock_ns();
    ngram_derive(&c, 0, &g);
    print_message("note: released constants derived in %.3f ms\n",
                  (double)(clock_ns() - start) / 1e6);
    json_t *v = read_json(DATA "vectors/ngram_vectors.json");
    assert_values(json_object_get(v, "multipliers"), g.mult, c.ngram_size);
    assert_values(json_object_get(v, "head_vocab_sizes"), g.size, g.n_heads);
    assert_values(json_object_get(v, "head_offsets"), g.offset, g.n_heads);
    assert_int_equal(g.rows, json_integer_value(json_object_get(v, "padded_rows")));
    assert_int_equal(g.row_dim, 160);
    assert_int_equal(g.layer, 1);
    size_t i, n = 0;
    json_t *one;
    json_array_foreach(json_object_get(v, "cases"), i, one)
        n += compare_rows(&c, &g, json_object_get(one, "tokens"), json_object_get(one, "rows"));
    assert_true(n > 0);
    print_message("note: %zu row ids of the released model equal\n", n);
    json_decref(v);
}

/* Rows of the goldens are rows of each module's own table, two modules in v-ple2. */
static size_t compare_golden(const char *config, const char *goldens)
{
    struct config c = read_config(config);
    json_t *root = read_json(goldens), *seq;
    size_t i, n = 0;
    json_array_foreach(json_object_get(root, "sequences"), i, seq) {
        const json_t *ngram = json_object_get(seq, "ngram");
        const json_t *layers = json_object_get(ngram, "layers");
        assert_int_equal(json_array_size(layers), c.n_ple);
        for (int m = 0; m < c.n_ple; m++) {
            struct ngram_module g;
            ngram_derive(&c, m, &g);
            assert_int_equal(g.layer, int_at(layers, (size_t)m));
            n += compare_rows(&c, &g, json_object_get(seq, "tokens"),
                              json_array_get(json_object_get(ngram, "row_ids"), (size_t)m));
        }
    }
    json_decref(root);
    return n;
}

static void test_goldens(void **state)
{
    (void)state;
    static const char *const names[] = {"micro/bf16",     "micro/mlx4",   "wide/mlx4",
                                        "deep/mlx4",      "v-hc2/mlx4",   "v-ple2/mlx4",
                                        "v-head128/mlx4", "v-rope/mlx4",  "v-silu/mlx4",
                                        "v-nonorm/mlx4",  "v-mtpall/mlx4"};
    char config[128], goldens[128];
    size_t n = compare_golden(DEMO "/config.json", GOLDENS "demo/goldens.json");
    assert_true(n > 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(config, sizeof config, GOLDENS "%s/config.json", names[i]);
        snprintf(goldens, sizeof goldens, GOLDENS "%s/goldens.json", names[i]);
        size_t more = compare_golden(config, goldens);
        assert_true(more > 0);
        n += more;
    }
    print_message("note: %zu row ids of the goldens equal\n", n);
}

/* v-ple2's two tables have 768 and 1408 rows: the second continues the primes of the first. */
static void test_second_module_continues_the_primes(void **state)
{
    (void)state;
    struct config c = read_config(GOLDENS "v-ple2/mlx4/config.json");
    struct ngram_module a, b;
    ngram_derive(&c, 0, &a);
    ngram_derive(&c, 1, &b);
    assert_int_equal(a.size[0], 31);
    assert_int_equal(a.size[11], 79);
    assert_int_equal(b.size[0], 83);
    assert_int_equal(a.rows, 768);
    assert_int_equal(b.rows, 1408);
    assert_true(a.mult[0] != b.mult[0]);
}

static void test_small_and_large_bases(void **state)
{
    (void)state;
    static const uint64_t first[] = {2, 3, 5, 7, 11, 13, 17, 19};
    struct config c = read_config(GOLDENS "micro/mlx4/config.json");
    struct ngram_module g;
    c.ngram_base = 1;
    ngram_derive(&c, 0, &g);
    assert_memory_equal(g.size, first, sizeof first);
    c.ngram_base = (int64_t)1 << 31;
    ngram_derive(&c, 0, &g);
    assert_int_equal(g.size[0], 2147483659u);
    assert_int_equal(g.offset[1], 2147483659u);
    c.vocab = 2; /* the largest multipliers there are */
    c.eos[0] = 1;
    ngram_derive(&c, 0, &g);
    int32_t tokens[] = {1, 1, 1};
    uint64_t row[CONFIG_NGRAM_HEADS_MAX];
    ngram_rows(&g, &c, tokens, 2, row);
    for (int j = 0; j < g.n_heads; j++) {
        assert_int_equal(g.mult[0] % 2, 1);
        assert_in_range(row[j], g.offset[j], g.offset[j] + g.size[j] - 1);
    }
}

static void test_wrong_constants_are_named(void **state)
{
    (void)state;
    struct config c = read_config(GOLDENS "micro/mlx4/config.json");
    struct ngram_module right;
    ngram_derive(&c, 0, &right);
    struct ngram_module wrong[5] = {right, right, right, right, right};
    static const char *const names[5] = {"head_vocab_sizes[3] is 72", "head_offsets[2]",
                                         "layer_multipliers[1]", "rows[0]", "heads[0] is 7"};
    wrong[0].size[3]--;
    wrong[1].offset[2]++;
    wrong[2].mult[1] += 2;
    wrong[3].rows -= 128;
    wrong[4].n_heads--;
    struct err e = {0};
    assert_ok(ngram_compare(&right, &right, "m", &e), e);
    for (int i = 0; i < 5; i++) {
        err_clear(&e);
        assert_int_equal(ngram_compare(&wrong[i], &right, "m", &e), -E_FORMAT);
        if (!strstr(e.msg, "m: wrong n-gram constants: ") || !strstr(e.msg, names[i]))
            fail_msg("\"%s\" does not say %s", e.msg, names[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_released_constants_and_rows),
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_second_module_continues_the_primes),
        cmocka_unit_test(test_small_and_large_bases),
        cmocka_unit_test(test_wrong_constants_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
