/* One request and its answer: see http.h. The answer is written by any thread into x->out and taken
 * from there by the thread of the connection, which is suspended while there is nothing to take. */
#include "server/http_inside.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/os.h"
#include "server/id.h"

enum { STREAM_BLOCK = 4096 };

static bool is_id(const char *s)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const size_t n = s ? strlen(s) : 0;
    return n && n <= HTTP_ID_MAX && strspn(s, letters) == n;
}

struct exchange *exchange_new(struct http *h, struct MHD_Connection *c, const char *method,
                              const char *path)
{
    struct exchange *x = mem_zalloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->path = mem_strdup(path);
    if (!x->path) {
        mem_free(x);
        return NULL;
    }
    x->http = h;
    x->connection = c;
    x->watched_fd = -1;
    x->begun_ns = clock_ns();
    atomic_init(&x->refs, 1);
    pthread_mutex_init(&x->lock, NULL);
    snprintf(x->method, sizeof x->method, "%s", method);
    pthread_mutex_lock(&h->lock);
    x->number = ++h->n_begun;
    x->next = h->first;
    if (h->first)
        h->first->prev = x;
    h->first = x;
    h->n_exchanges++;
    pthread_mutex_unlock(&h->lock);
    const char *given = exchange_header(x, "X-Request-ID");
    if (!given || !exchange_rename(x, given))
        id_make("req-", ID_LONG, x->id);
    return x;
}

void exchange_keep(struct exchange *x)
{
    atomic_fetch_add(&x->refs, 1);
}

void exchange_release(struct exchange *x)
{
    if (atomic_fetch_sub(&x->refs, 1) != 1)
        return;
    if (x->http->o.over)
        x->http->o.over(x->http->o.ctx, x);
    if (x->owner)
        x->owner->drop(x->owner_ctx);
    atomic_fetch_sub(&x->http->bodies, x->body.cap);
    for (int i = 0; i < x->n_headers; i++) {
        mem_free(x->headers[i].name);
        mem_free(x->headers[i].value);
    }
    buf_free(&x->body);
    buf_free(&x->out);
    mem_free(x->path);
    pthread_mutex_destroy(&x->lock);
    mem_free(x);
}

const char *exchange_method(const struct exchange *x)
{
    return x->method;
}

const char *exchange_path(const struct exchange *x)
{
    return x->path;
}

const char *exchange_header(const struct exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

const char *exchange_query(const struct exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->connection, MHD_GET_ARGUMENT_KIND, name);
}

size_t exchange_body_max(const struct exchange *x)
{
    return x->http->o.body_max;
}

const struct buf *exchange_body(const struct exchange *x)
{
    return &x->body;
}

bool exchange_peer(const struct exchange *x, unsigned *uid)
{
    const union MHD_ConnectionInfo *fd =
        MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return fd && os_peer_user(fd->connect_fd, uid);
}

const char *exchange_id(const struct exchange *x)
{
    return x->id;
}

bool exchange_rename(struct exchange *x, const char *id)
{
    const bool good = is_id(id);
    if (good)
        snprintf(x->id, sizeof x->id, "%s", id);
    return good;
}

bool exchange_is_gone(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    const bool gone = x->gone;
    pthread_mutex_unlock(&x->lock);
    return gone;
}

void exchange_attach(struct exchange *x, const struct exchange_owner *owner, void *ctx)
{
    pthread_mutex_lock(&x->lock);
    assert(!x->owner);
    x->owner = owner;
    x->owner_ctx = ctx;
    const bool tell = x->gone && !x->told;
    x->told |= tell;
    pthread_mutex_unlock(&x->lock);
    if (tell)
        owner->gone(ctx);
}

void exchange_set_header(struct exchange *x, const char *name, const char *value)
{
    assert(x->n_headers < EXCHANGE_HEADERS_MAX);
    char *n = mem_strdup(name), *v = mem_strdup(value);
    if (!n || !v) { /* an answer without it is better than none */
        mem_free(n);
        mem_free(v);
        return;
    }
    pthread_mutex_lock(&x->lock);
    x->headers[x->n_headers].name = n;
    x->headers[x->n_headers++].value = v;
    pthread_mutex_unlock(&x->lock);
}

/* With the lock held, which it lets go: the connection's thread looks again. */
static void unlock_and_wake(struct exchange *x)
{
    const bool resume = x->suspended;
    x->suspended = false;
    pthread_mutex_unlock(&x->lock);
    if (resume)
        MHD_resume_connection(x->connection);
}

static const char *starved_text(const struct http *h, const char *path)
{
    return h->o.starved ? h->o.starved(path) : "";
}

void exchange_reply(struct exchange *x, int status, const char *type, struct buf *body)
{
    pthread_mutex_lock(&x->lock);
    assert(x->state == EXCHANGE_ASKED);
    x->state = EXCHANGE_REPLIED;
    x->status = status;
    x->type = type;
    if (body->failed) {
        x->status = 503;
        x->type = "application/json";
        x->fixed = starved_text(x->http, x->path);
    }
    x->out = *body;
    *body = BUF_INIT;
    unlock_and_wake(x);
}

void exchange_stream(struct exchange *x, const char *type, const char *idle)
{
    pthread_mutex_lock(&x->lock);
    assert(x->state == EXCHANGE_ASKED);
    x->state = EXCHANGE_STREAMING;
    x->status = 200;
    x->type = type;
    x->idle = idle;
    x->written_ns = clock_ns();
    unlock_and_wake(x);
}

/* With the lock held: from now on nothing is taken. Returns whether the owner is to be told. */
static bool set_gone(struct exchange *x)
{
    const bool tell = x->owner && !x->told;
    x->gone = x->left = true;
    x->told |= tell;
    return tell;
}

bool exchange_write(struct exchange *x, const void *data, size_t n)
{
    bool tell = false;
    pthread_mutex_lock(&x->lock);
    assert(x->state == EXCHANGE_STREAMING);
    if (!x->gone && !x->starved) {
        buf_add(&x->out, data, n);
        x->starved = x->out.failed;
        x->written_ns = clock_ns();
        if (x->out.len - x->taken > x->http->o.waiting_max)
            tell = set_gone(x);
    }
    const bool lost = x->gone || x->starved;
    unlock_and_wake(x);
    if (tell)
        x->owner->gone(x->owner_ctx);
    return !lost;
}

void exchange_starve(struct exchange *x, const char *last)
{
    pthread_mutex_lock(&x->lock);
    x->starved = true;
    if (!x->last[0])
        snprintf(x->last, sizeof x->last, "%s", last);
    pthread_mutex_unlock(&x->lock);
}

void exchange_end(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    assert(x->state == EXCHANGE_STREAMING);
    x->state = EXCHANGE_ENDED;
    unlock_and_wake(x);
}

void exchange_break(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->gone = x->told = x->left = true;
    unlock_and_wake(x);
}

void exchange_lose(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    const bool open = x->state == EXCHANGE_ASKED || x->state == EXCHANGE_STREAMING;
    const bool tell = open && set_gone(x);
    unlock_and_wake(x);
    if (tell)
        x->owner->gone(x->owner_ctx);
}

void exchange_said(struct exchange *x, int status)
{
    pthread_mutex_lock(&x->lock);
    x->state = EXCHANGE_REPLIED;
    x->status = status;
    pthread_mutex_unlock(&x->lock);
    atomic_fetch_add(&x->http->answers[status / 100 % HTTP_CLASSES], 1);
}

void exchange_poke(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    if (x->state == EXCHANGE_STREAMING && !x->gone && !x->starved && x->idle) {
        buf_puts(&x->out, x->idle);
        x->out.failed = false; /* then it is left out */
        x->written_ns = clock_ns();
    }
    unlock_and_wake(x);
}

int exchange_status(const struct exchange *x)
{
    return x->left ? HTTP_LEFT : x->status;
}

double exchange_seconds(const struct exchange *x)
{
    return clock_seconds_since(x->begun_ns);
}

void exchange_set_note(struct exchange *x, const char *note)
{
    snprintf(x->note, sizeof x->note, "%s", note);
}

const char *exchange_note(const struct exchange *x)
{
    return x->note;
}

/* --- the connection's side --- */

/* Of n bytes at p those that fit; taken grows by them. */
static ssize_t hand(const char *p, size_t n, size_t *taken, char *to, size_t room)
{
    const size_t some = n < room ? n : room;
    memcpy(to, p, some);
    *taken += some;
    return (ssize_t)some;
}

static ssize_t take(void *ctx, uint64_t at, char *to, size_t room)
{
    struct exchange *x = ctx;
    ssize_t n = 0;
    (void)at;
    pthread_mutex_lock(&x->lock);
    const size_t waiting = x->out.len - x->taken, last = strlen(x->last) - x->last_taken;
    if (x->gone) {
        n = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (waiting) {
        n = hand(x->out.data + x->taken, waiting, &x->taken, to, room);
        if (x->taken == x->out.len) {
            buf_clear(&x->out);
            x->taken = 0;
        }
    } else if (x->state == EXCHANGE_ENDED && last) {
        n = hand(x->last + x->last_taken, last, &x->last_taken, to, room);
    } else if (x->state == EXCHANGE_ENDED) {
        n = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        x->suspended = true;
        MHD_suspend_connection(x->connection);
    }
    pthread_mutex_unlock(&x->lock);
    return n;
}

static void add_headers(struct exchange *x, struct MHD_Response *r)
{
    if (x->type)
        MHD_add_response_header(r, "Content-Type", x->type);
    MHD_add_response_header(r, "X-Request-ID", x->id);
    MHD_add_response_header(r, "Cache-Control", "no-cache");
    if (x->http->cors) {
        MHD_add_response_header(r, "Access-Control-Allow-Origin", x->http->cors);
        MHD_add_response_header(r, "Access-Control-Expose-Headers", "X-Request-ID, Retry-After");
    }
    for (int i = 0; i < x->n_headers; i++)
        MHD_add_response_header(r, x->headers[i].name, x->headers[i].value);
    if (x->closes || atomic_load(&x->http->quiet))
        MHD_add_response_header(r, "Connection", "close");
}

/* A reply stays in x->out, which lives as long as the connection's reference. */
static struct MHD_Response *response(struct exchange *x)
{
    if (x->state == EXCHANGE_REPLIED && x->fixed)
        return MHD_create_response_from_buffer(strlen(x->fixed), (void *)x->fixed,
                                               MHD_RESPMEM_PERSISTENT);
    if (x->state == EXCHANGE_REPLIED)
        return MHD_create_response_from_buffer(x->out.len, x->out.data, MHD_RESPMEM_MUST_COPY);
    return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, take, x, NULL);
}

void exchange_say_starved(struct http *h, int fd, const char *path, const char *id)
{
    char text[1024];
    const char *body = starved_text(h, path);
    const int n = snprintf(text, sizeof text,
                           "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
                           "Content-Length: %zu\r\nRetry-After: 1\r\n%s%s%s"
                           "Connection: close\r\n\r\n%s",
                           strlen(body), *id ? "X-Request-ID: " : "", id, *id ? "\r\n" : "", body);
    if (n > 0 && (size_t)n < sizeof text)
        (void)send(fd, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void say_starved(struct exchange *x)
{
    const union MHD_ConnectionInfo *fd =
        MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (fd)
        exchange_say_starved(x->http, fd->connect_fd, x->path, x->id);
    exchange_said(x, 503);
}

enum MHD_Result exchange_answer(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    if (x->state == EXCHANGE_ASKED && !x->gone) {
        x->suspended = true;
        MHD_suspend_connection(x->connection);
        pthread_mutex_unlock(&x->lock);
        return MHD_YES;
    }
    const bool gone = x->state == EXCHANGE_ASKED;
    struct MHD_Response *r = gone ? NULL : response(x);
    pthread_mutex_unlock(&x->lock);
    if (!r && !gone)
        say_starved(x);
    if (!r)
        return MHD_NO;
    add_headers(x, r);
    atomic_fetch_add(&x->http->answers[x->status / 100 % HTTP_CLASSES], 1);
    const enum MHD_Result ok = MHD_queue_response(x->connection, (unsigned)x->status, r);
    MHD_destroy_response(r);
    return ok;
}
