/* A server that runs on this machine, as the commands that watch it see it: found by its control
 * socket, asked over it. */
#ifndef CLI_REMOTE_H
#define CLI_REMOTE_H

#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"

/* The socket of the server that is meant: socket if it holds a /, else the one of that name (a
 * process id) in the usual folder; NULL: the only one there. Appended to out. E_NOTFOUND: none
 * runs. E_ARG: several do; the message names them. */
int remote_find(const char *socket, struct buf *out, struct err *e);

/* GET or POST of a path, without a body; an answer of 200 as JSON, for json_decref. Waits two
 * seconds at most. E_NOTFOUND: there is no server any more; E_IO: it does not answer; E_FORMAT: the
 * answer is no answer; otherwise what the server said, E_BUSY for 503. */
int remote_ask(const char *socket, const char *method, const char *path, json_t **out,
               struct err *e);

/* The same from the bytes of a whole answer; where opens messages. */
int remote_parse(const char *bytes, size_t n, const char *where, json_t **out, struct err *e);

#endif
