/* A wish to stop: see interrupt.h. */
#include "base/interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

static atomic_bool asked_now; /* lock-free, so that a signal handler may write it */

static void on_signal(int number)
{
    (void)number;
    atomic_store(&asked_now, true);
}

/* No SA_RESTART: reads and writes are retried by file.c, and a wait at a terminal should end. */
static void take(int number, int flags)
{
    struct sigaction a = {.sa_handler = on_signal, .sa_flags = flags};
    sigemptyset(&a.sa_mask);
    sigaction(number, &a, NULL);
}

void interrupt_catch(void)
{
    take(SIGINT, SA_RESETHAND);
    take(SIGTERM, SA_RESETHAND);
}

void interrupt_catch_always(void)
{
    take(SIGINT, 0);
}

bool interrupt_asked(void)
{
    return atomic_load_explicit(&asked_now, memory_order_relaxed);
}

void interrupt_set(bool asked)
{
    atomic_store(&asked_now, asked);
}

int interrupt_check(struct err *e)
{
    return interrupt_asked() ? ERR(e, E_INTERRUPTED, "stopped by request") : 0;
}
