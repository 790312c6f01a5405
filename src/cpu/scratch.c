/* Where everything is that a step works in: one allocation, placed by a list. */
#include "cpu/state.h"

static int max_int(int a, int b)
{
    return a > b ? a : b;
}

/* Floats that an item needs for itself, whatever it is of. */
static size_t room_floats(const struct config *c, int max_visible)
{
    size_t mix = (size_t)MIX_ROWS * c->S * (size_t)(c->h % KERN_CHUNK ? c->h : MIX_COLS);
    size_t head = 2 * (size_t)c->dk + ((size_t)c->nv / (size_t)c->nk + 1) * (size_t)c->dv + 1;
    size_t H = (size_t)(c->n_heads / c->n_kv), part = H * (size_t)(c->head_dim + ATTEND_PART);
    const size_t rooms[] = {mix,
                            head,
                            part,
                            (size_t)max_visible / ATTEND_PART + 1,
                            (size_t)c->rot,
                            (size_t)c->S * c->h};
    size_t most = 0;
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++)
        most = rooms[i] > most ? rooms[i] : most;
    return (most + 15) / 16 * 16; /* of two members never on one cache line */
}

static void moe_place(const struct config *c, struct scratch *m, size_t rows, struct layout *l)
{
    size_t E = (size_t)c->E, slots = rows * (size_t)c->K;
    m->router = layout_floats(l, rows, E);
    m->route = layout_take(l, slots, sizeof *m->route);
    m->route_w = layout_floats(l, slots, 1);
    m->slot = layout_take(l, slots, sizeof *m->slot);
    m->slot_row = layout_take(l, slots, sizeof *m->slot_row);
    m->count = layout_take(l, E, sizeof *m->count);
    m->guess = layout_take(l, E, sizeof *m->guess);
    m->uses = layout_take(l, E, sizeof *m->uses);
    m->asked = layout_take(l, E, sizeof *m->asked);
    m->up = layout_floats(l, rows, (size_t)c->inter);
    m->shared_up = layout_floats(l, rows, (size_t)c->shared_inter);
    m->open = layout_floats(l, rows, 1);
    acts_place(&m->act, rows, c->inter, l);
    acts_place(&m->shared_act, rows, c->shared_inter, l);
    m->y_expert = layout_floats(l, slots, (size_t)c->h);
    m->y_shared = layout_floats(l, rows, (size_t)c->h);
    acts_place(&m->ahead, ENGINE_ROWS_MAX, c->h, l);
}

static void qsa_place(const struct cpu *g, struct scratch *m, size_t rows, struct layout *l)
{
    const struct config *c = &g->weights.config;
    size_t heads = (size_t)c->n_heads * c->head_dim, width = (size_t)c->n_kv * c->head_dim;
    size_t parts = (size_t)(g->max_visible + ATTEND_PART - 1) / ATTEND_PART;
    size_t part_heads = ATTEND_ROWS * (size_t)c->n_heads * parts;
    m->q = layout_floats(l, rows, 2 * heads);
    m->k = layout_floats(l, rows, width);
    m->v = layout_floats(l, rows, width);
    m->index = layout_floats(l, rows, (size_t)(c->index_heads + 1) * c->index_dim);
    acts_place(&m->att, rows, (int)heads, l);
    m->visible = layout_take(l, ATTEND_ROWS * (size_t)g->max_visible, sizeof *m->visible);
    m->n_visible = layout_take(l, ATTEND_ROWS, sizeof *m->n_visible);
    m->part_sum = layout_floats(l, part_heads, 1);
    m->part_max = layout_floats(l, part_heads, 1);
    m->part_out = layout_floats(l, part_heads, (size_t)c->head_dim);
}

static void ple_place(const struct cpu *g, struct scratch *m, size_t rows, struct layout *l)
{
    const struct config *c = &g->weights.config;
    size_t heads = 0;
    for (int i = 0; i < c->n_ple; i++)
        heads += (size_t)g->weights.ngram[i].n_heads;
    if (!heads)
        return;
    acts_place(&m->ple_e, rows, c->ple_dim, l);
    m->ple_value = layout_floats(l, rows, (size_t)c->h);
    m->ple_rows = layout_floats(l, rows, (size_t)c->S * c->h);
    m->ngram = layout_take(l, rows * heads, sizeof *m->ngram);
}

static void mtp_place(const struct config *c, struct scratch *m, size_t rows, struct layout *l)
{
    acts_place(&m->embed, rows, c->h, l);
    acts_place_split(&m->streams, &m->norm, rows, c->S, l);
    m->fold = layout_floats(l, rows, (size_t)c->h);
    m->cell = layout_take(l, rows, sizeof *m->cell);
    m->wide = layout_take(l, rows, sizeof *m->wide);
    m->draft_logits = layout_floats(l, (size_t)c->vocab, 1);
    m->last_wide = layout_floats(l, (size_t)c->S * c->h, 1);
}

static void pending_place(struct cpu *g, struct layout *l)
{
    const struct config *c = &g->weights.config;
    struct pending *p = &g->pending;
    const size_t rows = ENGINE_ROWS_MAX;
    p->layers = layout_take(l, (size_t)c->n_layers, sizeof *p->layers);
    for (int il = 0; il < c->n_layers; il++) {
        if (c->attention[il])
            continue;
        const struct layer_pending one = {
            layout_floats(l, rows, (size_t)deltanet_width(c)),
            layout_floats(l, rows, (size_t)c->nk * c->dk),
            layout_floats(l, rows, (size_t)c->nv * c->dv),
            layout_floats(l, rows, (size_t)c->nv),
        };
        if (l->base)
            p->layers[il] = one;
    }
    for (int m = 0; m < c->n_ple; m++)
        p->ple[m] = layout_floats(l, rows, (size_t)c->S * c->h);
    if (g->options.drafts)
        p->wide = layout_floats(l, rows, (size_t)c->S * c->h);
}

static void extra_place(struct cpu *g, struct layout *l)
{
    const struct config *c = &g->weights.config;
    g->extra = layout_take(l, (size_t)c->n_layers, sizeof *g->extra);
    for (int il = 0; il < c->n_layers; il++) {
        if (c->attention[il])
            continue;
        const struct layer_extra one = {
            layout_floats(l, (size_t)c->conv_kernel, (size_t)deltanet_width(c)),
            layout_take(l, (size_t)c->nv, sizeof *one.rate),
        };
        if (l->base)
            g->extra[il] = one;
    }
    for (int m = 0; m < c->n_ple; m++)
        g->ple_taps[m] = layout_floats(l, (size_t)c->ple_kernel, (size_t)c->S * c->h);
    g->freq = layout_floats(l, (size_t)c->rot / 2, 1);
}

void scratch_place(struct cpu *g, struct layout *l)
{
    const struct config *c = &g->weights.config;
    struct scratch *m = &g->scratch;
    size_t rows = (size_t)g->rows, values = (size_t)c->nv * c->dv;
    m->at = layout_take(l, rows, sizeof *m->at);
    m->segments = layout_take(l, ENGINE_ROWS_MAX, sizeof *m->segments);
    m->rope = layout_floats(l, rows, (size_t)c->rot);
    m->hyper = layout_floats(l, rows, (size_t)c->S * c->h);
    acts_place(&m->norm, rows, c->S * c->h, l);
    acts_place(&m->low, rows, c->lowrank, l);
    m->inj = layout_floats(l, rows, (size_t)c->S);
    acts_place(&m->mixed, rows, c->h, l);
    acts_place(&m->hidden, ENGINE_ROWS_MAX, c->h, l);
    m->out = layout_floats(l, rows, (size_t)c->h);
    m->conv = layout_floats(l, rows, (size_t)deltanet_width(c));
    m->z = layout_floats(l, rows, values);
    m->a = layout_floats(l, rows, (size_t)c->nv);
    m->b = layout_floats(l, rows, (size_t)c->nv);
    acts_place(&m->y, rows, (int)values, l);
    qsa_place(g, m, rows, l);
    moe_place(c, m, rows, l);
    ple_place(g, m, rows, l);
    if (g->options.drafts)
        mtp_place(c, m, rows, l);
    m->best = layout_take(l, (size_t)g->options.threads * ENGINE_ROWS_MAX, sizeof *m->best);
    m->room_floats = room_floats(c, g->max_visible);
    m->room = layout_floats(l, (size_t)g->options.threads, m->room_floats);
    m->ids = layout_take(l, (size_t)max_int(max_int(c->K, CONFIG_NGRAM_HEADS_MAX), g->max_visible),
                         sizeof *m->ids);
    pending_place(g, l);
    extra_place(g, l);
}
