/* Opening a store: what it shows is what is in its files, and files that do not go together, are
 * cut short or are of another model are refused. */
#include "tests/aid_test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "quant/half.h"
#include "quant/q4.h"
#include "store/store.h"
#include "tests/aid_store.h"

/* A store on disk, and what it was made of. */
struct made {
    char *dir;
    struct aid_tensors tensors;
    json_t *manifest;
};

static struct made make(const char *golden)
{
    struct made s;
    struct config c;
    struct err e = {0};
    char config[128];
    snprintf(config, sizeof config, GOLDENS "%s/mlx4/config.json", golden);
    assert_ok(config_load(config, &c, &e), e);
    s.dir = aid_tmpdir();
    aid_tensors_make(&c, &s.tensors);
    s.manifest = aid_store_manifest(&s.tensors);
    aid_store_write(s.dir, config, &s.tensors, s.manifest);
    return s;
}

static void unmake(struct made *s)
{
    json_decref(s->manifest);
    aid_tensors_free(&s->tensors);
    aid_rmdir(s->dir);
}

static struct store *open_made(const struct made *made)
{
    struct err e = {0};
    struct store *s;
    assert_ok(store_open(made->dir, &s, &e), e);
    return s;
}

static void test_dense_tensors(void **state)
{
    (void)state;
    struct made made = make("micro");
    struct store *s = open_made(&made);
    struct err e = {0};
    struct tensor_view v;
    for (size_t i = 0; i < made.tensors.n; i++) {
        const struct aid_tensor *x = &made.tensors.at[i];
        assert_ok(store_find(s, x->name, &v, &e), e);
        assert_string_equal(v.name, x->name);
        assert_int_equal(v.dtype, x->dtype);
        assert_int_equal(v.n_dims, x->n_dims);
        assert_memory_equal(v.shape, x->shape, sizeof x->shape);
        assert_int_equal(v.nbytes, x->nbytes);
        assert_memory_equal(v.data, x->data, (size_t)x->nbytes);
        assert_int_equal((uintptr_t)v.data % STORE_ALIGN, 0);
    }
    assert_int_equal(store_find(s, "mtp.nothing.weight", &v, &e), -E_NOTFOUND);
    assert_non_null(strstr(e.msg, "mtp.nothing.weight"));
    store_close(s);
    unmake(&made);
}

static void assert_bytes(const uint8_t *found, uint64_t at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (found[i] != aid_store_byte(at + i))
            fail_msg("byte %zu behind %llu is another one", i, (unsigned long long)at);
}

static void test_records_and_rows(void **state)
{
    (void)state;
    struct made made = make("v-ple2");
    struct store *s = open_made(&made);
    struct err e = {0};
    const struct config *c = &s->config;
    const struct expert_layout *x = &s->manifest.experts;
    struct weight_source src;
    weights_source_store(s, &src);
    for (int il = 0; il < c->n_layers + c->n_mtp; il++)
        for (int ie = 0; ie < c->E; ie++) {
            uint64_t at = (uint64_t)(il * c->E + ie) * x->stride;
            struct expert one;
            assert_bytes(store_record(s, il, ie), at, (size_t)x->stride);
            assert_ok(src.expert(src.ctx, il, ie, &one, &e), e);
            assert_ptr_equal(one.gate.w, s->experts.data + at);
            assert_ptr_equal(one.up.scales, s->experts.data + at + x->s[EXPERT_UP]);
            assert_ptr_equal(one.down.biases, s->experts.data + at + x->b[EXPERT_DOWN]);
            assert_true(one.gate.rows == c->inter && one.gate.cols == c->h);
            assert_true(one.up.rows == c->inter && one.up.cols == c->h);
            assert_true(one.down.rows == c->h && one.down.cols == c->inter);
            assert_true(one.down.format == MATRIX_Q4 && one.down.group == 64);
        }
    for (int m = 0; m < 2; m++) {
        uint64_t row = s->manifest.ngram.module[m].rows - 1;
        uint64_t at = (m * UINT64_C(768) + row) * 20;
        float v[32];
        assert_bytes(store_ngram_row(s, s->manifest.ngram.first_row[m] + row), at, 20);
        assert_ok(src.ngram_row(src.ctx, m, row, v, &e), e);
        const uint8_t *raw = s->ngram.data + at;
        float scale = bf16_to_f32((uint16_t)(raw[16] | raw[17] << 8));
        float bias = bf16_to_f32((uint16_t)(raw[18] | raw[19] << 8));
        for (int i = 0; i < 32; i++) {
            float product = (float)(raw[i / 2] >> 4 * (i % 2) & 15) * scale;
            assert_true(v[i] == product + bias);
        }
    }
    store_close(s);
    unmake(&made);
}

/* A store is enough for the weights of each kind of model. */
static void test_weights_of_stores(void **state)
{
    (void)state;
    static const char *const names[] = {"micro", "v-ple2", "v-nople", "wide", "v-hc2"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct made made = make(names[i]);
        struct store *s = open_made(&made);
        struct err e = {0};
        struct weight_source src;
        struct weights w;
        weights_source_store(s, &src);
        assert_ok(weights_init(&s->config, &src, &w, &e), e);
        assert_int_equal(s->manifest.ngram.n_modules, s->config.n_ple);
        assert_int_equal(s->ngram.data != NULL, s->config.n_ple > 0);
        for (int m = 0; m < s->config.n_ple; m++)
            assert_int_equal(s->manifest.ngram.module[m].layer, s->config.ple_layer[m]);
        weights_free(&w);
        store_close(s);
        unmake(&made);
    }
}

static void test_where_stores_are_found(void **state)
{
    (void)state;
    struct made made = make("v-nople");
    struct err e = {0};
    struct store *s;
    char *model = aid_tmpdir(), *packed = file_join(model, "packed"), *found;
    assert_int_equal(store_open(model, &s, &e), -E_NOTFOUND);
    assert_null(s);
    assert_non_null(strstr(e.msg, "cherenkov pack"));
    err_clear(&e);
    assert_int_equal(mkdir(packed, 0755), 0);
    assert_int_equal(store_open(model, &s, &e), -E_NOTFOUND);
    assert_non_null(strstr(e.msg, "has not finished"));
    err_clear(&e);
    char *journal = file_join(packed, "packing.journal");
    aid_write(journal, "", 0);
    assert_int_equal(store_open(packed, &s, &e), -E_NOTFOUND);
    assert_non_null(strstr(e.msg, "is a store that is not finished"));
    err_clear(&e);
    assert_int_equal(unlink(journal), 0);
    mem_free(journal);
    assert_int_equal(rmdir(packed), 0);
    assert_int_equal(symlink(made.dir, packed), 0);
    assert_ok(store_locate(model, &found, &e), e);
    assert_string_equal(found, packed);
    mem_free(found);
    assert_ok(store_open(model, &s, &e), e);
    store_close(s);
    assert_int_equal(store_open("no/such/place", &s, &e), -E_NOTFOUND);
    assert_non_null(strstr(e.msg, "no/such/place"));
    store_close(NULL);
    unlink(packed);
    mem_free(packed);
    aid_rmdir(model);
    unmake(&made);
}

static void assert_refused(const struct made *made, const char *what, int code, const char *says)
{
    struct err e = {0};
    struct store *s;
    int rc = store_open(made->dir, &s, &e);
    if (!rc)
        fail_msg("opens in spite of: %s", what);
    assert_null(s);
    if (rc != -code || !strstr(e.msg, says) || !strstr(e.msg, made->dir))
        fail_msg("%s: code %d, \"%s\" does not say where and %s", what, -rc, e.msg, says);
}

/* "is not a store: there is no manifest.json", of a directory that the user may not look into. */
static void test_where_nobody_may_look(void **state)
{
    (void)state;
    char *dir = aid_tmpdir(), *inside = file_join(dir, "model");
    int status;
    assert_int_equal(chmod(dir, 0), 0);
    pid_t pid = fork();
    if (pid == 0) { /* to root nothing is forbidden */
        struct err e = {0};
        char *found;
        if (geteuid() == 0 && setuid(65534))
            _exit(77);
        if (access(dir, F_OK))
            _exit(77);
        int rc = store_locate(dir, &found, &e) == -E_IO && strstr(e.msg, "Permission denied");
        err_clear(&e);
        rc =
            rc && store_locate(inside, &found, &e) == -E_IO && strstr(e.msg, "cannot be looked at");
        _exit(!rc);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77));
    assert_int_equal(chmod(dir, 0700), 0);
    mem_free(inside);
    aid_rmdir(dir);
}

static void test_files_cut_short(void **state)
{
    (void)state;
    static const char *const names[] = {"dense.bin", "experts.bin", "ngram.bin"};
    struct made made = make("micro");
    for (int i = 0; i < 3; i++) {
        char *path = file_join(made.dir, names[i]);
        struct stat st;
        struct buf keep = BUF_INIT;
        struct err e = {0};
        assert_int_equal(stat(path, &st), 0);
        assert_ok(file_read_all(path, 1 << 28, &keep, &e), e);
        assert_int_equal(truncate(path, st.st_size - 1), 0);
        assert_refused(&made, "one byte short", E_FORMAT, "cut short");
        assert_int_equal(truncate(path, 0), 0);
        assert_refused(&made, "empty", E_FORMAT, names[i]);
        assert_int_equal(unlink(path), 0);
        assert_refused(&made, "missing", E_NOTFOUND, names[i]);
        buf_putc(&keep, 'x'); /* longer is no harm */
        aid_write(path, keep.data, keep.len);
        store_close(open_made(&made));
        buf_free(&keep);
        mem_free(path);
    }
    unmake(&made);
}

/* Patches of manifest.json and config.json (one of the two) that do not go with the rest. */
static void test_parts_that_do_not_go_together(void **state)
{
    (void)state;
    static const struct {
        const char *file, *path, *value, *says;
        int code;
    } cases[] = {
        {"manifest.json", "version", "2", "version 2", E_UNSUPPORTED},
        {"manifest.json", "experts.group", "32", "want 64", E_UNSUPPORTED},
        {"manifest.json", "experts.layers", "4", "layer_prefixes", E_FORMAT},
        {"manifest.json", "experts.experts", "15", "num_experts", E_FORMAT},
        {"manifest.json", "experts.layer_prefixes.1",
         "\"language_model.model.layers.2.mlp.switch_mlp\"", "layer_prefixes[1]", E_FORMAT},
        {"manifest.json", "dense.3.offset", "1048576000", "dense.bin", E_FORMAT},
        {"manifest.json", "experts.record_stride", "32768", "experts.bin", E_FORMAT},
        {"manifest.json", "ngram.rows", "1280", "rows", E_FORMAT},
        {"manifest.json", "ngram.layer_multipliers.0", "77", "wrong n-gram constants", E_FORMAT},
        {"manifest.json", "ngram", "null", "ple_layer_ids", E_FORMAT},
        {"config.json", "text_config.num_experts", "15", "num_experts", E_FORMAT},
        {"config.json", "text_config.hidden_size", "256", "hidden_size", E_FORMAT},
        {"config.json", "text_config.moe_intermediate_size", "128", "moe_intermediate", E_FORMAT},
        {"config.json", "text_config.num_hidden_layers", "3", "layer_types", E_FORMAT},
        {"config.json", "text_config.seed", "1235", "wrong n-gram constants", E_FORMAT},
        {"config.json", "text_config.vocab_size", "500", "wrong n-gram constants", E_FORMAT},
        {"config.json", "text_config.ngram_vocab_size_base", "67", "head_vocab_sizes[0] is 61",
         E_FORMAT},
        {"config.json", "text_config.ple_embed_dim", "512", "ngram.dim", E_FORMAT},
        {"config.json", "text_config.ple_layer_ids", "[]", "ple_layer_ids", E_FORMAT},
        {"config.json", "text_config.ple_layer_ids", "[2, 3]", "1 n-gram table", E_FORMAT},
        {"config.json", "text_config.hc_count", "1", "hc_count", E_FORMAT},
        {"config.json", "model_type", "\"gpt\"", "model_type", E_UNSUPPORTED},
    };
    struct made made = make("micro");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *path = file_join(made.dir, cases[i].file);
        struct buf keep = BUF_INIT;
        struct err e = {0};
        assert_ok(file_read_all(path, 1 << 24, &keep, &e), e);
        json_t *root = json_loads(buf_str(&keep), 0, NULL);
        aid_json_set(root, cases[i].path, cases[i].value);
        aid_store_write_json(made.dir, cases[i].file, root);
        assert_refused(&made, cases[i].path, cases[i].code, cases[i].says);
        aid_write(path, keep.data, keep.len);
        json_decref(root);
        buf_free(&keep);
        mem_free(path);
    }
    store_close(open_made(&made));
    unmake(&made);
}

/* Layer numbers of tables are ours to check in a store of two. */
static void test_tables_of_other_layers(void **state)
{
    (void)state;
    struct made made = make("v-ple2");
    aid_json_set(made.manifest, "ngram_modules.1.layer", "1");
    aid_store_write_json(made.dir, "manifest.json", made.manifest);
    assert_refused(&made, "layer 1", E_FORMAT, "table 1: is of layer 1, but config.json says 2");
    unmake(&made);
}

/* The bytes of another group size, and codes without their scales. */
static void test_groups_of_dense_matrices(void **state)
{
    (void)state;
    static const char want[] = "language_model.model.layers.0.linear_attn.out_proj.scales";
    struct made made = make("micro");
    json_t *x;
    size_t i;
    for (i = 0; (x = json_array_get(json_object_get(made.manifest, "dense"), i)); i++)
        if (strcmp(json_string_value(json_object_get(x, "name")), want) == 0)
            break;
    char path[64];
    snprintf(path, sizeof path, "dense.%zu.shape", i);
    aid_json_set(made.manifest, path, "[256, 2]"); /* instead of 128, 4 */
    aid_store_write_json(made.dir, "manifest.json", made.manifest);
    assert_refused(&made, "groups of 128", E_UNSUPPORTED, "want 4: groups of 64 of 256 columns");
    snprintf(path, sizeof path, "dense.%zu.name", i);
    aid_json_set(made.manifest, path, "\"another\"");
    aid_store_write_json(made.dir, "manifest.json", made.manifest);
    assert_refused(&made, "no scales", E_FORMAT, "out_proj.scales is missing");
    unmake(&made);
}

static void test_faults(void **state)
{
    (void)state;
    struct made made = make("v-nople");
    for (long nth = 1;; nth++) {
        struct err e = {0};
        struct store *s;
        mem_fail_at(nth);
        int rc = store_open(made.dir, &s, &e);
        mem_fail_at(0);
        if (!rc) {
            assert_true(nth > 100);
            store_close(s);
            break;
        }
        assert_int_equal(rc, -E_NOMEM);
        assert_null(s);
    }
    for (long nth = 1;; nth++) {
        struct err e = {0};
        struct store *s;
        file_fault_at(FILE_FAULT_READ, nth);
        int rc = store_open(made.dir, &s, &e);
        file_fault_at(FILE_FAULT_READ, 0);
        if (!rc) {
            assert_int_equal(nth, 3); /* two texts are read, the rest is mapped */
            store_close(s);
            break;
        }
        assert_int_equal(rc, -E_IO);
    }
    unmake(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense_tensors),
        cmocka_unit_test(test_records_and_rows),
        cmocka_unit_test(test_weights_of_stores),
        cmocka_unit_test(test_where_stores_are_found),
        cmocka_unit_test(test_where_nobody_may_look),
        cmocka_unit_test(test_files_cut_short),
        cmocka_unit_test(test_parts_that_do_not_go_together),
        cmocka_unit_test(test_tables_of_other_layers),
        cmocka_unit_test(test_groups_of_dense_matrices),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
