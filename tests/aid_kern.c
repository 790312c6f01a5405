/* Tiers, guarded arrays and values for tests of kernels: see aid_kern.h. */
#include "aid_kern.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cpuid.h"
#include "base/rng.h"

enum { GUARDED_MAX = 4096 };

static struct {
    void *at;
    size_t bytes;
} guarded[GUARDED_MAX];
static int n_guarded;

int aid_kern_tiers(struct kern *tier, const char **name)
{
    static const struct {
        unsigned cpu;
        const char *name;
    } all[] = {
        {0, "ref"},
        {CPU_AVX2, "avx2"},
        {CPU_AVX2 | CPU_AVX_VNNI, "avx2 with vnni"},
        {CPU_AVX2 | CPU_AVX_VNNI | CPU_AVX512, "avx512"},
        {CPU_AVX2 | CPU_AVX512, "avx512"},
        {CPU_NEON, "neon"},
    };
    struct err e = {0};
    unsigned cpu;
    int n = 0, have_512 = 0;
    assert_ok(cpuid_allowed(&cpu, &e), e);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if ((all[i].cpu & cpu) != all[i].cpu || (have_512 && all[i].cpu & CPU_AVX512))
            continue;
        have_512 |= !!(all[i].cpu & CPU_AVX512);
        kern_init(&tier[n], all[i].cpu);
        name[n++] = all[i].name;
    }
    return n;
}

void *aid_guarded(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t inside = (bytes + page - 1) / page * page;
    char *at = mmap(NULL, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    if (inside)
        assert_int_equal(mprotect(at + page, inside, PROT_READ | PROT_WRITE), 0);
    assert_in_range(n_guarded, 0, GUARDED_MAX - 1);
    guarded[n_guarded].at = at;
    guarded[n_guarded++].bytes = inside + 2 * page;
    return at + page + inside - bytes;
}

void aid_guarded_free(void)
{
    while (n_guarded) {
        n_guarded--;
        munmap(guarded[n_guarded].at, guarded[n_guarded].bytes);
    }
}

static float bell(uint64_t seed, uint64_t i)
{
    double sum = 0;
    for (uint64_t j = 0; j < 4; j++)
        sum += rng_unit_at(seed, 4 * i + j) - 0.5;
    return (float)(sum * 1.7);
}

static float value_of(enum aid_values kind, uint64_t seed, uint64_t i)
{
    float b = bell(seed, i);
    double u = rng_unit_at(~seed, i);
    switch (kind) {
    case AID_NORMAL:
        return b;
    case AID_OUTLIERS:
        return u < 0.01 ? 1000 * b : b;
    case AID_ENDS:
        return (float)(i % 3) - 1;
    case AID_HUGE:
        return b * 1e30f;
    case AID_TINY:
        return (float)(b * pow(10, -40 + 11 * rng_unit_at(seed, i / 16)));
    case AID_MIXED:
        return (float)(b * pow(10, -30 + 35 * u));
    default:
        return 0;
    }
}

void aid_values(enum aid_values kind, uint64_t seed, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = value_of(kind, seed, i);
}

long aid_differ(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            return (long)i;
    return -1;
}
