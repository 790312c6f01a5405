/* manifest.json: see manifest.h. Every number that becomes an offset or a length later is bounded
 * here, so that what is inside its file's length is inside its mapping. */
#include "store/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

enum { FILE_BYTES_MAX = 64 << 20, WHERE_BYTES = 512, GROUP = 64 };

#define OFFSET_MAX ((int64_t)1 << 56)
#define ROWS_MAX   ((int64_t)1 << 40)

/* An object and the words that say where it is. */
struct object {
    const json_t *json;
    const char *where;
};

static int parse_version(const json_t *root, const char *where, struct err *e);
static int parse_dense(const json_t *root, const char *where, struct manifest *m, struct err *e);
static int parse_experts(const json_t *root, const char *where, struct manifest *m, struct err *e);
static int parse_ngram(const json_t *root, const char *where, struct ngram_layout *g,
                       struct err *e);

int manifest_parse(json_t *root, const char *where, struct manifest *out, struct err *e)
{
    struct manifest m = {0};
    const char *source = "";
    int rc = parse_version(root, where, e);
    if (!rc)
        rc = json_field_str(root, where, "source_dir", false, &source, e);
    if (!rc && !(m.source_dir = mem_strdup(source)))
        rc = ERR(e, E_NOMEM, "out of memory reading %s", where);
    if (!rc)
        rc = parse_dense(root, where, &m, e);
    if (!rc)
        rc = parse_experts(root, where, &m, e);
    if (!rc)
        rc = parse_ngram(root, where, &m.ngram, e);
    if (rc) {
        manifest_free(&m);
        return rc;
    }
    m.root = json_incref(root);
    *out = m;
    return 0;
}

int manifest_read(const char *path, struct manifest *out, struct err *e)
{
    json_t *root;
    int rc = json_read_file(path, FILE_BYTES_MAX, &root, e);
    if (rc)
        return rc;
    rc = manifest_parse(root, path, out, e);
    json_decref(root);
    return rc;
}

void manifest_free(struct manifest *m)
{
    for (size_t i = 0; i < m->n_dense; i++)
        mem_free(m->dense[i].name);
    for (int i = 0; m->layer_prefixes && i < m->experts.n_layers; i++)
        mem_free(m->layer_prefixes[i]);
    mem_free(m->layer_prefixes);
    mem_free(m->dense);
    mem_free(m->source_dir);
    json_decref(m->root);
    *m = (struct manifest){0};
}

int expert_layout_make(int n_layers, int E, int inter, int h, struct expert_layout *out,
                       struct err *e)
{
    if (inter % GROUP || h % GROUP)
        return ERR(e, E_UNSUPPORTED,
                   "experts of %d x %d: want widths that are multiples of %d, the group of Q4",
                   inter, h, GROUP);
    struct expert_layout x = {.n_layers = n_layers, .E = E, .inter = inter, .h = h, .group = GROUP};
    uint64_t codes = (uint64_t)inter * (uint64_t)h / 2, side = codes * 2 / GROUP * 2;
    uint64_t at = 0;
    for (int i = 0; i < EXPERT_MATRICES; i++, at += codes)
        x.w[i] = at;
    for (int i = 0; i < EXPERT_MATRICES; i++, at += 2 * side) {
        x.s[i] = at;
        x.b[i] = at + side;
    }
    x.bytes = at;
    x.stride = (at + STORE_PAGE - 1) / STORE_PAGE * STORE_PAGE;
    *out = x;
    return 0;
}

static int parse_version(const json_t *root, const char *where, struct err *e)
{
    int64_t version = 0;
    int rc = json_field_int(root, where, "version", true, INT32_MIN, INT32_MAX, &version, e);
    if (!rc && version != MANIFEST_VERSION)
        rc = ERR(e, E_UNSUPPORTED,
                 "%s: is a store of version %d, want %d: pack the model again, or use the program "
                 "that packed it",
                 where, (int)version, MANIFEST_VERSION);
    return rc;
}

static int field_u64(struct object o, const char *key, int64_t lo, int64_t hi, uint64_t *out,
                     struct err *e)
{
    int64_t v = 0;
    int rc = json_field_int(o.json, o.where, key, true, lo, hi, &v, e);
    *out = (uint64_t)v;
    return rc;
}

static int field_int(struct object o, const char *key, int lo, int hi, int *out, struct err *e)
{
    int64_t v = 0;
    int rc = json_field_int(o.json, o.where, key, true, lo, hi, &v, e);
    *out = (int)v;
    return rc;
}

/* An array of 1..max integers from 0 on. */
static int field_list(struct object o, const char *key, int max, uint64_t *out, int *n,
                      struct err *e)
{
    char room[96];
    json_t *a = NULL;
    int rc = json_field_arr(o.json, o.where, key, true, &a, e);
    if (rc)
        return rc;
    size_t count = json_array_size(a);
    if (count < 1 || count > (size_t)max)
        return ERR(e, E_FORMAT, "%s.%s: has %zu entries, want 1 to %d", o.where, key, count, max);
    for (size_t i = 0; i < count; i++) {
        const json_t *v = json_array_get(a, i);
        if (!json_is_integer(v) || json_integer_value(v) < 0)
            return ERR(e, E_FORMAT, "%s.%s[%zu]: want an integer from 0, found %s", o.where, key, i,
                       json_describe(v, room, sizeof room));
        out[i] = (uint64_t)json_integer_value(v);
    }
    *n = (int)count;
    return 0;
}

/* A checksum: 16 hexadecimal digits. */
static int parse_sum(struct object o, struct dense_entry *x, struct err *e)
{
    const char *text = NULL;
    int rc = json_field_str(o.json, o.where, "xxh3", false, &text, e);
    if (rc || !text)
        return rc;
    if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return ERR(e, E_FORMAT, "%s.xxh3: want 16 hexadecimal digits, found \"%.60s\"", o.where,
                   text);
    x->xxh3 = strtoull(text, NULL, 16);
    x->has_sum = 1;
    return 0;
}

static int parse_dtype(struct object o, enum dtype *out, struct err *e)
{
    const char *word = NULL;
    int rc = json_field_str(o.json, o.where, "dtype", true, &word, e);
    if (rc)
        return rc;
    if (dtype_parse(word, out) || (*out != DTYPE_U32 && *out != DTYPE_F32 && *out != DTYPE_F16 &&
                                   *out != DTYPE_BF16 && *out != DTYPE_I64))
        return ERR(e, E_FORMAT, "%s.dtype: want U32, F32, F16, BF16 or I64, found \"%.60s\"",
                   o.where, word);
    return 0;
}

static int parse_entry(struct object o, struct dense_entry *x, struct err *e)
{
    const char *name = NULL;
    int rc = json_field_str(o.json, o.where, "name", true, &name, e);
    if (!rc)
        rc = parse_dtype(o, &x->dtype, e);
    if (!rc)
        rc = field_list(o, "shape", TENSOR_DIMS_MAX, x->shape, &x->n_dims, e);
    if (!rc)
        rc = field_u64(o, "offset", 0, OFFSET_MAX, &x->offset, e);
    if (!rc)
        rc = field_u64(o, "nbytes", 0, OFFSET_MAX, &x->nbytes, e);
    if (!rc)
        rc = parse_sum(o, x, e);
    if (rc)
        return rc;
    uint64_t want = dtype_bytes(x->dtype);
    for (int i = 0; i < x->n_dims; i++)
        want = x->shape[i] && want > (uint64_t)OFFSET_MAX / x->shape[i] ? OFFSET_MAX + UINT64_C(1)
                                                                        : want * x->shape[i];
    if (x->nbytes != want)
        return ERR(e, E_FORMAT, "%s.nbytes: is %" PRIu64 ", want shape times %s, %" PRIu64, o.where,
                   x->nbytes, dtype_name(x->dtype), want);
    if (x->offset % STORE_ALIGN)
        return ERR(e, E_FORMAT, "%s.offset: is %" PRIu64 ", want a multiple of %d", o.where,
                   x->offset, STORE_ALIGN);
    if (!(x->name = mem_strdup(name)))
        return ERR(e, E_NOMEM, "out of memory reading %s", o.where);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct dense_entry *)a)->name, ((const struct dense_entry *)b)->name);
}

static int by_offset(const void *a, const void *b)
{
    const struct dense_entry *x = a, *y = b;
    return x->offset != y->offset   ? (x->offset > y->offset) - (x->offset < y->offset)
           : x->nbytes != y->nbytes ? (x->nbytes > y->nbytes) - (x->nbytes < y->nbytes)
                                    : by_name(a, b);
}

/* Leaves them sorted by name. */
static int check_entries(struct dense_entry *v, size_t n, const char *where, struct err *e)
{
    qsort(v, n, sizeof *v, by_offset);
    for (size_t i = 1; i < n; i++)
        if (v[i].offset < v[i - 1].offset + v[i - 1].nbytes)
            return ERR(e, E_FORMAT, "%s: dense tensors %s and %s overlap at byte %" PRIu64, where,
                       v[i - 1].name, v[i].name, v[i].offset);
    qsort(v, n, sizeof *v, by_name);
    for (size_t i = 1; i < n; i++)
        if (strcmp(v[i].name, v[i - 1].name) == 0)
            return ERR(e, E_FORMAT, "%s: dense tensor %s is listed twice", where, v[i].name);
    return 0;
}

static int parse_dense(const json_t *root, const char *where, struct manifest *m, struct err *e)
{
    json_t *list = NULL;
    int rc = json_field_arr(root, where, "dense", true, &list, e);
    if (rc)
        return rc;
    size_t n = json_array_size(list);
    m->dense = mem_zalloc(n, sizeof *m->dense);
    if (!m->dense)
        return ERR(e, E_NOMEM, "out of memory for %zu dense tensors of %s", n, where);
    for (size_t i = 0; i < n; i++) {
        char at[WHERE_BYTES];
        snprintf(at, sizeof at, "%s: dense[%zu]", where, i);
        rc = parse_entry((struct object){json_array_get(list, i), at}, &m->dense[i], e);
        if (rc)
            return rc;
        m->n_dense++;
    }
    return check_entries(m->dense, n, where, e);
}

struct span {
    const char *key;
    uint64_t at, bytes;
};

static int span_order(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* The nine parts of a record: inside it, apart from one another, aligned for their words. */
static int check_parts(const struct expert_layout *x, const char *where, struct err *e)
{
    uint64_t codes = (uint64_t)x->inter * (uint64_t)x->h / 2, side = codes * 2 / GROUP * 2;
    struct span part[] = {
        {"gate_w", x->w[EXPERT_GATE], codes}, {"up_w", x->w[EXPERT_UP], codes},
        {"down_w", x->w[EXPERT_DOWN], codes}, {"gate_s", x->s[EXPERT_GATE], side},
        {"gate_b", x->b[EXPERT_GATE], side},  {"up_s", x->s[EXPERT_UP], side},
        {"up_b", x->b[EXPERT_UP], side},      {"down_s", x->s[EXPERT_DOWN], side},
        {"down_b", x->b[EXPERT_DOWN], side},
    };
    size_t n = sizeof part / sizeof part[0];
    if (x->stride % STORE_PAGE || x->stride < x->bytes)
        return ERR(e, E_FORMAT,
                   "%s.record_stride: is %" PRIu64 ", want a multiple of %d from record_bytes "
                   "(%" PRIu64 ") on",
                   where, x->stride, STORE_PAGE, x->bytes);
    for (size_t i = 0; i < n; i++)
        if (part[i].at + part[i].bytes > x->bytes || part[i].at % 4)
            return ERR(e, E_FORMAT,
                       "%s.%s: %" PRIu64 " bytes at %" PRIu64 ", want a multiple of 4 and inside "
                       "record_bytes (%" PRIu64 ")",
                       where, part[i].key, part[i].bytes, part[i].at, x->bytes);
    qsort(part, n, sizeof part[0], span_order);
    for (size_t i = 1; i < n; i++)
        if (part[i].at < part[i - 1].at + part[i - 1].bytes)
            return ERR(e, E_FORMAT, "%s: %s (at %" PRIu64 ") and %s (at %" PRIu64 ") overlap",
                       where, part[i - 1].key, part[i - 1].at, part[i].key, part[i].at);
    return 0;
}

static int parse_prefixes(struct object o, struct manifest *m, struct err *e)
{
    char room[96];
    json_t *list = NULL;
    int n = m->experts.n_layers;
    int rc = json_field_arr(o.json, o.where, "layer_prefixes", true, &list, e);
    if (rc)
        return rc;
    if (json_array_size(list) != (size_t)n)
        return ERR(e, E_FORMAT, "%s.layer_prefixes: has %zu entries, want %d (layers)", o.where,
                   json_array_size(list), n);
    m->layer_prefixes = mem_zalloc((size_t)n, sizeof *m->layer_prefixes);
    if (!m->layer_prefixes)
        return ERR(e, E_NOMEM, "out of memory reading %s", o.where);
    for (int i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, (size_t)i);
        if (!json_is_string(v))
            return ERR(e, E_FORMAT, "%s.layer_prefixes[%d]: want a string, found %s", o.where, i,
                       json_describe(v, room, sizeof room));
        m->layer_prefixes[i] = mem_strdup(json_string_value(v));
        if (!m->layer_prefixes[i])
            return ERR(e, E_NOMEM, "out of memory reading %s", o.where);
    }
    return 0;
}

static int parse_experts(const json_t *root, const char *where, struct manifest *m, struct err *e)
{
    struct expert_layout *x = &m->experts;
    char at[WHERE_BYTES];
    json_t *obj = NULL;
    int rc = json_field_obj(root, where, "experts", true, &obj, e);
    if (rc)
        return rc;
    snprintf(at, sizeof at, "%s: experts", where);
    const struct object o = {obj, at};
    const struct {
        const char *key;
        int lo, hi;
        int *to;
    } sizes[] = {
        {"layers", 1, CONFIG_LAYERS_MAX + 1, &x->n_layers},
        {"experts", 1, CONFIG_EXPERTS_MAX, &x->E},
        {"inter", GROUP, 65536, &x->inter},
        {"hidden", GROUP, 65536, &x->h},
        {"group", 1, 65536, &x->group},
    };
    const struct {
        const char *key;
        uint64_t *to;
    } offsets[] = {
        {"record_bytes", &x->bytes},    {"record_stride", &x->stride},
        {"gate_w", &x->w[EXPERT_GATE]}, {"up_w", &x->w[EXPERT_UP]},
        {"down_w", &x->w[EXPERT_DOWN]}, {"gate_s", &x->s[EXPERT_GATE]},
        {"gate_b", &x->b[EXPERT_GATE]}, {"up_s", &x->s[EXPERT_UP]},
        {"up_b", &x->b[EXPERT_UP]},     {"down_s", &x->s[EXPERT_DOWN]},
        {"down_b", &x->b[EXPERT_DOWN]},
    };
    for (size_t i = 0; !rc && i < sizeof sizes / sizeof sizes[0]; i++)
        rc = field_int(o, sizes[i].key, sizes[i].lo, sizes[i].hi, sizes[i].to, e);
    for (size_t i = 0; !rc && i < sizeof offsets / sizeof offsets[0]; i++)
        rc = field_u64(o, offsets[i].key, 0, (int64_t)1 << 40, offsets[i].to, e);
    if (rc)
        return rc;
    if (x->group != GROUP)
        return ERR(e, E_UNSUPPORTED, "%s.group: is %d, want %d: pack again", at, x->group, GROUP);
    if (x->inter % GROUP || x->h % GROUP)
        return ERR(e, E_FORMAT, "%s: inter %d and hidden %d: want multiples of %d", at, x->inter,
                   x->h, GROUP);
    rc = check_parts(x, at, e);
    return rc ? rc : parse_prefixes(o, m, e);
}

/* Row format: which bytes of a row are what follows from dim and group. */
static int parse_rows(struct object o, struct ngram_layout *g, struct err *e)
{
    int rc = field_u64(o, "rows", 1, ROWS_MAX, &g->rows, e);
    if (!rc)
        rc = field_int(o, "dim", 8, 1 << 20, &g->dim, e);
    if (!rc)
        rc = field_int(o, "group", 8, 1 << 20, &g->group, e);
    if (!rc)
        rc = field_int(o, "weight_bytes", 1, 1 << 22, &g->weight_bytes, e);
    if (!rc)
        rc = field_int(o, "scale_bytes", 1, 1 << 22, &g->scale_bytes, e);
    if (!rc)
        rc = field_int(o, "row_bytes", 1, 1 << 24, &g->row_bytes, e);
    if (rc)
        return rc;
    if (g->dim % 8 || g->group % 8 || g->dim % g->group)
        return ERR(e, E_FORMAT,
                   "%s: rows of %d in groups of %d: want multiples of 8, and whole "
                   "groups",
                   o.where, g->dim, g->group);
    if (g->weight_bytes != g->dim / 2 || g->scale_bytes != g->dim / g->group * 2 ||
        g->row_bytes != g->weight_bytes + 2 * g->scale_bytes)
        return ERR(
            e, E_FORMAT,
            "%s: dim %d in groups of %d makes weight_bytes %d, scale_bytes %d, row_bytes %d; "
            "found %d, %d, %d",
            o.where, g->dim, g->group, g->dim / 2, g->dim / g->group * 2,
            g->dim / 2 + g->dim / g->group * 4, g->weight_bytes, g->scale_bytes, g->row_bytes);
    return 0;
}

/* A module's heads lie one after another and inside its rows; module->rows is set. */
static int parse_constants(struct object o, struct ngram_module *module, struct err *e)
{
    int n_offsets = 0, n_mult = 0;
    uint64_t total = 0;
    int rc = field_list(o, "head_vocab_sizes", CONFIG_NGRAM_HEADS_MAX, module->size,
                        &module->n_heads, e);
    if (!rc)
        rc = field_list(o, "head_offsets", CONFIG_NGRAM_HEADS_MAX, module->offset, &n_offsets, e);
    if (!rc)
        rc = field_list(o, "layer_multipliers", CONFIG_NGRAM_SIZE_MAX, module->mult, &n_mult, e);
    if (rc)
        return rc;
    if (n_offsets != module->n_heads || n_mult < 2 || module->n_heads % (n_mult - 1))
        return ERR(e, E_FORMAT,
                   "%s: %d head_vocab_sizes, %d head_offsets and %d layer_multipliers do not go "
                   "together",
                   o.where, module->n_heads, n_offsets, n_mult);
    for (int j = 0; j < module->n_heads; j++) {
        if (module->size[j] < 1 || module->size[j] > module->rows - total)
            return ERR(e, E_FORMAT,
                       "%s.head_vocab_sizes[%d]: is %" PRIu64 ", want 1 to the %" PRIu64
                       " rows that are left of %" PRIu64,
                       o.where, j, module->size[j], module->rows - total, module->rows);
        if (module->offset[j] != total)
            return ERR(e, E_FORMAT,
                       "%s.head_offsets[%d]: is %" PRIu64 ", want %" PRIu64
                       ", the sum of the sizes before it",
                       o.where, j, module->offset[j], total);
        total += module->size[j];
    }
    return 0;
}

static int parse_module(struct object o, struct ngram_layout *g, struct err *e)
{
    int i = g->n_modules;
    struct ngram_module *module = &g->module[i];
    uint64_t first = i ? g->first_row[i - 1] + g->module[i - 1].rows : 0;
    *module = (struct ngram_module){.row_dim = g->dim};
    int rc = field_int(o, "layer", 0, CONFIG_LAYERS_MAX - 1, &module->layer, e);
    if (!rc)
        rc = field_u64(o, "first_row", 0, ROWS_MAX, &g->first_row[i], e);
    if (!rc)
        rc = field_u64(o, "rows", 1, ROWS_MAX, &module->rows, e);
    if (!rc)
        rc = parse_constants(o, module, e);
    if (!rc && g->first_row[i] != first)
        rc = ERR(e, E_FORMAT,
                 "%s.first_row: is %" PRIu64 ", want %" PRIu64 ", o.where the table before it ends",
                 o.where, g->first_row[i], first);
    if (!rc && i && module->layer <= g->module[i - 1].layer)
        rc = ERR(e, E_FORMAT, "%s.layer: is %d, want ascending layers", o.where, module->layer);
    if (!rc)
        g->n_modules++;
    return rc;
}

/* Our addition for more than one table. `ngram` must say the same of the first. */
static int parse_modules(const json_t *list, const char *where, struct ngram_layout *g,
                         struct err *e)
{
    struct ngram_module first = g->module[0];
    size_t n = json_array_size(list);
    if (n < 1 || n > CONFIG_PLE_MAX)
        return ERR(e, E_FORMAT, "%s: ngram_modules has %zu entries, want 1 to %d", where, n,
                   CONFIG_PLE_MAX);
    g->n_modules = 0;
    for (size_t i = 0; i < n; i++) {
        char at[WHERE_BYTES];
        snprintf(at, sizeof at, "%s: ngram_modules[%zu]", where, i);
        int rc = parse_module((struct object){json_array_get(list, i), at}, g, e);
        if (rc)
            return rc;
    }
    uint64_t rows = g->first_row[n - 1] + g->module[n - 1].rows;
    if (rows != g->rows)
        return ERR(e, E_FORMAT, "%s: ngram_modules have %" PRIu64 " rows, ngram has %" PRIu64,
                   where, rows, g->rows);
    first.rows = g->module[0].rows;
    return ngram_compare(&first, &g->module[0], where, e);
}

static int parse_ngram(const json_t *root, const char *where, struct ngram_layout *g, struct err *e)
{
    char at[WHERE_BYTES];
    json_t *obj = NULL, *modules = NULL;
    int rc = json_field_obj(root, where, "ngram", false, &obj, e);
    if (!rc)
        rc = json_field_arr(root, where, "ngram_modules", false, &modules, e);
    if (rc)
        return rc;
    if (!obj)
        return modules ? ERR(e, E_FORMAT, "%s: has ngram_modules but no ngram", where) : 0;
    snprintf(at, sizeof at, "%s: ngram", where);
    rc = parse_rows((struct object){obj, at}, g, e);
    if (rc)
        return rc;
    g->module[0] = (struct ngram_module){.layer = -1, .row_dim = g->dim, .rows = g->rows};
    g->n_modules = 1;
    rc = parse_constants((struct object){obj, at}, &g->module[0], e);
    return rc || !modules ? rc : parse_modules(modules, where, g, e);
}
