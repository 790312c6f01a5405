/* A source of weights over an open store: see weights.h. Views go straight into the mappings; only
 * n-gram rows are decoded, because what an engine wants of them is the values. */
#include "model/weights.h"

#include "quant/q4.h"

static int source_find(void *ctx, const char *name, struct tensor_view *out, struct err *e)
{
    return store_find(ctx, name, out, e);
}

static int source_expert(void *ctx, int il, int ie, struct expert *out, struct err *e)
{
    (void)e;
    const struct store *s = ctx;
    const struct expert_layout *x = &s->manifest.experts;
    const uint8_t *record = store_record(s, il, ie);
    struct matrix *to[EXPERT_MATRICES] = {&out->gate, &out->up, &out->down};
    for (int i = 0; i < EXPERT_MATRICES; i++)
        *to[i] = (struct matrix){.format = MATRIX_Q4,
                                 .rows = i == EXPERT_DOWN ? x->h : x->inter,
                                 .cols = i == EXPERT_DOWN ? x->inter : x->h,
                                 .w = record + x->w[i],
                                 .scales = (const uint16_t *)(const void *)(record + x->s[i]),
                                 .biases = (const uint16_t *)(const void *)(record + x->b[i]),
                                 .group = x->group};
    return 0;
}

static int source_ngram_row(void *ctx, int m, uint64_t row, float *out, struct err *e)
{
    (void)e;
    const struct store *s = ctx;
    const struct ngram_layout *g = &s->manifest.ngram;
    const uint8_t *at = store_ngram_row(s, g->first_row[m] + row);
    const void *scales = at + g->weight_bytes, *biases = at + g->weight_bytes + g->scale_bytes;
    q4_decode_row(at, scales, biases, (size_t)g->dim, (size_t)g->group, out);
    return 0;
}

void weights_source_store(struct store *s, struct weight_source *src)
{
    *src = (struct weight_source){s, source_find, source_expert, source_ngram_row};
}
