/* Where the control socket of a server is: a Unix socket in a folder that is the user's alone, on
 * which programs of the same user ask the server how it does. It speaks HTTP, as the server does,
 * with the same documents.
 *
 * By default the folder is $XDG_RUNTIME_DIR/cherenkov, or /tmp/cherenkov-UID where that is not set,
 * and the socket is PID.sock, so that several servers have one each. Folder 0700, socket 0600. */
#ifndef SERVER_CONTROL_H
#define SERVER_CONTROL_H

#include "base/buf.h"

#define CONTROL_ENDING ".sock"

/* The default folder, appended; it need not be there. */
void control_folder(struct buf *out);

/* Listens at path, or at the default (NULL). Makes the folder if it is missing (its last level);
 * one that others may enter, or of another user, is E_ARG. The socket of a server that is gone is
 * replaced, in the default folder those of all that are gone are removed; a live one is E_IO.
 * *fd is the caller's, where is what path came to. */
int control_listen(const char *path, struct buf *where, int *fd, struct err *e);

/* Connects to the server at path, which must be of this user. E_NOTFOUND: there is none. */
int control_connect(const char *path, int *fd, struct err *e);

/* Whether a server listens at path. */
bool control_is_live(const char *path);

#endif
