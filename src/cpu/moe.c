/* Mixture of experts.
 *
 *   y_e   = W_down(silu(W_gate x) * (W_up x))
 *   out   = sum of w_e * y_e, largest weight first, + sigmoid(w_sg . x) * y_shared
 *
 * The rows of a batch name a union of experts; each (row, expert) has a slot, and the slots of an
 * expert follow one another. Experts are computed in the order in which they are there (resident
 * ones first, with the shared expert), each for all its rows at once, and their outputs stay apart,
 * by slot, until all are there: what is added, and in which order, does not depend on the disk. */
#include <string.h>

#include "cpu/blocks.h"

enum { COMBINE_COLS = 1024 };

/* An expert and the rows that go through it. */
struct work {
    struct expert w;
    const int *rows; /* of x; NULL: all */
    int n;
    struct acts act; /* [n][inter] */
    float *up, *y;   /* [n][inter], [n][h] */
};

/* The experts of a stage. */
struct stage {
    struct cpu *g;
    struct work work[MOE_ENTRIES + 1];
    int n, act_rows, shared_rows;
};

static void act_item(void *ctx, int item, int member)
{
    struct stage *s = ctx;
    struct scratch *m = &s->g->scratch;
    bool shared = item >= s->act_rows;
    struct acts *a = shared ? &m->shared_act : &m->act;
    int r = shared ? item - s->act_rows : item;
    size_t at = (size_t)r * (size_t)a->n;
    (void)member;
    s->g->kern.silu_mul(a->x + at, (shared ? m->shared_up : m->up) + at, a->n);
    acts_quantise(&s->g->kern, a, r, r + 1);
}

static void stage_run(struct stage *s)
{
    const struct config *c = &s->g->weights.config;
    const struct acts *x = &s->g->scratch.mixed;
    struct product p[2 * (MOE_ENTRIES + 1)];
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        const struct work *w = &s->work[i];
        size_t inter = (size_t)w->act.n;
        p[n++] = (struct product){&w->w.gate, x, w->rows, w->n, w->act.x, inter};
        p[n++] = (struct product){&w->w.up, x, w->rows, w->n, w->up, inter};
    }
    cpu_linear_apply(s->g, p, n);
    each_row(s->g, s->act_rows + s->shared_rows, act_item, s);
    for (n = 0; n < s->n; n++) {
        const struct work *w = &s->work[n];
        p[n] = (struct product){&w->w.down, &w->act, NULL, w->n, w->y, (size_t)c->h};
    }
    cpu_linear_apply(s->g, p, n);
    s->n = s->act_rows = s->shared_rows = 0;
}

static void add_shared(struct stage *s, const struct batch *b, const struct moe_weights *w)
{
    struct scratch *m = &s->g->scratch;
    s->work[s->n++] = (struct work){
        {w->gate, w->up, w->down}, NULL, b->R, m->shared_act, m->shared_up, m->y_shared};
    s->shared_rows = b->R;
}

static void add_entry(struct stage *s, const struct stream_entry *e)
{
    const struct config *c = &s->g->weights.config;
    struct scratch *m = &s->g->scratch;
    const struct use *u = &m->uses[e->i];
    struct work *w = &s->work[s->n++];
    *w = (struct work){.rows = m->slot_row + u->first,
                       .n = u->n,
                       .act = acts_from(&m->act, s->act_rows),
                       .up = m->up + (size_t)s->act_rows * c->inter,
                       .y = m->y_expert + (size_t)u->first * c->h};
    stream_expert(s->g->stream, e->record, e->bits, &w->w);
    s->act_rows += u->n;
}

/* These entries, in as many stages as their rows need. */
static void run_entries(struct stage *s, const struct stream_entry *e, int n)
{
    const struct scratch *m = &s->g->scratch;
    for (int i = 0; i < n; i++) {
        if (s->act_rows + m->uses[e[i].i].n > s->g->rows)
            stage_run(s);
        add_entry(s, &e[i]);
    }
    stage_run(s);
    for (int i = 0; i < n; i++)
        stream_done(s->g->stream, e[i].i);
}

/* Everything of a visit that has begun, and the shared expert. */
static int run_visit(struct cpu *g, const struct batch *b, const struct moe_weights *w,
                     struct err *e)
{
    struct stream_entry entry[MOE_ENTRIES];
    struct stage s = {.g = g};
    bool wait = false;
    add_shared(&s, b, w);
    for (int n = 1; n || !wait;) {
        wait = s.n == 0;
        int rc = stream_ready(g->stream, wait, entry, MOE_ENTRIES, &n, e);
        if (rc)
            return rc;
        run_entries(&s, entry, n);
    }
    return 0;
}

/* Slots whose expert was dropped have no output. */
static void mark_cut(struct cpu *g, int n_uses)
{
    struct scratch *m = &g->scratch;
    for (int i = 0; i < n_uses; i++)
        if (stream_was_cut(g->stream, i))
            for (int j = 0; j < m->uses[i].n; j++)
                m->slot_row[m->uses[i].first + j] = -1;
}

/* Columns of out: item (row, block of columns). */
static void combine_item(void *ctx, int item, int member)
{
    struct cpu *g = ctx;
    const struct config *c = &g->weights.config;
    struct scratch *m = &g->scratch;
    int blocks = (c->h + COMBINE_COLS - 1) / COMBINE_COLS, r = item / blocks;
    int from = item % blocks * COMBINE_COLS;
    int n = c->h - from < COMBINE_COLS ? c->h - from : COMBINE_COLS;
    float *out = m->out + (size_t)r * c->h + from, open = m->open[r];
    (void)member;
    memset(out, 0, (size_t)n * sizeof *out);
    for (int k = 0; k < c->K; k++) {
        int slot = m->slot[r * c->K + k];
        if (m->slot_row[slot] >= 0)
            g->kern.add_scaled(out, m->y_expert + (size_t)slot * c->h + from,
                               m->route_w[r * c->K + k], n);
    }
    g->kern.sigmoid(&open, 1);
    g->kern.add_scaled(out, m->y_shared + (size_t)r * c->h + from, open, n);
}

int cpu_moe_apply(struct cpu *g, const struct batch *b, const struct moe_weights *w,
                  const struct layer_weights *next, struct err *e)
{
    const struct config *c = &g->weights.config;
    struct scratch *m = &g->scratch;
    const struct product in[] = {
        {&w->router, &m->mixed, NULL, b->R, m->router, (size_t)c->E},
        {&w->shared_gate, &m->mixed, NULL, b->R, m->open, 1},
    };
    cpu_linear_apply(g, in, 2);
    route_choose(g, b);
    int n = route_union(g, b);
    int rc = stream_begin(g->stream, w->record_layer, m->asked, n,
                          b->prefill ? CAUSE_PREFILL : CAUSE_DEMAND, e);
    if (rc)
        return rc;
    if (next && g->lookahead && !b->prefill)
        route_ahead(g, b, next);
    rc = run_visit(g, b, w, e);
    if (rc)
        return rc;
    if (g->options.cut_weak > 0)
        mark_cut(g, n);
    stream_end(g->stream);
    each_row(g, b->R * ((c->h + COMBINE_COLS - 1) / COMBINE_COLS), combine_item, g);
    return 0;
}
