/* Saved sequences: whatever the bytes, restore refuses them or leaves a sequence whose save is
 * these
 * bytes. The checksum and the identity are made right first, or nothing would get past them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/buf.h"
#include "reference/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { CTX = 6, IDENTITY_AT = 16, BYTES_AT = 24, HEADER = 32, SUM = 8 };

/* Shapes alone: saves look at no weight. */
static const struct weights weights = {.config = {.h = 3,
                                                  .n_layers = 2,
                                                  .vocab = 16,
                                                  .max_pos = CTX,
                                                  .attention = {false, true},
                                                  .n_heads = 1,
                                                  .n_kv = 1,
                                                  .head_dim = 2,
                                                  .index_dim = 2,
                                                  .index_budget = 2,
                                                  .index_ratio = 2,
                                                  .nk = 1,
                                                  .nv = 1,
                                                  .dk = 2,
                                                  .dv = 3,
                                                  .conv_kernel = 3,
                                                  .S = 2,
                                                  .n_ple = 1,
                                                  .ple_kernel = 2,
                                                  .ngram_size = 2,
                                                  .n_mtp = 1}};

static void seal(uint8_t *save, size_t n, const struct reference *g)
{
    uint64_t bytes = n, sum;
    memcpy(save + IDENTITY_AT, &g->identity, sizeof g->identity);
    memcpy(save + BYTES_AT, &bytes, sizeof bytes);
    sum = XXH3_64bits(save, n - SUM);
    memcpy(save + n - SUM, &sum, sizeof sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct reference g = {
        .base = {.weights = &weights}, .options = {.drafts = true}, .identity = 7};
    struct sequence *s;
    struct err e = {0};
    struct buf again = BUF_INIT;
    uint8_t *save = malloc(n + 1);
    if (!save || sequence_open(&g.base, CTX, &s, &e))
        abort();
    if (n)
        memcpy(save, data, n);
    if (n >= HEADER + SUM)
        seal(save, n, &g);
    if (sequence_restore(&g.base, s, save, n, &e) == 0) {
        if (sequence_save(&g.base, s, &again, &e) || again.len != n ||
            memcmp(again.data, save, n) != 0)
            abort();
    } else if (sequence_length(s) != 0 || !e.msg[0]) {
        abort();
    }
    buf_free(&again);
    sequence_close(s);
    free(save);
    return 0;
}
