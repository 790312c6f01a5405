/* Files of kept states: whatever the bytes, they are refused with a message, or the parts are all
 * of the file. Size and checksum are made right first, or nothing would get past them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "server/saves.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { BYTES_AT = 16, TOKENS_AT = 40, SUM_AT = 56, HEADER = 64 };

static void seal(uint8_t *file, size_t n)
{
    uint64_t bytes = n, tokens, sum;
    memcpy(file + BYTES_AT, &bytes, sizeof bytes);
    memcpy(&tokens, file + TOKENS_AT, sizeof tokens);
    if (tokens > (n - HEADER) / sizeof(int32_t))
        return;
    sum = XXH3_64bits_withSeed(file + HEADER, tokens * sizeof(int32_t), XXH3_64bits(file, SUM_AT));
    memcpy(file + SUM_AT, &sum, sizeof sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct save_view v;
    struct err e = {0};
    uint8_t *file = malloc(n + 1);
    if (!file)
        abort();
    if (n)
        memcpy(file, data, n);
    if (n >= HEADER)
        seal(file, n);
    if (saves_parse(file, n, "it", "cpu", &v, &e)) {
        if (!e.msg[0])
            abort();
    } else if (v.n < 1 || v.tokens != (char *)file + HEADER ||
               v.state != v.tokens + (size_t)v.n * sizeof(int32_t) ||
               v.state + v.state_bytes != (char *)file + n) {
        abort();
    }
    free(file);
    return 0;
}
