/* SIGBUS of mapped files: see guard.h. The table is read by a signal handler, and so has no lock:
 * an entry counts while its address is set, which is written last and cleared first. */
#include "base/guard.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

enum { ENTRIES = 64 };

static struct entry {
    atomic_bool taken;
    atomic_uintptr_t data; /* 0: does not count */
    size_t size;
    char path[GUARD_PATH_MAX];
} entries[ENTRIES];

static void (*call)(const char *path);
static atomic_flag called = ATOMIC_FLAG_INIT;

void guard_add(const void *data, size_t size, const char *path)
{
    for (int i = 0; data && i < ENTRIES; i++) {
        struct entry *x = &entries[i];
        if (atomic_exchange(&x->taken, true))
            continue;
        x->size = size;
        snprintf(x->path, sizeof x->path, "%s", path);
        atomic_store(&x->data, (uintptr_t)data);
        return;
    }
}

void guard_remove(const void *data)
{
    for (int i = 0; data && i < ENTRIES; i++) {
        struct entry *x = &entries[i];
        if (atomic_load(&x->data) != (uintptr_t)data)
            continue;
        atomic_store(&x->data, 0);
        atomic_store(&x->taken, false);
        return;
    }
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    const uintptr_t at = (uintptr_t)info->si_addr;
    (void)context;
    for (int i = 0; i < ENTRIES; i++) {
        const uintptr_t data = atomic_load(&entries[i].data);
        if (!data || at < data || at - data >= entries[i].size)
            continue;
        while (atomic_flag_test_and_set(&called)) /* another thread ends the program */
            pause();
        call(entries[i].path);
    }
    signal(number, SIG_DFL); /* the instruction is tried again, and ends the program */
}

void guard_install(void (*on_fault)(const char *path))
{
    struct sigaction a = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    sigemptyset(&a.sa_mask);
    call = on_fault;
    sigaction(SIGBUS, &a, NULL);
}
