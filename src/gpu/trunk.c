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
#include "gpu/blocks.h"
#include "gpu/plan.h"

/* PLE of module m into the residual, to which what a block left to add is added before. */
static int ple_apply(struct gpu *g, struct batch *b, int m, const struct hyper_job *left,
                     struct err *e)
{
    const struct config *c = &g->base.weights->config;
    struct scratch *room = &g->scratch;
    gpu_phase(g, PHASE_EMBED);
    int rc = gpu_rows_take(g, b, e);
    rc = rc ? rc : gpu_see_ngram(g, b, m, e);
    rc = rc ? rc : gpu_ple_begin(g, b, m, e);
    if (!rc && left->add)
        rc = gpu_hyper_add(g, left, e);
    else
        tape_barrier(g->tape);
    rc = rc ? rc : gpu_ple_add(g, b, m, e);
    return rc ? rc : gpu_see_rows(g, b, SEEN_PLE, room->norm.x, c->S * c->h, e);
}

static int mixer_apply(struct gpu *g, struct batch *b, const struct layer_weights *w, struct err *e)
{
    const struct config *c = &g->base.weights->config;
    int rc;
    gpu_phase(g, PHASE_MIXER);
    if (b->il == c->n_layers || c->attention[b->il]) {
        rc = gpu_qsa_apply(g, b, &w->qsa, e);
        rc = rc ? rc : gpu_see_selected(g, b, e);
    } else {
        rc = gpu_deltanet_apply(g, b, &w->deltanet, e);
    }
    return rc ? rc : gpu_see_rows(g, b, SEEN_MIXER, g->scratch.out, c->h, e);
}

int gpu_layer_apply(struct gpu *g, struct batch *b, const struct layer_weights *w,
                    const struct layer_weights *next, struct err *e)
{
    const struct config *c = &g->base.weights->config;
    struct scratch *m = &g->scratch;
    struct hyper_job read = {.w = &w->attn_hyper,
                             .hyper = m->hyper,
                             .R = b->R,
                             .add = b->add ? m->out : 0,
                             .inj = m->inj,
                             .to = &m->mixed};
    int rc = 0;
    if (w->ple >= 0) {
        rc = ple_apply(g, b, w->ple, &read, e);
        read.add = 0;
    }
    gpu_phase(g, PHASE_READ);
    rc = rc ? rc : gpu_hyper_read(g, &read, e);
    rc = rc ? rc : mixer_apply(g, b, w, e);
    read.w = &w->mlp_hyper;
    read.add = m->out;
    gpu_phase(g, PHASE_READ);
    rc = rc ? rc : gpu_hyper_read(g, &read, e);
    rc = rc ? rc : gpu_visit_apply(g, b, &w->moe, next, e);
    rc = rc ? rc : gpu_see_rows(g, b, SEEN_MOE, m->out, c->h, e);
    b->add = true;
    return rc;
}

/* An observer wants the residual after each layer, so what is left to add is added at once. */
static int see_residual(struct gpu *g, struct batch *b, struct err *e)
{
    const struct config *c = &g->base.weights->config;
    const struct hyper_job write = {
        .hyper = g->scratch.hyper, .R = b->R, .add = g->scratch.out, .inj = g->scratch.inj};
    if (!g->options.observe)
        return 0;
    int rc = gpu_hyper_add(g, &write, e);
    b->add = false;
    return rc ? rc : gpu_see_rows(g, b, SEEN_RESIDUAL, g->scratch.hyper, c->S * c->h, e);
}

int gpu_trunk_apply(struct gpu *g, struct batch *b, struct err *e)
{
    const struct weights *w = g->base.weights;
    const struct config *c = &w->config;
    b->il = -1;
    b->add = false;
    int rc = gpu_embed(g, b, e);
    rc = rc ? rc : gpu_see_rows(g, b, SEEN_EMBED, g->scratch.hyper, c->S * c->h, e);
    for (b->il = 0; !rc && b->il < c->n_layers; b->il++) {
        const struct layer_weights *layer = &w->layers[b->il];
        rc = gpu_layer_apply(g, b, layer, b->il + 1 < c->n_layers ? layer + 1 : NULL, e);
        rc = rc ? rc : see_residual(g, b, e);
    }
    b->il = -1;
    return rc;
}
