/* Finding and asking a server: see remote.h. */
#include "cli/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "server/control.h"

enum { WAIT_S = 2, ANSWER_MAX = 16 << 20, PIECE = 64 << 10, SHOWN_MAX = 8 };

/* --- finding --- */

struct found {
    const char *folder;
    int n;
    char *first;     /* owned */
    struct buf list; /* for the message when there are several */
};

/* "123 (cherenkov, http://127.0.0.1:8080)" */
static void describe(const char *name, const char *socket, struct buf *out)
{
    json_t *v = NULL;
    struct err e = {0};
    const char *model = NULL, *address = NULL;
    buf_add(out, name, strlen(name) - strlen(CONTROL_ENDING));
    if (remote_ask(socket, "GET", "/v1/stats", &v, &e))
        return;
    if (json_unpack(v, "{s:s, s:s}", "model", &model, "address", &address) == 0)
        buf_printf(out, " (%s, %s)", model, address);
    json_decref(v);
}

static int look_at(void *ctx, const char *name, struct err *e)
{
    struct found *f = ctx;
    const char *ending = strrchr(name, '.');
    if (!ending || strcmp(ending, CONTROL_ENDING) != 0)
        return 0;
    char *path = file_join(f->folder, name);
    if (!path)
        return ERR(e, E_NOMEM, "no memory for the name of a socket");
    if (!control_is_live(path)) {
        mem_free(path);
        return 0;
    }
    if (f->n++ < SHOWN_MAX) {
        buf_puts(&f->list, f->n > 1 ? ", " : "");
        describe(name, path, &f->list);
    }
    if (f->first)
        mem_free(path);
    else
        f->first = path;
    return 0;
}

static int find_only(const char *folder, struct buf *out, struct err *e)
{
    struct found f = {.folder = folder};
    int rc = file_is_dir(folder) ? file_each(folder, look_at, &f, e) : 0;
    if (!rc && f.n == 0)
        rc = ERR(e, E_NOTFOUND,
                 "no server of this user runs here (there is no socket in %s): start one with "
                 "`cherenkov serve STORE`, or say where its socket is with --socket",
                 folder);
    if (!rc && f.n > 1)
        rc = ERR(e, E_ARG, "%d servers run here: %s; say which with --socket", f.n,
                 buf_str(&f.list));
    if (!rc)
        buf_puts(out, f.first);
    mem_free(f.first);
    buf_free(&f.list);
    return rc ? rc : buf_check(out, e);
}

int remote_find(const char *socket, struct buf *out, struct err *e)
{
    struct buf folder = BUF_INIT;
    int rc = 0;
    control_folder(&folder);
    if (socket && !*socket)
        rc = ERR(e, E_ARG,
                 "--socket: want the path of a server's socket or the server's PID, found "
                 "an empty text");
    else if (socket && strchr(socket, '/'))
        buf_puts(out, socket);
    else if (socket)
        buf_printf(out, "%s/%s%s", buf_str(&folder), socket, CONTROL_ENDING);
    else
        rc = find_only(buf_str(&folder), out, e);
    buf_free(&folder);
    return rc ? rc : buf_check(out, e);
}

/* --- asking --- */

static int send_all(int fd, const char *text, const char *socket, struct err *e)
{
    for (size_t n = strlen(text); n;) {
        const ssize_t sent = send(fd, text, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return err_sys(e, "%s: cannot ask the server", socket);
        text += sent;
        n -= (size_t)sent;
    }
    return 0;
}

static int read_all(int fd, const char *socket, struct buf *out, struct err *e)
{
    const uint64_t start = clock_ns();
    for (;;) {
        char *to = buf_reserve(out, PIECE);
        const ssize_t n = to ? recv(fd, to, PIECE, 0) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
            return err_sys(e, "%s: cannot read the server's answer", socket);
        if (n < 0 || clock_seconds_since(start) > WAIT_S)
            return ERR(e, E_IO, "%s: the server has not answered within %d s", socket, WAIT_S);
        if (n == 0)
            return buf_check(out, e);
        out->len += (size_t)n;
        if (out->len > ANSWER_MAX)
            return ERR(e, E_FORMAT, "%s: an answer of more than %d bytes", socket, ANSWER_MAX);
    }
}

int remote_ask(const char *socket, const char *method, const char *path, json_t **out,
               struct err *e)
{
    const struct timeval limit = {.tv_sec = WAIT_S};
    struct buf ask = BUF_INIT, answer = BUF_INIT;
    int fd;
    if (control_connect(socket, &fd, e))
        return -e->code;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    /* HTTP/1.0: the answer ends with the connection, and comes in no chunks */
    buf_printf(&ask, "%s %s HTTP/1.0\r\nHost: cherenkov\r\nContent-Length: 0\r\n\r\n", method,
               path);
    int rc = buf_check(&ask, e);
    rc = rc ? rc : send_all(fd, buf_str(&ask), socket, e);
    rc = rc ? rc : read_all(fd, socket, &answer, e);
    rc = rc ? rc : remote_parse(buf_str(&answer), answer.len, socket, out, e);
    close(fd);
    buf_free(&ask);
    buf_free(&answer);
    return rc;
}

/* The status of "HTTP/1.1 200 OK", or -1. */
static int status_of(const char *bytes, size_t n)
{
    static const char begin[] = "HTTP/1.";
    const size_t at = strlen(begin) + 2;
    if (n < at + 4 || memcmp(bytes, begin, strlen(begin)) != 0 || bytes[at - 1] != ' ')
        return -1;
    int status = 0;
    for (size_t i = at; i < at + 3; i++) {
        if (bytes[i] < '0' || bytes[i] > '9')
            return -1;
        status = status * 10 + (bytes[i] - '0');
    }
    return bytes[at + 3] == ' ' || bytes[at + 3] == '\r' ? status : -1;
}

/* What the server had to say against it. */
static int refused(int status, const json_t *v, const char *where, struct err *e)
{
    const char *said = json_string_value(json_object_get(json_object_get(v, "error"), "message"));
    const int code = status == 404   ? E_NOTFOUND
                     : status == 503 ? E_BUSY
                     : status < 500  ? E_ARG
                                     : E_IO;
    return ERR(e, code, "%s: the server says %d: %s", where, status, said ? said : "and not why");
}

int remote_parse(const char *bytes, size_t n, const char *where, json_t **out, struct err *e)
{
    static const char blank[] = "\r\n\r\n";
    const int status = status_of(bytes, n);
    const char *body = memmem(bytes, n, blank, strlen(blank));
    json_t *v;
    *out = NULL;
    if (status < 0 || !body)
        return ERR(e, E_FORMAT,
                   "%s: want an answer of HTTP, found something else: is this the "
                   "control socket of cherenkov?",
                   where);
    body += strlen(blank);
    if (json_parse(body, n - (size_t)(body - bytes), where, &v, e))
        return -e->code;
    if (status == 200 && json_is_object(v)) {
        *out = v;
        return 0;
    }
    const int rc = status == 200 ? ERR(e, E_FORMAT, "%s: want a JSON object", where)
                                 : refused(status, v, where, e);
    json_decref(v);
    return rc;
}
