/* Where the server listens: "127.0.0.1:8080", "[::1]:8080", "localhost:8080", "unix:/path". */
#ifndef SERVER_LISTEN_H
#define SERVER_LISTEN_H

#include "base/buf.h"

/* *fd is a listening socket; of a unix socket only its owner may connect, and a stale one that
 * nobody listens on is replaced. shown: the address as clients write it, the port that was chosen
 * for port 0 included. */
int listen_open(const char *address, int *fd, struct buf *shown, struct err *e);
/* Removes the file of a unix socket, while it is still listened on: then it is no other server's.
 * Nothing to do for other addresses. */
int listen_remove(const char *address, struct err *e);
/* Nobody but this machine can reach it. */
bool listen_is_local(const char *address);

#endif
