/* A growable byte string: see buf.h. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

char *buf_reserve(struct buf *b, size_t n)
{
    if (b->failed)
        return NULL;
    if (n >= SIZE_MAX / 2 - b->len) {
        b->failed = true;
        return NULL;
    }
    size_t want = b->len + n + 1;
    if (want > b->cap) {
        size_t cap = b->cap ? b->cap : want < 64 ? 64 : want; /* at first just as much */
        while (cap < want)
            cap += cap / 2 + 64;
        char *p = mem_realloc(b->data, cap);
        if (!p) {
            b->failed = true;
            return NULL;
        }
        b->data = p;
        b->cap = cap;
        b->data[b->len] = '\0';
    }
    return b->data + b->len;
}

void buf_add(struct buf *b, const void *p, size_t n)
{
    char *to = buf_reserve(b, n);
    if (!to)
        return;
    if (n)
        memcpy(to, p, n);
    b->len += n;
    b->data[b->len] = '\0';
}

void buf_puts(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_putc(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        b->failed = true;
    char *to = n < 0 ? NULL : buf_reserve(b, (size_t)n);
    if (!to)
        return;
    va_start(ap, fmt);
    vsnprintf(to, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data)
        b->data[0] = '\0';
}

void buf_free(struct buf *b)
{
    mem_free(b->data);
    *b = BUF_INIT;
}

int buf_check(const struct buf *b, struct err *e)
{
    return b->failed ? ERR(e, E_NOMEM, "out of memory after %zu bytes of text", b->len) : 0;
}

const char *buf_str(const struct buf *b)
{
    return b->data ? b->data : "";
}
