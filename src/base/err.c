/* Errors: see err.h. */
#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static void set_va(struct err *e, int code, const char *fmt, va_list ap)
{
    e->code = code;
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    utf8_make_plain(e->msg); /* it may quote names from files */
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
    assert(code > 0);
    if (e->code)
        return -e->code;
    va_list ap;
    va_start(ap, fmt);
    set_va(e, code, fmt, ap);
    va_end(ap);
    return -code;
}

int(err_sys)(struct err *e, const char *fmt, ...)
{
    int no = errno, code = E_IO;
    if (e->code)
        return -e->code;
    if (no == ENOSPC || no == EDQUOT)
        code = E_SPACE;
    else if (no == ENOENT)
        code = E_NOTFOUND;
    else if (no == ENOMEM)
        code = E_NOMEM;
    va_list ap;
    va_start(ap, fmt);
    set_va(e, code, fmt, ap);
    va_end(ap);
    size_t n = strlen(e->msg);
    snprintf(e->msg + n, sizeof e->msg - n, ": %s", strerror(no));
    return -code;
}

int err_prefix(struct err *e, const char *fmt, ...)
{
    if (!e->code)
        return 0;
    char old[sizeof e->msg];
    memcpy(old, e->msg, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    utf8_make_plain(e->msg);
    size_t n = strlen(e->msg);
    snprintf(e->msg + n, sizeof e->msg - n, ": %s", old);
    return -e->code;
}

void err_clear(struct err *e)
{
    e->code = E_OK;
    e->msg[0] = '\0';
}

struct err *err_of_thread(void)
{
    static _Thread_local struct err e;
    return &e;
}

int err_exit_status(int code)
{
    if (code < 0)
        code = -code;
    switch (code) {
    case E_OK:
        return 0;
    case E_ARG:
        return 2;
    case E_FORMAT:
    case E_UNSUPPORTED:
    case E_NOTFOUND:
        return 3;
    case E_DIFFER:
        return 4;
    case E_INTERRUPTED:
        return 130;
    default:
        return 1;
    }
}
