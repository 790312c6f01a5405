/* Engine "reference": opening, and steps of rows. See reference.h, and blocks.h for the model
 * itself.
 *
 * One thread at a time may use an engine and its sequences: they share the engine's working room.
 *
 * What an observer is told of a row, in this order: embed; per layer ngram and ple (if it has PLE),
 * selected (if attention), mixer, route, route_weight, moe, residual; then hidden, and logits if
 * they are wanted. A draft row tells selected, mixer, route, route_weight, moe, mtp_residual and
 * mtp_logits, all with il = n_layers. Rows that only fill the draft head's cache tell nothing. */
#include "reference/reference.h"

#include <string.h>

#include "base/mem.h"
#include "model/identity.h"
#include "reference/arith.h"
#include "reference/blocks.h"

static int max_int(int a, int b)
{
    return a > b ? a : b;
}

/* The widest matrix row: each vector here is what some matrix is applied to. */
static int widest_row(const struct config *c)
{
    int w = max_int(c->S * c->h, c->lowrank);
    w = max_int(w, max_int(c->nv * c->dv, c->n_heads * c->head_dim));
    return max_int(w, max_int(max_int(c->inter, c->shared_inter), c->n_ple ? c->ple_dim : 0));
}

static void scratch_place(const struct reference *g, struct scratch *m, struct layout *a)
{
    const struct config *c = &g->base.weights->config;
    int wide = c->S * c->h, keys = c->nk * c->dk, values = c->nv * c->dv;
    int heads = c->n_heads * c->head_dim, inter = max_int(c->inter, c->shared_inter);
    int bits = g->options.expert_bits, most_ids = max_int(c->K, CONFIG_NGRAM_HEADS_MAX);
    const struct {
        float **to;
        int n;
    } floats[] = {
        {&m->row, widest_row(c)}, {&m->hyper, wide},
        {&m->mixed, c->h},        {&m->inj, c->S},
        {&m->out, c->h},          {&m->hidden, c->h},
        {&m->hyper_n, wide},      {&m->hyper_d, c->lowrank},
        {&m->hyper_u, wide},      {&m->z, values},
        {&m->a, c->nv},           {&m->qkv, 2 * keys + values},
        {&m->b, c->nv},           {&m->y, values},
        {&m->q, c->head_dim},     {&m->gate, c->head_dim},
        {&m->att, heads},         {&m->index_q, c->index_heads * c->index_dim},
        {&m->freq, c->rot / 2},   {&m->index, c->index_dim},
        {&m->prob, c->E},         {&m->route_w, c->K},
        {&m->up, inter},          {&m->act, inter},
        {&m->expert_out, c->h},   {&m->ple_e, c->ple_dim},
        {&m->ple_key, wide},      {&m->ple_query, wide},
        {&m->ple_value, c->h},    {&m->ple_gv, wide},
        {&m->ple_out, wide},      {&m->fold_embed, c->h},
        {&m->fold_e, c->h},       {&m->fold_n, wide},
    };
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++)
        *floats[i].to = layout_floats(a, (size_t)floats[i].n, 1);
    m->sum = layout_take(a, (size_t)max_int(c->dv, c->head_dim), sizeof *m->sum);
    m->taken = layout_take(a, (size_t)c->E, sizeof *m->taken);
    m->route = layout_take(a, (size_t)c->K, sizeof *m->route);
    m->codes = layout_take(a, bits < 4 ? (size_t)c->inter * (size_t)c->h / 2 : 0, 1);
    m->ngram = layout_take(a, CONFIG_NGRAM_HEADS_MAX, sizeof *m->ngram);
    m->ids = layout_take(a, (size_t)most_ids, sizeof *m->ids);
}

/* Everything that a step works in. */
static void engine_place(struct reference *g, struct layout *a)
{
    const struct config *c = &g->base.weights->config;
    float **work = layout_take(a, (size_t)c->n_layers, sizeof *work);
    for (int il = 0; il < c->n_layers; il++) {
        float *st = c->attention[il] ? NULL : layout_floats(a, deltanet_floats(c), 1);
        if (work)
            work[il] = st;
    }
    g->work = work;
    scratch_place(g, &g->scratch, a);
}

static void reference_close(struct engine *base)
{
    struct reference *g = (struct reference *)base;
    if (!g)
        return;
    mem_free(g->memory);
    mem_free(g);
}

/* Takes the memory of g and asks for what later calls rely on. */
static int engine_fill(struct reference *g, struct err *e)
{
    const struct weights *w = g->base.weights;
    struct layout a = {0};
    struct expert first;

    engine_place(g, &a);
    g->memory = a.overflow ? NULL : mem_alloc(a.used);
    if (!g->memory)
        return ERR(e, E_NOMEM, "the reference engine needs %.1f MiB of memory",
                   (double)a.used / (1 << 20));
    a = (struct layout){.base = g->memory};
    engine_place(g, &a);
    arith_rope_freq(w->config.rope_theta, w->config.rot, g->scratch.freq);
    int rc = w->source.expert(w->source.ctx, 0, 0, &first, e);
    rc = rc ? rc : moe_check(&first, g->options.expert_bits, e);
    const struct identity_options o = {"reference", g->options.expert_bits, g->options.mtp_norm,
                                       g->options.drafts};
    return rc ? rc : identity_of(w, &o, &g->identity, e);
}

static int reference_open(const struct weights *w, const struct engine_options *o,
                          struct engine **out, struct err *e)
{
    struct reference *g = mem_zalloc(1, sizeof *g);
    if (!g)
        return ERR(e, E_NOMEM, "no memory for an engine");
    g->base = (struct engine){.ops = &reference_engine, .weights = w, .chunk = ENGINE_ROWS_MAX};
    int rc = engine_options_resolve(&w->config, o, &g->options, e);
    rc = rc ? rc : engine_fill(g, e);
    if (rc) {
        reference_close(&g->base);
        return rc;
    }
    *out = &g->base;
    return 0;
}

void see(const struct reference *g, const struct at *at, enum seen what, const float *x, int n)
{
    const struct observer *o = g->options.observe;
    if (o && o->floats)
        o->floats(o->ctx, what, at->il, at->pos, x, (size_t)n);
}

void see_ids(const struct reference *g, const struct at *at, enum seen what, const int64_t *ids,
             int n)
{
    const struct observer *o = g->options.observe;
    if (o && o->ints)
        o->ints(o->ctx, what, at->il, at->pos, ids, (size_t)n);
}

static int rows_check(const struct reference *g, const struct row *rows, int R, struct err *e)
{
    int rc = engine_rows_check(R, e);
    for (int r = 0, n = 1; !rc && r < R; r++) {
        const struct sequence *s = rows[r].seq;
        n = r && s == rows[r - 1].seq ? n + 1 : 1;
        rc = engine_row_check(&(struct row_check){.row = &rows[r],
                                                  .r = r,
                                                  .n = n,
                                                  .own = s->g == g,
                                                  .pending = s->pending,
                                                  .len = s->len,
                                                  .ctx = s->ctx,
                                                  .vocab = g->base.weights->config.vocab},
                              e);
    }
    return rc;
}

/* One token through the model. logits is NULL when they are not wanted. */
static int row_apply(struct reference *g, struct at *at, int32_t token, float *logits,
                     struct err *e)
{
    const struct weights *w = g->base.weights;
    const struct config *c = &w->config;
    struct sequence *s = at->s;
    float *hyper = g->scratch.hyper;

    s->tokens[at->pos] = token;
    if (g->options.drafts && at->pos > 0) {
        const struct at before = {s, at->r, at->pos - 1, c->n_layers};
        mtp_fill(g, &before, history_row(&s->wide, at->r - 1), token);
    }
    int rc = trunk_apply(g, at, hyper, e);
    if (rc)
        return rc;
    if (g->options.drafts)
        memcpy(history_row(&s->wide, at->r), hyper, (size_t)c->S * c->h * sizeof *hyper);
    head_mix(g, &w->mixer, hyper, g->scratch.hidden);
    see(g, at, SEEN_HIDDEN, g->scratch.hidden, c->h);
    if (!logits)
        return 0;
    rc = head_logits(g, at, g->scratch.hidden, logits, e);
    if (!rc)
        see(g, at, SEEN_LOGITS, logits, c->vocab);
    return rc;
}

static int reference_step(struct engine *base, const struct row *rows, int R, const bool *want,
                          float *logits, struct err *e)
{
    struct reference *g = (struct reference *)base;
    size_t vocab = (size_t)base->weights->config.vocab;
    int rc = rows_check(g, rows, R, e);

    for (int r = 0; !rc && r < R; r++) {
        struct sequence *s = rows[r].seq;
        struct at at = {s, s->pending, s->len + s->pending, -1};
        if (!s->pending)
            sequence_enter(s);
        rc = row_apply(g, &at, rows[r].token, !want || want[r] ? logits + (size_t)r * vocab : NULL,
                       e);
        s->pending++;
        if (rc)
            for (int q = 0; q <= r; q++)
                rows[q].seq->pending = 0;
    }
    return rc;
}

static int reference_prefill(struct engine *base, struct sequence *s, const int32_t *tokens, int n,
                             float *logits, struct err *e)
{
    struct reference *g = (struct reference *)base;
    struct row rows[ENGINE_ROWS_MAX] = {{NULL, 0}};
    for (int r = 0; r < n && r < ENGINE_ROWS_MAX; r++)
        rows[r] = (struct row){s, tokens[r]};
    int rc = rows_check(g, rows, n, e);
    if (!rc)
        sequence_enter(s);
    for (int r = 0; !rc && r < n; r++) {
        struct at at = {s, r, s->len + r, -1};
        rc = row_apply(g, &at, tokens[r], r == n - 1 ? logits : NULL, e);
        s->pending = r + 1;
    }
    if (rc)
        s->pending = 0;
    return rc ? rc : sequence_commit(base, s, n, e);
}

static int reference_draft(struct sequence *s, int32_t next, int depth, int32_t *tokens,
                           float *logits, struct err *e)
{
    struct reference *g = s->g;
    const struct config *c = &g->base.weights->config;
    const float *wide = history_row(&s->wide, -1);

    const struct draft_check check = {g->options.drafts, depth, next, s->len, s->pending};
    if (engine_draft_check(c, &check, e))
        return -e->code;
    float *own = logits ? NULL : mem_array((size_t)c->vocab, sizeof *own);
    int rc = logits || own ? 0 : ERR(e, E_NOMEM, "no memory for the logits of a draft");
    for (int d = 0; !rc && d < depth; d++) {
        const struct at at = {s, 0, s->len - 1 + d, c->n_layers};
        float *made = own ? own : logits + (size_t)d * (size_t)c->vocab;
        rc = mtp_apply(g, &at, wide, next, made, e);
        if (!rc)
            next = tokens[d] = engine_argmax(made, c->vocab);
        wide = g->scratch.hyper;
    }
    mem_free(own);
    return rc;
}

static const struct counters *reference_counters(const struct engine *g)
{
    (void)g;
    return NULL;
}

const struct engine_ops reference_engine = {
    .name = "reference",
    .summary = "the equations in plain f32, one token at a time; exact and slow",
    .open = reference_open,
    .close = reference_close,
    .sequence_open = sequence_open,
    .sequence_close = sequence_close,
    .sequence_reset = sequence_reset,
    .sequence_length = sequence_length,
    .step = reference_step,
    .prefill = reference_prefill,
    .commit = sequence_commit,
    .draft = reference_draft,
    .save = sequence_save,
    .restore = sequence_restore,
    .counters = reference_counters,
};
