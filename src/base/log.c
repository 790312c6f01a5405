/* Remarks on stderr: see log.h. */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/utf8.h"

static atomic_int level_now = LOG_INFO;

void log_set_level(enum log_level level)
{
    atomic_store(&level_now, level);
}

void log_say(enum log_level level, const char *fmt, ...)
{
    static const char *const word[] = {"error: ", "warning: ", "", ""};
    char line[2048];
    if ((int)level > atomic_load(&level_now))
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    utf8_make_plain(line); /* names from files must not steer the terminal */
    fprintf(stderr, "cherenkov: %s%s\n", word[level], line);
}
