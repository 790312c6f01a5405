/* Reads by threads: as many as requests may be in flight, each with one pread at a time. See
 * reader.h. Works on every system; also where io_uring is forbidden.
 *
 * One lock guards both rings. The stepping thread writes requests and takes results, the threads
 * the other way round; a buffer belongs to the thread that took its request until its result is
 * taken. */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/os.h"
#include "stream/reader.h"

struct request {
    struct read_request q;
    uint64_t start_ns;
};

struct pread_reader {
    struct reader base;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    struct request request[READER_DEPTH_MAX]; /* a ring */
    struct read_result result[READER_DEPTH_MAX];
    unsigned request_from, request_to, result_from, result_to;
    int n_flight; /* submitted and not collected; the stepping thread's own */
    bool stop;
    int fd[READER_FILES_MAX];
    bool direct[READER_FILES_MAX];
    int n_files, n_threads;
    pthread_t thread[READER_DEPTH_MAX];
};

static const struct reader_ops ops;
static void *work(void *arg);

int reader_pread_open(int depth, struct reader **out, struct err *e)
{
    assert(depth >= 1 && depth <= READER_DEPTH_MAX);
    struct pread_reader *r = mem_zalloc(1, sizeof *r);
    *out = NULL;
    if (!r)
        return ERR(e, E_NOMEM, "out of memory for %d reading threads", depth);
    r->base = (struct reader){.ops = &ops, .depth = depth};
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->work, NULL);
    pthread_cond_init(&r->done, NULL);
    while (r->n_threads < depth &&
           !(errno = pthread_create(&r->thread[r->n_threads], NULL, work, r)))
        r->n_threads++;
    if (!r->n_threads) { /* fewer than asked for will do */
        int rc = err_sys(e, "no thread for reading (ulimit -u and -v set limits)");
        ops.close(&r->base);
        return rc;
    }
    *out = &r->base;
    return 0;
}

static int pread_add(struct reader *reader, const char *path, int *file, struct err *e)
{
    struct pread_reader *r = (struct pread_reader *)reader;
    assert(r->n_files < READER_FILES_MAX);
    int i = r->n_files, rc = os_open_direct(path, &r->fd[i], &r->direct[i], e);
    if (rc)
        return rc;
    r->n_files++;
    *file = i;
    return 0;
}

static void pread_submit(struct reader *reader, const struct read_request *q)
{
    struct pread_reader *r = (struct pread_reader *)reader;
    assert(r->n_flight < r->base.depth);
    r->n_flight++;
    pthread_mutex_lock(&r->lock);
    r->request[r->request_to++ % READER_DEPTH_MAX] =
        (struct request){.q = *q, .start_ns = clock_ns()};
    pthread_cond_signal(&r->work);
    pthread_mutex_unlock(&r->lock);
}

static int pread_collect(struct reader *reader, bool wait, struct read_result *out, int max)
{
    struct pread_reader *r = (struct pread_reader *)reader;
    int n = 0;
    pthread_mutex_lock(&r->lock);
    while (wait && r->n_flight && r->result_from == r->result_to)
        pthread_cond_wait(&r->done, &r->lock);
    for (; n < max && r->result_from != r->result_to; n++)
        out[n] = r->result[r->result_from++ % READER_DEPTH_MAX];
    pthread_mutex_unlock(&r->lock);
    r->n_flight -= n;
    return n;
}

static void pread_close(struct reader *reader)
{
    struct pread_reader *r = (struct pread_reader *)reader;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_broadcast(&r->work);
    pthread_mutex_unlock(&r->lock);
    for (int i = 0; i < r->n_threads; i++)
        pthread_join(r->thread[i], NULL);
    for (int i = 0; i < r->n_files; i++)
        os_close(r->fd[i]);
    pthread_cond_destroy(&r->work);
    pthread_cond_destroy(&r->done);
    pthread_mutex_destroy(&r->lock);
    mem_free(r);
}

static const struct reader_ops ops = {.name = "pread",
                                      .add = pread_add,
                                      .submit = pread_submit,
                                      .collect = pread_collect,
                                      .close = pread_close};

/* 0 or errno. What a signal interrupts or the system shortens is tried again from where it
 * stopped. */
static int read_whole(const struct pread_reader *r, const struct read_request *q)
{
    size_t got = 0;
    while (got < q->want) {
        ssize_t n =
            pread(r->fd[q->file], (uint8_t *)q->to + got, q->len - got, (off_t)(q->off + got));
        if (n < 0 && errno != EINTR)
            return errno;
        if (n >= 0 && !reader_advance(q, &got, (size_t)n))
            return EIO;
    }
    if (!r->direct[q->file])
        os_drop_cache(r->fd[q->file], q->off, q->len);
    return 0;
}

static void *work(void *arg)
{
    struct pread_reader *r = arg;
    pthread_mutex_lock(&r->lock);
    for (;;) {
        while (!r->stop && r->request_from == r->request_to)
            pthread_cond_wait(&r->work, &r->lock);
        if (r->request_from == r->request_to)
            break; /* stopped, and nothing is left to do */
        struct request x = r->request[r->request_from++ % READER_DEPTH_MAX];
        pthread_mutex_unlock(&r->lock);
        int error = read_whole(r, &x.q);
        pthread_mutex_lock(&r->lock);
        r->result[r->result_to++ % READER_DEPTH_MAX] =
            (struct read_result){.user = x.q.user, .error = error, .ns = clock_ns() - x.start_ns};
        pthread_cond_signal(&r->done);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}
