/* The parts of a saved sequence: model/save.h has the picture around them.
 *
 *   per DeltaNet layer: st [nv][dk][dv], conv [kernel-1][2*nk*dk + nv*dv]
 *   per attention layer: codes of k [n][n_kv*head_dim], their scales [n][n_kv*head_dim / 32], v the
 *       same, raw index keys [n][index_dim], keys of complete blocks [n / ratio][index_dim]
 *   per PLE module: [ngram_size * (ple_kernel-1)][S*h]
 *   with drafts: the same as an attention layer for the head's n - 1 cells, wide residual [S*h]
 *
 * The head's cell n - 1 depends on the token that will follow, so it is not part of the state. */
#include "model/save.h"

#include "cpu/state.h"
#include "quant/kv8.h"

enum { SAVE_VERSION = 1 };

static void cache_parts(const struct config *c, const struct cache *k, int cells,
                        struct save_parts *p)
{
    size_t n = (size_t)cells, width = (size_t)c->n_kv * c->head_dim;
    save_part(p, k->k, n * width);
    save_part(p, k->k_scale, n * width / KV8_GROUP * sizeof *k->k_scale);
    save_part(p, k->v, n * width);
    save_part(p, k->v_scale, n * width / KV8_GROUP * sizeof *k->v_scale);
    save_part(p, k->index, n * (size_t)c->index_dim * sizeof *k->index);
    save_part(p, k->block, n / (size_t)c->index_ratio * (size_t)c->index_dim * sizeof *k->block);
}

static void sequence_parts(void *seq, int n, struct save_parts *p)
{
    const struct sequence *s = seq;
    const struct config *c = &s->g->weights.config;
    size_t wide = (size_t)c->S * c->h;
    for (int il = 0; il < c->n_layers; il++) {
        const struct layer_state *l = &s->layers[il];
        if (c->attention[il]) {
            cache_parts(c, &l->cache, n, p);
        } else {
            save_part(p, l->deltanet.st[s->plane], deltanet_floats(c) * sizeof(float));
            save_part(p, l->deltanet.conv[s->plane],
                      (size_t)(c->conv_kernel - 1) * (size_t)deltanet_width(c) * sizeof(float));
        }
    }
    for (int m = 0; m < c->n_ple; m++)
        save_part(p, s->ple[m][s->plane], (size_t)ple_keep(c) * wide * sizeof(float));
    if (s->g->options.drafts) {
        cache_parts(c, &s->layers[c->n_layers].cache, n ? n - 1 : 0, p);
        save_part(p, s->wide, wide * sizeof *s->wide);
    }
}

static struct save_form form_of(const struct sequence *s)
{
    return (struct save_form){.version = SAVE_VERSION,
                              .identity = s->g->identity,
                              .ctx = s->ctx,
                              .vocab = s->g->weights.config.vocab,
                              .tokens = s->tokens,
                              .parts = sequence_parts,
                              .seq = (void *)s};
}

int cpu_sequence_save(struct engine *g, const struct sequence *s, struct buf *out, struct err *e)
{
    const struct save_form f = form_of(s);
    (void)g;
    return save_write(&f, s->len, out, e);
}

int cpu_sequence_restore(struct engine *g, struct sequence *s, const void *data, size_t n,
                         struct err *e)
{
    const struct save_form f = form_of(s);
    int len;
    (void)g;
    int rc = save_read(&f, data, n, &len, e);
    if (rc)
        return rc;
    cpu_sequence_drop(s);
    s->len = len;
    return 0;
}
