/* The trunk: a token through all layers.
 *
 *   hyper = S copies of the token's embedding
 *   for each layer:
 *       hyper += ple(hyper, tokens)                    if the layer has PLE
 *       mixed, inj = read(attn_hyper, hyper);  hyper += inj * (attention or deltanet)(mixed)
 *       mixed, inj = read(mlp_hyper, hyper);   hyper += inj * moe(mixed) */
#include <string.h>

#include "model/matrix.h"
#include "reference/arith.h"
#include "reference/blocks.h"

static int add_ple(struct reference *g, const struct at *at, int m, float *hyper, struct err *e)
{
    int n = g->base.weights->config.S * g->base.weights->config.h;
    float *out = g->scratch.ple_out;
    int rc = ple_apply(g, at, m, hyper, out, e);
    if (rc)
        return rc;
    see(g, at, SEEN_PLE, out, n);
    for (int i = 0; i < n; i++)
        hyper[i] += out[i];
    return 0;
}

int layer_apply(struct reference *g, const struct at *at, const struct layer_weights *w,
                float *hyper, struct err *e)
{
    const struct config *c = &g->base.weights->config;
    struct scratch *m = &g->scratch;
    int rc = w->ple >= 0 ? add_ple(g, at, w->ple, hyper, e) : 0;
    if (rc)
        return rc;

    hyper_read(g, &w->attn_hyper, hyper, m->mixed, m->inj);
    if (at->il == c->n_layers || c->attention[at->il])
        qsa_apply(g, at, &w->qsa, m->mixed, m->out);
    else
        deltanet_apply(g, at, &w->deltanet, m->mixed, m->out);
    see(g, at, SEEN_MIXER, m->out, c->h);
    hyper_write(c, m->inj, m->out, hyper);

    hyper_read(g, &w->mlp_hyper, hyper, m->mixed, m->inj);
    rc = moe_apply(g, at, &w->moe, m->mixed, m->out, e);
    if (rc)
        return rc;
    see(g, at, SEEN_MOE, m->out, c->h);
    hyper_write(c, m->inj, m->out, hyper);
    if (!arith_finite(hyper, c->S * c->h))
        return ERR(
            e, E_NONFINITE,
            "position %d: the residual after layer %d is not finite; the weights of that layer "
            "are damaged or overflow (verify the store)",
            at->pos, at->il);
    return 0;
}

int trunk_apply(struct reference *g, struct at *at, float *hyper, struct err *e)
{
    const struct weights *w = g->base.weights;
    const struct config *c = &w->config;
    const float *embed = matrix_row(&w->embed, at->s->tokens[at->pos], g->scratch.row);

    for (int ig = 0; ig < c->S; ig++)
        memcpy(hyper + (size_t)ig * c->h, embed, (size_t)c->h * sizeof *hyper);
    see(g, at, SEEN_EMBED, hyper, c->S * c->h);
    for (int il = 0; il < c->n_layers; il++) {
        at->il = il;
        int rc = layer_apply(g, at, &w->layers[il], hyper, e);
        if (rc)
            return rc;
        see(g, at, SEEN_RESIDUAL, hyper, c->S * c->h);
    }
    at->il = -1;
    return 0;
}
