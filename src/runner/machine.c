/* What this machine can do at most: see machine.h. */
#include "runner/machine.h"

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/os.h"
#include "base/thread.h"
#include "stream/probe.h"

enum { PROBE_DEPTH = 16, REPETITIONS = 6, SWEEPS = 3, THREADS_MAX = 256, LANES = 16 };

struct sweep {
    const uint64_t *at;
    size_t words; /* of one thread, a multiple of LANES */
    uint64_t sum[THREADS_MAX];
};

/* Sums in lanes that do not wait for one another, so that memory is the limit. */
static int sweep(void *ctx, int worker, size_t i, struct err *e)
{
    struct sweep *s = ctx;
    const uint64_t *x = s->at + i * s->words;
    uint64_t lane[LANES] = {0};
    (void)worker, (void)e;
    for (int k = 0; k < SWEEPS; k++)
        for (size_t j = 0; j < s->words; j += LANES)
            for (int l = 0; l < LANES; l++)
                lane[l] += x[j + (size_t)l];
    for (int l = 0; l < LANES; l++)
        s->sum[i] += lane[l];
    return 0;
}

int machine_memory_rate(int n_threads, uint64_t bytes, double *rate, struct err *e)
{
    struct os_pages block;
    int n = n_threads ? n_threads : os_cpu_count();
    n = n < THREADS_MAX ? n : THREADS_MAX;
    int rc = os_pages_take((size_t)bytes, &block, e);
    if (rc)
        return rc;
    struct sweep s = {(const uint64_t *)(const void *)block.data,
                      block.bytes / 8 / (size_t)n / LANES * LANES,
                      {0}};
    for (size_t i = 0; i < block.bytes; i += 4096)
        block.data[i] = (uint8_t)i; /* pages of their own, not the system's page of zeros */
    *rate = 0;
    for (int k = 0; !rc && k < REPETITIONS; k++) {
        uint64_t start = clock_ns();
        rc = interrupt_check(e);
        rc = rc ? rc : thread_for(n, (size_t)n, sweep, &s, e);
        double found = (double)(s.words * 8 * (size_t)n * SWEEPS) / clock_seconds_since(start);
        *rate = found > *rate ? found : *rate;
    }
    os_pages_free(&block);
    return rc;
}

int machine_disk_rate(const struct store *s, int bits, double seconds, double *rate, struct err *e)
{
    const struct probe_wish wish = {bits, ENGINE_READS_AUTO, PROBE_DEPTH, seconds};
    struct probe found = {0};
    int rc = probe_store(s, &wish, &found, e);
    *rate = found.gbs * 1e9;
    return rc;
}
