/* Makes a checkpoint of any config.json: every tensor that the config asks for, under published
 * names, filled with numbers that look like weights. For tests and benchmarks that need a form
 * or a size that no golden has.
 *
 *   tool_source CONFIG DIR FORM FILES [KEY=NUMBER...]
 *
 * FORM is words joined by "+":
 *   bf16      originals: fused experts, raw norms (the default)
 *   mlx, mlx32  4-bit MLX, groups of 64 or of 32, folded norms (mlx32: raw, as mlx-vlm leaves them)
 *   text      names of a text-only export ("model." instead of "model.language_model.")
 *   nomtp     no draft head
 *   noconst   no stored n-gram constants
 * FILES shards share the tensors. KEY=NUMBER changes a field of the config's text_config first
 * (num_hidden_layers=2). The same arguments give the same bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "store/expected.h"
#include "store/ngram.h"

#define STEP_BYTES ((size_t)4 << 20)

enum filling { FILL_WEIGHT, FILL_RAW, FILL_FOLDED, FILL_CODES, FILL_SCALE, FILL_HASH };

struct form {
    bool mlx, text, no_mtp, no_constants, raw;
    uint64_t group;
};

/* A published tensor. */
struct made {
    char name[320];
    const char *dtype;
    int n_dims;
    uint64_t shape[4], bytes;
    enum filling filling;
    const struct expected *of;
    int file;
};

struct maker {
    struct form form;
    struct config config;
    struct made *at;
    size_t n;
    int n_files;
};

static void die(const char *what)
{
    fprintf(stderr, "tool_source: %s\n", what);
    exit(1);
}

static struct made *add(struct maker *k, const char *name, const char *dtype,
                        const struct expected *of)
{
    struct made *m = &k->at[k->n++];
    *m = (struct made){.dtype = dtype, .of = of, .n_dims = of->n_dims};
    snprintf(m->name, sizeof m->name, "%s", name);
    memcpy(m->shape, of->shape, sizeof of->shape);
    return m;
}

/* The published form of a canonical name. */
static void publish(const struct maker *k, const char *canonical, char name[300])
{
    static const char trunk[] = "language_model.model.", top[] = "language_model.";
    const char *to = k->form.text ? "model." : "model.language_model.";
    if (k->form.mlx)
        snprintf(name, 300, "%s", canonical);
    else if (strncmp(canonical, trunk, sizeof trunk - 1) == 0)
        snprintf(name, 300, "%s%s", to, canonical + sizeof trunk - 1);
    else
        snprintf(name, 300, "%s",
                 strncmp(canonical, top, sizeof top - 1) == 0 ? canonical + sizeof top - 1
                                                              : canonical);
}

/* A matrix named `module` as its MLX triple, or alone. */
static void add_matrix(struct maker *k, const struct expected *x, const char *module, uint64_t rows)
{
    static const char *const parts[] = {".weight", ".scales", ".biases"};
    char name[320], canonical[300];
    int last = x->n_dims - 1;
    uint64_t cols = x->shape[last], group = k->form.group;
    bool table = x->kind == EXPECTED_NGRAM;
    bool q4 = k->form.mlx && expected_group(x);
    if (table || cols % group)
        group = (uint64_t)expected_group(x);
    publish(k, module, canonical);
    for (int i = 0; i < (q4 ? 3 : 1); i++) {
        snprintf(name, sizeof name, "%s%s", canonical, parts[i]);
        struct made *m = add(k, name, q4 && !i ? "U32" : "BF16", x);
        m->shape[x->kind == EXPECTED_EXPERTS] = rows;
        m->shape[last] = !q4 ? cols : i ? cols / group : cols / 8;
        m->filling = !q4 ? FILL_WEIGHT : i ? FILL_SCALE : FILL_CODES;
    }
}

static void add_experts(struct maker *k, const struct expected *x)
{
    char module[256], name[300];
    bool up = x->role == ROLE_EXPERTS_UP, down = x->role == ROLE_EXPERTS_DOWN;
    if (k->form.mlx) {
        add_matrix(k, x, x->name, x->shape[1]);
        return;
    }
    if (up)
        return; /* its rows are in the fused tensor */
    const char *end = strstr(x->name, "switch_mlp.");
    snprintf(module, sizeof module, "%.*sexperts.%s", (int)(end - x->name), x->name,
             down ? "down_proj" : "gate_up_proj");
    publish(k, module, name);
    struct made *m = add(k, name, "BF16", x);
    m->shape[1] = down ? x->shape[1] : 2 * x->shape[1];
}

static void add_table(struct maker *k, const struct expected *x)
{
    int parts = k->config.ngram_parts;
    for (int i = 0; i < parts; i++) {
        char module[256];
        uint64_t rows = x->shape[0] / (uint64_t)parts;
        rows += i == parts - 1 ? x->shape[0] % (uint64_t)parts : 0;
        snprintf(module, sizeof module, "%s.shard_%d", x->name, i);
        add_matrix(k, x, module, rows);
    }
}

static void add_plain(struct maker *k, const struct expected *x)
{
    char name[300], canonical[256];
    bool hash = x->kind == EXPECTED_HASH;
    snprintf(canonical, sizeof canonical, "%s%s", x->name, x->suffix);
    publish(k, canonical, name);
    if (hash && k->form.no_constants)
        return;
    struct made *m = add(k, name, hash ? "I64" : "BF16", x);
    if (x->kind == EXPECTED_CONV) {
        m->n_dims = 3;
        m->shape[2] = k->form.mlx ? 1 : m->shape[1];
        m->shape[1] = k->form.mlx ? m->shape[1] : 1;
    }
    if (hash)
        m->filling = FILL_HASH;
    else if (x->kind == EXPECTED_NORM)
        m->filling = k->form.raw ? FILL_RAW : FILL_FOLDED;
}

static void list_tensors(struct maker *k, const struct expected_list *l)
{
    size_t most = 4 * l->n;
    for (int m = 0; m < k->config.n_ple; m++)
        most += 3 * (size_t)k->config.ngram_parts;
    k->at = mem_zalloc(most, sizeof *k->at);
    if (!k->at)
        die("out of memory");
    for (size_t i = 0; i < l->n; i++) {
        const struct expected *x = &l->at[i];
        if (x->mtp && k->form.no_mtp)
            continue;
        if (x->kind == EXPECTED_EXPERTS)
            add_experts(k, x);
        else if (x->kind == EXPECTED_NGRAM)
            add_table(k, x);
        else if (x->kind == EXPECTED_MATRIX)
            add_matrix(k, x, x->name, x->shape[0]);
        else
            add_plain(k, x);
    }
    for (size_t i = 0; i < k->n; i++) {
        struct made *m = &k->at[i];
        m->bytes = strcmp(m->dtype, "I64") == 0 ? 8 : strcmp(m->dtype, "U32") == 0 ? 4 : 2;
        for (int d = 0; d < m->n_dims; d++)
            m->bytes *= m->shape[d];
        m->file = (int)(i * (size_t)k->n_files / k->n);
    }
}

/* Finite bf16 of both signs, 2^-7 to 2^-6; around 0; around 1; any word; 2^-9 to 2^-8. */
static uint64_t dress(enum filling f, uint64_t r)
{
    static const uint64_t keep[] = {[FILL_WEIGHT] = 0x807F807F807F807F,
                                    [FILL_RAW] = 0x807F807F807F807F,
                                    [FILL_FOLDED] = 0x001F001F001F001F,
                                    [FILL_CODES] = ~UINT64_C(0),
                                    [FILL_SCALE] = 0x807F807F807F807F};
    static const uint64_t set[] = {[FILL_WEIGHT] = 0x3C003C003C003C00,
                                   [FILL_RAW] = 0x3D003D003D003D00,
                                   [FILL_FOLDED] = 0x3F803F803F803F80,
                                   [FILL_SCALE] = 0x3B003B003B003B00};
    return (r & keep[f]) | (f == FILL_CODES ? 0 : set[f]);
}

static const uint64_t *constants(const struct ngram_module *g, enum expected_role role)
{
    return role == ROLE_PLE_MULTIPLIERS ? g->mult : role == ROLE_PLE_OFFSETS ? g->offset : g->size;
}

static void fill(const struct maker *k, const struct made *m, uint64_t *r, uint64_t *to,
                 size_t bytes)
{
    struct ngram_module g;
    if (m->filling == FILL_HASH) {
        ngram_derive(&k->config, m->of->module, &g);
        memcpy(to, constants(&g, m->of->role), bytes);
        return;
    }
    for (size_t i = 0; i < (bytes + 7) / 8; i++) {
        *r ^= *r << 13;
        *r ^= *r >> 7;
        *r ^= *r << 17;
        to[i] = dress(m->filling, *r);
    }
}

static void header(const struct maker *k, int file, struct buf *b)
{
    uint64_t at = 0;
    buf_puts(b, "{");
    for (size_t i = 0; i < k->n; i++) {
        const struct made *m = &k->at[i];
        if (m->file != file)
            continue;
        buf_printf(b, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", at ? "," : "", m->name, m->dtype);
        for (int d = 0; d < m->n_dims; d++)
            buf_printf(b, "%s%llu", d ? "," : "", (unsigned long long)m->shape[d]);
        buf_printf(b, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
                   (unsigned long long)(at + m->bytes));
        at += m->bytes;
    }
    buf_puts(b, "}");
    while (b->len % 8)
        buf_putc(b, ' ');
}

/* Of the tensor's meaning, so that other names for it, and tensors left out, change no value. */
static uint64_t seed_of(const struct maker *k, size_t i)
{
    uint64_t h = 1;
    for (const char *s = k->at[i].of->name; *s; s++)
        h = rng_splitmix64(h ^ (uint8_t)*s);
    for (size_t before = i; before && k->at[before - 1].of == k->at[i].of; before--)
        h = rng_splitmix64(h);
    return h ? h : 1;
}

static int write_file(const struct maker *k, const char *dir, int file, struct err *e)
{
    char name[64];
    struct buf b = BUF_INIT;
    struct file f = FILE_CLOSED;
    uint64_t *room = mem_aligned(64, STEP_BYTES), at;
    snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", file + 1, k->n_files);
    char *path = file_join(dir, name);
    header(k, file, &b);
    uint64_t len = b.len;
    int rc = path && room && !b.failed ? file_create(path, &f, e) : ERR(e, E_NOMEM, "no memory");
    if (!rc)
        rc = file_write_at(&f, 0, &len, 8, e);
    if (!rc)
        rc = file_write_at(&f, 8, b.data, b.len, e);
    at = 8 + len;
    for (size_t i = 0; i < k->n && !rc; i++) {
        const struct made *m = &k->at[i];
        uint64_t r = seed_of(k, i);
        for (uint64_t done = 0; done < m->bytes && m->file == file && !rc;) {
            size_t n = m->bytes - done < STEP_BYTES ? (size_t)(m->bytes - done) : STEP_BYTES;
            fill(k, m, &r, room, n);
            rc = file_write_at(&f, at, room, n, e);
            at += n;
            done += n;
        }
    }
    if (!rc)
        rc = file_close(&f, e);
    file_drop(&f);
    mem_free(path);
    mem_free(room);
    buf_free(&b);
    return rc;
}

static struct form parse_form(const char *words)
{
    struct form f = {.raw = true, .group = 64};
    f.mlx = strstr(words, "mlx") != NULL;
    f.raw = !f.mlx || strstr(words, "mlx32");
    f.group = strstr(words, "mlx32") ? 32 : 64;
    f.text = strstr(words, "text") != NULL;
    f.no_mtp = strstr(words, "nomtp") != NULL;
    f.no_constants = strstr(words, "noconst") != NULL;
    return f;
}

/* Sets text_config.KEY for a word KEY=NUMBER. A list of layers that is too long goes. */
static void change(json_t *root, const char *word)
{
    char key[64];
    json_t *text = json_object_get(root, "text_config");
    const char *is = strchr(word, '=');
    if (!is || !json_is_object(text))
        die("want KEY=NUMBER, and a config with a text_config");
    snprintf(key, sizeof key, "%.*s", (int)(is - word), word);
    json_object_set_new(text, key, json_integer(strtoll(is + 1, NULL, 10)));
    if (strcmp(key, "num_hidden_layers") == 0)
        json_object_del(text, "layer_types");
}

static int make_config(char **argv, struct config *c, struct err *e)
{
    json_t *root = NULL;
    struct buf b = BUF_INIT;
    char *to = file_join(argv[2], "config.json");
    int rc = json_read_file(argv[1], 1 << 24, &root, e);
    for (char **word = argv + 5; !rc && *word; word++)
        change(root, *word);
    if (!rc)
        rc = file_make_dir(argv[2], e);
    if (!rc)
        rc = json_print(root, JSON_INDENT(2), &b, e);
    if (!rc && to)
        rc = file_replace(to, b.data, b.len, e);
    if (!rc)
        rc = config_parse(root, argv[1], c, e);
    json_decref(root);
    mem_free(to);
    buf_free(&b);
    return rc;
}

int main(int argc, char **argv)
{
    struct maker k = {.n_files = argc > 4 ? (int)strtol(argv[4], NULL, 10) : 0};
    struct expected_list l;
    struct err e = {0};
    if (k.n_files < 1)
        die("usage: tool_source CONFIG DIR FORM FILES [KEY=NUMBER...]");
    k.form = parse_form(argv[3]);
    if (make_config(argv, &k.config, &e) || expected_init(&k.config, &l, &e))
        die(e.msg);
    list_tensors(&k, &l);
    for (int i = 0; i < k.n_files; i++)
        if (write_file(&k, argv[2], i, &e))
            die(e.msg);
    mem_free(k.at);
    expected_free(&l);
    return 0;
}
