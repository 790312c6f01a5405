/* Time that only moves forward, and the date. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_ns(void);    /* nanoseconds since some fixed moment */
int64_t clock_unix_s(void); /* seconds since 1970, as the machine's clock has it */
static inline double clock_seconds_since(uint64_t start_ns)
{
    return (double)(clock_ns() - start_ns) * 1e-9;
}

#endif
