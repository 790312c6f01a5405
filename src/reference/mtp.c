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
 * The cache cell of row p depends on the residual at p and the token at p + 1 only, because there
 * is one layer: filling the cache takes the fold, the read and three projections. */
#include "model/matrix.h"
#include "reference/arith.h"
#include "reference/blocks.h"
#include "reference/linear.h"

/* hyper = what the layer starts from. */
static void fold(struct reference *g, const float *wide, int32_t token, float *hyper)
{
    const struct weights *w = g->base.weights;
    const struct config *c = &w->config;
    bool all = g->options.mtp_norm == MTP_NORM_ALL;
    const struct norm norm_e = {w->mtp.norm_embedding.x, 1, c->h, 0, c->eps};
    const struct norm norm_h = {w->mtp.norm_hidden.x, all ? 1 : c->S, all ? c->S * c->h : c->h, 0,
                                c->eps};
    float *n = g->scratch.fold_n, *embed = g->scratch.fold_embed, *e = g->scratch.fold_e;
    float *row = g->scratch.row;

    arith_rms(&norm_h, wide, n);
    arith_rms(&norm_e, matrix_row(&w->embed, token, row), embed);
    linear_apply(&w->mtp.fc_embedding, embed, row, e);
    for (int ig = 0; ig < c->S; ig++) {
        float *to = hyper + (size_t)ig * c->h;
        linear_apply(&w->mtp.fc_hidden, n + (size_t)ig * c->h, row, to);
        for (int i = 0; i < c->h; i++)
            to[i] += e[i];
    }
}

void mtp_fill(struct reference *g, const struct at *at, const float *wide, int32_t token)
{
    const struct layer_weights *w = &g->base.weights->mtp.layer;
    struct scratch *m = &g->scratch;

    fold(g, wide, token, m->hyper);
    hyper_read(g, &w->attn_hyper, m->hyper, m->mixed, NULL);
    qsa_fill(g, at, &w->qsa, m->mixed);
}

int mtp_apply(struct reference *g, const struct at *at, const float *wide, int32_t token,
              float *logits, struct err *e)
{
    const struct weights *w = g->base.weights;
    const struct config *c = &w->config;
    float *hyper = g->scratch.hyper;

    fold(g, wide, token, hyper);
    int rc = layer_apply(g, at, &w->mtp.layer, hyper, e);
    if (rc)
        return rc;
    see(g, at, SEEN_MTP_RESIDUAL, hyper, c->S * c->h);
    head_mix(g, &w->mtp.mixer, hyper, g->scratch.hidden);
    rc = head_logits(g, at, g->scratch.hidden, logits, e);
    if (!rc)
        see(g, at, SEEN_MTP_LOGITS, logits, c->vocab);
    return rc;
}
