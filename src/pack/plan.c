/* The plan of a packing: see plan.h. */
#include "pack/plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/units.h"
#include "pack/match.h"

#define CONFIG_BYTES_MAX ((uint64_t)16 << 20)

static const char *const fate_names[FATE_COUNT] = {
    [FATE_COPIED] = "copied as they are",
    [FATE_FOLDED] = "norms folded to 1 + w",
    [FATE_QUANTISED] = "quantised from BF16",
    [FATE_REQUANTISED] = "requantised to groups of 64",
    [FATE_VISION] = "vision, skipped",
    [FATE_UNKNOWN] = "unknown, skipped",
    [FATE_UNUSED] = "not asked for by config.json, skipped",
};

static int make(const char *dir, struct plan *p, struct err *e);
static int read_config(const char *dir, struct plan *p, struct err *e);
static int decide_norms(struct plan *p, struct err *e);
static int lay_out_experts(struct plan *p, struct err *e);
static void lay_out_ngram(struct plan *p);
static void list_leftovers(struct plan *p);

int plan_open(const char *dir, const struct plan_choices *choices, struct plan **out, struct err *e)
{
    struct plan *p = mem_zalloc(1, sizeof *p);
    *out = NULL;
    if (!p)
        return ERR(e, E_NOMEM, "out of memory opening %s", dir);
    p->choices = *choices;
    int rc = make(dir, p, e);
    if (!rc && p->short_of_memory)
        rc = ERR(e, E_NOMEM, "out of memory listing what is wrong with %s", dir);
    if (rc)
        plan_close(p);
    else
        *out = p;
    return rc;
}

static bool ends_in_gguf(const char *name)
{
    size_t n = strlen(name);
    return n > 5 && strcmp(name + n - 5, ".gguf") == 0;
}

static int stop_at_gguf(void *ctx, const char *name, struct err *e)
{
    (void)ctx, (void)e;
    return ends_in_gguf(name);
}

/* checkpoint_open, with a better word when there is another program's format instead. */
static int open_checkpoint(const char *dir, struct plan *p, struct err *e)
{
    struct err why = {0}, none = {0};
    int rc = checkpoint_open(dir, &p->checkpoint, &why);
    if (!rc)
        return 0;
    bool gguf = ends_in_gguf(dir) || file_each(dir, stop_at_gguf, NULL, &none) == 1;
    if (why.code != E_NOTFOUND || !gguf)
        return ERR(e, why.code, "%s", why.msg);
    return ERR(e, E_UNSUPPORTED,
               "%s: GGUF files are not packed: take the BF16 original or a 4-bit MLX conversion in "
               "groups of 64",
               dir);
}

static int make(const char *dir, struct plan *p, struct err *e)
{
    int rc = open_checkpoint(dir, p, e);
    if (rc || (rc = source_init(p->checkpoint, &p->source, e)) || (rc = read_config(dir, p, e)) ||
        (rc = expected_init(&p->config, &p->expected, e)) || (rc = decide_norms(p, e)))
        return rc;
    p->target.source_dir = file_canonical(dir, e);
    if (!p->target.source_dir)
        return -e->code;
    if ((rc = plan_lay_out_records(p, e)) || (rc = match_all(p, e)) ||
        (rc = plan_lay_out_dense(p, e)))
        return rc;
    list_leftovers(p);
    return 0;
}

void plan_close(struct plan *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->n_problems; i++)
        mem_free(p->problems[i].text);
    mem_free(p->problems);
    mem_free(p->dense);
    mem_free(p->experts);
    mem_free(p->ngram);
    manifest_free(&p->target);
    expected_free(&p->expected);
    source_free(&p->source);
    json_decref(p->config_root);
    checkpoint_close(p->checkpoint);
    mem_free(p);
}

const char *plan_fate_name(enum plan_fate f)
{
    return fate_names[f];
}

void plan_drop_drafts(json_t *root)
{
    json_t *text = json_object_get(root, "text_config");
    json_t *at = json_is_object(text) ? text : root, *mtp = json_object_get(at, "mtp");
    json_object_set_new(at, "mtp_num_hidden_layers", json_integer(0));
    if (json_is_object(mtp))
        json_object_set_new(mtp, "num_hidden_layers", json_integer(0));
}

static int read_config(const char *dir, struct plan *p, struct err *e)
{
    char *path = file_join(dir, "config.json");
    if (!path)
        return ERR(e, E_NOMEM, "out of memory opening %s", dir);
    int rc = json_read_file(path, CONFIG_BYTES_MAX, &p->config_root, e);
    if (!rc)
        rc = config_parse(p->config_root, path, &p->config, e);
    if (!rc && p->config.n_mtp && !source_has_mtp(&p->source)) {
        plan_drop_drafts(p->config_root);
        p->config_changed = true;
        rc = config_parse(p->config_root, path, &p->config, e);
    }
    mem_free(path);
    return rc;
}

static int decide_norms(struct plan *p, struct err *e)
{
    if (p->choices.norms != PLAN_NORMS_DETECT) {
        p->norms.norms = p->choices.norms == PLAN_NORMS_RAW ? NORMS_RAW : NORMS_FOLDED;
        snprintf(p->norms.because, sizeof p->norms.because, "as --norms says");
        return 0;
    }
    struct err why = {0};
    int rc = convention_detect(p->checkpoint, &p->norms, &why);
    if (!rc)
        return 0;
    if (why.code != E_UNSUPPORTED && why.code != E_NOTFOUND)
        return ERR(e, why.code, "%s", why.msg);
    p->norms.norms = NORMS_FOLDED; /* so that the rest can be planned; plan_check refuses */
    snprintf(p->norms.because, sizeof p->norms.because, "undecided");
    plan_problem(p, PROBLEM_NORMS, "%s", why.msg);
    return 0;
}

int plan_lay_out_records(struct plan *p, struct err *e)
{
    lay_out_ngram(p);
    return lay_out_experts(p, e);
}

static int lay_out_experts(struct plan *p, struct err *e)
{
    const struct config *c = &p->config;
    struct expert_layout *x = &p->target.experts;
    int n = c->n_layers + c->n_mtp;
    int rc = expert_layout_make(n, c->E, c->inter, c->h, x, e);
    if (rc)
        return rc;
    p->target.layer_prefixes = mem_zalloc((size_t)n, sizeof *p->target.layer_prefixes);
    for (int il = 0; p->target.layer_prefixes && il < n; il++) {
        char name[80];
        if (il < c->n_layers)
            snprintf(name, sizeof name, "language_model.model.layers.%d.mlp.switch_mlp", il);
        else
            snprintf(name, sizeof name, "mtp.layers.%d.mlp.switch_mlp", il - c->n_layers);
        p->target.layer_prefixes[il] = mem_strdup(name);
        if (!p->target.layer_prefixes[il])
            return ERR(e, E_NOMEM, "out of memory planning %d layers", n);
    }
    p->bytes[PIECE_EXPERTS] = (uint64_t)n * (uint64_t)c->E * x->stride;
    return p->target.layer_prefixes ? 0 : ERR(e, E_NOMEM, "out of memory planning %d layers", n);
}

static void lay_out_ngram(struct plan *p)
{
    struct ngram_layout *g = &p->target.ngram;
    for (size_t i = 0; i < p->expected.n; i++) {
        const struct expected *x = &p->expected.at[i];
        if (x->kind != EXPECTED_NGRAM)
            continue;
        g->dim = (int)x->shape[1];
        g->group = expected_group(x);
    }
    if (!p->config.n_ple)
        return;
    g->weight_bytes = g->dim / 2;
    g->scale_bytes = g->dim / g->group * 2;
    g->row_bytes = g->weight_bytes + 2 * g->scale_bytes;
    g->n_modules = p->config.n_ple;
    for (int m = 0; m < g->n_modules; m++) {
        ngram_derive(&p->config, m, &g->module[m]);
        g->first_row[m] = g->rows;
        g->rows += g->module[m].rows;
    }
    p->bytes[PIECE_NGRAM] = g->rows * (uint64_t)g->row_bytes;
}

/* An entry of dense.bin before names are in order, with the operation that fills it. */
struct draft {
    struct dense_entry entry;
    size_t op;
    int part;
};

static int compare_draft(const void *a, const void *b)
{
    return strcmp(((const struct draft *)a)->entry.name, ((const struct draft *)b)->entry.name);
}

static const char *const parts[] = {".weight", ".scales", ".biases"}; /* of a PLAN_ENCODE */

/* What entry `part` of an operation is called, holds and measures. */
static struct dense_entry describe(const struct plan_dense *d, int part)
{
    char name[NAME_MAX_BYTES];
    struct dense_entry x = {.dtype = DTYPE_I64, .n_dims = 1, .shape = {d->expected->shape[0]}};
    snprintf(name, sizeof name, "%s%s", d->expected->name,
             d->kind == PLAN_ENCODE ? parts[part] : d->suffix);
    x.name = mem_strdup(name);
    if (d->kind == PLAN_ENCODE) {
        const struct encode_source *m = &d->matrix;
        x.dtype = part ? DTYPE_BF16 : DTYPE_U32;
        x.n_dims = 2;
        x.shape[0] = m->rows;
        x.shape[1] = part ? m->cols / m->group : m->cols / 8;
    } else if (d->kind != PLAN_DERIVE) {
        x.dtype = d->tensor->dtype;
        x.n_dims = d->tensor->n_dims;
        memcpy(x.shape, d->tensor->shape, sizeof x.shape);
    }
    x.nbytes = dtype_bytes(x.dtype);
    for (int i = 0; i < x.n_dims; i++)
        x.nbytes *= x.shape[i];
    return x;
}

/* Sorts the entries of all operations by name, and gives each its place in dense.bin. */
int plan_lay_out_dense(struct plan *p, struct err *e)
{
    struct draft *draft = mem_array(3 * p->n_dense + 1, sizeof *draft);
    struct dense_entry *to = mem_array(3 * p->n_dense + 1, sizeof *to);
    bool named = true;
    size_t n = 0;
    uint64_t at = 0;
    p->target.dense = to;
    for (size_t i = 0; draft && to && i < p->n_dense; i++) {
        for (int part = 0; part < (p->dense[i].kind == PLAN_ENCODE ? 3 : 1); part++) {
            draft[n] = (struct draft){describe(&p->dense[i], part), i, part};
            named = named && draft[n++].entry.name;
        }
    }
    if (draft && named)
        qsort(draft, n, sizeof *draft, compare_draft);
    for (size_t i = 0; to && i < n; i++) {
        to[i] = draft[i].entry;
        to[i].offset = at;
        at += (to[i].nbytes + STORE_ALIGN - 1) / STORE_ALIGN * STORE_ALIGN;
        p->dense[draft[i].op].entry[draft[i].part] = i;
    }
    p->target.n_dense = n;
    if (n)
        p->bytes[PIECE_DENSE] = to[n - 1].offset + to[n - 1].nbytes;
    mem_free(draft);
    return draft && to && named ? 0 : ERR(e, E_NOMEM, "out of memory planning %zu tensors", n);
}

/* Experts one by one, as FP8 and NVFP4 checkpoints have them: one problem for tens of thousands of
 * tensors, which says it by the first. */
static void refuse_single_experts(struct plan *p, const struct tensor *first, uint64_t n)
{
    char room[UNITS_ROOM];
    if (dtype_bytes(first->dtype) == 1)
        match_refuse_type(p, first);
    plan_problem(p, PROBLEM_ENCODING,
                 "%s and what is like it, %s tensors in all, hold one expert each: only experts "
                 "stacked by layer are packed, as in the BF16 original or a 4-bit MLX conversion",
                 first->name, units_count(room, n));
}

/* What no store has, and what this config does not ask for. */
static void list_leftovers(struct plan *p)
{
    const struct tensor *single = NULL;
    uint64_t n_single = 0;
    for (size_t i = 0; i < p->source.n; i++) {
        const struct source_tensor *t = &p->source.at[i];
        bool vision = t->info.kind == NAME_VISION, unknown = t->info.kind == NAME_UNKNOWN;
        if (t->used)
            continue;
        if (t->info.kind == NAME_EXPERT) {
            single = n_single++ ? single : t->tensor;
            plan_count(p, FATE_UNUSED, t->tensor);
            continue;
        }
        if (unknown && dtype_bytes(t->tensor->dtype) == 1) {
            match_refuse_type(p, t->tensor);
            continue;
        }
        plan_count(p, vision ? FATE_VISION : unknown ? FATE_UNKNOWN : FATE_UNUSED, t->tensor);
        if (!vision && !p->choices.skip_unknown)
            plan_problem(p, unknown ? PROBLEM_UNKNOWN : PROBLEM_UNUSED, "%s", t->tensor->name);
    }
    if (single)
        refuse_single_experts(p, single, n_single);
}

void plan_count(struct plan *p, enum plan_fate fate, const struct tensor *t)
{
    p->fate[fate].tensors++;
    p->fate[fate].bytes += t->nbytes;
}

void plan_problem(struct plan *p, enum plan_problem_kind kind, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    struct plan_problem *more = mem_realloc(p->problems, (p->n_problems + 1) * sizeof *more);
    char *copy = more ? mem_strdup(text) : NULL;
    p->problems = more ? more : p->problems;
    p->short_of_memory = p->short_of_memory || !copy;
    if (copy)
        p->problems[p->n_problems++] = (struct plan_problem){kind, copy};
}

/* "A, B, C and 12 more": at most three of a kind. */
static void list_some(const struct plan *p, enum plan_problem_kind kind, size_t total,
                      struct buf *out)
{
    size_t shown = 0;
    for (size_t i = 0; i < p->n_problems && shown < 3; i++)
        if (p->problems[i].kind == kind)
            buf_printf(out, "%s%s", shown++ ? ", " : "", p->problems[i].text);
    if (total > shown)
        buf_printf(out, " and %zu more", total - shown);
}

static const struct {
    int code;
    const char *before, *after;
} complaints[PROBLEM_COUNT] = {
    [PROBLEM_ENCODING] = {E_UNSUPPORTED, "", ""},
    [PROBLEM_MISSING] = {E_NOTFOUND, "tensors are missing: ",
                         "; is the download complete, and config.json the right one?"},
    [PROBLEM_UNKNOWN] = {E_UNSUPPORTED,
                         "tensors that no store has: ", "; --skip-unknown leaves them out"},
    [PROBLEM_UNUSED] = {E_UNSUPPORTED, "tensors that config.json does not ask for: ",
                        "; is it the right one? --skip-unknown leaves them out"},
    [PROBLEM_NORMS] = {E_UNSUPPORTED, "", ""},
};

int plan_check(const struct plan *p, struct err *e)
{
    size_t n[PROBLEM_COUNT] = {0};
    for (size_t i = 0; i < p->n_problems; i++)
        n[p->problems[i].kind]++;
    for (int k = 0; k < PROBLEM_COUNT; k++) {
        struct buf some = BUF_INIT;
        if (!n[k])
            continue;
        if (k == PROBLEM_ENCODING || k == PROBLEM_NORMS) { /* whole sentences: one will do */
            for (size_t i = 0; !some.len; i++)
                if (p->problems[i].kind == (enum plan_problem_kind)k)
                    buf_puts(&some, p->problems[i].text);
            if (n[k] > 1)
                buf_printf(&some, " (and %zu more like it)", n[k] - 1);
        } else {
            list_some(p, (enum plan_problem_kind)k, n[k], &some);
        }
        ERR(e, complaints[k].code, "%s: %s%s%s; `cherenkov inspect` lists everything",
            p->checkpoint->dir, complaints[k].before, buf_str(&some), complaints[k].after);
        buf_free(&some);
        return -e->code;
    }
    return 0;
}

uint64_t plan_bytes(const struct plan *p)
{
    uint64_t total = 0;
    for (int i = 0; i < PIECE_FILES; i++)
        total += p->bytes[i];
    return total;
}

const uint64_t *plan_constants(const struct plan *p, const struct expected *x)
{
    const struct ngram_module *m = &p->target.ngram.module[x->module];
    switch (x->role) {
    case ROLE_PLE_MULTIPLIERS:
        return m->mult;
    case ROLE_PLE_OFFSETS:
        return m->offset;
    default:
        return m->size;
    }
}

int plan_check_constants(const struct plan *p, struct err *e)
{
    uint64_t found[CONFIG_NGRAM_HEADS_MAX];
    for (size_t i = 0; i < p->n_dense; i++) {
        const struct plan_dense *d = &p->dense[i];
        if (d->kind != PLAN_COPY || d->expected->kind != EXPECTED_HASH)
            continue;
        const uint64_t *want = plan_constants(p, d->expected);
        int rc = checkpoint_read(p->checkpoint, d->tensor, 0, found, (size_t)d->tensor->nbytes, e);
        if (rc)
            return rc;
        for (uint64_t k = 0; k < d->expected->shape[0]; k++)
            if (found[k] != want[k])
                return ERR(e, E_FORMAT,
                           "%s: %s[%llu] is %lld, want %lld as config.json gives: wrong n-gram "
                           "constants; is it the right config (seed, vocabulary, n-gram fields)?",
                           p->checkpoint->dir, d->tensor->name, (unsigned long long)k,
                           (long long)found[k], (long long)want[k]);
    }
    return 0;
}

const char *plan_encoding(const struct plan *p)
{
    static const char *const words[] = {"no known form", "MLX 4-bit", "BF16", "MLX 4-bit and BF16"};
    bool q4 = p->n_matrices[ENCODE_COPY] || p->n_matrices[ENCODE_REGROUP];
    return words[q4 + 2 * (p->n_matrices[ENCODE_BF16] > 0)];
}
