/* A plain HTTP client for tests: sends what it is told, byte for byte, and reads whole answers. */
#ifndef TESTS_AID_HTTP_H
#define TESTS_AID_HTTP_H

#include "tests/aid_test.h"

struct aid_answer {
    int status;
    struct buf head, body; /* the body without its chunks' sizes */
    bool cut;              /* the connection ended before the answer did */
};

/* address: "http://127.0.0.1:PORT" or "unix:PATH". Returns a descriptor; fails the test if nobody
 * listens. */
int aid_http_connect(const char *address);
void aid_http_send(int fd, const char *text);
/* Reads one answer, within ten seconds. For aid_answer_free. */
void aid_http_read(int fd, struct aid_answer *a);
/* The same from bytes that were received. */
void aid_http_parse(const struct buf *bytes, struct aid_answer *a);
void aid_answer_free(struct aid_answer *a);
/* One request on a connection of its own; body NULL: none. `headers` are whole lines ("A: b\r\n"),
 * or "". */
void aid_http(const char *address, const char *method, const char *path, const char *headers,
              const char *body, struct aid_answer *a);
/* The value of a header of an answer, to free with mem_free; NULL: not there. */
char *aid_answer_header(const struct aid_answer *a, const char *name);

#endif
