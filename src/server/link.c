/* Connections that are open: see http_inside.h. One is
 *
 *      idle --first byte--> asking --request whole--> busy --answer out--> idle
 *
 * and any of them --closed, by whom ever--> gone. Bytes that begin a request go to libmicrohttpd,
 * which tells once all headers are there: so the system is asked, from time to time, whether some
 * came. Those that ask for too long are given up here; libmicrohttpd itself closes those that are
 * idle for too long. A descriptor is open as long as its link is in the list. */
#include "server/http_inside.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/os.h"

/* A request may take a second more for every so many bytes: 64 KiB/s. */
#define BYTES_PER_S 65536.0
/* One that has just come may not have been heard yet. */
#define EVICT_AGE_S 1.0

/* The lock is held; also in what follows, up to link_open. Last in the list is who changed last. */
static void unlist(struct link *l)
{
    struct links *s = &l->http->links;
    *(l->prev ? &l->prev->next : &s->first) = l->next;
    *(l->next ? &l->next->prev : &s->last) = l->prev;
}

static void list(struct link *l)
{
    struct links *s = &l->http->links;
    l->prev = s->last;
    l->next = NULL;
    *(s->last ? &s->last->next : &s->first) = l;
    s->last = l;
}

static void change(struct link *l, enum link_state state)
{
    if (state == LINK_IDLE)
        l->received = os_received(l->fd);
    l->state = state;
    l->since_ns = clock_ns();
    unlist(l);
    list(l);
}

/* libmicrohttpd notices, and closes it. */
static void end(struct link *l)
{
    l->ended = true;
    l->http->links.n_live--;
    shutdown(l->fd, SHUT_RDWR);
}

/* Idle, and no byte of a request has come. */
static bool is_silent(const struct link *l)
{
    return !l->ended && l->state == LINK_IDLE && os_received(l->fd) == l->received;
}

/* Closes the one that has been idle for longest; false: none is. */
static bool evict(struct links *s)
{
    struct link *l = s->first;
    while (l && !is_silent(l))
        l = l->next;
    if (!l || clock_seconds_since(l->since_ns) < EVICT_AGE_S)
        return false;
    end(l);
    return true;
}

struct link *link_open(struct http *h, int fd)
{
    struct links *s = &h->links;
    struct link *l = mem_zalloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->http = h;
    l->fd = fd;
    l->since_ns = clock_ns();
    pthread_mutex_lock(&s->lock);
    l->surplus = ++s->n_live > h->o.connections;
    list(l);
    pthread_mutex_unlock(&s->lock);
    return l;
}

void link_close(struct link *l)
{
    struct links *s = &l->http->links;
    pthread_mutex_lock(&s->lock);
    s->n_live -= !l->ended;
    unlist(l);
    pthread_mutex_unlock(&s->lock);
    mem_free(l);
}

/* Its client ended its side in the middle of a request, and all that it sent was read: no more can
 * come. */
static bool is_half(const struct link *l)
{
    char c;
    return l->state == LINK_ASKING && recv(l->fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

bool link_may_ask(struct link *l)
{
    struct links *s = &l->http->links;
    pthread_mutex_lock(&s->lock);
    l->surplus = l->surplus && s->n_live > l->http->o.connections && !evict(s);
    const bool may = !l->surplus;
    pthread_mutex_unlock(&s->lock);
    return may;
}

bool link_ask(struct link *l, size_t bytes)
{
    struct links *s = &l->http->links;
    pthread_mutex_lock(&s->lock);
    if (l->state != LINK_ASKING)
        change(l, LINK_ASKING);
    l->bytes += bytes;
    const bool open = !l->ended;
    pthread_mutex_unlock(&s->lock);
    return open;
}

bool link_serve(struct link *l)
{
    struct links *s = &l->http->links;
    pthread_mutex_lock(&s->lock);
    change(l, LINK_BUSY);
    const bool open = !l->ended;
    pthread_mutex_unlock(&s->lock);
    return open;
}

void link_say(struct link *l)
{
    pthread_mutex_lock(&l->http->links.lock);
    l->said = true;
    pthread_mutex_unlock(&l->http->links.lock);
}

int link_rest(struct link *l)
{
    struct links *s = &l->http->links;
    pthread_mutex_lock(&s->lock);
    change(l, LINK_IDLE);
    l->bytes = 0;
    const int said = l->timed_out ? 408 : 0;
    pthread_mutex_unlock(&s->lock);
    return said;
}

/* Nothing of an answer has been written while a request is not whole, so this is all there is. */
static void give_up(struct link *l)
{
    char body[96], text[256];
    const int n = snprintf(body, sizeof body, "the request was not there whole after %d s\n",
                           l->http->o.request_s);
    snprintf(text, sizeof text,
             "HTTP/1.1 408 Request Timeout\r\nContent-Type: text/plain; charset=utf-8\r\n"
             "Content-Length: %d\r\nConnection: close\r\n\r\n%s",
             n, body);
    if (!l->said)
        (void)send(l->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
    l->timed_out = !l->said;
    end(l);
}

static bool is_late(const struct link *l)
{
    const double may_s = l->http->o.request_s + (double)l->bytes / BYTES_PER_S;
    return l->state == LINK_ASKING && clock_seconds_since(l->since_ns) > may_s;
}

void links_tick(struct http *h)
{
    struct links *s = &h->links;
    pthread_mutex_lock(&s->lock);
    for (struct link *l = s->first, *next; l; l = next) {
        next = l->next;
        const bool half = !l->ended && is_half(l);
        if (half && l->half) /* what was read last has had a second to be looked at */
            end(l);
        else if (!l->ended && is_late(l))
            give_up(l);
        else if (!l->ended && l->state == LINK_IDLE && !is_silent(l))
            change(l, LINK_ASKING);
        l->half = half;
    }
    while (s->n_live > h->o.connections && evict(s))
        ;
    pthread_mutex_unlock(&s->lock);
}
