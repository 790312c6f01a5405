/* The table of kernels: each tier the processor has overwrites what it does faster. */
#include "kern/kern.h"

#include "kern/tiers.h"

void kern_init(struct kern *k, unsigned cpu)
{
    (void)cpu;
    kern_init_ref(k);
}
