/* Element types that appear in checkpoints and stores. */
#ifndef QUANT_DTYPE_H
#define QUANT_DTYPE_H

#include <stddef.h>

enum dtype {
    DTYPE_BF16,
    DTYPE_F16,
    DTYPE_F32,
    DTYPE_F64,
    DTYPE_F8_E4M3,
    DTYPE_F8_E5M2,
    DTYPE_I8,
    DTYPE_U8,
    DTYPE_I16,
    DTYPE_U16,
    DTYPE_I32,
    DTYPE_U32,
    DTYPE_I64,
    DTYPE_U64,
    DTYPE_BOOL,
    DTYPE_COUNT,
};

const char *dtype_name(enum dtype t); /* the safetensors word: "BF16", "F8_E4M3", ... */
size_t dtype_bytes(enum dtype t);
int dtype_parse(const char *word, enum dtype *out); /* 0, or -1: no such word */

#endif
