/* A running `cherenkov serve` on the packed demonstration model, for tests. */
#ifndef TESTS_AID_SERVE_H
#define TESTS_AID_SERVE_H

#include <jansson.h>
#include <sys/types.h>

#include "tests/aid_http.h"

struct aid_server {
    pid_t pid;
    char *dir; /* of its own: holds `log` */
    char *log; /* its standard error */
    char *url; /* where it listens */
};

/* Whether servers have a control socket at the usual place; false, so that tests leave nothing in
 * folders of the user who runs them. */
extern bool aid_serve_control;

/* Starts it on a free port with these flags besides (NULL at the end), and waits until it is ready.
 * store: of the demonstration model. */
void aid_serve(struct aid_server *s, const char *store, const char *const *flags);
/* SIGTERM; returns the exit status, 128 + signal if it was killed. */
int aid_serve_stop(struct aid_server *s);
/* Waits until its log says this, ten seconds at most. */
void aid_serve_said(const struct aid_server *s, const char *text);

/* POST of a body with ' for "; the answer as JSON, for json_decref. Fails the test when the status
 * is another. */
json_t *aid_ask(const struct aid_server *s, const char *path, const char *body, int status);
/* Sends such a POST and returns its connection, for aid_http_read. */
int aid_begin(const struct aid_server *s, const char *path, const char *body);
/* What an answer in one of OpenAI's forms says, whole or streamed: of each choice "TEXT|FINISH" and
 * a newline, appended. */
void aid_said(const struct aid_answer *a, struct buf *out);
/* The value at "choices.0.message.content" of an answer; NULL: there is none. */
const json_t *aid_at(const json_t *v, const char *path);
/* The same where it must be a string. */
const char *aid_string(const json_t *v, const char *path);

#endif
