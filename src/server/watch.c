/* Clients that leave, streams that fall silent, requests that never end: see http_inside.h. */
#include "server/http_inside.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"

enum { EVENTS_MAX = 64, TICK_MS = 1000, IDLE_S = 10 };

/* The exchange of that number, kept; or NULL. */
static struct exchange *find(struct http *h, uint64_t number)
{
    pthread_mutex_lock(&h->lock);
    struct exchange *x = h->first;
    while (x && x->number != number)
        x = x->next;
    if (x)
        exchange_keep(x);
    pthread_mutex_unlock(&h->lock);
    return x;
}

static bool is_silent(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    const bool silent = x->state == EXCHANGE_STREAMING && x->idle && !x->gone && x->out.len == 0 &&
                        clock_seconds_since(x->written_ns) > IDLE_S;
    pthread_mutex_unlock(&x->lock);
    return silent;
}

/* Writes the idle text to one silent stream; false when there is none. Outside http.lock, because
 * writing calls out. */
static bool poke_one(struct http *h)
{
    pthread_mutex_lock(&h->lock);
    struct exchange *x = h->first;
    while (x && !is_silent(x))
        x = x->next;
    if (x)
        exchange_keep(x);
    pthread_mutex_unlock(&h->lock);
    if (!x)
        return false;
    exchange_poke(x);
    exchange_release(x);
    return true;
}

static void run(void *ctx)
{
    struct http *h = ctx;
    struct epoll_event events[EVENTS_MAX];
    uint64_t ticked = clock_ns();
    while (!atomic_load(&h->stopping)) {
        const int n = epoll_wait(h->epoll, events, EVENTS_MAX, TICK_MS);
        for (int i = 0; i < n; i++) {
            struct exchange *x = events[i].data.u64 ? find(h, events[i].data.u64) : NULL;
            if (!x)
                continue;
            exchange_lose(x);
            exchange_release(x);
        }
        if (clock_seconds_since(ticked) * 1000 < TICK_MS)
            continue;
        ticked = clock_ns();
        while (poke_one(h))
            ;
        links_tick(h);
    }
}

int watch_start(struct http *h, struct err *e)
{
    struct epoll_event wake = {.events = EPOLLIN};
    h->epoll = epoll_create1(EPOLL_CLOEXEC);
    h->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->epoll < 0 || h->wake < 0 || epoll_ctl(h->epoll, EPOLL_CTL_ADD, h->wake, &wake))
        return err_sys(e, "cannot watch connections");
    return thread_start(&h->watcher, run, h, e);
}

void watch_stop(struct http *h)
{
    const uint64_t one = 1;
    if (write(h->wake, &one, sizeof one) < 0) {
        /* then it is full, and wakes all the same */
    }
    thread_join(&h->watcher);
}

void watch_add(struct exchange *x, int fd)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = x->number};
    if (fd >= 0 && epoll_ctl(x->http->epoll, EPOLL_CTL_ADD, fd, &event) == 0)
        x->watched_fd = fd;
}

void watch_remove(struct exchange *x)
{
    if (x->watched_fd >= 0)
        epoll_ctl(x->http->epoll, EPOLL_CTL_DEL, x->watched_fd, NULL);
    x->watched_fd = -1;
}
