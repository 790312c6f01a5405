/* Gated DeltaNet: linear attention with a state per value head that decays and is corrected.
 *
 *   qkv = silu(causal depthwise conv of W_qkv x)         order q [nk*dk], k [nk*dk], v [nv*dv]
 *   q   = l2(q) / sqrt(dk), k = l2(k)                    per key head
 *   z   = W_z x,  beta = sigmoid(W_b x),  decay = exp(-exp(A_log) * softplus(W_a x + dt_bias))
 *   for each value head, with key head v / (nv/nk) and its st [dk][dv]:
 *       st    = decay * st
 *       delta = beta * (v - st^T k)
 *       st    = st + k delta^T
 *       y     = rms(st^T q) * act(z)
 *   out = W_out y
 *
 * The products with st sum over ascending key dims in f64; st itself is f32, each of its two
 * changes rounded. A commit repeats exactly these two changes. */
#include <math.h>
#include <string.h>

#include "reference/arith.h"
#include "reference/blocks.h"
#include "reference/linear.h"

/* out[j] = sum over i of st[i][j] * x[i] */
static void state_recall(const struct config *c, const float *st, const float *x, double *sum,
                         float *out)
{
    for (int j = 0; j < c->dv; j++)
        sum[j] = 0;
    for (int i = 0; i < c->dk; i++)
        for (int j = 0; j < c->dv; j++)
            sum[j] += (double)st[(size_t)i * c->dv + j] * (double)x[i];
    for (int j = 0; j < c->dv; j++)
        out[j] = (float)sum[j];
}

static void state_decay(const struct config *c, float *st, float decay)
{
    for (size_t i = 0; i < (size_t)c->dk * c->dv; i++)
        st[i] = decay * st[i];
}

/* st += k delta^T */
static void state_add(const struct config *c, float *st, const float *k, const float *delta)
{
    for (int i = 0; i < c->dk; i++)
        for (int j = 0; j < c->dv; j++)
            st[(size_t)i * c->dv + j] += k[i] * delta[j];
}

/* qkv = silu(conv): tap t of the kernel meets the row kernel - 1 - t places back, oldest first. */
static void convolve(const struct config *c, const float *kernel, const float *newest, int width,
                     float *qkv)
{
    for (int ch = 0; ch < width; ch++) {
        float sum = 0;
        for (int t = 0; t < c->conv_kernel; t++) {
            const float *in = newest - (size_t)(c->conv_kernel - 1 - t) * width;
            sum += kernel[(size_t)ch * c->conv_kernel + t] * in[ch];
        }
        qkv[ch] = arith_silu(sum);
    }
}

static float gate(const struct config *c, float z)
{
    return c->gate_act == GATE_SILU ? arith_silu(z) : arith_sigmoid(z);
}

void deltanet_apply(struct reference *g, const struct at *at, const struct deltanet_weights *w,
                    const float *x, float *out)
{
    const struct config *c = &g->base.weights->config;
    struct deltanet_state *d = &at->s->layers[at->il].deltanet;
    struct scratch *m = &g->scratch;
    const struct norm norm = {w->norm.x, 1, c->dv, 0, c->eps};
    int keys = c->nk * c->dk, width = 2 * keys + c->nv * c->dv;
    float *q = m->qkv, *k = q + keys, *v = k + keys, *input = history_row(&d->conv, at->r);
    float *log_k = d->k + (size_t)at->r * keys, *log_decay = d->decay + (size_t)at->r * c->nv;
    float *log_delta = d->delta + (size_t)at->r * c->nv * c->dv;

    linear_apply(&w->qkv, x, m->row, input);
    linear_apply(&w->z, x, m->row, m->z);
    linear_apply(&w->a, x, m->row, m->a);
    linear_apply(&w->b, x, m->row, m->b);
    convolve(c, w->conv.x, input, width, m->qkv);
    for (int ik = 0; ik < c->nk; ik++) {
        arith_l2(q + (size_t)ik * c->dk, c->dk, (float)(1.0 / sqrt(c->dk)));
        arith_l2(k + (size_t)ik * c->dk, c->dk, 1);
    }
    memcpy(log_k, k, (size_t)keys * sizeof *k);
    for (int iv = 0; iv < c->nv; iv++) {
        size_t key = (size_t)(iv / (c->nv / c->nk)) * c->dk, head = (size_t)iv * c->dv;
        float *st = g->work[at->il] + head * c->dk, *delta = log_delta + head, *y = m->y + head;
        float beta = arith_sigmoid(m->b[iv]);
        double rate = exp((double)w->A_log.x[iv]);
        double soft = (double)arith_softplus(m->a[iv] + w->dt_bias.x[iv]);
        log_decay[iv] = (float)exp(-rate * soft);
        state_decay(c, st, log_decay[iv]);
        state_recall(c, st, k + key, m->sum, delta);
        for (int j = 0; j < c->dv; j++)
            delta[j] = beta * (v[head + j] - delta[j]);
        state_add(c, st, k + key, delta);
        state_recall(c, st, q + key, m->sum, y);
        arith_rms(&norm, y, y);
        for (int j = 0; j < c->dv; j++)
            y[j] *= gate(c, m->z[head + j]);
    }
    linear_apply(&w->out, m->y, m->row, out);
}

void deltanet_commit(const struct config *c, struct deltanet_state *d, int n)
{
    for (int r = 0; r < n; r++)
        for (int iv = 0; iv < c->nv; iv++) {
            size_t head = (size_t)iv * c->dv;
            size_t key = (size_t)(iv / (c->nv / c->nk)) * c->dk;
            float *st = d->st + head * c->dk;
            state_decay(c, st, d->decay[(size_t)r * c->nv + iv]);
            state_add(c, st, d->k + (size_t)r * c->nk * c->dk + key,
                      d->delta + (size_t)r * c->nv * c->dv + head);
        }
    history_commit(&d->conv, n);
}
