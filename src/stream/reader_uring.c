/* Reads by io_uring, with registered files. See reader.h. Linux, and only where liburing was there
 * when this was built (HAVE_LIBURING, which the Makefile finds out); elsewhere, and where the
 * kernel forbids it, opening says so.
 *
 * Buffers are not registered: that pins memory on the stepping thread, and cost up to 0.5 s for
 * each slot of a pool that was new; a stream got 0.1 of the disk's rate with it and 1.0 without
 * (bench_stream, 8 layers of the released shape, 2 cores under load).
 *
 * All of it belongs to the stepping thread; the kernel writes into a buffer from submission to
 * completion. */
#include "stream/reader.h"

#ifndef HAVE_LIBURING

int reader_uring_open(int depth, struct reader **out, struct err *e)
{
    (void)depth;
    *out = NULL;
    return ERR(e, E_UNSUPPORTED, "io_uring: this program was built without liburing");
}

#else

#include <assert.h>
#include <errno.h>
#include <liburing.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/os.h"

struct request {
    struct read_request q;
    size_t got;
    uint64_t start_ns;
    struct request *next; /* free ones */
};

struct uring_reader {
    struct reader base;
    struct io_uring ring;
    struct request request[READER_DEPTH_MAX], *free;
    int n_flight;
    int fd[READER_FILES_MAX];
    bool direct[READER_FILES_MAX];
    int n_files;
    bool fixed_files; /* false: the kernel would not register them */
};

static const struct reader_ops ops;
static void issue(struct uring_reader *r, struct request *x);

int reader_uring_open(int depth, struct reader **out, struct err *e)
{
    assert(depth >= 1 && depth <= READER_DEPTH_MAX);
    struct uring_reader *r = mem_zalloc(1, sizeof *r);
    *out = NULL;
    if (!r)
        return ERR(e, E_NOMEM, "out of memory for %d reads in flight", depth);
    int rc = io_uring_queue_init((unsigned)depth, &r->ring, 0);
    if (rc < 0) {
        mem_free(r);
        errno = -rc;
        struct err why = {0};
        (void)err_sys(&why, "the kernel refused it");
        return ERR(e, E_UNSUPPORTED, "io_uring: %s", why.msg);
    }
    r->base = (struct reader){.ops = &ops, .depth = depth};
    r->fixed_files = io_uring_register_files_sparse(&r->ring, READER_FILES_MAX) == 0;
    for (int i = 0; i < depth; i++) {
        r->request[i].next = r->free;
        r->free = &r->request[i];
    }
    *out = &r->base;
    return 0;
}

static int uring_add(struct reader *reader, const char *path, int *file, struct err *e)
{
    struct uring_reader *r = (struct uring_reader *)reader;
    assert(r->n_files < READER_FILES_MAX);
    int i = r->n_files, rc = os_open_direct(path, &r->fd[i], &r->direct[i], e);
    if (rc)
        return rc;
    r->fixed_files =
        r->fixed_files && io_uring_register_files_update(&r->ring, (unsigned)i, &r->fd[i], 1) == 1;
    r->n_files++;
    *file = i;
    return 0;
}

static void uring_submit(struct reader *reader, const struct read_request *q)
{
    struct uring_reader *r = (struct uring_reader *)reader;
    struct request *x = r->free;
    assert(x);
    r->free = x->next;
    r->n_flight++;
    *x = (struct request){.q = *q, .start_ns = clock_ns()};
    issue(r, x);
}

/* Hands the rest of a request to the kernel. What the kernel does not take now stays in the ring
 * and goes with the next call. */
static void issue(struct uring_reader *r, struct request *x)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);
    assert(sqe); /* as many entries as requests */
    uint8_t *to = (uint8_t *)x->q.to + x->got;
    unsigned n = (unsigned)(x->q.len - x->got);
    uint64_t off = x->q.off + x->got;
    int fd = r->fixed_files ? x->q.file : r->fd[x->q.file];
    io_uring_prep_read(sqe, fd, to, n, off);
    if (r->fixed_files)
        sqe->flags |= IOSQE_FIXED_FILE;
    io_uring_sqe_set_data(sqe, x);
    (void)io_uring_submit(&r->ring);
}

/* What one completion means: true when its request has ended, with *error. What a signal
 * interrupted or the system shortened goes on from where it stopped. */
static bool ended(struct uring_reader *r, struct request *x, int res, int *error)
{
    *error = 0;
    if (res == -EINTR || res == -EAGAIN) {
        issue(r, x);
        return false;
    }
    if (res < 0 || !reader_advance(&x->q, &x->got, (size_t)res)) {
        *error = res < 0 ? -res : EIO;
        return true;
    }
    if (x->got >= x->q.want)
        return true;
    issue(r, x);
    return false;
}

static int uring_collect(struct reader *reader, bool wait, struct read_result *out, int max)
{
    struct uring_reader *r = (struct uring_reader *)reader;
    struct io_uring_cqe *cqe;
    int n = 0;
    while (n < max && r->n_flight) {
        if (io_uring_peek_cqe(&r->ring, &cqe)) {
            if (n || !wait)
                break;
            int rc = io_uring_submit_and_wait(&r->ring, 1);
            assert(rc >= 0 || rc == -EINTR || rc == -EAGAIN || rc == -EBUSY);
            continue;
        }
        struct request *x = io_uring_cqe_get_data(cqe);
        int res = cqe->res, error;
        io_uring_cqe_seen(&r->ring, cqe);
        if (!ended(r, x, res, &error))
            continue;
        if (!r->direct[x->q.file])
            os_drop_cache(r->fd[x->q.file], x->q.off, x->q.len);
        out[n++] =
            (struct read_result){.user = x->q.user, .error = error, .ns = clock_ns() - x->start_ns};
        x->next = r->free;
        r->free = x;
        r->n_flight--;
    }
    return n;
}

static void uring_close(struct reader *reader)
{
    struct uring_reader *r = (struct uring_reader *)reader;
    struct read_result lost[READER_DEPTH_MAX];
    while (r->n_flight)
        uring_collect(reader, true, lost, READER_DEPTH_MAX);
    io_uring_queue_exit(&r->ring);
    for (int i = 0; i < r->n_files; i++)
        os_close(r->fd[i]);
    mem_free(r);
}

static const struct reader_ops ops = {.name = "io_uring",
                                      .add = uring_add,
                                      .submit = uring_submit,
                                      .collect = uring_collect,
                                      .close = uring_close};

#endif
