/* The server: a model behind a scheduler, offered over HTTP in several APIs.
 *
 *      opened --model_ready--> ready --server_drain--> draining --server_close
 *
 * /health tells which; until it is ready, requests for answers are 503. */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "server/ask.h"
#include "server/schedule.h"

struct server;

enum { SERVER_NAMES_MAX = 8 };

/* All borrowed until server_close. */
struct server_options {
    const char *listen;                 /* see server/listen.h */
    const char *cors;                   /* allowed origin, or NULL */
    int connections, idle_s, request_s; /* server/http.h */
    size_t body_max, waiting_max;
    const char *names[SERVER_NAMES_MAX]; /* of the model; the first is shown */
    int n_names;
    /* Where the control socket is (server/control.h): NULL for the default, "none" for no such
     * thing. A default place that cannot be had is a warning, any other a failure. */
    const char *control;
    struct schedule_options schedule;
};

/* What a reload may change. Copied. */
struct server_settings {
    struct ask_defaults defaults;
    const char *key_file; /* of keys, one of which a client must show; NULL: none */
    const char *key;      /* one more; NULL: none. No keys at all: open to all */
    bool log_requests;
};

/* Listens, and answers /health. */
int server_open(const struct server_options *o, const struct server_settings *set,
                struct server **out, struct err *e);
const char *server_address(const struct server *s); /* where, as clients write it */
int server_change(struct server *s, const struct server_settings *set, struct err *e);
/* From now on requests are served by this model, borrowed until server_close. */
int server_ready(struct server *s, struct model *m, struct err *e);
/* Refuses new requests for answers, and waits up to so many seconds for those that run; then
 * listens no more, cancels the rest, and gives their answers a moment to get out. */
void server_drain(struct server *s, double seconds);
void server_close(struct server *s); /* NULL is fine */

#endif
