/* A checkpoint as a source of weights: see aid_checkpoint.h. */
#include "tests/aid_checkpoint.h"

#include <string.h>

#include "base/mem.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/convention.h"
#include "checkpoint/names.h"
#include "quant/half.h"
#include "quant/q4.h"
#include "tests/aid_test.h"

struct entry {
    const struct tensor *tensor;
    struct name_info name;
    void *data; /* read when first asked for */
    float *raw_norm;
};

struct aid_checkpoint {
    struct checkpoint *c;
    struct config config;
    enum norm_convention norms;
    struct entry *entries;
    size_t n;
    struct entry *experts[CONFIG_LAYERS_MAX + 1][NAME_GATE_UP + 1][NAME_BIASES + 1];
    struct entry **tables; /* parts of the n-gram tables, n_tables of them */
    size_t n_tables;
};

static const void *entry_data(const struct aid_checkpoint *s, struct entry *t)
{
    struct err e = {0};
    if (t->data)
        return t->data;
    t->data = mem_alloc(t->tensor->nbytes);
    assert_non_null(t->data);
    assert_ok(checkpoint_read(s->c, t->tensor, 0, t->data, t->tensor->nbytes, &e), e);
    return t->data;
}

/* gamma = 1 + w of a raw bf16 norm. */
static const void *entry_norm(const struct aid_checkpoint *s, struct entry *t,
                              struct tensor_view *v)
{
    size_t n = t->tensor->nbytes / sizeof(uint16_t);
    const uint16_t *w = entry_data(s, t);
    assert_int_equal(t->tensor->dtype, DTYPE_BF16);
    v->dtype = DTYPE_F32;
    v->nbytes = n * sizeof(float);
    if (t->raw_norm)
        return t->raw_norm;
    t->raw_norm = mem_array(n, sizeof *t->raw_norm);
    assert_non_null(t->raw_norm);
    for (size_t i = 0; i < n; i++)
        t->raw_norm[i] = 1 + bf16_to_f32(w[i]);
    return t->raw_norm;
}

static int find(void *ctx, const char *name, struct tensor_view *out, struct err *e)
{
    struct aid_checkpoint *s = ctx;
    for (size_t i = 0; i < s->n; i++) {
        struct entry *t = &s->entries[i];
        if (t->name.kind != NAME_DENSE || strcmp(t->name.canonical, name) != 0)
            continue;
        *out = (struct tensor_view){.name = t->name.canonical,
                                    .dtype = t->tensor->dtype,
                                    .n_dims = t->tensor->n_dims,
                                    .nbytes = t->tensor->nbytes};
        memcpy(out->shape, t->tensor->shape, sizeof out->shape);
        out->data = s->norms == NORMS_RAW && convention_is_folded_norm(name) ? entry_norm(s, t, out)
                                                                             : entry_data(s, t);
        return 0;
    }
    return ERR(e, E_NOTFOUND, "%s: no tensor of this checkpoint", name);
}

/* A part of the stacked experts of a record layer, or NULL. */
static struct entry *experts(const struct aid_checkpoint *s, int il, enum name_matrix matrix,
                             enum name_part part)
{
    return s->experts[il][matrix][part];
}

/* Notes where the tensors are that expert and ngram_row ask for again and again. */
static void index_entry(struct aid_checkpoint *s, struct entry *t)
{
    const struct name_info *x = &t->name;
    if (x->kind == NAME_EXPERTS)
        s->experts[x->mtp ? s->config.n_layers : x->layer][x->matrix][x->part] = t;
    if (x->kind == NAME_NGRAM)
        s->tables[s->n_tables++] = t;
}

/* Rows first .. of expert ie, of `rows` rows of the matrix. */
static void expert_bf16(const struct aid_checkpoint *s, struct entry *t, int ie, int first,
                        struct matrix *out)
{
    size_t all = t->tensor->shape[1], cols = t->tensor->shape[2];
    const uint16_t *w = entry_data(s, t);
    assert_int_equal(t->tensor->dtype, DTYPE_BF16);
    assert_int_equal(cols, out->cols);
    out->format = MATRIX_BF16;
    out->w = w + ((size_t)ie * all + (size_t)first) * cols;
}

static void expert_q4(const struct aid_checkpoint *s, int il, enum name_matrix matrix, int ie,
                      struct matrix *out)
{
    struct entry *w = experts(s, il, matrix, NAME_WEIGHT);
    struct entry *scales = experts(s, il, matrix, NAME_SCALES);
    struct entry *biases = experts(s, il, matrix, NAME_BIASES);
    size_t rows = (size_t)out->rows, cols = (size_t)out->cols;
    assert_true(w && scales && biases);
    assert_int_equal(w->tensor->shape[1], rows);
    assert_int_equal(w->tensor->shape[2], cols / 8);
    size_t groups = scales->tensor->shape[2];
    out->format = MATRIX_Q4;
    out->group = (int)(cols / groups);
    out->w = (const uint8_t *)entry_data(s, w) + (size_t)ie * rows * cols / 2;
    out->scales = (const uint16_t *)entry_data(s, scales) + (size_t)ie * rows * groups;
    out->biases = (const uint16_t *)entry_data(s, biases) + (size_t)ie * rows * groups;
}

static int expert(void *ctx, int il, int ie, struct expert *out, struct err *e)
{
    const struct aid_checkpoint *s = ctx;
    int inter = s->config.inter, h = s->config.h;
    struct entry *fused = experts(s, il, NAME_GATE_UP, NAME_WEIGHT);
    (void)e;
    *out = (struct expert){.gate = {.rows = inter, .cols = h},
                           .up = {.rows = inter, .cols = h},
                           .down = {.rows = h, .cols = inter}};
    if (fused) {
        expert_bf16(s, fused, ie, 0, &out->gate);
        expert_bf16(s, fused, ie, inter, &out->up);
        expert_bf16(s, experts(s, il, NAME_DOWN, NAME_WEIGHT), ie, 0, &out->down);
    } else {
        expert_q4(s, il, NAME_GATE, ie, &out->gate);
        expert_q4(s, il, NAME_UP, ie, &out->up);
        expert_q4(s, il, NAME_DOWN, ie, &out->down);
    }
    return 0;
}

static struct entry *table_part(const struct aid_checkpoint *s, int layer, int64_t shard,
                                enum name_part part)
{
    for (size_t i = 0; i < s->n_tables; i++) {
        const struct name_info *x = &s->tables[i]->name;
        if (x->layer == layer && x->shard == shard && x->part == part)
            return s->tables[i];
    }
    return NULL;
}

static int ngram_row(void *ctx, int m, uint64_t row, float *out, struct err *e)
{
    const struct aid_checkpoint *s = ctx;
    int layer = s->config.ple_layer[m];
    struct entry *first = table_part(s, layer, 0, NAME_WEIGHT);
    (void)e;
    assert_non_null(first);
    uint64_t rows = first->tensor->shape[0];
    int64_t shard = (int64_t)(row / rows);
    size_t at = (size_t)(row % rows);
    struct entry *w = table_part(s, layer, shard, NAME_WEIGHT);
    assert_non_null(w);
    size_t n =
        (size_t)(s->config.ple_dim / ((s->config.ngram_size - 1) * s->config.heads_per_ngram));
    if (w->tensor->dtype == DTYPE_BF16) {
        bf16_widen((const uint16_t *)entry_data(s, w) + at * n, n, out);
        return 0;
    }
    struct entry *scales = table_part(s, layer, shard, NAME_SCALES);
    struct entry *biases = table_part(s, layer, shard, NAME_BIASES);
    assert_true(scales && biases);
    size_t groups = scales->tensor->shape[1];
    q4_decode_row((const uint8_t *)entry_data(s, w) + at * n / 2,
                  (const uint16_t *)entry_data(s, scales) + at * groups,
                  (const uint16_t *)entry_data(s, biases) + at * groups, n, n / groups, out);
    return 0;
}

void aid_weights_open(struct aid_weights *m, const char *dir)
{
    struct err e = {0};
    struct convention convention;
    char path[512];

    memset(m, 0, sizeof *m);
    struct aid_checkpoint *s = m->source = mem_zalloc(1, sizeof *s);
    assert_non_null(s);
    snprintf(path, sizeof path, "%s/config.json", dir);
    assert_ok(config_load(path, &s->config, &e), e);
    assert_ok(checkpoint_open(dir, &s->c, &e), e);
    assert_ok(convention_detect(s->c, &convention, &e), e);
    s->norms = convention.norms;
    s->n = s->c->n_tensors;
    s->entries = mem_zalloc(s->n, sizeof *s->entries);
    s->tables = mem_zalloc(s->n, sizeof(struct entry *));
    assert_true(s->entries && s->tables);
    for (size_t i = 0; i < s->n; i++) {
        s->entries[i].tensor = &s->c->tensors[i];
        name_parse(s->c->tensors[i].name, &s->entries[i].name);
        index_entry(s, &s->entries[i]);
    }
    const struct weight_source source = {s, find, expert, ngram_row, NULL};
    assert_ok(weights_init(&s->config, &source, &m->w, &e), e);
}

void aid_weights_close(struct aid_weights *m)
{
    struct aid_checkpoint *s = m->source;
    weights_free(&m->w);
    for (size_t i = 0; i < s->n; i++) {
        mem_free(s->entries[i].data);
        mem_free(s->entries[i].raw_norm);
    }
    mem_free(s->entries);
    mem_free(s->tables);
    checkpoint_close(s->c);
    mem_free(s);
}
