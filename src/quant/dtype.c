/* Element types: see dtype.h. */
#include "quant/dtype.h"

#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} types[DTYPE_COUNT] = {
    [DTYPE_BF16] = {"BF16", 2},       [DTYPE_F16] = {"F16", 2}, [DTYPE_F32] = {"F32", 4},
    [DTYPE_F64] = {"F64", 8},         [DTYPE_I8] = {"I8", 1},   [DTYPE_U8] = {"U8", 1},
    [DTYPE_F8_E4M3] = {"F8_E4M3", 1}, [DTYPE_I16] = {"I16", 2}, [DTYPE_U16] = {"U16", 2},
    [DTYPE_F8_E5M2] = {"F8_E5M2", 1}, [DTYPE_I32] = {"I32", 4}, [DTYPE_U32] = {"U32", 4},
    [DTYPE_I64] = {"I64", 8},         [DTYPE_U64] = {"U64", 8}, [DTYPE_BOOL] = {"BOOL", 1},
};

const char *dtype_name(enum dtype t)
{
    return types[t].name;
}

size_t dtype_bytes(enum dtype t)
{
    return types[t].bytes;
}

int dtype_parse(const char *word, enum dtype *out)
{
    for (int i = 0; i < DTYPE_COUNT; i++) {
        if (strcmp(word, types[i].name) == 0) {
            *out = (enum dtype)i;
            return 0;
        }
    }
    return -1;
}
