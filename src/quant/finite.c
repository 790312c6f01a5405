/* Values that are not numbers: see finite.h. All exponent bits set means infinity or NaN; whole
 * blocks are looked at without leaving early, so that compilers vectorise the loops. */
#include "quant/finite.h"

#include <stdbool.h>
#include <stdint.h>

enum { BLOCK = 4096 };

static bool any16(const uint16_t *v, size_t n, uint16_t exponent)
{
    unsigned found = 0;
    for (size_t i = 0; i < n; i++)
        found |= (v[i] & exponent) == exponent;
    return found;
}

static bool any32(const uint32_t *v, size_t n)
{
    unsigned found = 0;
    for (size_t i = 0; i < n; i++)
        found |= (v[i] & 0x7F800000u) == 0x7F800000u;
    return found;
}

static bool any(enum dtype type, const void *values, size_t first, size_t n)
{
    switch (type) {
    case DTYPE_BF16:
        return any16((const uint16_t *)values + first, n, 0x7F80);
    case DTYPE_F16:
        return any16((const uint16_t *)values + first, n, 0x7C00);
    case DTYPE_F32:
        return any32((const uint32_t *)values + first, n);
    default:
        return false;
    }
}

size_t finite_find(enum dtype type, const void *values, size_t n)
{
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t k = n - first < BLOCK ? n - first : BLOCK;
        if (!any(type, values, first, k))
            continue;
        while (!any(type, values, first, 1))
            first++;
        return first;
    }
    return n;
}
