/* The threads of a step: see team.h.
 *
 * `ticket` is (stage << 32 | next item). An item is taken by adding one to it, which fails if the
 * stage has changed. So a member that comes late finds nothing to do, and the caller waits for
 * items, never for members: one that the system has put aside holds up nothing but what it holds.
 * n, fn and ctx change only between stages, behind a ticket that no item can be taken by (CLOSED):
 * a member that saw a new one of them with the old ticket fails to add to it. What a member read of
 * them belongs to the stage in which its addition succeeds. */
#include "base/team.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"

/* Some 100 us: longer than what the caller does between two stages, shorter than what a waiting
 * program would be blamed for (expected). */
enum { SPINS = 3000, STAGE_SHIFT = 32, CLOSED = INT32_MAX };

struct member {
    struct team *team;
    int id;
    pthread_t thread;
};

struct team {
    _Alignas(64) _Atomic uint64_t ticket;
    _Alignas(64) atomic_int done; /* items of this stage */
    _Alignas(64) atomic_int n;
    _Atomic(team_fn *) fn;
    _Atomic(void *) ctx;
    atomic_int sleeping;
    atomic_bool stop;
    int size, started;
    struct member *members; /* [size], the first is the caller */
    pthread_mutex_t lock;   /* of wake */
    pthread_cond_t wake;
};

static void *member_main(void *arg);
static void take_items(struct team *t, int member, uint32_t stage);

int team_open(int size, struct team **out, struct err *e)
{
    struct team *t = mem_aligned(_Alignof(struct team), sizeof *t);
    struct member *members = mem_zalloc((size_t)size, sizeof *members);
    if (!t || !members) {
        mem_free(t);
        mem_free(members);
        return ERR(e, E_NOMEM, "no memory for %d threads", size);
    }
    *t = (struct team){.size = size, .started = 1, .members = members};
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    for (; t->started < size; t->started++) {
        struct member *m = &members[t->started];
        *m = (struct member){.team = t, .id = t->started};
        if (pthread_create(&m->thread, NULL, member_main, m)) {
            int rc = ERR(e, E_IO, "thread %d of %d could not be started: ask for fewer threads",
                         t->started + 1, size);
            team_close(t);
            return rc;
        }
    }
    *out = t;
    return 0;
}

static void wake_all(struct team *t)
{
    pthread_mutex_lock(&t->lock);
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
}

void team_close(struct team *t)
{
    if (!t)
        return;
    atomic_store(&t->stop, true);
    wake_all(t);
    for (int i = 1; i < t->started; i++)
        pthread_join(t->members[i].thread, NULL);
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
    mem_free(t->members);
    mem_free(t);
}

int team_size(const struct team *t)
{
    return t->size;
}

static void pause_a_little(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void team_run(struct team *t, int n, team_fn *fn, void *ctx)
{
    if (n <= 1 || t->size == 1) {
        for (int i = 0; i < n; i++)
            fn(ctx, i, 0);
        return;
    }
    uint32_t stage = (uint32_t)(atomic_load(&t->ticket) >> STAGE_SHIFT) + 1;
    atomic_store(&t->ticket, (uint64_t)(stage - 1) << STAGE_SHIFT | CLOSED);
    atomic_store_explicit(&t->n, n, memory_order_release);
    atomic_store_explicit(&t->fn, fn, memory_order_release);
    atomic_store_explicit(&t->ctx, ctx, memory_order_release);
    atomic_store_explicit(&t->done, 0, memory_order_release);
    atomic_store(&t->ticket, (uint64_t)stage << STAGE_SHIFT);
    if (atomic_load(&t->sleeping))
        wake_all(t);
    take_items(t, 0, stage);
    for (int spins = 0; atomic_load_explicit(&t->done, memory_order_acquire) < n;)
        if (++spins < SPINS)
            pause_a_little();
        else
            sched_yield();
}

/* Runs items of this stage until all are taken. */
static void take_items(struct team *t, int member, uint32_t stage)
{
    for (;;) {
        uint64_t at = atomic_load_explicit(&t->ticket, memory_order_acquire);
        int n = atomic_load_explicit(&t->n, memory_order_acquire), item = (int)(uint32_t)at;
        team_fn *fn = atomic_load_explicit(&t->fn, memory_order_acquire);
        void *ctx = atomic_load_explicit(&t->ctx, memory_order_acquire);
        if (at >> STAGE_SHIFT != stage || item >= n)
            return;
        if (!atomic_compare_exchange_weak(&t->ticket, &at, at + 1))
            continue;
        fn(ctx, item, member);
        atomic_fetch_add_explicit(&t->done, 1, memory_order_release);
    }
}

static uint32_t stage_of(struct team *t)
{
    return (uint32_t)(atomic_load(&t->ticket) >> STAGE_SHIFT);
}

/* The stage that follows `seen`, or a later one; `seen` itself when the team is closing. */
static uint32_t next_stage(struct team *t, uint32_t seen)
{
    for (int spins = 0; spins < SPINS; spins++) {
        uint32_t now = stage_of(t);
        if (now != seen || atomic_load(&t->stop))
            return now;
        pause_a_little();
    }
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add(&t->sleeping, 1);
    while (stage_of(t) == seen && !atomic_load(&t->stop))
        pthread_cond_wait(&t->wake, &t->lock);
    atomic_fetch_sub(&t->sleeping, 1);
    pthread_mutex_unlock(&t->lock);
    return stage_of(t);
}

static void *member_main(void *arg)
{
    struct member *m = arg;
    for (uint32_t seen = 0;;) {
        uint32_t now = next_stage(m->team, seen);
        if (atomic_load(&m->team->stop))
            return NULL;
        take_items(m->team, m->id, now);
        seen = now;
    }
}
