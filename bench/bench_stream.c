/* Visits with no arithmetic between them: how much of the disk's measured rate a stream gets while
 * reads that it was asked for are open, in steps of one token (10 experts of a layer) and of eight,
 * and in a prefill that goes through all of them.
 *
 *      bench_stream STORE     of the released model's shape, larger than memory or not: reads are
 *                             direct */
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "stream/probe.h"
#include "stream/stream.h"

static const double seconds = 2.0;

/* n distinct experts of E, by a random start and a random odd step. */
static void choose(int E, int n, uint64_t seed, struct stream_use *uses)
{
    uint64_t at = rng_at(seed, 0), step = rng_at(seed, 1) | 1;
    while (E % 2 && step % (uint64_t)E == 0)
        step += 2;
    for (int i = 0; i < n; i++)
        uses[i] = (struct stream_use){.expert = (int)((at + step * (uint64_t)i) % (uint64_t)E),
                                      .rows = 1};
}

static int visit(struct stream *st, int il, const struct stream_use *uses, int n, enum cause cause,
                 struct err *e)
{
    struct stream_entry got[8];
    int n_got, rc = stream_begin(st, il, uses, n, cause, e);
    do {
        rc = rc ? rc : stream_ready(st, true, got, 8, &n_got, e);
        for (int i = 0; !rc && i < n_got; i++)
            stream_done(st, got[i].i);
    } while (!rc && n_got);
    stream_end(st);
    return rc;
}

static int measure(const struct store *s, int n, enum cause cause, double disk, struct err *e)
{
    const struct expert_layout *x = &s->manifest.experts;
    struct counters c = {0};
    struct stream_use *uses = mem_zalloc((size_t)x->E, sizeof *uses);
    struct stream *st = NULL;
    const struct stream_options o = {.bits = store_bits_best(s),
                                     .slots = 4 * stream_slots_min(s),
                                     .no_lookahead = true,
                                     .counters = &c};
    n = n < x->E ? n : x->E;
    int rc = counters_open(&c, x->n_layers, x->E, e);
    rc = rc || uses ? rc : ERR(e, E_NOMEM, "out of memory");
    rc = rc ? rc : stream_open(s, &o, &st, e);
    uint64_t start = 0, v = 0, bytes = 0, read_ns = 0;
    while (!rc && (!start || clock_seconds_since(start) < seconds)) {
        choose(x->E, n, v, uses);
        rc = visit(st, (int)(v++ % (uint64_t)x->n_layers), uses, n, cause, e);
        if (start || c.bytes[cause] < 2 * c.pool_bytes)
            continue; /* memory that is touched for the first time is slow */
        start = clock_ns();
        bytes = c.bytes[cause];
        read_ns = c.read_ns;
    }
    bytes = c.bytes[cause] - bytes;
    read_ns = c.read_ns - read_ns;
    double all = (double)bytes / (double)(clock_ns() - start);
    double open = read_ns ? (double)bytes / (double)read_ns : 0;
    if (!rc)
        printf("%-8s %3d experts a visit  %5.2f GB/s, %5.2f while reads were open: %.2f of %.2f\n",
               cause_name(cause), n, all, open, open / disk, disk);
    stream_close(st);
    counters_close(&c);
    mem_free(uses);
    return rc;
}

int main(int argc, char **argv)
{
    static const struct {
        int n;
        enum cause cause;
    } runs[] = {{10, CAUSE_DEMAND}, {75, CAUSE_DEMAND}, {512, CAUSE_PREFILL}};
    struct err e = {0};
    struct store *s = NULL;
    struct probe p;
    if (argc != 2) {
        printf("skipped: needs a store (bench_stream STORE); `cherenkov synth` makes one\n");
        return 0;
    }
    int rc = store_open(argv[1], &s, &e);
    for (size_t i = 0; !rc && i < sizeof runs / sizeof *runs; i++) {
        const struct probe_wish w = {.bits = store_bits_best(s), .seconds = seconds};
        rc = probe_store(s, &w, &p, &e); /* each time: a shared disk has moods */
        if (!rc)
            rc = measure(s, runs[i].n, runs[i].cause, p.gbs, &e);
    }
    if (rc)
        fprintf(stderr, "bench_stream: %s\n", e.msg);
    store_close(s);
    return rc ? 1 : 0;
}
