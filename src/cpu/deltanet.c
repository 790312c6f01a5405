/* Gated DeltaNet: linear attention with a state per value head that decays and is corrected.
 *
 *   qkv = silu(causal depthwise conv of W_qkv x)         order q [nk*dk], k [nk*dk], v [nv*dv]
 *   q   = l2(q) / sqrt(dk), k = l2(k)                    per key head
 *   z   = W_z x,  beta = sigmoid(W_b x),  decay = exp(-exp(A_log) * softplus(W_a x + dt_bias))
 *   for each value head, with key head v / (nv/nk) and its st [dk][dv]: kern.delta_step
 *   y   = rms(y) * act(z);  out = W_out y
 *
 * An item is a key head of a sequence with its value heads: it goes through the rows in the order
 * of tokens while their states are in the cache. The first row reads the committed plane and writes
 * the other, later ones work there: a state is written once for each row and never copied. */
#include <math.h>
#include <string.h>

#include "cpu/blocks.h"

struct delta_job {
    struct cpu *g;
    const struct batch *b;
    const struct deltanet_weights *w;
    float *conv; /* inputs of the batch's rows */
};

/* to[0..n) = silu(conv) of channels ch .. of the row r of a segment. */
static void convolve(const struct delta_job *x, const struct segment *s, int r, int ch, int n,
                     float *to)
{
    const struct config *c = &x->g->weights.config;
    size_t width = (size_t)deltanet_width(c);
    const float *before = s->s->layers[x->b->il].deltanet.conv[s->s->plane];
    const float *rows = x->conv + (size_t)s->first * width;
    const float *taps = x->g->extra[x->b->il].taps;
    int keep = c->conv_kernel - 1;

    memset(to, 0, (size_t)n * sizeof *to);
    for (int t = 0; t <= keep; t++) {
        int from = r - keep + t;
        const float *in =
            from < 0 ? before + (size_t)(keep + from) * width : rows + (size_t)from * width;
        x->g->kern.add_product(to, taps + (size_t)t * width + ch, in + ch, n);
    }
    x->g->kern.silu(to, n);
}

/* x = x / sqrt(sum(x^2) + 1e-6) * scale, in place. */
static void l2(const struct kern *k, float *x, int n, float scale)
{
    float inverse = (float)(1.0 / sqrt((double)k->sum_squares(x, n) + 1e-6));
    for (int i = 0; i < n; i++)
        x[i] = x[i] * inverse * scale;
}

static float decay_of(const struct delta_job *x, int iv, float a)
{
    double v = (double)(a + x->w->dt_bias.x[iv]), soft = v > 40 ? v : log1p(exp(v));
    return (float)exp(-x->g->extra[x->b->il].rate[iv] * soft);
}

/* y = rms(y) * act(z), of one value head. */
static void gate_head(const struct delta_job *x, float *y, float *z)
{
    const struct config *c = &x->g->weights.config;
    const struct kern *k = &x->g->kern;
    float scale = (float)(1.0 / sqrt((double)k->sum_squares(y, c->dv) / c->dv + c->eps));
    k->scale_mul(y, scale, x->w->norm.x, c->dv, y);
    if (c->gate_act == GATE_SILU)
        k->silu(z, c->dv);
    else
        k->sigmoid(z, c->dv);
    for (int j = 0; j < c->dv; j++)
        y[j] *= z[j];
}

/* Where a row's log entries go: the pending rows' in a step, a member's room in a prefill. */
struct delta_log {
    float *k, *delta, *decay;
};

static struct delta_log log_of(const struct delta_job *x, int row, float *room)
{
    const struct config *c = &x->g->weights.config;
    const struct layer_pending *p = &x->g->pending.layers[x->b->il];
    size_t at = (size_t)x->b->pending + (size_t)row;
    if (x->b->prefill)
        return (struct delta_log){NULL, room, room + c->dv};
    return (struct delta_log){p->k + at * c->nk * c->dk, p->delta + at * c->nv * c->dv,
                              p->decay + at * c->nv};
}

/* One value head of one row; d holds k and q. */
static void delta_head(const struct delta_job *x, const struct segment *s, int r, int iv,
                       struct kern_delta *d)
{
    const struct config *c = &x->g->weights.config;
    struct scratch *m = &x->g->scratch;
    struct deltanet_state *state = &s->s->layers[x->b->il].deltanet;
    size_t row = (size_t)s->first + (size_t)r, head = row * c->nv + (size_t)iv;
    size_t st = (size_t)iv * c->dk * c->dv;
    float beta = m->b[head], *to = state->st[!s->s->plane] + st;

    x->g->kern.sigmoid(&beta, 1);
    d->beta = beta;
    d->decay = decay_of(x, iv, m->a[head]);
    d->y = m->y.x + head * c->dv;
    x->g->kern.delta_step(r ? to : state->st[s->s->plane] + st, to, d);
    gate_head(x, d->y, m->z + head * c->dv);
}

/* Key head ik of a segment: all its rows. */
static void head_item(void *ctx, int item, int member)
{
    const struct delta_job *x = ctx;
    const struct config *c = &x->g->weights.config;
    const struct segment *s = &x->b->segments[item / c->nk];
    int ik = item % c->nk, group = c->nv / c->nk, keys = c->nk * c->dk;
    float *q = member_room(x->g, member), *k = q + c->dk, *v = k + c->dk;
    float root = (float)(1.0 / sqrt(c->dk));

    for (int r = 0; r < s->n; r++) {
        struct delta_log log = log_of(x, s->first + r, v + (size_t)group * c->dv);
        convolve(x, s, r, ik * c->dk, c->dk, q);
        convolve(x, s, r, keys + ik * c->dk, c->dk, k);
        convolve(x, s, r, 2 * keys + ik * group * c->dv, group * c->dv, v);
        l2(&x->g->kern, q, c->dk, root);
        l2(&x->g->kern, k, c->dk, 1);
        if (log.k)
            memcpy(log.k + (size_t)ik * c->dk, k, (size_t)c->dk * sizeof *k);
        for (int i = 0; i < group; i++) {
            int iv = ik * group + i;
            float *delta = log.k ? log.delta + (size_t)iv * c->dv : log.delta;
            struct kern_delta d = {.dk = c->dk,
                                   .dv = c->dv,
                                   .k = k,
                                   .q = q,
                                   .v = v + (size_t)i * c->dv,
                                   .delta = delta};
            delta_head(x, s, r, iv, &d);
            log.decay[log.k ? iv : 0] = d.decay;
        }
    }
}

/* The rows before the convolution of what follows, after n of the rows at `rows`. */
static void keep_inputs(const struct config *c, struct sequence *s, int il, const float *rows,
                        int n)
{
    struct deltanet_state *d = &s->layers[il].deltanet;
    size_t width = (size_t)deltanet_width(c);
    int keep = c->conv_kernel - 1;
    for (int i = 0; i < keep; i++) {
        int from = n - keep + i;
        const float *in = from < 0 ? d->conv[s->plane] + (size_t)(keep + from) * width
                                   : rows + (size_t)from * width;
        memcpy(d->conv[!s->plane] + (size_t)i * width, in, width * sizeof *in);
    }
}

static void quantise_item(void *ctx, int r, int member)
{
    struct cpu *g = ctx;
    (void)member;
    acts_quantise(&g->kern, &g->scratch.y, r, r + 1);
}

void cpu_deltanet_apply(struct cpu *g, const struct batch *b, const struct deltanet_weights *w)
{
    const struct config *c = &g->weights.config;
    struct scratch *m = &g->scratch;
    size_t width = (size_t)deltanet_width(c), heads = (size_t)c->nv, values = heads * c->dv;
    float *conv = b->prefill ? m->conv : g->pending.layers[b->il].conv + b->pending * width;
    struct delta_job x = {g, b, w, conv};
    const struct product in[] = {
        {&w->qkv, &m->mixed, NULL, b->R, conv, width},
        {&w->z, &m->mixed, NULL, b->R, m->z, values},
        {&w->a, &m->mixed, NULL, b->R, m->a, heads},
        {&w->b, &m->mixed, NULL, b->R, m->b, heads},
    };
    const struct product out = {&w->out, &m->y, NULL, b->R, m->out, (size_t)c->h};

    cpu_linear_apply(g, in, 4);
    team_run(g->team, b->n_segments * c->nk, head_item, &x);
    each_row(g, b->R, quantise_item, g);
    cpu_linear_apply(g, &out, 1);
    if (b->prefill)
        keep_inputs(c, b->segments[0].s, b->il, conv, b->R);
}

struct commit_job {
    struct cpu *g;
    struct sequence *s;
    int n;
};

/* Value head item % nv of layer item / nv: the updates of the first n rows, made again. */
static void replay_item(void *ctx, int item, int member)
{
    const struct commit_job *x = ctx;
    const struct config *c = &x->g->weights.config;
    int il = item / c->nv, iv = item % c->nv;
    struct deltanet_state *state = &x->s->layers[il].deltanet;
    const struct layer_pending *p = &x->g->pending.layers[il];
    size_t at = (size_t)iv * c->dk * c->dv, key = (size_t)(iv / (c->nv / c->nk)) * c->dk;
    (void)member;
    if (c->attention[il])
        return;
    float *to = state->st[!x->s->plane] + at;
    const float *from = state->st[x->s->plane] + at;
    for (int r = 0; r < x->n; r++, from = to) {
        size_t row = (size_t)x->s->first + (size_t)r;
        const struct kern_delta d = {.dk = c->dk,
                                     .dv = c->dv,
                                     .k = p->k + row * c->nk * c->dk + key,
                                     .decay = p->decay[row * c->nv + iv],
                                     .delta = p->delta + (row * c->nv + (size_t)iv) * c->dv};
        x->g->kern.delta_replay(from, to, &d);
    }
}

void cpu_deltanet_keep(struct cpu *g, struct sequence *s, int il, int n)
{
    const struct config *c = &g->weights.config;
    if (!c->attention[il])
        keep_inputs(c, s, il,
                    g->pending.layers[il].conv + (size_t)s->first * (size_t)deltanet_width(c), n);
}

void cpu_deltanet_replay(struct cpu *g, struct sequence *s, int n)
{
    const struct config *c = &g->weights.config;
    struct commit_job x = {g, s, n};
    team_run(g->team, c->n_layers * c->nv, replay_item, &x);
}
