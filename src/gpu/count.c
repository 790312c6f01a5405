/* Counters of batches: rows, the weights that they went through, experts found on the device. What
 * streaming counts is counted where it happens (visit.c and the stream). */
#include "base/clock.h"
#include "gpu/state.h"
#include "model/matrix.h"

static uint64_t bytes_of(const struct matrix *m)
{
    return m->rows ? matrix_bytes(m, m->rows) : 0;
}

static uint64_t read_bytes(const struct hyper_weights *w)
{
    return bytes_of(&w->down) + bytes_of(&w->up) + bytes_of(&w->inject);
}

static uint64_t mixer_bytes(const struct layer_weights *w, bool attention)
{
    const struct qsa_weights *q = &w->qsa;
    const struct deltanet_weights *d = &w->deltanet;
    if (attention)
        return bytes_of(&q->q) + bytes_of(&q->k) + bytes_of(&q->v) + bytes_of(&q->o) +
               bytes_of(&q->index_qk);
    return bytes_of(&d->qkv) + bytes_of(&d->z) + bytes_of(&d->a) + bytes_of(&d->b) +
           bytes_of(&d->out);
}

static uint64_t layer_bytes(const struct layer_weights *w, bool attention)
{
    const struct moe_weights *m = &w->moe;
    return read_bytes(&w->attn_hyper) + read_bytes(&w->mlp_hyper) + mixer_bytes(w, attention) +
           bytes_of(&m->router) + bytes_of(&m->shared_gate) + bytes_of(&m->gate) +
           bytes_of(&m->up) + bytes_of(&m->down);
}

void gpu_count_init(struct gpu *g)
{
    const struct weights *w = g->base.weights;
    const struct config *c = &w->config;
    struct touched *t = &g->touched;
    g->counters.on_device = 1;
    for (int il = 0; il < c->n_layers; il++)
        t->layers += layer_bytes(&w->layers[il], c->attention[il]);
    for (int m = 0; m < c->n_ple; m++)
        t->layers += bytes_of(&w->ple[m].key) + bytes_of(&w->ple[m].value);
    t->head = bytes_of(&w->head) + read_bytes(&w->mixer);
    t->record = stream_slot_bytes(w->source.store, g->options.expert_bits, 0);
}

/* With all experts on the device the host does not learn which of them rows share. */
static void count_resident(struct gpu *g, const struct batch *b)
{
    const struct config *c = &g->base.weights->config;
    const uint64_t picks = (uint64_t)b->R * (uint64_t)c->K, all = (uint64_t)c->E;
    for (int il = 0; il < c->n_layers; il++)
        counters_add(&g->counters.layer[g->base.weights->layers[il].moe.record_layer].device_hits,
                     picks);
    counters_add(&g->counters.touched_bytes,
                 (uint64_t)c->n_layers * (picks < all ? picks : all) * g->touched.record);
}

void gpu_count(struct gpu *g, const struct batch *b, uint64_t start)
{
    struct counters *n = &g->counters;
    counters_add(&n->phase_ns[PHASE_HOST], clock_ns() - start);
    counters_add(&n->touched_bytes, g->touched.layers + (b->n_heads ? g->touched.head : 0));
    if (g->experts.resident)
        count_resident(g, b);
    if (g->experts.tier) {
        const struct residency_counters *r = residency_counters(g->experts.tier);
        counters_add(&n->copied_bytes, r->copied_bytes - n->copied_bytes);
        counters_add(&n->brought, r->brought - n->brought);
        counters_add(&n->brought_used, r->brought_used - n->brought_used);
    }
    if (b->prefill) {
        counters_add(&n->prefill_tokens, (uint64_t)b->R);
        return;
    }
    counters_add(&n->steps, 1);
    counters_add(&n->rows, (uint64_t)b->R);
}
