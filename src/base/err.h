/* Errors: one convention for the whole program.
 *
 * A function that can fail returns 0, or a negative code, with one message in struct err. The first
 * failure writes the message, callers pass it on (and may put context in front). A message says
 * where, what was expected, what was found, and what to do. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdarg.h>

enum err_code {
    E_OK = 0,
    E_ARG,         /* a flag, parameter or call that makes no sense: the caller must change it */
    E_IO,          /* the system refused or a device failed: errno is in the message */
    E_FORMAT,      /* a file or request is not what it should be */
    E_NOMEM,       /* an allocation failed, or a stated memory budget is too small */
    E_LIMIT,       /* a bound of this program or model was reached (context, depth, size) */
    E_SPACE,       /* no room on a disk */
    E_UNSUPPORTED, /* valid, but this program does not do it */
    E_NOTFOUND,    /* a file, tensor or name that is not there */
    E_INTERRUPTED, /* stopped by request */
    E_NONFINITE,   /* NaN or infinity, computed or among weights */
    E_DIFFER,      /* a comparison found a difference (verify, check) */
    E_BUSY,        /* no room for it at the moment; the same may do later */
    E_EXISTS,      /* something of that name is there, or at work, already */
};

struct err {
    int code;       /* enum err_code, positive; E_OK while nothing has failed */
    char msg[1024]; /* one line, no final newline; "" while nothing has failed */
};

/* Records a failure and evaluates to -code: `return ERR(e, E_FORMAT, "%s: ...", path);`
 * If one is recorded already it stays, and its code is returned: the first failure is the one
 * reported. Control characters of what is quoted become '?'. */
#define ERR(e, code, ...) err_failed(err_set((e), (code), __VA_ARGS__))
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The same with ": " and strerror(errno) behind it; ENOSPC and EDQUOT turn E_IO into E_SPACE,
 * ENOENT into E_NOTFOUND, ENOMEM into E_NOMEM. */
int err_sys(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define err_sys(...) err_failed(err_sys(__VA_ARGS__))

/* Tells compilers and analysers that a recorded failure is never 0, so that they do not follow the
 * caller's path for success with outputs that were not set. */
static inline int err_failed(int rc)
{
    if (rc >= 0)
        __builtin_unreachable();
    return rc;
}

/* Puts "context: " in front of a message that is there; evaluates to -e->code. */
int err_prefix(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void err_clear(struct err *e);
/* The calling thread's own record, for a failure that no object is there to hold. */
struct err *err_of_thread(void);

/* The exit status of the program for a code: 0; 2 for E_ARG; 3 for E_FORMAT, E_UNSUPPORTED and
 * E_NOTFOUND; 4 for E_DIFFER; 130 for E_INTERRUPTED; 1 for the rest. Documented in docs/cli.md. */
int err_exit_status(int code);

#endif
