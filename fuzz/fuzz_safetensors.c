/* Safetensors headers from any bytes: what opens keeps its promises, what does not says why. The
 * first line is the number of data bytes behind the header, the rest the header. The bytes are also
 * read as a tensor's name. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/convention.h"
#include "checkpoint/names.h"
#include "checkpoint/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_name(const char *name)
{
    struct name_info info, again;
    name_parse(name, &info);
    if (strlen(info.canonical) >= NAME_MAX_BYTES)
        abort();
    convention_is_folded_norm(info.canonical);
    if (info.kind != NAME_DENSE)
        return;
    name_parse(info.canonical, &again); /* a canonical name is one of the published forms */
    if (again.kind != NAME_DENSE || strcmp(again.canonical, info.canonical) != 0)
        abort();
}

static void check_tensors(const struct safetensors *s, uint64_t start, uint64_t file_bytes)
{
    for (size_t i = 0; i < s->n_tensors; i++) {
        const struct tensor *t = &s->tensors[i];
        uint64_t bytes = dtype_bytes(t->dtype);
        for (int d = 0; d < t->n_dims; d++)
            bytes *= t->shape[d];
        if (t->offset != start || t->nbytes != bytes || t->n_dims > TENSOR_DIMS_MAX)
            abort();
        start += t->nbytes;
        check_name(t->name);
    }
    if (start != file_bytes)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct err e = {0};
    struct safetensors s;
    char *text = mem_strndup((const char *)data, n);
    if (!text)
        return 0;
    check_name(text);
    const char *line = memchr(text, '\n', n);
    const char *header = line ? line + 1 : text;
    size_t len = n - (size_t)(header - text);
    uint64_t file_bytes = 8 + len + (line ? strtoull(text, NULL, 10) & 0xFFFFFFFFFFFF : 0);
    if (!safetensors_parse(header, len, file_bytes, "fuzz", &s, &e))
        check_tensors(&s, 8 + len, file_bytes);
    else if (!e.msg[0] || s.tensors || s.metadata || s.n_tensors)
        abort();
    safetensors_free(&s);
    mem_free(text);
    return 0;
}
