/* Where the server listens: see listen.h. */
#include "server/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"

enum { BACKLOG = 512, HOST_MAX = 128, PORT_LARGEST = 65535 };
#define UNIX "unix:"

static const char *unix_path(const char *address)
{
    return strncmp(address, UNIX, strlen(UNIX)) == 0 ? address + strlen(UNIX) : NULL;
}

/* Cuts "host:port" or "[host]:port". */
static int cut(const char *address, char host[HOST_MAX], const char **port, struct err *e)
{
    const char *colon = strrchr(address, ':');
    const char *start = address, *end = colon;
    if (colon && *address == '[' && colon > address && colon[-1] == ']') {
        start++;
        end--;
    }
    const bool port_ok = colon && colon[1] &&
                         strspn(colon + 1, "0123456789") == strlen(colon + 1) &&
                         strlen(colon + 1) <= 5 && strtol(colon + 1, NULL, 10) <= PORT_LARGEST;
    if (!port_ok || end <= start || end - start >= HOST_MAX)
        return ERR(e, E_ARG, "cannot listen on '%s': want HOST:PORT, [HOST]:PORT or unix:PATH",
                   address);
    snprintf(host, HOST_MAX, "%.*s", (int)(end - start), start);
    *port = colon + 1;
    return 0;
}

static int listen_unix(const char *path, int *fd, struct err *e)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof a.sun_path || !*path)
        return ERR(e, E_ARG, "unix:%s: a socket's path has 1 to %zu bytes", path,
                   sizeof a.sun_path - 1);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    const int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0)
        return err_sys(e, "%s: cannot make a socket", path);
    if (connect(s, (struct sockaddr *)&a, sizeof a) == 0) {
        close(s);
        return ERR(e, E_IO, "%s: another server listens there", path);
    }
    struct stat st;
    const bool stale = errno == ECONNREFUSED && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode);
    if ((stale && file_remove(path, e)) || bind(s, (struct sockaddr *)&a, sizeof a) ||
        chmod(path, 0600) || listen(s, BACKLOG)) {
        if (!e->code)
            (void)err_sys(e, "%s: cannot listen there", path);
        close(s);
        return -e->code;
    }
    *fd = s;
    return 0;
}

/* What to do about an address that cannot be had. */
static const char *advice(int code)
{
    switch (code) {
    case EADDRINUSE:
        return " (another program does; --listen takes another port, and for port 0 a free one)";
    case EADDRNOTAVAIL:
        return " (127.0.0.1 is for this machine alone, 0.0.0.0 for all)";
    case EACCES:
        return " (ports below 1024 may be the system's; --listen takes another one)";
    default:
        return "";
    }
}

static int listen_at(const struct addrinfo *a, const char *address, int *fd, struct err *e)
{
    const int on = 1;
    const int s = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0)
        return err_sys(e, "%s: cannot make a socket", address);
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (a->ai_family == AF_INET6)
        setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(s, a->ai_addr, a->ai_addrlen) || listen(s, BACKLOG)) {
        (void)err_sys(e, "%s: cannot listen there%s", address, advice(errno));
        close(s);
        return -e->code;
    }
    *fd = s;
    return 0;
}

/* "http://127.0.0.1:41234" for what the socket is bound to. */
static void show(int fd, struct buf *shown)
{
    struct sockaddr_storage a = {0};
    socklen_t n = sizeof a;
    char host[NI_MAXHOST], port[NI_MAXSERV];
    if (getsockname(fd, (struct sockaddr *)&a, &n) ||
        getnameinfo((struct sockaddr *)&a, n, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV))
        return;
    const bool six = a.ss_family == AF_INET6;
    buf_printf(shown, "http://%s%s%s:%s", six ? "[" : "", host, six ? "]" : "", port);
}

int listen_open(const char *address, int *fd, struct buf *shown, struct err *e)
{
    const char *path = unix_path(address), *port;
    char host[HOST_MAX];
    if (path) {
        buf_puts(shown, address);
        return listen_unix(path, fd, e);
    }
    if (cut(address, host, &port, e))
        return -e->code;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found;
    const int code = getaddrinfo(host, port, &hints, &found);
    if (code)
        return ERR(e, E_ARG, "cannot listen on '%s': %s", address, gai_strerror(code));
    const int rc = listen_at(found, address, fd, e);
    freeaddrinfo(found);
    if (!rc)
        show(*fd, shown);
    return rc;
}

int listen_remove(const char *address, struct err *e)
{
    const char *path = unix_path(address);
    return path ? file_remove(path, e) : 0;
}

bool listen_is_local(const char *address)
{
    return unix_path(address) || strncmp(address, "127.", 4) == 0 ||
           strncmp(address, "localhost:", 10) == 0 || strncmp(address, "[::1]:", 6) == 0;
}
