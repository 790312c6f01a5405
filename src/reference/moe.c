/* Mixture of experts.
 *
 *   p     = softmax(W_r x) over all experts
 *   K largest of p (ties: the lower index) with weights p, divided by their sum if norm_topk_prob
 *   y_e   = W_down(silu(W_gate x) * (W_up x))
 *   out   = sum of w_e * y_e, largest weight first, + sigmoid(w_sg . x) * y_shared, added in f32
 *
 * An expert below 4 bits is made from its Q4 matrices as the packer makes it and then used as if it
 * had been read. */
#include "quant/lowbit.h"
#include "reference/arith.h"
#include "reference/blocks.h"
#include "reference/linear.h"

static int matrix_bits(const struct matrix *m)
{
    static const int bits[] = {
        [MATRIX_F32] = 32, [MATRIX_BF16] = 16, [MATRIX_Q4] = 4, [MATRIX_Q3] = 3, [MATRIX_Q2] = 2};
    return bits[m->format];
}

int moe_check(const struct expert *x, int bits, struct err *e)
{
    const struct matrix *all[] = {&x->gate, &x->up, &x->down};
    for (int i = 0; i < 3; i++) {
        int have = matrix_bits(all[i]);
        bool fits = have == bits || (bits == 4 && have > 4) || (bits < 4 && have == 4);
        if (!fits)
            return ERR(
                e, E_UNSUPPORTED,
                "routed experts of %d bits cannot be used at %d bits (only 4-bit ones can be "
                "reduced); choose other expert bits or another store",
                have, bits);
    }
    return 0;
}

/* out = m at `bits` bits times x. */
static void reduced_apply(struct reference *g, const struct matrix *m, int bits, const float *x,
                          float *out)
{
    struct matrix low = *m;
    if (bits < 4 && m->format == MATRIX_Q4) {
        low.format = bits == 3 ? MATRIX_Q3 : MATRIX_Q2;
        low.w = g->scratch.codes;
        lowbit_from_q4(bits, m->w, (size_t)m->rows * m->cols, g->scratch.codes);
    }
    linear_apply(&low, x, g->scratch.row, out);
}

/* y = W_down(silu(W_gate x) * (W_up x)) */
static void expert_apply(struct reference *g, const struct expert *w, int bits, const float *x,
                         float *y)
{
    float *act = g->scratch.act, *up = g->scratch.up;
    reduced_apply(g, &w->gate, bits, x, act);
    reduced_apply(g, &w->up, bits, x, up);
    for (int i = 0; i < w->gate.rows; i++)
        act[i] = arith_silu(act[i]) * up[i];
    reduced_apply(g, &w->down, bits, act, y);
}

/* route, route_w: the chosen experts and their weights, largest first. */
static void choose(struct reference *g, const struct at *at, const struct matrix *router,
                   const float *x)
{
    const struct config *c = &g->base.weights->config;
    struct scratch *m = &g->scratch;
    double sum = 0;

    linear_apply(router, x, m->row, m->prob);
    arith_softmax(m->prob, c->E);
    arith_top(m->prob, c->E, c->K, m->taken, m->route);
    for (int i = 0; i < c->K; i++)
        sum += (double)m->prob[m->route[i]];
    for (int i = 0; i < c->K; i++) {
        double p = (double)m->prob[m->route[i]];
        m->route_w[i] = (float)(c->norm_topk ? p / sum : p);
        m->ids[i] = m->route[i];
    }
    see_ids(g, at, SEEN_ROUTE, m->ids, c->K);
    see(g, at, SEEN_ROUTE_WEIGHT, m->route_w, c->K);
}

int moe_apply(struct reference *g, const struct at *at, const struct moe_weights *w, const float *x,
              float *out, struct err *e)
{
    const struct config *c = &g->base.weights->config;
    const struct weight_source *src = &g->base.weights->source;
    const struct expert shared = {w->gate, w->up, w->down};
    struct scratch *m = &g->scratch;
    float *y = m->expert_out, open;

    choose(g, at, &w->router, x);
    for (int i = 0; i < c->h; i++)
        out[i] = 0;
    for (int k = 0; k < c->K; k++) {
        struct expert one;
        int rc = src->expert(src->ctx, w->record_layer, m->route[k], &one, e);
        rc = rc ? rc : moe_check(&one, g->options.expert_bits, e);
        if (rc)
            return rc;
        expert_apply(g, &one, g->options.expert_bits, x, y);
        for (int i = 0; i < c->h; i++)
            out[i] += m->route_w[k] * y[i];
    }
    linear_apply(&w->shared_gate, x, m->row, &open);
    expert_apply(g, &shared, 4, x, y);
    open = arith_sigmoid(open);
    for (int i = 0; i < c->h; i++)
        out[i] += open * y[i];
    return 0;
}
