/* A source of weights over an open store: see weights.h. Views go straight into the mappings; only
 * n-gram rows are decoded, because what an engine wants of them is the values. */
#include "model/weights.h"

#include "quant/q4.h"

static int source_find(void *ctx, const char *name, struct tensor_view *out, struct err *e)
{
    return store_find(ctx, name, out, e);
}

void weights_expert(const struct expert_layout *x, const struct records *r, const uint8_t *record,
                    struct expert *out)
{
    static const enum matrix_format formats[] = {[4] = MATRIX_Q4, [3] = MATRIX_Q3, [2] = MATRIX_Q2};
    struct matrix *to[EXPERT_MATRICES] = {&out->gate, &out->up, &out->down};
    for (int i = 0; i < EXPERT_MATRICES; i++)
        *to[i] = (struct matrix){.format = formats[r->bits],
                                 .rows = i == EXPERT_DOWN ? x->h : x->inter,
                                 .cols = i == EXPERT_DOWN ? x->inter : x->h,
                                 .w = record + r->w[i],
                                 .scales = (const uint16_t *)(const void *)(record + r->s[i]),
                                 .biases = (const uint16_t *)(const void *)(record + r->b[i]),
                                 .group = x->group};
}

static int expert_of(const struct store *s, int bits, int il, int ie, struct expert *out)
{
    const struct expert_layout *x = &s->manifest.experts;
    const struct records *r = &s->records[bits];
    weights_expert(x, r, records_at(r, (size_t)il * (size_t)x->E + (size_t)ie), out);
    return 0;
}

static int source_expert4(void *ctx, int il, int ie, struct expert *out, struct err *e)
{
    (void)e;
    return expert_of(ctx, 4, il, ie, out);
}

static int source_expert3(void *ctx, int il, int ie, struct expert *out, struct err *e)
{
    (void)e;
    return expert_of(ctx, 3, il, ie, out);
}

static int source_expert2(void *ctx, int il, int ie, struct expert *out, struct err *e)
{
    (void)e;
    return expert_of(ctx, 2, il, ie, out);
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

static void source_of(struct store *s, int bits, struct weight_source *src)
{
    *src = (struct weight_source){s, source_find,
                                  bits == 4   ? source_expert4
                                  : bits == 3 ? source_expert3
                                              : source_expert2,
                                  source_ngram_row, s};
}

void weights_source_store(struct store *s, struct weight_source *src)
{
    source_of(s, store_bits_best(s), src);
}

int weights_source_bits(struct store *s, int bits, struct weight_source *src, struct err *e)
{
    const struct records *r;
    int from = bits < 4 && s->records[4].present ? 4 : bits;
    int rc = store_records(s, from, &r, e);
    if (!rc)
        source_of(s, from, src);
    return rc;
}
