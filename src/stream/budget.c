/* The budget: see budget.h. Sums saturate, so that absurd wishes are refused and not wrapped. */
#include "stream/budget.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/os.h"
#include "base/units.h"

#define MB ((uint64_t)1000 * 1000)
/* The program itself, its tokenizer, and buffers of reads. */
#define OVERHEAD (96 * MB)

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t times(uint64_t a, uint64_t b)
{
    return b && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

/* A control group gives less than the machine has. */
static bool group_decides(void)
{
    return os_memory_limit() < os_memory_total();
}

/* What the system lets us have, less an eighth, at most 4 GB: what others need, and 256 MB at least
 * where they share the machine with us. */
static uint64_t usual_limit(void)
{
    uint64_t all = os_memory_limit(), rest = all / 8;
    if (!group_decides() && rest < 256 * MB)
        rest = 256 * MB;
    if (rest > 4000 * MB)
        rest = 4000 * MB;
    return all > rest ? all - rest : 0;
}

static const char *limit_origin(const struct budget_wish *w)
{
    if (w->memory)
        return " (--memory)";
    return group_decides() ? " (what this control group may have, less an eighth)" : "";
}

/* More than there is would end in swapping, or in the system killing us. */
static int check_memory(const struct budget_wish *w, struct err *e)
{
    char r[2][UNITS_ROOM];
    uint64_t most = os_memory_limit();
    if (w->memory <= most)
        return 0;
    return ERR(e, E_LIMIT, "memory: --memory %s is more than this %s has, %s: lower it",
               units_bytes(r[0], w->memory), group_decides() ? "control group" : "machine",
               units_bytes(r[1], most));
}

static int too_small(const struct budget_wish *w, const struct budget *b, int slots, struct err *e)
{
    char r[7][UNITS_ROOM], beside[2 * UNITS_ROOM + 40] = "";
    uint64_t pool = times((uint64_t)slots, w->slot_bytes);
    if (w->beside)
        snprintf(beside, sizeof beside, "%s for states of earlier prompts (--prefix-memory), ",
                 units_bytes(r[0], w->beside));
    return ERR(e, E_LIMIT,
               "memory: the limit is %s%s, but %s are needed: %s of dense weights, %s for %d "
               "sequence%s, %s of scratch, %s%s for the program, and a pool of %d experts of %s; "
               "raise --memory, or lower --max-ctx, --prefill-chunk, %s%sor the pool",
               units_bytes(r[0], b->memory), limit_origin(w),
               units_bytes(r[1], plus(b->fixed, pool)), units_bytes(r[2], w->dense),
               units_bytes(r[3], times(w->sequence, (uint64_t)w->n_sequences)), w->n_sequences,
               w->n_sequences == 1 ? "" : "s", units_bytes(r[4], w->scratch), beside,
               units_bytes(r[5], OVERHEAD), slots, units_bytes(r[6], w->slot_bytes),
               w->beside ? "--prefix-memory, " : "", w->n_sequences > 1 ? "--sequences " : "");
}

/* How many slots were asked for: *asked, 0 when nothing was said. */
static int asked_slots(const struct budget_wish *w, int *asked, struct err *e)
{
    *asked = 0;
    if (w->pool_bytes && w->pool_slots)
        return ERR(e, E_ARG, "give one of --pool-gb and --pool-slots, not both");
    if (!w->slot_bytes || (!w->pool_bytes && !w->pool_slots))
        return 0;
    uint64_t n = w->pool_slots ? (uint64_t)w->pool_slots : w->pool_bytes / w->slot_bytes;
    if (n < (uint64_t)w->slots_min) {
        char r[UNITS_ROOM];
        return ERR(e, E_LIMIT,
                   "a pool of %" PRIu64 " experts is too small, want at least %d (%s): raise %s", n,
                   w->slots_min, units_bytes(r, times((uint64_t)w->slots_min, w->slot_bytes)),
                   w->pool_slots ? "--pool-slots" : "--pool-gb");
    }
    *asked = n < (uint64_t)w->slots_max ? (int)n : w->slots_max;
    return 0;
}

int budget_make(const struct budget_wish *w, struct budget *out, struct err *e)
{
    struct budget b = {.memory = w->memory ? w->memory : usual_limit()};
    b.fixed = plus(plus(w->dense, times(w->sequence, (uint64_t)w->n_sequences)),
                   plus(plus(w->scratch, w->beside), OVERHEAD));
    int asked, rc = check_memory(w, e);
    rc = rc ? rc : asked_slots(w, &asked, e);
    if (rc)
        return rc;
    uint64_t left = b.memory > b.fixed ? b.memory - b.fixed : 0;
    uint64_t fit = w->slot_bytes ? left / w->slot_bytes : 0;
    int least = asked ? asked : w->slots_min;
    if (b.memory < b.fixed || fit < (uint64_t)least)
        return too_small(w, &b, least, e);
    b.slots = asked ? asked : fit < (uint64_t)w->slots_max ? (int)fit : w->slots_max;
    b.pool = (uint64_t)b.slots * w->slot_bytes;
    b.left = left - b.pool;
    *out = b;
    return 0;
}
