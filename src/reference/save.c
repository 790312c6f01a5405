/* The parts of a saved sequence: model/save.h has the picture around them.
 *
 *   per DeltaNet layer: st [nv][dk][dv], conv [kernel-1][2*nk*dk + nv*dv]
 *   per attention layer: k [n][n_kv*head_dim], v the same, raw index keys [n][index_dim]
 *   per PLE module: [ngram_size * (ple_kernel-1)][S*h]
 *   with drafts: the head's k, v and index keys of n - 1 cells, wide residual [S*h]
 *
 * The head's cell n - 1 depends on the token that will follow, so it is not part of the state. */
#include "model/save.h"
#include "reference/state.h"

enum { SAVE_VERSION = 1 };

static void cache_parts(const struct config *c, const struct cache *k, int cells,
                        struct save_parts *p)
{
    size_t n = (size_t)cells, width = (size_t)c->n_kv * c->head_dim;
    save_part(p, k->k, n * width * sizeof *k->k);
    save_part(p, k->v, n * width * sizeof *k->v);
    save_part(p, k->index, n * (size_t)c->index_dim * sizeof *k->index);
}

static void history_parts(const struct history *h, struct save_parts *p)
{
    save_part(p, h->rows, (size_t)h->keep * (size_t)h->width * sizeof *h->rows);
}

static void sequence_parts(void *seq, int n, struct save_parts *p)
{
    const struct sequence *s = seq;
    const struct config *c = &s->g->base.weights->config;
    for (int il = 0; il < c->n_layers; il++) {
        const struct layer_state *l = &s->layers[il];
        if (c->attention[il]) {
            cache_parts(c, &l->cache, n, p);
        } else {
            save_part(p, l->deltanet.st, deltanet_floats(c) * sizeof *l->deltanet.st);
            history_parts(&l->deltanet.conv, p);
        }
    }
    for (int m = 0; m < c->n_ple; m++)
        history_parts(&s->ple[m], p);
    if (s->g->options.drafts) {
        cache_parts(c, &s->layers[c->n_layers].cache, n ? n - 1 : 0, p);
        history_parts(&s->wide, p);
    }
}

static struct save_form form_of(const struct sequence *s)
{
    return (struct save_form){.version = SAVE_VERSION,
                              .identity = s->g->identity,
                              .ctx = s->ctx,
                              .vocab = s->g->base.weights->config.vocab,
                              .tokens = s->tokens,
                              .parts = sequence_parts,
                              .seq = (void *)s};
}

int sequence_save(struct engine *g, const struct sequence *s, struct buf *out, struct err *e)
{
    const struct save_form f = form_of(s);
    (void)g;
    return save_write(&f, s->len, out, e);
}

int sequence_restore(struct engine *g, struct sequence *s, const void *data, size_t n,
                     struct err *e)
{
    const struct save_form f = form_of(s);
    int len;
    (void)g;
    int rc = save_read(&f, data, n, &len, e);
    if (rc)
        return rc;
    s->len = len;
    s->pending = 0;
    return 0;
}
