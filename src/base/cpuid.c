/* What this processor can do: see cpuid.h. The compiler's own checks know what the system saves. */
#include "base/cpuid.h"

#include <string.h>

#include "base/env.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* The compilers' own check does not know AVX-VNNI everywhere: leaf 7.1, EAX bit 4. It uses no
 * registers but those of AVX. */
static int has_avx_vnni(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4);
}

unsigned cpuid_found(void)
{
    unsigned cpu = 0;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return 0;
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_F16C))
        return 0;
    cpu = CPU_AVX2;
    if (has_avx_vnni())
        cpu |= CPU_AVX_VNNI;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vnni"))
        cpu |= CPU_AVX512;
    return cpu;
}
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

unsigned cpuid_found(void)
{
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP ? CPU_NEON : 0;
}
#elif defined(__aarch64__) && defined(__APPLE__)
unsigned cpuid_found(void)
{
    return CPU_NEON; /* every one of them */
}
#else
unsigned cpuid_found(void)
{
    return 0;
}
#endif

static const struct {
    const char *name;
    unsigned needs, keeps;
} tiers[] = {
    {"ref", 0, 0},
    {"avx2", CPU_AVX2, CPU_AVX2 | CPU_AVX_VNNI},
    {"avx512", CPU_AVX512, CPU_AVX2 | CPU_AVX_VNNI | CPU_AVX512},
    {"neon", CPU_NEON, CPU_NEON},
    {"best", 0, ~0u},
};

int cpuid_mask(unsigned found, const char *tier, unsigned *cpu, struct err *e)
{
    if (!tier)
        tier = "best";
    for (size_t i = 0; i < sizeof tiers / sizeof tiers[0]; i++) {
        if (strcmp(tier, tiers[i].name))
            continue;
        if ((found & tiers[i].needs) != tiers[i].needs)
            return ERR(e, E_ARG, "%s: this processor has no %s; leave it unset for the best it has",
                       env_name(ENV_CPU), tier);
        *cpu = found & tiers[i].keeps;
        return 0;
    }
    return ERR(e, E_ARG, "%s: '%s' is no tier; want ref, avx2, avx512, neon or best",
               env_name(ENV_CPU), tier);
}

int cpuid_allowed(unsigned *cpu, struct err *e)
{
    return cpuid_mask(cpuid_found(), env_get(ENV_CPU), cpu, e);
}
