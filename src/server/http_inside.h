/* What http.c (the daemon, requests), exchange.c (answers), link.c (connections) and watch.c
 * (clients that leave) share.
 *
 * Who writes an exchange: until the handler is called, the thread of its connection; then whoever
 * holds `lock`. Locks are taken in this order and let go before calling out: http.lock,
 * exchange.lock. libmicrohttpd's own lock may be taken inside exchange.lock (suspend), never the
 * other way round. links.lock is taken last, and nothing in it. */
#ifndef SERVER_HTTP_INSIDE_H
#define SERVER_HTTP_INSIDE_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/thread.h"
#include "server/http.h"

enum { EXCHANGE_HEADERS_MAX = 8, EXCHANGE_METHOD_MAX = 8 };

enum exchange_state { EXCHANGE_ASKED, EXCHANGE_REPLIED, EXCHANGE_STREAMING, EXCHANGE_ENDED };

struct exchange {
    struct http *http;
    struct MHD_Connection *connection;
    atomic_int refs;              /* the connection's and the keeper's */
    struct exchange *prev, *next; /* of all in http, under http.lock */
    uint64_t begun_ns;
    uint64_t number;   /* never twice: finds it for the watch */
    int watched_fd;    /* or -1 */
    struct link *link; /* its connection; NULL: there was no memory for one */

    char id[HTTP_ID_MAX + 1];
    char method[EXCHANGE_METHOD_MAX];
    char *path; /* owned */
    struct buf body;
    size_t body_bytes; /* that came, kept or not */
    int refused;       /* status that was said before the request was whole, or 0 */
    bool handled;      /* the handler was called */
    bool closes;       /* the connection ends with the answer */

    pthread_mutex_t lock;
    enum exchange_state state;
    bool suspended; /* who clears it resumes the connection: once for each time it was set */
    bool gone, told;
    bool left; /* gone before the answer was whole */
    char note[HTTP_NOTE_MAX + 1];
    int status;
    const char *type, *idle;
    const char *fixed; /* the body, static, in place of out; or NULL */
    struct buf out;
    size_t taken; /* bytes of out the connection has */
    bool starved; /* nothing is added to out any more; last is what ends it */
    char last[HTTP_LAST_MAX + 1];
    size_t last_taken;
    uint64_t written_ns; /* when out last grew */
    struct {
        char *name, *value; /* owned */
    } headers[EXCHANGE_HEADERS_MAX];
    int n_headers;
    const struct exchange_owner *owner;
    void *owner_ctx;
};

enum link_state { LINK_IDLE, LINK_ASKING, LINK_BUSY };

/* A connection that is open. */
struct link {
    struct http *http;
    int fd;
    struct link *prev, *next; /* and what follows: under links.lock */
    enum link_state state;
    uint64_t since_ns; /* it is in that state */
    uint64_t received; /* bytes when it became idle */
    size_t bytes;      /* of the request's body, so far */
    bool surplus;      /* more than may be open: refused, unless others close */
    bool said;         /* an answer went out by the side */
    bool ended;        /* by us, and not closed yet */
    bool timed_out;
    bool half; /* at the last tick no more of its request could come */
};

struct links {
    pthread_mutex_t lock;
    struct link *first, *last; /* by the time of their last change */
    int n_live;                /* in the list and not ended */
};

struct http {
    struct http_options o;
    char *cors; /* owned */
    struct MHD_Daemon *daemon;
    pthread_mutex_t lock;
    struct exchange *first; /* in flight */
    int n_exchanges;
    uint64_t n_begun;
    atomic_size_t bodies; /* bytes held */
    atomic_ulong answers[HTTP_CLASSES];
    atomic_bool quiet, stopping; /* connections end with their answer; ending */
    int epoll, wake;             /* the watch's */
    struct thread watcher;
    struct links links;
};

/* exchange.c */
struct exchange *exchange_new(struct http *h, struct MHD_Connection *c, const char *method,
                              const char *path);
/* Marks it gone, tells the owner, and lets the connection find out. */
void exchange_lose(struct exchange *x);
/* An answer of that status went out by the side. */
void exchange_said(struct exchange *x, int status);
void exchange_poke(struct exchange *x); /* writes the idle text, if the stream is open */
/* On the connection's thread, when the request is whole: queues the answer, or suspends. */
enum MHD_Result exchange_answer(struct exchange *x);

/* Sends a 503 by the side that needs no memory: from the stack. id may be "". */
void exchange_say_starved(struct http *h, int fd, const char *path, const char *id);

/* watch.c: one thread that notices clients which leave while their connection is suspended (then
 * libmicrohttpd does not look), and keeps idle streams alive. */
int watch_start(struct http *h, struct err *e);
void watch_stop(struct http *h);
void watch_add(struct exchange *x, int fd);
void watch_remove(struct exchange *x);

/* link.c: each on its connection's thread of libmicrohttpd, but for the last. */
struct link *link_open(struct http *h, int fd); /* NULL: no memory */
void link_close(struct link *l);
bool link_may_ask(struct link *l); /* false: too many are open */
/* So many bytes more of a request's body have come. false: it was given up. */
bool link_ask(struct link *l, size_t bytes);
bool link_serve(struct link *l); /* the request is whole. false: it was given up */
void link_say(struct link *l);   /* an answer went out by the side */
/* The answer is out. Returns the status if one was sent by the side meanwhile, or 0. */
int link_rest(struct link *l);
/* From time to time, on the watch's thread: gives up requests that do not end or whose end cannot
 * come, closes surplus connections. */
void links_tick(struct http *h);

#endif
