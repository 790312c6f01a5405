/* The draft head: one more layer that looks one token further.
 *
 * Row p pairs the wide residual at p with the token at p + 1 and predicts the token at p + 2:
 *
 *   e        = rms(embed(token))
 *   hn       = rms(wide): one norm over all S*h values, or one per stream (enum mtp_norm)
 *   hyper_g  = W_fce e + W_fch hn_g
 *   hyper    = layer(hyper)         of the attention kind, own cache, rotary position p
 *   logits   = W_head read(mixer, hyper)
 *
 * Cells of the cache are filled when the token behind them is fed, never before, so a cached prefix
 * does not depend on what followed it; draft rows lie behind that and are overwritten. */
#include <math.h>
#include <string.h>

#include "cpu/blocks.h"
#include "model/matrix.h"

struct fold_job {
    struct cpu *g;
    const struct batch *b;
    const float *const *wide; /* of each row: [S*h] */
};

/* out = rms(x, gamma) of n values. */
static void norm_values(const struct cpu *g, const float *gamma, const float *x, int n, float *out)
{
    float scale =
        (float)(1.0 / sqrt((double)g->kern.sum_squares(x, n) / n + g->weights.config.eps));
    g->kern.scale_mul(x, scale, gamma, n, out);
}

/* Row r: scratch.norm = hn, scratch.embed = rms(embed(token)). */
static void norm_item(void *ctx, int r, int member)
{
    const struct fold_job *x = ctx;
    struct cpu *g = x->g;
    const struct config *c = &g->weights.config;
    const struct mtp_weights *w = &g->weights.mtp;
    int all = c->S * c->h, n = g->options.mtp_norm == MTP_NORM_ALL ? all : c->h;
    float *norm = g->scratch.norm.x + (size_t)r * all;
    float *embed = g->scratch.embed.x + (size_t)r * c->h;
    const float *row = matrix_row(&g->weights.embed, x->b->at[r].token, member_room(g, member));
    for (int i = 0; i < all; i += n)
        norm_values(g, w->norm_hidden.x + i, x->wide[r] + i, n, norm + i);
    norm_values(g, w->norm_embedding.x, row, c->h, embed);
    acts_quantise(&g->kern, &g->scratch.embed, r, r + 1);
}

static void streams_item(void *ctx, int r, int member)
{
    const struct fold_job *x = ctx;
    int S = x->g->weights.config.S;
    (void)member;
    acts_quantise(&x->g->kern, &x->g->scratch.streams, r * S, (r + 1) * S);
}

static void add_item(void *ctx, int item, int member)
{
    const struct fold_job *x = ctx;
    const struct config *c = &x->g->weights.config;
    const float *e = x->g->scratch.fold + (size_t)(item / c->S) * c->h;
    (void)member;
    x->g->kern.add_scaled(x->g->scratch.hyper + (size_t)item * c->h, e, 1, c->h);
}

/* scratch.hyper = what the layer starts from; wide may lie there. */
static void fold(struct cpu *g, const struct batch *b, const float *const *wide)
{
    const struct config *c = &g->weights.config;
    struct scratch *m = &g->scratch;
    struct fold_job x = {g, b, wide};
    const struct product in[] = {
        {&g->weights.mtp.fc_embedding, &m->embed, NULL, b->R, m->fold, (size_t)c->h},
        {&g->weights.mtp.fc_hidden, &m->streams, NULL, b->R * c->S, m->hyper, (size_t)c->h},
    };
    each_row(g, b->R, norm_item, &x);
    each_row(g, b->R, streams_item, &x);
    cpu_linear_apply(g, in, 2);
    each_row(g, b->R * c->S, add_item, &x);
}

void cpu_mtp_fill(struct cpu *g, const struct batch *b, const float *wide)
{
    const struct config *c = &g->weights.config;
    const struct layer_weights *w = &g->weights.mtp.layer;
    struct scratch *m = &g->scratch;
    size_t width = (size_t)c->S * c->h;
    struct batch cells = {.at = m->cell, .il = c->n_layers, .prefill = b->prefill};

    for (int r = 0; r < b->R; r++) {
        const struct at *at = &b->at[r];
        if (!at->pos)
            continue;
        m->cell[cells.R] = (struct at){at->s, at->r, at->pos - 1, at->token};
        m->wide[cells.R++] = at->r ? wide + (size_t)(r - 1) * width : at->s->wide;
    }
    if (!cells.R)
        return;
    const struct hyper_job read = {
        .w = &w->attn_hyper, .hyper = m->hyper, .R = cells.R, .mixer = true, .to = &m->mixed};
    batch_turn(g, &cells);
    fold(g, &cells, m->wide);
    cpu_hyper_read(g, &read);
    cpu_qsa_fill(g, &cells, &w->qsa);
}

/* One draft row: logits, and scratch.hyper is its wide residual. */
static int draft_row(struct cpu *g, struct batch *b, const float *wide, float *logits,
                     struct err *e)
{
    const struct config *c = &g->weights.config;
    struct scratch *m = &g->scratch;
    const struct hyper_job read = {.w = &g->weights.mtp.mixer,
                                   .hyper = m->hyper,
                                   .R = 1,
                                   .add = m->out,
                                   .inj = m->inj,
                                   .mixer = true,
                                   .to = &m->hidden};
    batch_begin(g);
    batch_turn(g, b);
    fold(g, b, &wide);
    b->add = false;
    int rc = cpu_layer_apply(g, b, &g->weights.mtp.layer, NULL, e);
    if (rc)
        return rc;
    cpu_hyper_read(g, &read);
    cpu_see_rows(g, b, SEEN_MTP_RESIDUAL, m->hyper, c->S * c->h);
    cpu_head_logits(g, 0, 1, NULL, logits);
    rc = batch_check(g, b, e);
    if (!rc)
        cpu_see_rows(g, b, SEEN_MTP_LOGITS, logits, c->vocab);
    return rc;
}

int cpu_mtp_draft(struct sequence *s, int32_t next, int depth, int32_t *tokens, float *logits,
                  struct err *e)
{
    struct cpu *g = s->g;
    const struct config *c = &g->weights.config;
    const float *wide = s->wide;

    const struct draft_check check = {g->options.drafts, depth, next, s->len, s->pending};
    if (engine_draft_check(c, &check, e))
        return -e->code;
    for (int d = 0; d < depth; d++) {
        struct at at = {s, 0, s->len - 1 + d, next};
        struct batch b = {.at = &at, .R = 1, .il = c->n_layers};
        float *made = logits ? logits + (size_t)d * (size_t)c->vocab : g->scratch.draft_logits;
        int rc = draft_row(g, &b, wide, made, e);
        if (rc)
            return rc;
        next = tokens[d] = engine_argmax(made, c->vocab);
        wide = g->scratch.hyper;
    }
    return 0;
}
