/* Reading a disk: GB/s of whole records in random order, read directly, by reader and reads in
 * flight, beside one pass through the same file in order.
 *
 *      bench_read [FILE]     without one, a file of 2 GB is made below build/ and removed */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/rng.h"
#include "stream/probe.h"

enum { STRIDE = 2768896, PIECE = 4 << 20, DEPTH_MAX = 32, RUNS = 3 };
static const char own[] = "build/bench_read.tmp";
static const double seconds = 0.7;

static int make_file(struct err *e)
{
    struct file f = FILE_CLOSED;
    uint64_t *piece = mem_alloc(PIECE);
    if (!piece)
        return ERR(e, E_NOMEM, "out of memory");
    int rc = file_create(own, &f, e);
    for (uint64_t at = 0; !rc && at < (uint64_t)2000 * 1000 * 1000; at += PIECE) {
        for (uint64_t i = 0; i < PIECE / 8; i++)
            piece[i] = rng_splitmix64(at + i);
        rc = file_write_at(&f, at, piece, PIECE, e);
    }
    if (!rc)
        rc = file_sync(&f, e);
    if (!rc)
        os_drop_cache(f.fd, 0, 0);
    file_drop(&f);
    mem_free(piece);
    return rc;
}

/* All of the file in order, 4 pieces in flight; GB/s, 0 when a read failed. */
static double in_order(struct reader *r, int file, uint64_t size, uint8_t *room)
{
    enum { FLIGHT = 4 };
    struct read_result done[FLIGHT];
    uint64_t start = clock_ns(), at = 0;
    int n = FLIGHT, n_flight = 0;
    bool failed = false;
    for (int i = 0; i < FLIGHT; i++)
        done[i].user = room + (size_t)i * PIECE;
    size = size / PIECE * PIECE;
    do {
        for (int i = 0; i < n && at < size && !failed; i++, at += PIECE, n_flight++)
            r->ops->submit(r, &(struct read_request){.file = file,
                                                     .off = at,
                                                     .to = done[i].user,
                                                     .len = PIECE,
                                                     .want = PIECE,
                                                     .user = done[i].user});
        n = r->ops->collect(r, true, done, FLIGHT);
        n_flight -= n;
        for (int i = 0; i < n; i++)
            failed = failed || done[i].error;
    } while (n_flight || (at < size && !failed));
    return failed ? 0 : (double)size * 1e-9 / clock_seconds_since(start);
}

static int measure(const char *path, uint64_t size, enum engine_reads how, uint8_t *room,
                   struct err *e)
{
    for (int depth = 1; depth <= DEPTH_MAX; depth *= 2) {
        struct reader *r;
        struct probe_what w = {.stride = STRIDE, .n = size / STRIDE, .room = room, .unit = STRIDE};
        double best = 0;
        int rc = reader_open(how, depth, &r, e);
        if (!rc)
            rc = r->ops->add(r, path, &w.file, e);
        for (int i = 0; !rc && i < RUNS; i++) {
            struct probe p;
            w.seed = (uint64_t)(depth * RUNS + i);
            rc = probe_run(r, &w, depth, seconds, &p, e);
            best = p.gbs > best ? p.gbs : best;
        }
        if (!rc) {
            printf("%-9s %2d in flight  %6.2f GB/s\n", r->ops->name, depth, best);
            if (depth == 4)
                printf("%-9s in order      %6.2f GB/s\n", r->ops->name,
                       in_order(r, w.file, size, room));
        }
        if (r)
            r->ops->close(r);
        if (rc)
            return rc;
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : own;
    struct err e = {0};
    struct file f = FILE_CLOSED;
    struct os_pages pages = {0};
    int rc = argc > 1 ? 0 : make_file(&e);
    if (!rc)
        rc = file_open(path, &f, &e);
    if (!rc && f.size < (uint64_t)DEPTH_MAX * STRIDE)
        rc =
            ERR(&e, E_ARG, "%s: is too small, want some hundred records of %d bytes", path, STRIDE);
    if (!rc)
        rc = os_pages_take((size_t)DEPTH_MAX * STRIDE, &pages, &e);
    if (!rc) {
        printf("records of %d bytes in random order, best of %d times %.1f s\n", STRIDE, RUNS,
               seconds);
        struct err none = {0};
        if (measure(path, f.size, ENGINE_READS_URING, pages.data, &none))
            printf("%s\n", none.msg);
        rc = measure(path, f.size, ENGINE_READS_PREAD, pages.data, &e);
    }
    if (rc)
        fprintf(stderr, "bench_read: %s\n", e.msg);
    os_pages_free(&pages);
    file_drop(&f);
    if (argc == 1) {
        struct err ignored = {0};
        (void)file_remove(own, &ignored);
    }
    return rc ? 1 : 0;
}
