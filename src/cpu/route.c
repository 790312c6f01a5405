/* Which experts: the router's choice for each row, the union over the rows of a batch, and a guess
 * at what the next layer will want.
 *
 *   the K largest logits (ties: the lower index), largest first; weights exp(logit - largest), over
 *   the sum of the K if norm_topk_prob, else over that of all */
#include <string.h>

#include "cpu/blocks.h"

/* The K largest of x[0..E), largest first; what does not compare comes out somewhere. K <= E. */
static void top(const float *x, int E, int K, int *best)
{
    int n = 0;
    memset(best, 0, (size_t)K * sizeof *best);
    for (int ie = 0; ie < E; ie++) {
        if (n == K && !(x[ie] > x[best[K - 1]]))
            continue;
        int at = n < K ? n++ : K - 1;
        for (; at > 0 && x[ie] > x[best[at - 1]]; at--)
            best[at] = best[at - 1];
        best[at] = ie;
    }
}

static void choose_item(void *ctx, int r, int member)
{
    struct cpu *g = ctx;
    const struct config *c = &g->weights.config;
    float *x = g->scratch.router + (size_t)r * c->E, *w = g->scratch.route_w + (size_t)r * c->K;
    int *route = g->scratch.route + (size_t)r * c->K;
    (void)member;
    top(x, c->E, c->K, route);
    float most = x[route[0]], sum = 0;
    if (c->norm_topk) {
        for (int k = 0; k < c->K; k++)
            w[k] = x[route[k]];
        sum = g->kern.exp_sum(w, most, c->K);
    } else {
        sum = g->kern.exp_sum(x, most, c->E);
        for (int k = 0; k < c->K; k++)
            w[k] = x[route[k]];
    }
    for (int k = 0; k < c->K; k++)
        w[k] /= sum;
}

void route_choose(struct cpu *g, const struct batch *b)
{
    const struct config *c = &g->weights.config;
    each_row(g, b->R, choose_item, g);
    for (int r = 0; r < b->R; r++)
        cpu_see_ids(g, b, r, SEEN_ROUTE, g->scratch.route + (size_t)r * c->K, c->K);
    cpu_see_rows(g, b, SEEN_ROUTE_WEIGHT, g->scratch.route_w, c->K);
}

int route_union(struct cpu *g, const struct batch *b)
{
    const struct config *c = &g->weights.config;
    struct scratch *m = &g->scratch;
    int slots = b->R * c->K, n = 0, first = 0;

    memset(m->count, 0, (size_t)c->E * sizeof *m->count);
    for (int i = 0; i < slots; i++)
        m->count[m->route[i]]++;
    for (int ie = 0; ie < c->E; ie++) {
        if (!m->count[ie])
            continue;
        m->uses[n] = (struct use){ie, first, 0};
        m->asked[n] = (struct stream_use){ie, m->count[ie], 0};
        first += m->count[ie];
        m->count[ie] = n++; /* from here on: which use it is */
    }
    for (int i = 0; i < slots; i++) {
        int at = m->count[m->route[i]];
        struct use *u = &m->uses[at];
        m->slot[i] = u->first + u->n++;
        m->slot_row[m->slot[i]] = i / c->K;
        if (m->route_w[i] > m->asked[at].weight)
            m->asked[at].weight = m->route_w[i];
    }
    return n;
}

/* By the residual as it is before this layer's experts are added: reading a little too early moves
 * bytes, never results. */
void route_ahead(struct cpu *g, const struct batch *b, const struct layer_weights *next)
{
    const struct config *c = &g->weights.config;
    struct scratch *m = &g->scratch;
    const struct hyper_job read = {
        .w = &next->mlp_hyper, .hyper = m->hyper, .R = b->R, .mixer = true, .to = &m->ahead};
    const struct product router = {&next->moe.router, &m->ahead,   NULL, b->R,
                                   m->router,         (size_t)c->E};
    int n = 0, best[CONFIG_TOP_K_MAX * ENGINE_ROWS_MAX];

    cpu_hyper_read(g, &read);
    cpu_linear_apply(g, &router, 1);
    for (int r = 0; r < b->R; r++)
        top(m->router + (size_t)r * c->E, c->E, c->K, best + (size_t)r * c->K);
    memset(m->count, 0, (size_t)c->E * sizeof *m->count);
    for (int k = 0; k < c->K; k++)
        for (int r = 0; r < b->R; r++) {
            int ie = best[r * c->K + k];
            if (!m->count[ie]++)
                m->guess[n++] = ie;
        }
    stream_predict(g->stream, next->moe.record_layer, m->guess, n);
}
