/* What a device and the seam to it cost, without a model: a dispatch that depends on the one
 * before, a round trip between host and device, reading and copying device memory, and getting
 * records there from the host.
 *
 *      bench_gpu_seam            the device that the gpu engine would use, or CHERENKOV_DEVICE
 *
 * Medians of 9 unless a line says otherwise. Compare with the device's own figures: a round trip of
 * 8 to 9 us and a dispatch of 1.7 us were measured on an H200 without this seam. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/os.h"
#include "gpu/device.h"
#include "gpu/params.h"

enum { RUNS = 9, CHAIN = 1000, STAGES = 96, STEPS = 60, LINE = 128, RECORD = 2768896 };

struct bench {
    struct device *d;
    const struct kernel *copy, *read;
    size_t bytes; /* of the large buffers */
    struct device_buffer a, b, small;
};

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

/* Runs a tape RUNS times: medians of the device's time between its two stamps and of the host's. */
static int run(struct bench *m, struct tape *t, double *device_ns, double *host_ns, struct err *e)
{
    double dev[RUNS], host[RUNS];
    int rc = 0;
    for (int i = -1; !rc && i < RUNS; i++) {
        uint64_t value, start = clock_ns();
        rc = device_submit(m->d, t, &value, e);
        if (!rc)
            rc = device_wait(m->d, value, e);
        if (i < 0)
            continue;
        host[i] = (double)(clock_ns() - start);
        dev[i] = tape_ns(t, 0, 1);
    }
    *device_ns = rc ? 0 : median(dev, RUNS);
    *host_ns = rc ? 0 : median(host, RUNS);
    return rc;
}

/* CHAIN dispatches of some workgroups each. */
static int chain(struct bench *m, uint32_t groups, bool depend, struct err *e)
{
    struct tape *t;
    double dev, host;
    struct copy_params p = {.to = m->a.address, .words = 256, .to_stride = 256, .fill = 1};
    int rc = tape_open(m->d, 2, &t, e);
    if (rc)
        return rc;
    uint64_t start = clock_ns();
    tape_begin(t);
    tape_stamp(t);
    for (int i = 0; i < CHAIN; i++) {
        tape_dispatch(t, m->copy, &p, sizeof p, (struct grid){1, groups, 1});
        if (depend)
            tape_barrier(t);
    }
    tape_stamp(t);
    rc = tape_end(t, e);
    double record = (double)(clock_ns() - start);
    if (!rc)
        rc = run(m, t, &dev, &host, e);
    if (!rc)
        printf("dispatch, %3u workgroups, %-11s %8.2f us  (host %.2f us, recording %.2f us)\n",
               groups, depend ? "dependent" : "independent", dev * 1e-3 / CHAIN,
               host * 1e-3 / CHAIN, record * 1e-3 / CHAIN);
    tape_close(t);
    return rc;
}

/* --- round trips --- */

struct trip {
    struct tape *tape[STAGES];
    struct device_buffer in, out;
    uint64_t go; /* the last value used */
    double us[STEPS];
};

static uint32_t *line(const struct device_buffer *b, int i)
{
    return (uint32_t *)((char *)b->host + (size_t)i * LINE);
}

/* One stage: the device copies the host's word to where the host sees it. */
static int trip_open(struct bench *m, struct trip *t, struct err *e)
{
    int rc = device_take(m->d, DEVICE_SHARED, STAGES * LINE, &t->in, e);
    if (!rc)
        rc = device_take(m->d, DEVICE_BACK, STAGES * LINE, &t->out, e);
    for (int i = 0; !rc && i < STAGES; i++) {
        struct copy_params p = {.from = t->in.address + (uint64_t)i * LINE,
                                .to = t->out.address + (uint64_t)i * LINE,
                                .words = 1};
        rc = tape_open(m->d, 0, &t->tape[i], e);
        if (rc)
            break;
        tape_begin(t->tape[i]);
        tape_dispatch(t->tape[i], m->copy, &p, sizeof p, (struct grid){1, 1, 1});
        rc = tape_end(t->tape[i], e);
    }
    return rc;
}

static void trip_close(struct bench *m, struct trip *t)
{
    for (int i = 0; i < STAGES; i++)
        tape_close(t->tape[i]);
    device_free(m->d, &t->in);
    device_free(m->d, &t->out);
}

/* A step: every word depends on the device's answer before. *wrong counts stale answers. */
static int step(struct bench *m, struct trip *t, bool ahead, long *wrong, struct err *e)
{
    uint64_t go[STAGES], value = 0, last;
    for (int i = 0; i < STAGES; i++)
        go[i] = t->go + (uint64_t)i + 1;
    int rc = ahead ? device_submit_ahead(m->d, t->tape, STAGES, go, &value, e) : 0;
    uint32_t word = (uint32_t)t->go + 1;
    for (int i = 0; !rc && i < STAGES; i++) {
        *line(&t->in, i) = word;
        if (ahead)
            rc = device_release(m->d, go[i], e);
        else
            rc = device_submit(m->d, t->tape[i], &value, e);
        last = ahead ? value - (STAGES - 1) + (uint64_t)i : value;
        if (!rc)
            rc = device_wait(m->d, last, e);
        *wrong += *line(&t->out, i) != word;
        word = *line(&t->out, i) * 3 + 1;
    }
    t->go += STAGES;
    return rc;
}

static int trips(struct bench *m, bool ahead, struct err *e)
{
    struct trip *t = mem_zalloc(1, sizeof *t);
    long wrong = 0;
    if (!t)
        return ERR(e, E_NOMEM, "out of memory");
    int rc = trip_open(m, t, e);
    for (int i = -STEPS / 4; !rc && i < STEPS; i++) {
        uint64_t start = clock_ns();
        rc = step(m, t, ahead, &wrong, e);
        if (i >= 0)
            t->us[i] = (double)(clock_ns() - start) * 1e-3 / STAGES;
    }
    if (!rc)
        printf("round trip, %d in a step, %-13s %8.2f us  (%ld wrong answers)\n", STAGES,
               ahead ? "sent ahead" : "on demand", median(t->us, STEPS), wrong);
    trip_close(m, t);
    mem_free(t);
    return rc;
}

/* --- memory --- */

struct job {
    const struct kernel *kernel;
    const void *params;
    size_t n; /* bytes of them */
    struct grid grid;
};

static int one_kernel(struct bench *m, const struct job *j, double *ns, struct err *e)
{
    struct tape *t;
    double host;
    int rc = tape_open(m->d, 2, &t, e);
    if (rc)
        return rc;
    tape_begin(t);
    tape_stamp(t);
    tape_dispatch(t, j->kernel, j->params, j->n, j->grid);
    tape_stamp(t);
    rc = tape_end(t, e);
    if (!rc)
        rc = run(m, t, ns, &host, e);
    if (!rc && *ns <= 0)
        *ns = host;
    tape_close(t);
    return rc;
}

static int memory(struct bench *m, struct err *e)
{
    double ns;
    const uint32_t groups = 4096, words = (uint32_t)(m->bytes / 4);
    struct read_params r = {
        .from = m->a.address, .to = m->small.address, .n = (uint32_t)(m->bytes / 16)};
    struct copy_params c = {.from = m->a.address, .to = m->b.address, .words = words};
    struct job read = {m->read, &r, sizeof r, {groups, 1, 1}};
    struct job copy = {m->copy, &c, sizeof c, {words / COPY_WORDS, 1, 1}};
    int rc = one_kernel(m, &read, &ns, e);
    if (!rc)
        printf("device memory, read            %8.1f GB/s  (%zu MiB)\n", (double)m->bytes / ns,
               m->bytes >> 20);
    if (!rc)
        rc = one_kernel(m, &copy, &ns, e);
    if (!rc)
        printf("device memory, copy            %8.1f GB/s  read and write\n",
               2 * (double)m->bytes / ns);
    return rc;
}

/* n records of `b` beside the tapes, `each` at once with a value of its own: from the start of the
 * first to the end of the last. */
static int beside(struct bench *m, const struct device_buffer *b, int n, int each, struct err *e)
{
    double ns[RUNS];
    int rc = 0;
    for (int i = -1; !rc && i < RUNS; i++) {
        uint64_t start = clock_ns(), value = 0;
        for (int at = 0; !rc && at < n;) {
            struct device_copy c[DEVICE_COPIES_MAX];
            int k = 0;
            for (; k < DEVICE_COPIES_MAX && at < n; k++, at += each) {
                const size_t off = (size_t)at * RECORD, size = (size_t)each * RECORD;
                c[k] = (struct device_copy){b, &m->b, off, off, size};
            }
            rc = device_copy(m->d, c, k, 0, &value, e);
        }
        rc = rc ? rc : device_wait_copied(m->d, value, e);
        if (i >= 0)
            ns[i] = (double)(clock_ns() - start);
    }
    if (!rc)
        printf("copies beside tapes, %3d of %2d records %5.1f GB/s  (%.0f us a record)\n", n / each,
               each, (double)RECORD * n / median(ns, RUNS), median(ns, RUNS) * 1e-3 / n);
    return rc;
}

/* Records from memory of the host that the device reads in place, one and many in a dispatch. */
static int imported(struct bench *m, struct err *e)
{
    struct os_pages pages;
    struct device_buffer b;
    size_t align = device_about(m->d)->import_align;
    int n = (int)(m->bytes / 4 / RECORD), rc = os_pages_take((size_t)n * RECORD, &pages, e);
    if (rc || !align || OS_PAGES_ALIGN % align)
        return rc;
    memset(pages.data, 1, pages.bytes);
    uint64_t start = clock_ns();
    rc = device_import(m->d, pages.data, pages.bytes, &b, e);
    double took = (double)(clock_ns() - start);
    const int counts[] = {1, n};
    for (int i = 0; !rc && i < 2; i++) {
        double ns;
        struct copy_params c = {.from = b.address,
                                .to = m->b.address,
                                .words = RECORD / 4,
                                .from_stride = RECORD / 4,
                                .to_stride = RECORD / 4};
        struct job j = {m->copy,
                        &c,
                        sizeof c,
                        {(RECORD / 4 + COPY_WORDS - 1) / COPY_WORDS, (uint32_t)counts[i], 1}};
        rc = one_kernel(m, &j, &ns, e);
        if (!rc)
            printf("host memory in place, %4d records %6.1f GB/s  (%.0f us a record)\n", counts[i],
                   (double)RECORD * counts[i] / ns, ns * 1e-3 / counts[i]);
    }
    static const int copies[][2] = {{1, 1}, {4, 1}, {48, 1}, {48, 4}, {48, 48}};
    for (size_t i = 0; !rc && i < sizeof copies / sizeof copies[0] && copies[i][0] <= n; i++)
        rc = beside(m, &b, copies[i][0], copies[i][1], e);
    if (!rc)
        printf("importing host memory          %8.2f ms for %zu MiB\n", took * 1e-6,
               pages.bytes >> 20);
    device_free(m->d, &b);
    os_pages_free(&pages);
    return rc;
}

static int uploads(struct bench *m, struct err *e)
{
    size_t n = m->bytes / 4;
    char *data = mem_zalloc(1, n);
    if (!data)
        return ERR(e, E_NOMEM, "out of memory");
    memset(data, 1, n);
    double ns[RUNS];
    int rc = 0;
    for (int i = -1; !rc && i < RUNS; i++) {
        uint64_t start = clock_ns();
        rc = device_upload(m->d, &m->a, 0, data, n, e);
        char back;
        if (!rc)
            rc = device_download(m->d, &m->a, n - 1, &back, 1, e);
        if (i >= 0)
            ns[i] = (double)(clock_ns() - start);
    }
    if (!rc)
        printf("device_upload                  %8.1f GB/s  (%zu MiB)\n",
               (double)n / median(ns, RUNS), n >> 20);
    mem_free(data);
    return rc;
}

static int measure(struct bench *m, struct err *e)
{
    int rc = device_kernel(m->d, "copy", NULL, 0, &m->copy, e);
    if (!rc)
        rc = device_kernel(m->d, "read", NULL, 0, &m->read, e);
    if (!rc)
        rc = device_take(m->d, DEVICE_LOCAL, m->bytes, &m->a, e);
    if (!rc)
        rc = device_take(m->d, DEVICE_LOCAL, m->bytes, &m->b, e);
    if (!rc)
        rc = device_take(m->d, DEVICE_LOCAL, 1 << 16, &m->small, e);
    if (!rc)
        rc = chain(m, 1, true, e);
    if (!rc)
        rc = chain(m, 528, true, e);
    if (!rc)
        rc = chain(m, 1, false, e);
    if (!rc)
        rc = trips(m, true, e);
    if (!rc)
        rc = trips(m, false, e);
    if (!rc)
        rc = memory(m, e);
    if (!rc)
        rc = imported(m, e);
    return rc ? rc : uploads(m, e);
}

int main(void)
{
    struct err e = {0};
    struct bench m = {0};
    uint64_t start = clock_ns();
    if (device_open(NULL, &m.d, &e)) {
        fprintf(stderr, "bench_gpu_seam: %s\n", e.msg);
        return 77;
    }
    const struct device_info *info = device_about(m.d);
    printf("%s, %s; opened in %.0f ms\n", info->name, info->driver,
           clock_seconds_since(start) * 1e3);
    m.bytes = info->kind == DEVICE_SOFTWARE ? (size_t)64 << 20 : (size_t)1 << 30;
    int rc = measure(&m, &e);
    if (rc)
        fprintf(stderr, "bench_gpu_seam: %s\n", e.msg);
    device_free(m.d, &m.a);
    device_free(m.d, &m.b);
    device_free(m.d, &m.small);
    device_close(m.d);
    return rc != 0;
}
