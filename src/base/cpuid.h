/* What this processor can do, as far as kernels care: one bit for each set of instructions that
 * some tier of kern/ needs whole. A bit is set only where the system saves the registers too. */
#ifndef BASE_CPUID_H
#define BASE_CPUID_H

#include "base/err.h"

enum {
    CPU_AVX2 = 1,     /* AVX2, FMA, F16C */
    CPU_AVX_VNNI = 2, /* byte products in 256-bit registers, on top of CPU_AVX2 */
    CPU_AVX512 = 4,   /* AVX-512 F, BW, DQ, VL and VNNI, on top of CPU_AVX2 */
    CPU_NEON = 8,     /* 64-bit ARM with the dot product instructions */
};

unsigned cpuid_found(void);

/* What `tier` leaves of `found`: "ref" nothing, "avx2", "avx512" or "neon" that tier and what it
 * rests on, "best" (and NULL) all. E_ARG for another name, or for a tier that `found` lacks. */
int cpuid_mask(unsigned found, const char *tier, unsigned *cpu, struct err *e);
/* The same for this processor and the tier named in CHERENKOV_CPU. */
int cpuid_allowed(unsigned *cpu, struct err *e);

#endif
