/* The table of kernels: each tier the processor has overwrites what it does faster. */
#include "kern/kern.h"

#include "base/cpuid.h"
#include "kern/tiers.h"

#if defined(__x86_64__)
static void init_tiers(struct kern *k, unsigned cpu)
{
    if (cpu & CPU_AVX2)
        kern_init_avx2(k);
    if (cpu & CPU_AVX_VNNI)
        kern_init_avx_vnni(k);
    if (cpu & CPU_AVX512)
        kern_init_avx512(k);
}
#elif defined(KERN_HAVE_NEON)
static void init_tiers(struct kern *k, unsigned cpu)
{
    if (cpu & CPU_NEON)
        kern_init_neon(k);
}
#else
static void init_tiers(struct kern *k, unsigned cpu)
{
    (void)k;
    (void)cpu;
}
#endif

void kern_init(struct kern *k, unsigned cpu)
{
    kern_init_ref(k);
    init_tiers(k, cpu);
}
