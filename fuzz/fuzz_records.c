/* manifest3.json and manifest2.json from any bytes: what is accepted says exactly the layout that
 * the store's experts lead to, and a checksum for every record or for none. */
#include <stdint.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/mem.h"
#include "store/records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void need(int holds)
{
    if (!holds)
        abort();
}

static void check_bits(const json_t *root, const struct expert_layout *x, int bits)
{
    struct records r, plain;
    struct err e = {0};
    const char *source = NULL;
    records_layout(x, bits, &r);
    plain = r;
    if (records_parse(root, "fuzz", &r, &source, &e)) {
        need(e.code && e.msg[0] && !r.sum);
        return;
    }
    need(r.stride == plain.stride && r.n == plain.n && r.bytes <= r.stride);
    for (size_t i = 0; r.sum && i < r.n; i++)
        need(r.sum[i] || !r.sum[i]); /* readable: the sanitizer looks */
    mem_free(r.sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct err e = {0};
    struct expert_layout x;
    json_t *root;
    if (json_parse((const char *)data, n, "fuzz", &root, &e))
        return 0;
    need(!expert_layout_make(2, 3, 64, 128, &x, &e));
    check_bits(root, &x, 3);
    check_bits(root, &x, 2);
    json_decref(root);
    return 0;
}
