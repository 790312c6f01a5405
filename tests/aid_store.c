/* Made-up stores: see aid_store.h. */
#include "tests/aid_store.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "tests/aid_test.h"

static uint64_t align_up(uint64_t n, uint64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static void put(json_t *o, const char *key, uint64_t value)
{
    json_object_set_new(o, key, json_integer((json_int_t)value));
}

static json_t *list(const uint64_t *v, int n)
{
    json_t *a = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(a, json_integer((json_int_t)v[i]));
    return a;
}

static json_t *dense(const struct aid_tensors *t)
{
    json_t *a = json_array();
    uint64_t at = 0;
    for (size_t i = 0; i < t->n; i++) {
        const struct aid_tensor *x = &t->at[i];
        json_t *o = json_object();
        json_object_set_new(o, "name", json_string(x->name));
        json_object_set_new(o, "dtype", json_string(dtype_name(x->dtype)));
        json_object_set_new(o, "shape", list(x->shape, x->n_dims));
        put(o, "offset", at);
        put(o, "nbytes", x->nbytes);
        at = align_up(at + x->nbytes, STORE_ALIGN);
        json_array_append_new(a, o);
    }
    return a;
}

static json_t *experts(const struct config *c)
{
    static const char *const keys[] = {"gate_w", "up_w", "down_w", "gate_s", "gate_b",
                                       "up_s",   "up_b", "down_s", "down_b"};
    uint64_t codes = (uint64_t)c->inter * (uint64_t)c->h / 2, side = codes / 16, at = 0;
    json_t *o = json_object(), *prefixes = json_array();
    put(o, "layers", (uint64_t)(c->n_layers + c->n_mtp));
    put(o, "experts", (uint64_t)c->E);
    put(o, "inter", (uint64_t)c->inter);
    put(o, "hidden", (uint64_t)c->h);
    put(o, "group", 64);
    for (int i = 0; i < 9; i++) {
        put(o, keys[i], at);
        at += i < 3 ? codes : side;
    }
    put(o, "record_bytes", at);
    put(o, "record_stride", align_up(at, STORE_PAGE));
    for (int il = 0; il < c->n_layers; il++)
        json_array_append_new(prefixes,
                              json_sprintf("language_model.model.layers.%d.mlp.switch_mlp", il));
    if (c->n_mtp)
        json_array_append_new(prefixes, json_string("mtp.layers.0.mlp.switch_mlp"));
    json_object_set_new(o, "layer_prefixes", prefixes);
    return o;
}

static void put_constants(json_t *o, const struct config *c, const struct ngram_module *g)
{
    json_object_set_new(o, "head_offsets", list(g->offset, g->n_heads));
    json_object_set_new(o, "head_vocab_sizes", list(g->size, g->n_heads));
    json_object_set_new(o, "layer_multipliers", list(g->mult, c->ngram_size));
}

static uint64_t total_rows(const struct config *c)
{
    uint64_t rows = 0;
    for (int m = 0; m < c->n_ple; m++) {
        struct ngram_module g;
        ngram_derive(c, m, &g);
        rows += g.rows;
    }
    return rows;
}

static void put_ngram(json_t *root, const struct config *c)
{
    struct ngram_module g;
    uint64_t first = 0;
    json_t *o = json_object(), *modules = json_array();
    ngram_derive(c, 0, &g);
    put(o, "rows", total_rows(c));
    put(o, "dim", (uint64_t)g.row_dim); /* 32 in all configs used here: one group */
    put(o, "group", 32);
    put(o, "weight_bytes", 16);
    put(o, "scale_bytes", 2);
    put(o, "row_bytes", 20);
    put_constants(o, c, &g);
    json_object_set_new(root, "ngram", o);
    for (int m = 0; m < c->n_ple; m++, first += g.rows) {
        ngram_derive(c, m, &g);
        o = json_object();
        put(o, "layer", (uint64_t)g.layer);
        put(o, "first_row", first);
        put(o, "rows", g.rows);
        put_constants(o, c, &g);
        json_array_append_new(modules, o);
    }
    if (c->n_ple > 1)
        json_object_set_new(root, "ngram_modules", modules);
    else
        json_decref(modules);
}

json_t *aid_store_manifest(const struct aid_tensors *t)
{
    json_t *root = json_object();
    put(root, "version", 1);
    json_object_set_new(root, "source_dir", json_string("/made/up"));
    json_object_set_new(root, "dense", dense(t));
    json_object_set_new(root, "experts", experts(&t->config));
    if (t->config.n_ple)
        put_ngram(root, &t->config);
    else
        json_object_set_new(root, "ngram", json_null());
    return root;
}

/* Below 0x40, so that every pair of bytes is a finite bf16. */
uint8_t aid_store_byte(uint64_t i)
{
    return (uint8_t)((i * 2654435761u >> 7 ^ i >> 5) & 0x3F);
}

static void write_in(const char *dir, const char *name, const void *data, size_t n)
{
    char *path = file_join(dir, name);
    aid_write(path, data, n);
    mem_free(path);
}

static void write_bytes(const char *dir, const char *name, uint64_t n)
{
    uint8_t *v = mem_alloc((size_t)n);
    assert_non_null(v);
    for (uint64_t i = 0; i < n; i++)
        v[i] = aid_store_byte(i);
    write_in(dir, name, v, (size_t)n);
    mem_free(v);
}

static void write_dense(const char *dir, const struct aid_tensors *t)
{
    struct buf b = BUF_INIT;
    struct err e = {0};
    for (size_t i = 0; i < t->n; i++) {
        while (b.len % STORE_ALIGN)
            buf_putc(&b, '\0');
        buf_add(&b, t->at[i].data, (size_t)t->at[i].nbytes);
    }
    assert_ok(buf_check(&b, &e), e);
    write_in(dir, "dense.bin", b.data, b.len);
    buf_free(&b);
}

void aid_store_write_json(const char *dir, const char *name, const json_t *value)
{
    char *text = json_dumps(value, JSON_INDENT(2));
    assert_non_null(text);
    write_in(dir, name, text, strlen(text));
    free(text);
}

void aid_store_write(const char *dir, const char *config_path, const struct aid_tensors *t,
                     const json_t *manifest)
{
    const struct config *c = &t->config;
    struct expert_layout x;
    struct err e = {0};
    struct buf config = BUF_INIT;
    assert_ok(file_read_all(config_path, 1 << 20, &config, &e), e);
    write_in(dir, "config.json", config.data, config.len);
    buf_free(&config);
    write_dense(dir, t);
    assert_ok(expert_layout_make(c->n_layers + c->n_mtp, c->E, c->inter, c->h, &x, &e), e);
    write_bytes(dir, "experts.bin", (uint64_t)x.n_layers * (uint64_t)x.E * x.stride);
    if (c->n_ple)
        write_bytes(dir, "ngram.bin", total_rows(c) * 20);
    aid_store_write_json(dir, "manifest.json", manifest);
}

void aid_json_set(json_t *root, const char *path, const char *text)
{
    char key[64];
    size_t n = strcspn(path, ".");
    assert_true(n < sizeof key);
    memcpy(key, path, n);
    key[n] = '\0';
    json_t *next = json_is_array(root) ? json_array_get(root, strtoul(key, NULL, 10))
                                       : json_object_get(root, key);
    if (path[n]) {
        assert_non_null(next);
        aid_json_set(next, path + n + 1, text);
        return;
    }
    json_t *v = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    assert_true(v || !text);
    if (json_is_array(root) && v && next)
        json_array_set_new(root, strtoul(key, NULL, 10), v);
    else if (json_is_array(root) && v)
        json_array_append_new(root, v);
    else if (json_is_array(root))
        json_array_remove(root, strtoul(key, NULL, 10));
    else if (v)
        json_object_set_new(root, key, v);
    else
        json_object_del(root, key);
}
