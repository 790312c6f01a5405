/* A wish to stop: see interrupt.h. */
#include "base/interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

/* Lock-free, so that a signal handler may write them. */
static atomic_bool asked_now, final_now;

static void on_signal(int number)
{
    if (number != SIGINT)
        atomic_store(&final_now, true);
    atomic_store(&asked_now, true);
}

/* No SA_RESTART: reads and writes are retried by file.c, and a wait at a terminal should end. */
static void take(int number, int flags)
{
    struct sigaction a = {.sa_handler = on_signal, .sa_flags = flags};
    sigemptyset(&a.sa_mask);
    sigaction(number, &a, NULL);
}

static void take_unless_ignored(int number, int flags)
{
    struct sigaction was;
    if (sigaction(number, NULL, &was) == 0 && was.sa_handler != SIG_IGN)
        take(number, flags);
}

void interrupt_catch(void)
{
    take(SIGINT, SA_RESETHAND);
    take(SIGTERM, SA_RESETHAND);
    take_unless_ignored(SIGHUP, SA_RESETHAND);
}

void interrupt_catch_always(void)
{
    interrupt_catch();
    take(SIGINT, 0);
}

bool interrupt_asked(void)
{
    return atomic_load_explicit(&asked_now, memory_order_relaxed);
}

bool interrupt_final(void)
{
    return atomic_load(&final_now);
}

void interrupt_set(bool asked)
{
    atomic_store(&asked_now, asked || interrupt_final());
}

int interrupt_check(struct err *e)
{
    return interrupt_asked() ? ERR(e, E_INTERRUPTED, "stopped by request") : 0;
}
