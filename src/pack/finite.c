/* Weights that are not numbers: see finite.h. */
#include "pack/finite.h"

#include "quant/finite.h"

int finite_check(const struct tensor *t, uint64_t first, const void *values, size_t n,
                 struct err *e)
{
    size_t i = finite_find(t->dtype, values, n);
    if (i == n)
        return 0;
    return ERR(e, E_NONFINITE,
               "%s: element %llu is NaN or infinite, want finite weights: the file is damaged or "
               "was badly converted; fetch it again",
               t->name, (unsigned long long)(first + i));
}
