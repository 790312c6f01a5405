/* Weights that are not numbers: see finite.h. */
#include "pack/finite.h"

/* True if one of n 16-bit floats has all its exponent bits set: infinity or NaN. */
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

static bool any(enum dtype type, const void *values, size_t n)
{
    switch (type) {
    case DTYPE_BF16:
        return any16(values, n, 0x7F80);
    case DTYPE_F16:
        return any16(values, n, 0x7C00);
    case DTYPE_F32:
        return any32(values, n);
    default:
        return false;
    }
}

int finite_check(const struct tensor *t, uint64_t first, const void *values, size_t n,
                 struct err *e)
{
    if (!any(t->dtype, values, n))
        return 0;
    size_t i = 0, bytes = dtype_bytes(t->dtype);
    while (!any(t->dtype, (const char *)values + i * bytes, 1))
        i++;
    return ERR(e, E_NONFINITE,
               "%s: element %llu is NaN or infinite, want finite weights: the file is damaged or "
               "was badly converted; fetch it again",
               t->name, (unsigned long long)(first + i));
}
