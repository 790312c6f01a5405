/* The daemon and the reading of requests: see http.h. */
#include "server/http_inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

enum {
    THREADS = 2,
    SURPLUS = 64, /* connections that may be open to be told that they are too many */
    CONNECTION_BYTES = 16 << 10, /* headers of a request and of its answer; touched as needed */
    OVERSIZE_FACTOR = 4,         /* a body this many times too long is not read to its end */
    STOP_WAIT_MS = 2000,
    WHY_ROOM = 160,
};
#define TOO_LONG "the request's body is longer than %zu bytes"

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *n, void **state);
static void on_completed(void *ctx, struct MHD_Connection *c, void **state,
                         enum MHD_RequestTerminationCode why);
static void on_connection(void *ctx, struct MHD_Connection *c, void **socket_ctx,
                          enum MHD_ConnectionNotificationCode what);

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
        MHD_OPTION_CONNECTION_LIMIT, THREADS * (unsigned)(h->o.connections + SURPLUS),
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)h->o.idle_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_END);
    return h->daemon ? 0
                     : ERR(e, E_IO,
                           "cannot start the HTTP server: no descriptors, or no memory for its "
                           "threads, are left");
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
    pthread_mutex_init(&h->links.lock, NULL);
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
    pthread_mutex_destroy(&h->links.lock);
    mem_free(h->cors);
    mem_free(h);
}

/* --- reading a request --- */

static int descriptor_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *fd =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    return fd ? fd->connect_fd : -1;
}

static struct link *link_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *at =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return at ? at->socket_context : NULL;
}

static void on_connection(void *ctx, struct MHD_Connection *c, void **socket_ctx,
                          enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        *socket_ctx = link_open(ctx, descriptor_of(c));
    else if (*socket_ctx)
        link_close(*socket_ctx);
}

/* The path of a request's target, which may be a whole URL. */
static const char *path_of(const char *url)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (int i = 0; i < 2; i++)
        if (strncasecmp(url, schemes[i], strlen(schemes[i])) == 0) {
            const char *path = strchr(url + strlen(schemes[i]), '/');
            return path ? path : "/";
        }
    return url;
}

/* What says for whom a request is, and how long its body. */
struct framing {
    int hosts, lengths, codings;
    const char *coding; /* the last one */
    const char *packed; /* how the body is compressed; NULL: not at all */
};

static enum MHD_Result see_header(void *ctx, enum MHD_ValueKind kind, const char *name,
                                  const char *value)
{
    struct framing *f = ctx;
    (void)kind;
    f->hosts += strcasecmp(name, "Host") == 0;
    f->lengths += strcasecmp(name, "Content-Length") == 0;
    if (strcasecmp(name, "Transfer-Encoding") == 0) {
        f->codings++;
        f->coding = value ? value : "";
    }
    if (strcasecmp(name, "Content-Encoding") == 0 && value && *value &&
        strcasecmp(value, "identity") != 0)
        f->packed = value;
    return MHD_YES;
}

/* The status of what is wrong with the headers, and why; 0: nothing. Where two of them say how long
 * the body is, a proxy in front may have believed the other one. */
static int check_headers(const struct exchange *x, const char *version, char *why, size_t room)
{
    struct framing f = {0};
    const size_t most = x->http->o.body_max;
    if (x->link && !link_may_ask(x->link)) {
        snprintf(why, room, "%d connections are open already: try again later",
                 x->http->o.connections);
        return 503;
    }
    MHD_get_connection_values(x->connection, MHD_HEADER_KIND, see_header, &f);
    if (f.hosts > 1 || (!f.hosts && strcmp(version, "HTTP/1.0") != 0)) {
        snprintf(why, room, "Host: want one such header, found %d", f.hosts);
        return 400;
    }
    if (f.lengths > 1 || (f.lengths && f.codings) || f.codings > 1) {
        snprintf(why, room, "Content-Length and Transfer-Encoding: want one of them, once");
        return 400;
    }
    if (f.codings && strcasecmp(f.coding, "chunked") != 0) {
        snprintf(why, room, "Transfer-Encoding: want chunked, found '%.40s'", f.coding);
        return 501;
    }
    if (f.packed) {
        snprintf(why, room, "Content-Encoding: want the body as it is, found '%.40s'", f.packed);
        return 415;
    }
    const char *length = exchange_header(x, "Content-Length");
    if (length && strtoull(length, NULL, 10) > most) {
        snprintf(why, room, TOO_LONG, most);
        return 413;
    }
    return 0;
}

/* The first call, when only the headers are there. An answer given here comes before the body, and
 * the connection is closed behind it. */
static enum MHD_Result begin(struct http *h, struct MHD_Connection *c, const char *url,
                             const char *method, const char *version, void **state)
{
    char why[WHY_ROOM];
    struct buf body = BUF_INIT;
    struct exchange *x = exchange_new(h, c, method, path_of(url));
    if (!x) {
        exchange_say_starved(h, descriptor_of(c), path_of(url), "");
        return MHD_NO;
    }
    *state = x;
    x->link = link_of(c);
    if (x->link && !link_ask(x->link, 0))
        return MHD_NO;
    const int status = check_headers(x, version, why, sizeof why);
    if (!status)
        return MHD_YES;
    x->closes = true;
    if (status == 503)
        exchange_set_header(x, "Retry-After", "1");
    const char *type = h->o.refuse(h->o.ctx, x, status, why, &body);
    exchange_reply(x, status, type, &body);
    return exchange_answer(x);
}

/* Refuses a request before it is whole. libmicrohttpd takes no answer there, and writes nothing: it
 * goes out by the side, and nothing else follows on the connection. */
static void refuse_now(struct exchange *x, int status, const char *why)
{
    const struct http_options *o = &x->http->o;
    struct buf body = BUF_INIT, text = BUF_INIT;
    const char *type = o->refuse(o->ctx, x, status, why, &body);
    buf_printf(&text, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n", status,
               MHD_get_reason_phrase_for((unsigned)status), type, body.len);
    if (status == 503)
        buf_puts(&text, "Retry-After: 1\r\n");
    if (x->http->cors)
        buf_printf(&text, "Access-Control-Allow-Origin: %s\r\n", x->http->cors);
    buf_printf(&text, "X-Request-ID: %s\r\nConnection: close\r\n\r\n", x->id);
    buf_add(&text, buf_str(&body), body.len);
    if (text.failed || body.failed)
        exchange_say_starved(x->http, descriptor_of(x->connection), x->path, x->id);
    else
        (void)send(descriptor_of(x->connection), text.data, text.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    exchange_said(x, status);
    if (x->link)
        link_say(x->link);
    x->refused = status;
    buf_free(&text);
    buf_free(&body);
}

/* Keeps a piece of the body. Of a request that is refused more is read for a while and dropped, so
 * that a client which writes before it reads gets to read why. */
static enum MHD_Result more(struct exchange *x, const char *data, size_t *n)
{
    struct http *h = x->http;
    char why[WHY_ROOM];
    x->body_bytes += *n;
    if (x->link && !link_ask(x->link, *n))
        return MHD_NO;
    if (!x->refused && x->body_bytes > h->o.body_max) {
        snprintf(why, sizeof why, TOO_LONG, h->o.body_max);
        refuse_now(x, 413, why);
    }
    if (!x->refused) {
        const size_t before = x->body.cap;
        buf_add(&x->body, data, *n);
        const size_t grown = x->body.cap - before;
        const size_t held = atomic_fetch_add(&h->bodies, grown) + grown;
        if (x->body.failed || held > h->o.bodies_max)
            refuse_now(x, 503, "no memory for the request's body; try again later");
    }
    *n = 0;
    return x->body_bytes / OVERSIZE_FACTOR > h->o.body_max ? MHD_NO : MHD_YES;
}

static enum MHD_Result whole(struct exchange *x)
{
    if (x->refused)
        return MHD_NO;
    if (!x->handled) {
        x->handled = true;
        if (x->link && !link_serve(x->link))
            return MHD_NO;
        watch_add(x, descriptor_of(x->connection));
        x->http->o.handle(x->http->o.ctx, x);
    }
    return exchange_answer(x);
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *n, void **state)
{
    struct exchange *x = *state;
    if (!x)
        return begin(ctx, c, url, method, version, state);
    return *n ? more(x, data, n) : whole(x);
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
    const int said = x->link ? link_rest(x->link) : 0;
    if (said)
        exchange_said(x, said);
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
