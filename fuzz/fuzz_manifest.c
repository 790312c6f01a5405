/* manifest.json from any bytes: what is accepted has all its spans where store.c relies on them. */
#include <stdint.h>
#include <stdlib.h>

#include "base/json.h"
#include "store/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void need(int holds)
{
    if (!holds)
        abort();
}

static void check_experts(const struct expert_layout *x)
{
    uint64_t codes = (uint64_t)x->inter * (uint64_t)x->h / 2, side = codes / 16;
    struct expert_layout same;
    struct err e = {0};
    for (int i = 0; i < EXPERT_MATRICES; i++)
        need(x->w[i] + codes <= x->stride && x->s[i] + side <= x->stride &&
             x->b[i] + side <= x->stride && x->s[i] % 2 == 0 && x->b[i] % 2 == 0);
    need(x->stride <= UINT64_MAX / (uint64_t)(x->n_layers * x->E));
    need(!expert_layout_make(x->n_layers, x->E, x->inter, x->h, &same, &e));
    need(same.bytes <= x->bytes);
}

static void check_ngram(const struct ngram_layout *g)
{
    uint64_t rows = 0;
    need(!g->rows || g->row_bytes > 0);
    for (int m = 0; m < g->n_modules; m++) {
        const struct ngram_module *one = &g->module[m];
        need(g->first_row[m] == rows);
        rows += one->rows;
        for (int j = 0; j < one->n_heads; j++)
            need(one->offset[j] + one->size[j] <= one->rows);
    }
    need(rows == g->rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct err e = {0};
    struct manifest m;
    json_t *root;
    if (json_parse((const char *)data, n, "fuzz", &root, &e))
        return 0;
    if (manifest_parse(root, "fuzz", &m, &e)) {
        need(e.code && e.msg[0]);
    } else {
        for (size_t i = 0; i < m.n_dense; i++) {
            need(m.dense[i].nbytes <= UINT64_MAX / 2 && m.dense[i].offset <= UINT64_MAX / 2);
            need(m.dense[i].offset % STORE_ALIGN == 0);
        }
        check_experts(&m.experts);
        check_ngram(&m.ngram);
        manifest_free(&m);
    }
    json_decref(root);
    return 0;
}
