/* Probing the disk: see probe.h. */
#include "stream/probe.h"

#include <errno.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/os.h"
#include "base/rng.h"

static const int depths[] = {4, 8, 16};
enum { N_DEPTHS = sizeof depths / sizeof *depths };
#define PROBE_GAIN 1.05 /* less is noise */

int probe_run(struct reader *r, const struct probe_what *w, int depth, double seconds,
              struct probe *out, struct err *e)
{
    struct read_result done[READER_DEPTH_MAX];
    uint64_t start = clock_ns(), k = 0;
    int n_flight = 0, error = 0;
    *out = (struct probe){.depth = depth};
    for (int i = 0; i < depth && i < READER_DEPTH_MAX; i++)
        done[i].user = w->room + (size_t)i * w->unit;
    for (int n = depth;;) {
        bool more = !error && !interrupt_asked() && clock_seconds_since(start) < seconds;
        for (int i = 0; i < n && more; i++, n_flight++)
            r->ops->submit(r, &(struct read_request){.file = w->file,
                                                     .off = rng_at(w->seed, k++) % w->n * w->stride,
                                                     .to = done[i].user,
                                                     .len = (size_t)w->stride,
                                                     .want = (size_t)w->stride,
                                                     .user = done[i].user});
        if (!n_flight)
            break;
        n = r->ops->collect(r, true, done, READER_DEPTH_MAX);
        n_flight -= n;
        for (int i = 0; i < n; i++) {
            error = error ? error : done[i].error;
            out->bytes += done[i].error ? 0 : w->stride;
        }
    }
    out->seconds = clock_seconds_since(start);
    out->gbs = out->seconds > 0 ? (double)out->bytes / out->seconds * 1e-9 : 0;
    errno = error;
    return error ? err_sys(e, "records cannot be read; check the disk") : interrupt_check(e);
}

int probe_depth(struct reader *r, const struct probe_what *w, double seconds, int *depth,
                struct err *e)
{
    double best = 0;
    *depth = r->depth < depths[0] ? r->depth : depths[0];
    for (int i = 0; i < N_DEPTHS && depths[i] <= r->depth; i++) {
        struct probe_what mine = *w;
        struct probe p;
        mine.seed += (uint64_t)i;
        int rc = probe_run(r, &mine, depths[i], seconds / N_DEPTHS, &p, e);
        if (rc)
            return rc;
        if (p.gbs > best * PROBE_GAIN) {
            best = p.gbs;
            *depth = depths[i];
        }
    }
    return 0;
}

int probe_store(const struct store *s, const struct probe_wish *wish, struct probe *out,
                struct err *e)
{
    const struct records *records;
    struct reader *r = NULL;
    struct os_pages pages = {0};
    struct probe_what w = {.seed = clock_ns()};
    int depth = wish->depth, most = depth ? depth : depths[N_DEPTHS - 1];
    int rc = store_records(s, wish->bits, &records, e);
    if (!rc)
        rc = reader_open(wish->how, most, &r, e);
    if (!rc)
        rc = r->ops->add(r, records->path, &w.file, e);
    if (!rc)
        rc = os_pages_take((size_t)most * (size_t)records->stride, &pages, e);
    if (!rc) {
        w.stride = w.unit = records->stride;
        w.n = records->n;
        w.room = pages.data;
        if (!depth)
            rc = probe_depth(r, &w, wish->seconds / 2, &depth, e);
    }
    w.seed += N_DEPTHS;
    if (!rc)
        rc = probe_run(r, &w, depth, wish->seconds, out, e);
    if (r)
        r->ops->close(r);
    os_pages_free(&pages);
    return rc;
}
