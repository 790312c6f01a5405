/* HTTP over libmicrohttpd: listens, reads requests whole, and carries answers that other threads
 * give later, at once or as a stream. Knows nothing of models or of any API.
 *
 * One exchange is one request and its answer:
 *
 *      handler called --reply--> answered
 *      handler called --stream--> open --write...--> open --end--> answered
 *      any of these --client gone, reader too slow, http_stop--> gone: what is written is dropped
 *
 * Two threads of libmicrohttpd serve all connections; one that waits for its answer costs memory
 * and a descriptor, no thread. Answers may come from any thread, one at a time for an exchange. */
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum {
    HTTP_ID_MAX = 80,
    HTTP_CLASSES = 6,
    HTTP_NOTE_MAX = 80,
    HTTP_LAST_MAX = 767, /* bytes of a stream's last words */
    HTTP_LEFT = 499,
};

struct http;
struct exchange;

struct http_options {
    int listen_fd;      /* from listen_open; http_start owns it, also when it fails */
    int connections;    /* open at once; for one more the longest idle is closed, or it gets 503 */
    int idle_s;         /* a connection on which nothing moves is closed after so long */
    int request_s;      /* a request must be whole so long after its first byte, and a second more
                           for each 64 KiB of its body; else 408 */
    size_t body_max;    /* bytes of one request's body; more is 413 */
    size_t bodies_max;  /* and of all that are being read or answered; more is 503 */
    size_t waiting_max; /* bytes of a stream its reader has not taken yet; more, and it is gone */
    const char *cors;   /* Access-Control-Allow-Origin, or NULL: no such headers; borrowed */
    /* Called on a thread of libmicrohttpd with the whole request: answers it, or keeps it and
     * answers later. */
    void (*handle)(void *ctx, struct exchange *x);
    /* The body of an error that the transport itself found (400, 413, 501, 503); appends to out and
     * returns the content type. */
    const char *(*refuse)(void *ctx, const struct exchange *x, int status, const char *why,
                          struct buf *out);
    /* The same, of a 503, for who has no memory to make one: static, and JSON. NULL: none. */
    const char *(*starved)(const char *path);
    /* Called when nobody will touch an exchange any more, just before it is freed; from any thread.
     * May be NULL. */
    void (*over)(void *ctx, const struct exchange *x);
    void *ctx;
};

/* Listens from now on. E_NOMEM, E_IO: the system has no more threads or descriptors. */
int http_start(const struct http_options *o, struct http **out, struct err *e);
void http_drain(struct http *h);    /* connections end with their next answer; new ones may come */
void http_quiesce(struct http *h);  /* and none are accepted any more; those that are open go on */
int http_exchanges(struct http *h); /* requests whose answers are not out yet */
unsigned long http_answers(struct http *h, int class); /* of status 100 * class and above, so far */
/* Ends what is still open and waits for the threads. Exchanges that are kept stay valid, and are
 * gone; h must outlive them. */
void http_stop(struct http *h);
void http_free(struct http *h); /* after http_stop and the last exchange_release; NULL is fine */

/* --- the request; all borrowed until the exchange ends, headers only within the handler --- */

const char *exchange_method(const struct exchange *x);
const char *exchange_path(const struct exchange *x); /* without the query, decoded */
const char *exchange_header(const struct exchange *x, const char *name); /* or NULL */
/* A field of the query, decoded, or NULL; borrowed within the handler. */
const char *exchange_query(const struct exchange *x, const char *name);
/* The user at the other end of a Unix socket; false: it is none, or nobody knows. */
bool exchange_peer(const struct exchange *x, unsigned *uid);
const struct buf *exchange_body(const struct exchange *x);
size_t exchange_body_max(const struct exchange *x); /* as the server was started */
/* X-Request-ID: the client's if it sent one of 1..HTTP_ID_MAX letters [A-Za-z0-9_-], else "req-"
 * and 32 hex digits. */
const char *exchange_id(const struct exchange *x);

/* Another name for it, before it is answered; false: not such letters, or not so many. */
bool exchange_rename(struct exchange *x, const char *id);

/* --- the answer --- */

/* Who answers later keeps the exchange, and releases it after reply or end. */
void exchange_keep(struct exchange *x);
void exchange_release(struct exchange *x);
/* Whether its client left, so that nobody would read an answer. */
bool exchange_is_gone(struct exchange *x);
/* owner->gone is called, at most once and from any thread, when the client left before the answer
 * was whole; owner->drop when the exchange itself is freed. Once for an exchange. */
struct exchange_owner {
    void (*gone)(void *ctx);
    void (*drop)(void *ctx);
};
void exchange_attach(struct exchange *x, const struct exchange_owner *owner, void *ctx);

/* A header of the answer, before reply or stream. Copied. */
void exchange_set_header(struct exchange *x, const char *name, const char *value);
/* The whole answer; body is taken over and left empty. One that failed is a 503 instead. */
void exchange_reply(struct exchange *x, int status, const char *type, struct buf *body);
/* 200 and a body that comes in pieces. While nothing is written for a while `idle` is sent, so that
 * proxies keep the connection open; NULL: nothing. Both are static strings. */
void exchange_stream(struct exchange *x, const char *type, const char *idle);
/* Never waits. false: nothing more can be written, as the client is gone, or was too slow and now
 * is, or as there was no memory (exchange_starve). */
bool exchange_write(struct exchange *x, const void *data, size_t n);
void exchange_end(struct exchange *x);
/* There is no memory for the rest of a stream: it ends with these words (up to HTTP_LAST_MAX bytes)
 * behind what was written whole, once exchange_end is called. Takes no memory. */
void exchange_starve(struct exchange *x, const char *last);
/* Closes the connection in the middle of a stream, so that the client cannot take it for whole. */
void exchange_break(struct exchange *x);

/* --- once it is over --- */

/* Of an exchange that is over: the status that was sent, HTTP_LEFT if the client was gone before
 * the answer was whole; seconds since the request began. */
int exchange_status(const struct exchange *x);
double exchange_seconds(const struct exchange *x);
/* A remark for who looks at it then, up to HTTP_NOTE_MAX bytes, or "". */
void exchange_set_note(struct exchange *x, const char *note);
const char *exchange_note(const struct exchange *x);

#endif
