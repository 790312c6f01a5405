/* Dumps from any bytes: the blocks of what is accepted lie inside it and can be found. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "runner/dump.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void need(int holds)
{
    if (!holds)
        abort();
}

static void read_block(const struct block *b, const uint8_t *data, size_t n)
{
    const size_t size = b->type == DUMP_F32 ? sizeof(float) : sizeof(int64_t);
    const uint8_t *values = b->values;
    need(values >= data + sizeof(struct dump_frame) && (uintptr_t)values % 8 == 0);
    need(values <= data + n && b->n <= (size_t)(data + n - values) / size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct err e = {0};
    struct dump_file *f;
    uint8_t *copy = mem_alloc(n); /* aligned as a mapping is */
    need(copy != NULL);
    if (n)
        memcpy(copy, data, n);
    if (dump_file_parse(copy, n, "fuzz", &f, &e)) {
        need(e.code && e.msg[0]);
    } else {
        const int last = dump_file_positions(f) - 1;
        for (int what = 0; what < SEEN_COUNT; what++)
            for (int il = -1; il < 8; il++)
                for (int pos = last; pos >= 0 && pos > last - 8; pos--) {
                    const struct block *b = dump_file_find(f, what, il, pos);
                    need(!b || ((int)b->what == what && b->il == il && b->pos == pos));
                    if (b)
                        read_block(b, copy, n);
                }
        dump_file_close(f);
    }
    mem_free(copy);
    return 0;
}
