/* From files to a store: see publish.h. */
#include "pack/publish.h"

#include <string.h>

#include <xxhash.h>

#include "base/json.h"
#include "base/mem.h"
#include "pack/sums.h"
#include "pack/texts.h"

#define JSON_FLAGS (JSON_INDENT(2) | JSON_ENSURE_ASCII)

static int replace_in(const char *dir, const char *name, const struct buf *b, struct err *e);

/* Two lists of tensors that have the same names and shapes in the same order. */
static bool same_tensors(const struct expected_list *a, const struct expected_list *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++)
        same = strcmp(a->at[i].name, b->at[i].name) == 0 &&
               memcmp(a->at[i].shape, b->at[i].shape, sizeof a->at[i].shape) == 0;
    return same;
}

int publish_check(const struct plan *p, const char *dir, struct err *e)
{
    struct config there;
    struct expected_list list = {0};
    char *path = file_join(dir, "config.json");
    int rc = path ? texts_can_be_read(p->checkpoint->dir, e)
                  : ERR(e, E_NOMEM, "out of memory opening %s", dir);
    if (!rc && file_exists(path)) {
        rc = config_load(path, &there, e);
        if (!rc)
            rc = expected_init(&there, &list, e);
        if (!rc && !same_tensors(&list, &p->expected))
            rc = ERR(e, E_FORMAT,
                     "%s: describes another model than %s; remove it, or choose another --output",
                     path, p->checkpoint->dir);
    }
    expected_free(&list);
    mem_free(path);
    return rc;
}

/* What is about to be published must read back as what was planned. */
static int read_back(const struct plan *p, const struct buf *text, struct err *e)
{
    struct manifest m;
    json_t *root = NULL;
    int rc = json_parse(text->data, text->len, "manifest.json", &root, e);
    if (!rc)
        rc = manifest_parse(root, "manifest.json", &m, e);
    json_decref(root);
    if (rc)
        return rc;
    if (m.n_dense != p->target.n_dense || m.experts.stride != p->target.experts.stride ||
        m.experts.n_layers != p->target.experts.n_layers || m.ngram.rows != p->target.ngram.rows)
        rc = ERR(e, E_NOMEM, "out of memory writing manifest.json: it would be incomplete");
    manifest_free(&m);
    return rc;
}

/* The program's own form of a JSON value, with a final newline. */
static int print_json(const json_t *value, struct buf *out, struct err *e)
{
    int rc = json_print(value, JSON_FLAGS, out, e);
    buf_putc(out, '\n');
    return rc ? rc : buf_check(out, e);
}

struct copying {
    const struct plan *plan; /* NULL: config.json is not copied */
    const char *from, *dir;
};

static int copy_one(void *ctx, const char *name, struct err *e)
{
    const struct copying *c = ctx;
    bool config = strcmp(name, "config.json") == 0;
    struct buf text = BUF_INIT;
    if (!texts_is_text(name) || (config && !c->plan))
        return 0;
    char *from = file_join(c->from, name), *to = file_join(c->dir, name);
    int rc = from && to ? 0 : ERR(e, E_NOMEM, "out of memory copying %s", name);
    if (!rc && !file_is_dir(from) && !file_exists(to)) {
        bool changed = config && c->plan->config_changed;
        rc = changed ? print_json(c->plan->config_root, &text, e)
                     : file_read_all(from, TEXTS_BYTES_MAX, &text, e);
        if (!rc)
            rc = file_replace(to, buf_str(&text), text.len, e);
    }
    buf_free(&text);
    mem_free(from);
    mem_free(to);
    return rc;
}

int publish_metadata(const struct plan *p, const char *dir, struct err *e)
{
    struct copying c = {p, p->checkpoint->dir, dir};
    return file_each(c.from, copy_one, &c, e);
}

int publish_texts(const char *from, const char *dir, struct err *e)
{
    struct copying c = {NULL, from, dir};
    return file_each(from, copy_one, &c, e);
}

int publish_config(const struct plan *p, const char *dir, struct err *e)
{
    struct buf text = BUF_INIT;
    int rc = print_json(p->config_root, &text, e);
    if (!rc)
        rc = replace_in(dir, "config.json", &text, e);
    buf_free(&text);
    return rc;
}

static json_t *numbers(const uint64_t *v, int n)
{
    json_t *a = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(a, json_integer((json_int_t)v[i]));
    return a;
}

static json_t *dense_entry(const struct dense_entry *x, uint64_t sum)
{
    char hex[SUMS_HEX];
    json_t *o = json_object();
    json_object_set_new(o, "name", json_string(x->name));
    json_object_set_new(o, "dtype", json_string(dtype_name(x->dtype)));
    json_object_set_new(o, "shape", numbers(x->shape, x->n_dims));
    json_object_set_new(o, "offset", json_integer((json_int_t)x->offset));
    json_object_set_new(o, "nbytes", json_integer((json_int_t)x->nbytes));
    json_object_set_new(o, "xxh3", json_string(sums_hex(sum, hex)));
    return o;
}

static json_t *experts(const struct manifest *m)
{
    const struct expert_layout *x = &m->experts;
    const struct {
        const char *key;
        uint64_t value;
    } fields[] = {
        {"layers", (uint64_t)x->n_layers}, {"experts", (uint64_t)x->E},
        {"inter", (uint64_t)x->inter},     {"hidden", (uint64_t)x->h},
        {"group", (uint64_t)x->group},     {"record_bytes", x->bytes},
        {"record_stride", x->stride},      {"gate_w", x->w[EXPERT_GATE]},
        {"up_w", x->w[EXPERT_UP]},         {"down_w", x->w[EXPERT_DOWN]},
        {"gate_s", x->s[EXPERT_GATE]},     {"gate_b", x->b[EXPERT_GATE]},
        {"up_s", x->s[EXPERT_UP]},         {"up_b", x->b[EXPERT_UP]},
        {"down_s", x->s[EXPERT_DOWN]},     {"down_b", x->b[EXPERT_DOWN]},
    };
    json_t *o = json_object(), *prefixes = json_array();
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        json_object_set_new(o, fields[i].key, json_integer((json_int_t)fields[i].value));
    for (int il = 0; il < x->n_layers; il++)
        json_array_append_new(prefixes, json_string(m->layer_prefixes[il]));
    json_object_set_new(o, "layer_prefixes", prefixes);
    return o;
}

/* The constants of one module, under upstream's names. */
static void add_constants(json_t *o, const struct plan *p, const struct ngram_module *m)
{
    json_object_set_new(o, "head_offsets", numbers(m->offset, m->n_heads));
    json_object_set_new(o, "head_vocab_sizes", numbers(m->size, m->n_heads));
    json_object_set_new(o, "layer_multipliers", numbers(m->mult, p->config.ngram_size));
}

static json_t *ngram(const struct plan *p)
{
    const struct ngram_layout *g = &p->target.ngram;
    if (!g->rows)
        return json_null();
    json_t *o = json_object();
    json_object_set_new(o, "rows", json_integer((json_int_t)g->rows));
    json_object_set_new(o, "row_bytes", json_integer(g->row_bytes));
    json_object_set_new(o, "dim", json_integer(g->dim));
    json_object_set_new(o, "group", json_integer(g->group));
    json_object_set_new(o, "weight_bytes", json_integer(g->weight_bytes));
    json_object_set_new(o, "scale_bytes", json_integer(g->scale_bytes));
    add_constants(o, p, &g->module[0]);
    return o;
}

static json_t *ngram_modules(const struct plan *p)
{
    const struct ngram_layout *g = &p->target.ngram;
    json_t *a = json_array();
    for (int i = 0; i < g->n_modules; i++) {
        json_t *o = json_object();
        json_object_set_new(o, "layer", json_integer(g->module[i].layer));
        json_object_set_new(o, "first_row", json_integer((json_int_t)g->first_row[i]));
        json_object_set_new(o, "rows", json_integer((json_int_t)g->module[i].rows));
        add_constants(o, p, &g->module[i]);
        json_array_append_new(a, o);
    }
    return a;
}

static json_t *manifest(const struct plan *p, const uint64_t *sum, uint64_t sums_sum)
{
    char hex[SUMS_HEX];
    json_t *root = json_object(), *dense = json_array(), *sums = json_object();
    for (size_t i = 0; i < p->target.n_dense; i++)
        json_array_append_new(dense, dense_entry(&p->target.dense[i], sum[i]));
    json_object_set_new(sums, "algorithm", json_string("xxh3-64"));
    json_object_set_new(sums, "file", json_string(SUMS_FILE));
    json_object_set_new(sums, "xxh3", json_string(sums_hex(sums_sum, hex)));
    json_object_set_new(sums, "texts", json_string(TEXTS_FILE));
    json_object_set_new(root, "version", json_integer(MANIFEST_VERSION));
    json_object_set_new(root, "source_dir", json_string(p->target.source_dir));
    json_object_set_new(root, "dense", dense);
    json_object_set_new(root, "experts", experts(&p->target));
    json_object_set_new(root, "ngram", ngram(p));
    if (p->target.ngram.n_modules > 1)
        json_object_set_new(root, "ngram_modules", ngram_modules(p));
    json_object_set_new(root, "checksums", sums);
    return root;
}

static int replace_in(const char *dir, const char *name, const struct buf *b, struct err *e)
{
    char *path = file_join(dir, name);
    int rc = path ? file_replace(path, b->data, b->len, e)
                  : ERR(e, E_NOMEM, "out of memory writing %s", name);
    mem_free(path);
    return rc;
}

int publish_manifest(const struct plan *p, const struct pieces *pieces, const uint64_t *sum,
                     const char *dir, struct err *e)
{
    struct buf sums = BUF_INIT, text = BUF_INIT;
    char hex[SUMS_HEX];
    uint64_t seal;
    json_t *root = NULL;
    int rc = texts_note(dir, e);
    if (!rc)
        rc = sums_make(pieces, sum, &sums, e);
    if (!rc)
        rc = replace_in(dir, SUMS_FILE, &sums, e); /* syncs dir, and so the names of all files */
    if (!rc) {
        root = manifest(p, sum, XXH3_64bits(sums.data, sums.len));
        rc = sums_seal(root, &seal, e);
    }
    if (!rc) {
        json_object_set_new(root, "seal", json_string(sums_hex(seal, hex)));
        rc = print_json(root, &text, e);
    }
    if (!rc)
        rc = read_back(p, &text, e);
    if (!rc)
        rc = replace_in(dir, "manifest.json", &text, e);
    json_decref(root);
    buf_free(&sums);
    buf_free(&text);
    return rc;
}
