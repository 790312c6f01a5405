/* The trunk: a batch of rows through all layers.
 *
 *   hyper = S copies of the token's embedding
 *   for each layer:
 *       hyper += ple(hyper, tokens)                    if the layer has PLE
 *       mixed, inj = read(attn_hyper, hyper);  hyper += inj * (attention or deltanet)(mixed)
 *       mixed, inj = read(mlp_hyper, hyper);   hyper += inj * moe(mixed)
 *
 * What a block adds is added by the read that follows it, which goes through the residual
 * anyway. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "cpu/blocks.h"
#include "model/matrix.h"

enum { FEW_ITEMS = 4 };

void each_row(struct cpu *g, int n, team_fn *fn, void *ctx)
{
    if (n >= FEW_ITEMS) {
        team_run(g->team, n, fn, ctx);
        return;
    }
    for (int i = 0; i < n; i++)
        fn(ctx, i, 0);
}

void row_spoil(struct cpu *g, int r)
{
    int was = atomic_load(&g->bad_row);
    while (r < was && !atomic_compare_exchange_weak(&g->bad_row, &was, r))
        ;
}

void batch_begin(struct cpu *g)
{
    atomic_store(&g->bad_row, INT_MAX);
}

int batch_check(struct cpu *g, const struct batch *b, struct err *e)
{
    int r = atomic_load(&g->bad_row);
    if (r >= b->R)
        return 0;
    return ERR(
        e, E_NONFINITE,
        "position %d: a value of the residual, the cache or the logits is not finite; weights "
        "are damaged or overflow (verify the store)",
        b->at[r].pos);
}

struct turn_job {
    struct cpu *g;
    const struct batch *b;
};

static void turn_item(void *ctx, int r, int member)
{
    const struct turn_job *x = ctx;
    int half = x->g->weights.config.rot / 2;
    float *rope = x->g->scratch.rope + (size_t)r * x->g->weights.config.rot;
    (void)member;
    for (int i = 0; i < half; i++) {
        double angle = (double)((float)x->b->at[r].pos * x->g->freq[i]);
        rope[i] = (float)cos(angle);
        rope[half + i] = (float)sin(angle);
    }
}

void batch_turn(struct cpu *g, const struct batch *b)
{
    struct turn_job x = {g, b};
    each_row(g, b->R, turn_item, &x);
}

void cpu_see_row(const struct cpu *g, const struct batch *b, int r, enum seen what, const float *x,
                 int n)
{
    const struct observer *o = g->options.observe;
    if (o && o->floats)
        o->floats(o->ctx, what, b->il, b->at[r].pos, x, (size_t)n);
}

void cpu_see_rows(const struct cpu *g, const struct batch *b, enum seen what, const float *x, int n)
{
    for (int r = 0; g->options.observe && r < b->R; r++)
        cpu_see_row(g, b, r, what, x + (size_t)r * (size_t)n, n);
}

void cpu_see_ids(const struct cpu *g, const struct batch *b, int r, enum seen what, const int *ids,
                 int n)
{
    const struct observer *o = g->options.observe;
    if (!o || !o->ints)
        return;
    for (int i = 0; i < n; i++)
        g->scratch.ids[i] = ids[i];
    o->ints(o->ctx, what, b->il, b->at[r].pos, g->scratch.ids, (size_t)n);
}

int cpu_layer_apply(struct cpu *g, struct batch *b, const struct layer_weights *w,
                    const struct layer_weights *next, struct err *e)
{
    const struct config *c = &g->weights.config;
    struct scratch *m = &g->scratch;
    struct hyper_job read = {.w = &w->attn_hyper,
                             .hyper = m->hyper,
                             .R = b->R,
                             .add = b->add ? m->out : NULL,
                             .inj = m->inj,
                             .to = &m->mixed};
    if (w->ple >= 0) {
        if (b->add)
            cpu_hyper_add(g, &read);
        read.add = NULL;
        int rc = cpu_ple_add(g, b, w->ple, e);
        if (rc)
            return rc;
    }
    cpu_hyper_read(g, &read);
    if (b->il == c->n_layers || c->attention[b->il])
        cpu_qsa_apply(g, b, &w->qsa);
    else
        cpu_deltanet_apply(g, b, &w->deltanet);
    cpu_see_rows(g, b, SEEN_MIXER, m->out, c->h);
    read.w = &w->mlp_hyper;
    read.add = m->out;
    cpu_hyper_read(g, &read);
    int rc = cpu_moe_apply(g, b, &w->moe, next, e);
    if (rc)
        return rc;
    cpu_see_rows(g, b, SEEN_MOE, m->out, c->h);
    b->add = true;
    return 0;
}

static void embed_item(void *ctx, int r, int member)
{
    const struct turn_job *x = ctx;
    const struct config *c = &x->g->weights.config;
    float *to = x->g->scratch.hyper + (size_t)r * c->S * c->h;
    const float *row =
        matrix_row(&x->g->weights.embed, x->b->at[r].token, member_room(x->g, member));
    for (int ig = 0; ig < c->S; ig++)
        memcpy(to + (size_t)ig * c->h, row, (size_t)c->h * sizeof *to);
}

/* An observer wants the residual after each layer, so what is left to add is added at once. */
static void see_residual(struct cpu *g, struct batch *b)
{
    const struct config *c = &g->weights.config;
    const struct hyper_job write = {
        .hyper = g->scratch.hyper, .R = b->R, .add = g->scratch.out, .inj = g->scratch.inj};
    if (!g->options.observe)
        return;
    cpu_hyper_add(g, &write);
    b->add = false;
    cpu_see_rows(g, b, SEEN_RESIDUAL, g->scratch.hyper, c->S * c->h);
}

int cpu_trunk_apply(struct cpu *g, struct batch *b, struct err *e)
{
    const struct config *c = &g->weights.config;
    struct turn_job x = {g, b};
    int rc = cpu_ple_begin(g, b, e);
    if (rc)
        return rc;
    batch_turn(g, b);
    each_row(g, b->R, embed_item, &x);
    b->il = -1;
    b->add = false;
    cpu_see_rows(g, b, SEEN_EMBED, g->scratch.hyper, c->S * c->h);
    for (b->il = 0; b->il < c->n_layers; b->il++) {
        const struct layer_weights *w = &g->weights.layers[b->il];
        rc = cpu_layer_apply(g, b, w, b->il + 1 < c->n_layers ? w + 1 : NULL, e);
        if (rc)
            return rc;
        see_residual(g, b);
    }
    b->il = -1;
    return 0;
}
