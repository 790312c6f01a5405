/* What this machine can do at most: see machine.h. */
#include "runner/machine.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/rng.h"
#include "base/thread.h"
#include "stream/reader.h"

enum { REPETITIONS = 6, SWEEPS = 3, THREADS_MAX = 256, LANES = 16 };

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
        rc = thread_for(n, (size_t)n, sweep, &s, e);
        double found = (double)(s.words * 8 * (size_t)n * SWEEPS) / clock_seconds_since(start);
        *rate = found > *rate ? found : *rate;
    }
    os_pages_free(&block);
    return rc;
}

static int open_reader(const char *path, int depth, struct reader **out, int *file, struct err *e)
{
    struct err why = {0};
    int rc = reader_uring_open(depth, out, &why);
    if (rc)
        rc = reader_pread_open(depth, out, e);
    return rc ? rc : (*out)->ops->add(*out, path, file, e);
}

/* Keeps depth reads in flight until the time is over. */
static int read_records(const struct records *r, struct reader *d, int file, uint8_t *room,
                        double seconds, double *rate, struct err *e)
{
    struct read_result done[READER_DEPTH_MAX];
    uint64_t start = clock_ns(), seed = start, asked = 0, bytes = 0;
    int in_flight = 0, rc = 0;
    for (int i = 0; i < d->depth; i++)
        done[i].user = room + (size_t)i * r->stride;
    for (int n = d->depth; n || in_flight;) {
        bool more = !rc && clock_seconds_since(start) < seconds;
        for (int i = 0; more && i < n; i++, in_flight++)
            d->ops->submit(d, &(struct read_request){
                                  .file = file,
                                  .off = rng_at(seed, asked++) % r->n * r->stride,
                                  .to = done[i].user,
                                  .len = (size_t)r->stride,
                                  .want = (size_t)r->stride,
                                  .user = done[i].user,
                              });
        n = in_flight ? d->ops->collect(d, true, done, d->depth) : 0;
        in_flight -= n;
        for (int i = 0; i < n; i++) {
            bytes += r->stride;
            if (done[i].error && !rc)
                rc = ERR(e, E_IO, "%s: a record could not be read (error %d)", r->path,
                         done[i].error);
        }
    }
    *rate = (double)bytes / clock_seconds_since(start);
    return rc;
}

int machine_disk_rate(const struct records *r, int depth, double seconds, double *rate,
                      struct err *e)
{
    struct reader *d = NULL;
    int file = 0;
    depth = depth < READER_DEPTH_MAX ? depth : READER_DEPTH_MAX;
    uint8_t *room = mem_aligned(READER_ALIGN, (size_t)depth * (size_t)r->stride);
    int rc = room ? open_reader(r->path, depth, &d, &file, e)
                  : ERR(e, E_NOMEM, "out of memory for %d records", depth);
    if (!rc)
        rc = read_records(r, d, file, room, seconds, rate, e);
    if (d)
        d->ops->close(d);
    mem_free(room);
    return rc;
}
