/* Many arrays in one allocation, each aligned to 64 bytes if the memory is. A layout function takes
 * every array in turn; it is run once without memory, which counts the bytes, and once more with
 * it. */
#ifndef BASE_LAYOUT_H
#define BASE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct layout {
    char *base; /* NULL: counting */
    size_t used;
    bool overflow; /* more than size_t can say */
};

enum { LAYOUT_ALIGN = 64 };

/* n elements of `bytes` bytes; NULL while counting. */
static inline void *layout_take(struct layout *a, size_t n, size_t bytes)
{
    size_t start = a->used, want;
    if (__builtin_mul_overflow(n, bytes, &want) || want > SIZE_MAX - start - LAYOUT_ALIGN) {
        a->overflow = true;
        return NULL;
    }
    a->used = (start + want + LAYOUT_ALIGN - 1) / LAYOUT_ALIGN * LAYOUT_ALIGN;
    return a->base ? a->base + start : NULL;
}

static inline float *layout_floats(struct layout *a, size_t n, size_t width)
{
    size_t all;
    if (__builtin_mul_overflow(n, width, &all)) {
        a->overflow = true;
        return NULL;
    }
    return layout_take(a, all, sizeof(float));
}

#endif
