/* From wanted tensors to published ones: see match.h. */
#include "pack/match.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/* The three published tensors of a quantised module; scales and biases NULL for a plain one. */
struct found {
    const struct tensor *weight, *scales, *biases;
};

/* The matrix that is looked for: lead[0..n_lead) are the dimensions before the last, cols the
 * last. */
struct wanted {
    const char *name; /* for messages: the weight's canonical name */
    uint64_t lead[2];
    int n_lead;
    uint64_t cols, group; /* group 0: a store keeps it unquantised */
};

static void match_one(struct plan *p, const struct expected *x);
static void match_experts(struct plan *p, const struct expected *x);
static void match_ngram(struct plan *p, const struct expected *x);

int match_all(struct plan *p, struct err *e)
{
    size_t n = p->expected.n, n_layers = (size_t)p->config.n_layers + (size_t)p->config.n_mtp;
    size_t n_parts = 1;
    for (size_t i = 0; i < p->source.n; i++)
        n_parts += p->source.at[i].info.kind == NAME_NGRAM;
    p->dense = mem_zalloc(3 * n, sizeof *p->dense);
    p->experts = mem_zalloc(n_layers, sizeof *p->experts);
    p->ngram = mem_zalloc(n_parts, sizeof *p->ngram);
    if (!p->dense || !p->experts || !p->ngram)
        return ERR(e, E_NOMEM, "out of memory planning %zu tensors", n);
    for (size_t i = 0; i < n; i++) {
        const struct expected *x = &p->expected.at[i];
        if (x->kind == EXPECTED_EXPERTS)
            match_experts(p, x);
        else if (x->kind == EXPECTED_NGRAM)
            match_ngram(p, x);
        else
            match_one(p, x);
    }
    return 0;
}

/* "U32 [512, 16]". */
static const char *describe(const struct tensor *t, char room[128])
{
    int len = snprintf(room, 128, "%s [", dtype_name(t->dtype));
    for (int i = 0; i < t->n_dims && len < 100; i++)
        len += snprintf(room + len, (size_t)(128 - len), "%s%llu", i ? ", " : "",
                        (unsigned long long)t->shape[i]);
    snprintf(room + len, (size_t)(128 - len), "]");
    return room;
}

static bool shaped(const struct tensor *t, const struct wanted *w, uint64_t last)
{
    if (t->n_dims != w->n_lead + 1 || t->shape[w->n_lead] != last)
        return false;
    return memcmp(t->shape, w->lead, (size_t)w->n_lead * sizeof w->lead[0]) == 0;
}

static void wrong_shape(struct plan *p, const struct wanted *w, const struct tensor *t,
                        const char *why)
{
    char room[128], want[96];
    int len = 0;
    for (int i = 0; i < w->n_lead; i++)
        len += snprintf(want + len, sizeof want - (size_t)len, "%llu, ",
                        (unsigned long long)w->lead[i]);
    snprintf(want + len, sizeof want - (size_t)len, "%llu", (unsigned long long)w->cols);
    plan_problem(p, PROBLEM_ENCODING, "%s is %s, want values of shape [%s] as config.json says; %s",
                 t->name, describe(t, room), want, why);
}

/* What to do about a type that is not packed. */
static const char *advice(enum dtype type)
{
    switch (type) {
    case DTYPE_F8_E4M3:
    case DTYPE_F8_E5M2:
        return "FP8 checkpoints are not packed: take the BF16 original or a 4-bit MLX conversion "
               "in groups of 64";
    case DTYPE_U8:
    case DTYPE_I8:
        return "NVFP4 and 8-bit checkpoints are not packed: take the BF16 original or a 4-bit MLX "
               "conversion in groups of 64";
    default:
        return "only BF16 is quantised while packing: take the BF16 original or a 4-bit MLX "
               "conversion in groups of 64";
    }
}

void match_refuse_type(struct plan *p, const struct tensor *t)
{
    char room[128];
    plan_problem(p, PROBLEM_ENCODING, "%s is %s: %s", t->name, describe(t, room), advice(t->dtype));
}

static void missing(struct plan *p, const char *name)
{
    plan_problem(p, PROBLEM_MISSING, "%s", name);
}

static bool all_bf16(const struct found *f)
{
    return f->scales->dtype == DTYPE_BF16 && f->biases->dtype == DTYPE_BF16;
}

/* An MLX module: bits and group come from the shapes, whatever config.json says about them. */
static int match_affine(struct plan *p, const struct wanted *w, const struct found *f,
                        struct encode_source *out)
{
    char name[NAME_MAX_BYTES + 16];
    uint64_t words = f->weight->shape[w->n_lead];
    if (!f->scales || !f->biases) {
        snprintf(name, sizeof name, "%.*s%s", (int)(strlen(w->name) - strlen(".weight")), w->name,
                 f->scales ? ".biases" : ".scales");
        missing(p, name);
        return -1;
    }
    if (!shaped(f->weight, w, words) || words * 32 % w->cols) {
        wrong_shape(p, w, f->weight, "is this the checkpoint of that config?");
        return -1;
    }
    if (words * 32 != w->cols * 4) {
        plan_problem(
            p, PROBLEM_ENCODING,
            "%s is quantised to %llu bits: only 4-bit MLX conversions are packed; take one, "
            "or the BF16 original",
            f->weight->name, (unsigned long long)(words * 32 / w->cols));
        return -1;
    }
    uint64_t per_row = f->scales->n_dims == w->n_lead + 1 ? f->scales->shape[w->n_lead] : 0;
    bool fits = per_row && w->cols % per_row == 0 && w->cols / per_row % 2 == 0;
    if (!fits || !shaped(f->scales, w, per_row) || !shaped(f->biases, w, per_row)) {
        wrong_shape(p, w, fits ? f->biases : f->scales, "scales and biases must fit the codes");
        return -1;
    }
    if (!all_bf16(f)) {
        match_refuse_type(p, f->scales->dtype == DTYPE_BF16 ? f->biases : f->scales);
        return -1;
    }
    out->source_group = w->cols / per_row;
    out->form = out->source_group == w->group ? ENCODE_COPY : ENCODE_REGROUP;
    if (out->form == ENCODE_COPY || p->choices.requantise)
        return 0;
    plan_problem(p, PROBLEM_ENCODING,
                 "%s is quantised in groups of %llu, and a store has groups of %llu: pack the BF16 "
                 "original or a conversion in groups of %llu, or pass --requantise to quantise "
                 "these values a second time, which loses precision",
                 f->weight->name, (unsigned long long)out->source_group,
                 (unsigned long long)w->group, (unsigned long long)w->group);
    return -1;
}

/* Decides the form of a matrix that a store has as Q4. -1 when there is a problem, noted. */
static int match_matrix(struct plan *p, const struct wanted *w, const struct found *f,
                        struct encode_source *out)
{
    *out =
        (struct encode_source){.weight = f->weight, .cols = w->cols, .group = w->group, .rows = 1};
    for (int i = 0; i < w->n_lead; i++)
        out->rows *= w->lead[i];
    if (!f->weight) {
        missing(p, w->name);
        return -1;
    }
    if (f->weight->dtype == DTYPE_U32 && f->weight->n_dims == w->n_lead + 1) {
        out->scales = f->scales;
        out->biases = f->biases;
        return match_affine(p, w, f, out);
    }
    if (f->weight->dtype != DTYPE_BF16 || f->scales || f->biases) {
        match_refuse_type(p, f->weight);
        return -1;
    }
    if (!shaped(f->weight, w, w->cols)) {
        wrong_shape(p, w, f->weight, "is this the checkpoint of that config?");
        return -1;
    }
    out->form = ENCODE_BF16;
    return 0;
}

/* Counts a module's tensors by what becomes of it. */
static void count_module(struct plan *p, const struct encode_source *m)
{
    static const enum plan_fate fate[] = {[ENCODE_COPY] = FATE_COPIED,
                                          [ENCODE_BF16] = FATE_QUANTISED,
                                          [ENCODE_REGROUP] = FATE_REQUANTISED};
    p->n_matrices[m->form]++;
    plan_count(p, fate[m->form], m->weight);
    if (m->form == ENCODE_BF16)
        return;
    plan_count(p, fate[m->form], m->scales);
    plan_count(p, fate[m->form], m->biases);
}

static struct plan_dense *add_dense(struct plan *p, enum plan_dense_kind kind,
                                    const struct expected *x)
{
    struct plan_dense *d = &p->dense[p->n_dense++];
    *d = (struct plan_dense){.kind = kind, .expected = x};
    return d;
}

static void add_copy(struct plan *p, const struct expected *x, const struct tensor *t,
                     const char *suffix)
{
    struct plan_dense *d = add_dense(p, PLAN_COPY, x);
    d->tensor = t;
    d->suffix = suffix;
}

static void match_q4(struct plan *p, const struct expected *x, const struct tensor *weight,
                     const char *name)
{
    struct wanted w = {name, {x->shape[0]}, 1, x->shape[1], (uint64_t)expected_group(x)};
    struct found f = {weight, source_dense(&p->source, x->name, ".scales"),
                      source_dense(&p->source, x->name, ".biases")};
    struct encode_source m;
    if (match_matrix(p, &w, &f, &m))
        return;
    count_module(p, &m);
    if (m.form == ENCODE_COPY) {
        add_copy(p, x, f.weight, ".weight");
        add_copy(p, x, f.scales, ".scales");
        add_copy(p, x, f.biases, ".biases");
        return;
    }
    add_dense(p, PLAN_ENCODE, x)->matrix = m;
}

/* [C][K] may be published as [C][1][K] or [C][K][1]: the bytes are the same. */
static bool conv_shaped(const struct tensor *t, const struct expected *x)
{
    uint64_t taps = t->n_dims == 3 ? t->shape[1] * t->shape[2] : t->n_dims == 2 ? t->shape[1] : 0;
    bool flat = t->n_dims == 2 || t->shape[1] == 1 || t->shape[2] == 1;
    return t->shape[0] == x->shape[0] && taps == x->shape[1] && flat;
}

static bool plain_shaped(const struct tensor *t, const struct expected *x)
{
    if (x->kind == EXPECTED_CONV)
        return conv_shaped(t, x);
    return t->n_dims == x->n_dims &&
           memcmp(t->shape, x->shape, (size_t)x->n_dims * sizeof x->shape[0]) == 0;
}

/* Types that a store can hold for what is copied. */
static bool plain_typed(const struct tensor *t, const struct expected *x)
{
    if (x->kind == EXPECTED_HASH)
        return t->dtype == DTYPE_I64;
    return t->dtype == DTYPE_BF16 || t->dtype == DTYPE_F16 || t->dtype == DTYPE_F32;
}

/* A tensor that is not a quantised matrix. */
static void match_plain(struct plan *p, const struct expected *x, const struct tensor *t)
{
    bool fold = x->kind == EXPECTED_NORM && p->norms.norms == NORMS_RAW;
    struct wanted w = {t->name, {x->shape[0], x->shape[1]}, x->n_dims - 1, 0, 0};
    w.cols = x->shape[x->n_dims - 1];
    if (t->dtype == DTYPE_U32) {
        plan_problem(p, PROBLEM_ENCODING,
                     "%s is quantised, and a store keeps it as BF16: take the BF16 original or a "
                     "conversion that leaves it alone",
                     t->name);
    } else if (!plain_typed(t, x)) {
        match_refuse_type(p, t);
    } else if (!plain_shaped(t, x)) {
        wrong_shape(p, &w, t, "is this the checkpoint of that config?");
    } else if (fold && t->dtype != DTYPE_BF16) {
        match_refuse_type(p, t);
    } else {
        add_copy(p, x, t, x->suffix);
        p->dense[p->n_dense - 1].kind = fold ? PLAN_FOLD : PLAN_COPY;
        plan_count(p, fold ? FATE_FOLDED : FATE_COPIED, t);
    }
}

static void match_one(struct plan *p, const struct expected *x)
{
    char name[NAME_MAX_BYTES];
    snprintf(name, sizeof name, "%s%s", x->name, x->suffix);
    const struct tensor *t = source_dense(&p->source, x->name, x->suffix);
    if (!t && x->kind == EXPECTED_HASH) {
        add_dense(p, PLAN_DERIVE, x)->suffix = x->suffix;
        p->n_derived++;
    } else if (!t) {
        missing(p, name);
    } else if (expected_group(x)) {
        match_q4(p, x, t, name);
    } else {
        match_plain(p, x, t);
    }
}

static struct found find_experts(struct plan *p, const struct expected *x, enum name_matrix which)
{
    int layer = x->mtp ? 0 : x->layer;
    struct found f = {
        source_experts(&p->source, x->mtp, layer, which, NAME_WEIGHT),
        source_experts(&p->source, x->mtp, layer, which, NAME_SCALES),
        source_experts(&p->source, x->mtp, layer, which, NAME_BIASES),
    };
    return f;
}

static_assert(ROLE_EXPERTS_UP - ROLE_EXPERTS_GATE == EXPERT_UP && NAME_UP == (int)EXPERT_UP &&
                  ROLE_EXPERTS_DOWN - ROLE_EXPERTS_GATE == EXPERT_DOWN &&
                  NAME_DOWN == (int)EXPERT_DOWN,
              "roles, names and record parts list the three matrices in one order");

/* Gate and up may be published as one tensor per layer, gate rows before up rows in each expert. */
static void match_experts(struct plan *p, const struct expected *x)
{
    int which = x->role - ROLE_EXPERTS_GATE;
    char name[NAME_MAX_BYTES];
    snprintf(name, sizeof name, "%s%s", x->name, x->suffix);
    struct plan_experts *to = &p->experts[x->layer][which];
    struct wanted w = {name, {x->shape[0], x->shape[1]}, 2, x->shape[2], 64};
    struct found f = find_experts(p, x, (enum name_matrix)which);
    bool fused = !f.weight && which != EXPERT_DOWN;
    if (fused) {
        struct found both = find_experts(p, x, NAME_GATE_UP);
        fused = both.weight != NULL;
        f = fused ? both : f;
    }
    to->step = fused ? 2 * x->shape[1] : x->shape[1];
    to->first = fused && which == EXPERT_UP ? x->shape[1] : 0;
    w.lead[1] = to->step;
    if (!match_matrix(p, &w, &f, &to->matrix) && !(fused && which == EXPERT_UP))
        count_module(p, &to->matrix);
}

/* A table is published in parts, numbered from 0, whose rows follow one another. */
static void match_ngram(struct plan *p, const struct expected *x)
{
    char name[NAME_MAX_BYTES + 32];
    uint64_t rows = 0, first = p->target.ngram.first_row[x->module];
    for (int64_t shard = 0; rows < x->shape[0]; shard++) {
        struct found f = {source_ngram(&p->source, x->layer, shard, NAME_WEIGHT),
                          source_ngram(&p->source, x->layer, shard, NAME_SCALES),
                          source_ngram(&p->source, x->layer, shard, NAME_BIASES)};
        struct wanted w = {
            name, {f.weight ? f.weight->shape[0] : 0}, 1, x->shape[1], (uint64_t)expected_group(x)};
        snprintf(name, sizeof name, "%s.shard_%lld%s", x->name, (long long)shard, x->suffix);
        struct plan_ngram *to = &p->ngram[p->n_ngram];
        if (match_matrix(p, &w, &f, &to->matrix))
            return;
        assert(f.weight); /* match_matrix has found it */
        count_module(p, &to->matrix);
        to->first_row = first + rows;
        p->n_ngram++;
        rows += w.lead[0];
        if (!w.lead[0] || rows > x->shape[0]) {
            plan_problem(p, PROBLEM_ENCODING,
                         "%s: the parts up to this one have %llu rows, want %llu as config.json "
                         "says; is this the checkpoint of that config?",
                         f.weight->name, (unsigned long long)rows, (unsigned long long)x->shape[0]);
            return;
        }
    }
}
