/* config.json from any bytes: loads into a config that keeps its promises, or says why not. */
#include <stdint.h>
#include <stdlib.h>

#include "base/json.h"
#include "store/expected.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct err e = {0};
    struct config c;
    json_t *root;
    if (json_parse((const char *)data, n, "fuzz", &root, &e))
        return 0;
    if (config_parse(root, "fuzz", &c, &e)) {
        if (!e.msg[0])
            abort();
    } else {
        struct expected_list l;
        if (c.h % 64 || c.n_heads % c.n_kv || c.rot > c.index_dim || c.K > c.E ||
            (c.n_ple && !c.n_eos))
            abort();
        if (c.n_ple <= 2 && !expected_init(&c, &l, &e)) /* many tables: many primes, slowly */
            expected_free(&l);
    }
    json_decref(root);
    return 0;
}
