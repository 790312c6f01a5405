/* ranking.bin: whatever the bytes, they are refused with a reason and touch nothing, or all of them
 * are counts. The first byte says what is made right before, or nothing would get past the
 * checksum: bit 0 that, bit 1 which store it is of. */
#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "stream/ranking.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { L = 2, E = 3, IDENTITY_AT = 8, HEAD = 24, SUM = 8, FIX_SUM = 1, FIX_STORE = 2 };

static const float untouched = -7;

static void need(int holds)
{
    if (!holds)
        abort();
}

static void make_right(uint8_t *file, size_t n, uint8_t what)
{
    static const char seal[] = "fuzz";
    const uint64_t identity = XXH3_64bits(seal, strlen(seal));
    if (n < HEAD + SUM)
        return;
    if (what & FIX_STORE)
        memcpy(file + IDENTITY_AT, &identity, sizeof identity);
    const uint64_t sum = XXH3_64bits(file, n - SUM);
    if (what & FIX_SUM)
        memcpy(file + n - SUM, &sum, sizeof sum);
}

static void check(const struct store *s, const uint8_t *file, size_t n)
{
    struct err e = {0};
    float use[L * E];
    for (int i = 0; i < L * E; i++)
        use[i] = untouched;
    int rc = ranking_parse(s, file, n, use, &e);
    for (int i = 0; i < L * E; i++)
        need(rc ? use[i] == untouched : isfinite(use[i]) && use[i] >= 0);
    need(rc ? rc == -E_FORMAT && e.code == E_FORMAT && e.msg[0] : n == HEAD + 4 * L * E + SUM);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static char dir[] = "fuzz";
    struct store s = {.dir = dir, .manifest.experts = {.n_layers = L, .E = E}};
    uint8_t *file = malloc(n ? n : 1);
    s.manifest.root = json_pack("{s:s}", "seal", "fuzz");
    need(file && s.manifest.root);
    if (n) {
        memcpy(file, data + 1, n - 1);
        make_right(file, n - 1, data[0]);
        check(&s, file, n - 1);
    }
    json_decref(s.manifest.root);
    free(file);
    return 0;
}
