/* What the files of the server share about it. */
#ifndef SERVER_SERVER_INSIDE_H
#define SERVER_SERVER_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/guides.h"
#include "server/http.h"
#include "server/kept.h"
#include "server/keys.h"
#include "server/meter.h"
#include "server/preparer.h"
#include "server/reply.h"
#include "server/server.h"
#include "text/chat.h"

struct server {
    struct server_options o;
    struct http *http;
    struct buf address;
    bool listening;          /* a unix socket's file is ours */
    struct http *control;    /* NULL: none */
    struct buf control_path; /* of its socket, "": none */
    struct pump *pump;
    struct preparer *preparer;
    struct model *model;       /* borrowed; set before `schedule` */
    struct chat_can can;       /* what its template shows; read once `ready` */
    struct schedule *schedule; /* owned */
    struct meter *meter;       /* owned; of `schedule` */
    struct guides *guides;     /* owned */
    atomic_bool ready, draining;
    struct kept *responses; /* what clients may go on from */
    struct kept *sessions;
    uint64_t opened_ns;
    int64_t opened_unix_s;
    pthread_rwlock_t lock; /* guards what a reload changes: */
    struct ask_defaults defaults;
    struct keys keys;
    bool log_requests;
};

/* A copy of what holds now. */
struct ask_defaults server_defaults(struct server *s);

#endif
