/* A plain HTTP client: see aid_http.h. */
#include "tests/aid_http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"

enum { SECONDS_MAX = 20 };

static int connect_unix(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&a, sizeof a))
        fail_msg("nobody listens on %s: %s", path, strerror(errno));
    return fd;
}

int aid_http_connect(const char *address)
{
    const struct timeval limit = {.tv_sec = SECONDS_MAX};
    const char *port = strrchr(address, ':');
    int fd;
    if (strncmp(address, "unix:", 5) == 0) {
        fd = connect_unix(address + 5);
    } else {
        struct sockaddr_in a = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)strtol(port + 1, NULL, 10)),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (struct sockaddr *)&a, sizeof a))
            fail_msg("nobody listens on %s: %s", address, strerror(errno));
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    return fd;
}

void aid_http_send(int fd, const char *text)
{
    for (size_t n = strlen(text); n;) {
        const ssize_t sent = send(fd, text, n, MSG_NOSIGNAL);
        if (sent <= 0) /* the server may have closed it already; the answer tells */
            return;
        text += sent;
        n -= (size_t)sent;
    }
}

/* Where an answer comes from: a connection, or bytes that came before. */
struct source {
    int fd;
    const struct buf *bytes; /* NULL: the connection */
    size_t at;
};

/* One byte more; false at the end. */
static bool next(struct source *s, struct buf *out)
{
    char c;
    ssize_t n;
    if (s->bytes) {
        if (s->at < s->bytes->len)
            buf_putc(out, s->bytes->data[s->at]);
        return s->at++ < s->bytes->len;
    }
    do
        n = recv(s->fd, &c, 1, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        fail_msg("the server said nothing for %d s", SECONDS_MAX);
    if (n <= 0)
        return false;
    buf_putc(out, c);
    return true;
}

static bool read_n(struct source *s, size_t n, struct buf *out)
{
    while (n && next(s, out))
        n--;
    return n == 0;
}

static bool read_line(struct source *s, struct buf *line)
{
    buf_clear(line);
    while (next(s, line))
        if (line->data[line->len - 1] == '\n')
            return true;
    return false;
}

static bool read_chunks(struct source *s, struct buf *body)
{
    struct buf line = BUF_INIT;
    bool whole = false;
    while (!whole && read_line(s, &line)) {
        const size_t n = strtoul(line.data, NULL, 16);
        if (!read_n(s, n, body) || !read_line(s, &line))
            break;
        whole = n == 0;
    }
    buf_free(&line);
    return whole;
}

static void read_answer(struct source *s, struct aid_answer *a)
{
    *a = (struct aid_answer){0};
    while (next(s, &a->head))
        if (a->head.len >= 4 && memcmp(a->head.data + a->head.len - 4, "\r\n\r\n", 4) == 0)
            break;
    if (sscanf(buf_str(&a->head), "HTTP/1.%*d %d", &a->status) != 1) {
        a->cut = true;
        return;
    }
    char *length = aid_answer_header(a, "Content-Length");
    char *coding = aid_answer_header(a, "Transfer-Encoding");
    if (coding && strcmp(coding, "chunked") == 0)
        a->cut = !read_chunks(s, &a->body);
    else if (length)
        a->cut = !read_n(s, strtoul(length, NULL, 10), &a->body);
    mem_free(length);
    mem_free(coding);
}

void aid_http_read(int fd, struct aid_answer *a)
{
    read_answer(&(struct source){.fd = fd}, a);
}

void aid_http_parse(const struct buf *bytes, struct aid_answer *a)
{
    read_answer(&(struct source){.fd = -1, .bytes = bytes}, a);
}

void aid_answer_free(struct aid_answer *a)
{
    buf_free(&a->head);
    buf_free(&a->body);
}

char *aid_answer_header(const struct aid_answer *a, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = strchr(buf_str(&a->head), '\n'); at; at = strchr(at, '\n')) {
        at++;
        if (strncasecmp(at, name, n) != 0 || at[n] != ':')
            continue;
        at += n + 1;
        at += strspn(at, " ");
        return mem_strndup(at, strcspn(at, "\r\n"));
    }
    return NULL;
}

void aid_http(const char *address, const char *method, const char *path, const char *headers,
              const char *body, struct aid_answer *a)
{
    struct buf text = BUF_INIT;
    const int fd = aid_http_connect(address);
    buf_printf(&text, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s", method, path,
               headers);
    if (body)
        buf_printf(&text, "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                   strlen(body), body);
    else
        buf_puts(&text, "\r\n");
    aid_http_send(fd, buf_str(&text));
    aid_http_read(fd, a);
    close(fd);
    buf_free(&text);
}
