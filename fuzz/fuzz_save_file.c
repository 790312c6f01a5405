/* Save files: whatever the bytes, they are refused, or their parts make the same bytes again. Size
 * and checksum are made right first, or nothing would get past them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runner/save_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { BYTES_AT = 16, HEADER = 80, SUM = 8 };

static void seal(uint8_t *save, size_t n)
{
    uint64_t bytes = n, sum;
    memcpy(save + BYTES_AT, &bytes, sizeof bytes);
    sum = XXH3_64bits(save, n - SUM);
    memcpy(save + n - SUM, &sum, sizeof sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct save_file s;
    struct err e = {0};
    struct buf again = BUF_INIT;
    uint8_t *save = malloc(n + 1);
    if (!save)
        abort();
    if (n)
        memcpy(save, data, n);
    if (n >= HEADER + SUM)
        seal(save, n);
    if (save_file_parse(save, n, "it", &s, &e) == 0) {
        save_file_write(&s, &again);
        if (again.len != n || memcmp(again.data, save, n) != 0)
            abort();
    } else if (!e.msg[0]) {
        abort();
    }
    buf_free(&again);
    free(save);
    return 0;
}
