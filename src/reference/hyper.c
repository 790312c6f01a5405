/* The gated residual: S parallel streams of width h, read into one and written back.
 *
 *   n        = rms(hyper) per stream, gamma [S*h]
 *   d        = silu(W_down n / S)                                [lowrank]
 *   u        = W_up d                                            [S*h]
 *   mixed[i] = (1/S) * sum over g of sigmoid(u[g,i]) * n[g,i]    g ascending, in f32
 *   inj[g]   = 2 * sigmoid((W_inject n)[g] / S)
 *
 *   hyper[g] += inj[g] * out */
#include "reference/arith.h"
#include "reference/blocks.h"
#include "reference/linear.h"

void hyper_read(struct reference *g, const struct hyper_weights *w, const float *hyper,
                float *mixed, float *inj)
{
    const struct config *c = &g->base.weights->config;
    const struct norm norm = {w->norm.x, c->S, c->h, 0, c->eps};
    float *n = g->scratch.hyper_n, *d = g->scratch.hyper_d, *u = g->scratch.hyper_u;
    float *row = g->scratch.row, S = (float)c->S;

    arith_rms(&norm, hyper, n);
    linear_apply(&w->down, n, row, d);
    for (int i = 0; i < c->lowrank; i++)
        d[i] = arith_silu(d[i] / S);
    linear_apply(&w->up, d, row, u);
    for (int i = 0; i < c->h; i++) {
        float sum = 0;
        for (int ig = 0; ig < c->S; ig++)
            sum += arith_sigmoid(u[(size_t)ig * c->h + i]) * n[(size_t)ig * c->h + i];
        mixed[i] = sum / S;
    }
    if (!inj)
        return;
    linear_apply(&w->inject, n, row, inj);
    for (int ig = 0; ig < c->S; ig++)
        inj[ig] = 2 * arith_sigmoid(inj[ig] / S);
}

void hyper_write(const struct config *c, const float *inj, const float *out, float *hyper)
{
    for (int ig = 0; ig < c->S; ig++)
        for (int i = 0; i < c->h; i++)
            hyper[(size_t)ig * c->h + i] += inj[ig] * out[i];
}
