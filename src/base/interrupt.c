/* A wish to stop: see interrupt.h. */
#include "base/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

/* Lock-free, so that a signal handler may write them. */
static atomic_bool asked_now, final_now, reload_now;
static sem_t service; /* posted for each signal to a service */

static void on_signal(int number)
{
    if (number != SIGINT)
        atomic_store(&final_now, true);
    atomic_store(&asked_now, true);
}

/* No SA_RESTART: reads and writes are retried by file.c, and a wait at a terminal should end. */
static void take(void (*handler)(int), int number, int flags)
{
    struct sigaction a = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&a.sa_mask);
    sigaction(number, &a, NULL);
}

static void take_unless_ignored(void (*handler)(int), int number, int flags)
{
    struct sigaction was;
    if (sigaction(number, NULL, &was) == 0 && was.sa_handler != SIG_IGN)
        take(handler, number, flags);
}

static void on_service_signal(int number)
{
    atomic_store(number == SIGHUP ? &reload_now : &asked_now, true);
    if (number != SIGHUP) { /* the next one is final, whichever of the two it is */
        take_unless_ignored(SIG_DFL, SIGINT, 0);
        take_unless_ignored(SIG_DFL, SIGTERM, 0);
    }
    sem_post(&service);
}

void interrupt_catch(void)
{
    take_unless_ignored(on_signal, SIGINT, SA_RESETHAND);
    take_unless_ignored(on_signal, SIGTERM, SA_RESETHAND);
    take_unless_ignored(on_signal, SIGHUP, SA_RESETHAND);
}

void interrupt_catch_always(void)
{
    interrupt_catch();
    take_unless_ignored(on_signal, SIGINT, 0);
}

/* A reload ends nothing, so nohup, which is against an end, does not keep it off. */
void interrupt_catch_service(void)
{
    sem_init(&service, 0, 0);
    take_unless_ignored(on_service_signal, SIGINT, SA_RESETHAND);
    take_unless_ignored(on_service_signal, SIGTERM, SA_RESETHAND);
    take(on_service_signal, SIGHUP, 0);
}

enum interrupt_event interrupt_wait(void)
{
    for (;;) {
        if (atomic_load(&asked_now))
            return INTERRUPT_STOP;
        if (atomic_exchange(&reload_now, false))
            return INTERRUPT_RELOAD;
        (void)sem_wait(&service); /* a signal ends it too, and then all is looked at again */
    }
}

bool interrupt_wait_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    sigset_t ours, before;
    int ready = 0;
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    sigaddset(&ours, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ours, &before);
    while (!interrupt_asked() && ready == 0) {
        ready = ppoll(&p, 1, NULL, &before);
        if (ready < 0 && errno == EINTR)
            ready = 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ready != 0; /* where poll fails, read says why */
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
