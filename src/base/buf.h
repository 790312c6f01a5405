/* A growable byte string. Appending never reports: a failed allocation makes the buffer stick in
 * `failed`, later appends do nothing, and the caller asks once, with buf_check, at the end. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct buf {
    char *data; /* NUL behind len bytes whenever data is not NULL; owned */
    size_t len, cap;
    bool failed;
};

#define BUF_INIT ((struct buf){0})

void buf_add(struct buf *b, const void *p, size_t n);
void buf_puts(struct buf *b, const char *s);
void buf_putc(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Room for n more bytes at the returned place (data + len), or NULL: write there, add to len. */
char *buf_reserve(struct buf *b, size_t n);
void buf_clear(struct buf *b); /* len 0, failed off, memory kept */
void buf_free(struct buf *b);
/* 0, or E_NOMEM with a message if an append failed since buf_clear. */
int buf_check(const struct buf *b, struct err *e);
/* The contents as a C string, never NULL; borrowed until the next append. */
const char *buf_str(const struct buf *b);

#endif
