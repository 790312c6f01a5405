/* The daemon and the reading of requests: see http.h. */
#include "server/http_inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

enum {
    THREADS = 2,
    CONNECTION_BYTES = 16 << 10, /* headers of a request and of its answer; touched as needed */
    OVERSIZE_FACTOR = 4,         /* a body this many times too long is not read to its end */
    STOP_WAIT_MS = 2000,
};

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *n, void **state);
static void on_completed(void *ctx, struct MHD_Connection *c, void **state,
                         enum MHD_RequestTerminationCode why);

/* Errors of single connections are their clients' business. */
static void say_nothing(void *ctx, const char *fmt, va_list ap)
{
    (void)ctx;
    (void)fmt;
    (void)ap;
}

static int start_daemon(struct http *h, struct err *e)
{
    const unsigned flags =
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    h->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, h, MHD_OPTION_EXTERNAL_LOGGER, say_nothing, NULL,
        MHD_OPTION_LISTEN_SOCKET, h->o.listen_fd, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)THREADS,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)h->o.connections, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)h->o.idle_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_END);
    return h->daemon ? 0
                     : ERR(e, E_IO, "cannot start the HTTP server; are there descriptors left?");
}

int http_start(const struct http_options *o, struct http **out, struct err *e)
{
    *out = NULL;
    struct http *h = mem_zalloc(1, sizeof *h);
    if (!h) {
        close(o->listen_fd);
        return ERR(e, E_NOMEM, "no memory for the HTTP server");
    }
    h->o = *o;
    h->epoll = h->wake = -1;
    pthread_mutex_init(&h->lock, NULL);
    if (o->cors && !(h->cors = mem_strdup(o->cors)))
        (void)ERR(e, E_NOMEM, "no memory for the HTTP server");
    if (e->code || watch_start(h, e)) {
        close(o->listen_fd);
        http_free(h);
        return -e->code;
    }
    if (start_daemon(h, e)) {
        atomic_store(&h->stopping, true);
        watch_stop(h);
        close(o->listen_fd);
        http_free(h);
        return -e->code;
    }
    *out = h;
    return 0;
}

void http_drain(struct http *h)
{
    atomic_store(&h->quiet, true);
}

void http_quiesce(struct http *h)
{
    http_drain(h);
    if (h->o.listen_fd < 0)
        return;
    MHD_quiesce_daemon(h->daemon);
    close(h->o.listen_fd);
    h->o.listen_fd = -1;
}

int http_exchanges(struct http *h)
{
    pthread_mutex_lock(&h->lock);
    const int n = h->n_exchanges;
    pthread_mutex_unlock(&h->lock);
    return n;
}

unsigned long http_answers(struct http *h, int class)
{
    return atomic_load(&h->answers[class]);
}

/* Loses every exchange that is open. One at a time, because losing one calls out. */
static void lose_all(struct http *h)
{
    for (uint64_t below = UINT64_MAX;;) {
        pthread_mutex_lock(&h->lock);
        struct exchange *x = h->first; /* newest first */
        while (x && x->number >= below)
            x = x->next;
        if (x)
            exchange_keep(x);
        pthread_mutex_unlock(&h->lock);
        if (!x)
            return;
        below = x->number;
        exchange_lose(x);
        exchange_release(x);
    }
}

/* A connection that is still suspended would end the program in MHD_stop_daemon, so all of them
 * are given the time to notice. */
void http_stop(struct http *h)
{
    http_quiesce(h);
    atomic_store(&h->stopping, true);
    lose_all(h);
    for (int ms = 0; http_exchanges(h) && ms < STOP_WAIT_MS; ms++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        lose_all(h);
    }
    MHD_stop_daemon(h->daemon);
    watch_stop(h);
}

void http_free(struct http *h)
{
    if (!h)
        return;
    if (h->epoll >= 0)
        close(h->epoll);
    if (h->wake >= 0)
        close(h->wake);
    pthread_mutex_destroy(&h->lock);
    mem_free(h->cors);
    mem_free(h);
}

/* --- reading a request --- */

/* The first call, when only the headers are there. An answer given here comes before the body, and
 * the connection is closed behind it. */
static enum MHD_Result begin(struct http *h, struct MHD_Connection *c, const char *url,
                             const char *method, void **state)
{
    struct exchange *x = exchange_new(h, c, method, url);
    if (!x)
        return MHD_NO;
    *state = x;
    const char *length = exchange_header(x, "Content-Length");
    if (length && strtoull(length, NULL, 10) > h->o.body_max) {
        http_refuse(x, 413);
        return exchange_answer(x);
    }
    return MHD_YES;
}

void http_refuse(struct exchange *x, int status)
{
    char why[160];
    struct buf body = BUF_INIT;
    if (status == 413)
        snprintf(why, sizeof why, "the request's body is longer than %zu bytes",
                 x->http->o.body_max);
    else
        snprintf(why, sizeof why, "no memory for the request's body; try again later");
    if (status == 503)
        exchange_set_header(x, "Retry-After", "1");
    const char *type = x->http->o.refuse(x->http->o.ctx, x, status, why, &body);
    exchange_reply(x, status, type, &body);
}

/* Keeps a piece of the body. What is too long is read on for a while and dropped, so that the
 * client gets to read why. */
static enum MHD_Result more(struct exchange *x, const char *data, size_t *n)
{
    struct http *h = x->http;
    x->body_bytes += *n;
    if (!x->refused && x->body_bytes > h->o.body_max)
        x->refused = 413;
    if (!x->refused) {
        const size_t before = x->body.cap;
        buf_add(&x->body, data, *n);
        const size_t grown = x->body.cap - before;
        const size_t held = atomic_fetch_add(&h->bodies, grown) + grown;
        if (x->body.failed || held > h->o.bodies_max)
            x->refused = 503;
    }
    *n = 0;
    return x->body_bytes / OVERSIZE_FACTOR > h->o.body_max ? MHD_NO : MHD_YES;
}

static void whole(struct exchange *x)
{
    const union MHD_ConnectionInfo *fd =
        MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    x->handled = true;
    watch_add(x, fd ? fd->connect_fd : -1);
    if (x->refused)
        http_refuse(x, x->refused);
    else
        x->http->o.handle(x->http->o.ctx, x);
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *n, void **state)
{
    struct exchange *x = *state;
    (void)version;
    if (!x)
        return begin(ctx, c, url, method, state);
    if (*n)
        return more(x, data, n);
    if (!x->handled)
        whole(x);
    return exchange_answer(x);
}

static void on_completed(void *ctx, struct MHD_Connection *c, void **state,
                         enum MHD_RequestTerminationCode why)
{
    struct http *h = ctx;
    struct exchange *x = *state;
    (void)c;
    if (!x)
        return;
    *state = NULL;
    watch_remove(x);
    if (why != MHD_REQUEST_TERMINATED_COMPLETED_OK)
        exchange_lose(x);
    pthread_mutex_lock(&h->lock);
    if (x->prev)
        x->prev->next = x->next;
    else
        h->first = x->next;
    if (x->next)
        x->next->prev = x->prev;
    h->n_exchanges--;
    pthread_mutex_unlock(&h->lock);
    exchange_release(x);
}
