/* checksums.bin from any bytes, for a store of two tensors, six records and a table of 640 rows:
 * what parses covers the table with its blocks, and says the same when it is made again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "pack/sums.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct dense_entry dense[2] = {{.name = "a", .nbytes = 10},
                                          {.name = "b", .offset = 64, .nbytes = 10}};
    struct manifest m = {.dense = dense, .n_dense = 2};
    struct pieces p;
    struct err e = {0};
    struct buf in = BUF_INIT, out = BUF_INIT;
    uint64_t *sum;
    m.experts = (struct expert_layout){.n_layers = 2, .E = 3, .stride = STORE_PAGE};
    m.ngram.rows = 640;
    m.ngram.row_bytes = 20;
    buf_add(&in, data, n);
    if (!buf_check(&in, &e) && !sums_parse(&in, &m, "it", &p, &sum, &e)) {
        struct piece last = piece_at(&p, p.n - 1);
        if (last.file != PIECE_NGRAM || last.offset + last.bytes != 640 * 20)
            abort();
        if (sums_make(&p, sum, &out, &e) || out.len != n || memcmp(out.data, data, n) != 0)
            abort();
        mem_free(sum);
    } else if (!e.msg[0]) {
        abort();
    }
    buf_free(&in);
    buf_free(&out);
    return 0;
}
