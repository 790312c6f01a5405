/* Many arrays in one allocation. A layout function takes every array in turn; it is run once without
 * memory, which counts the bytes, and once more with it. */
#ifndef REFERENCE_ARENA_H
#define REFERENCE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena {
    char *base; /* NULL: counting */
    size_t used;
    bool overflow; /* more than size_t can say */
};

enum { ARENA_ALIGN = 16 };

/* n elements of `bytes` bytes; NULL while counting. */
static inline void *arena_take(struct arena *a, size_t n, size_t bytes)
{
    size_t start = a->used, want;
    if (__builtin_mul_overflow(n, bytes, &want) || want > SIZE_MAX - start - ARENA_ALIGN) {
        a->overflow = true;
        return NULL;
    }
    a->used = (start + want + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    return a->base ? a->base + start : NULL;
}

static inline float *arena_floats(struct arena *a, size_t n, size_t width)
{
    size_t all;
    if (__builtin_mul_overflow(n, width, &all)) {
        a->overflow = true;
        return NULL;
    }
    return arena_take(a, all, sizeof(float));
}

#endif
