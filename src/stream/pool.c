/* The pool of slots: see pool.h. */
#include "stream/pool.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

int pool_open(struct pool *p, int n_slots, size_t slot_bytes, int n_keys, struct err *e)
{
    *p = (struct pool){.n = n_slots,
                       .n_free = n_slots,
                       .slot_bytes = slot_bytes,
                       .n_keys = n_keys,
                       .oldest = POOL_NONE,
                       .newest = POOL_NONE,
                       .round = 1};
    p->slot = mem_array((size_t)n_slots, sizeof *p->slot);
    p->where = mem_array((size_t)n_keys, sizeof *p->where);
    p->freq = mem_zalloc((size_t)n_keys, sizeof *p->freq);
    p->freq_round = mem_zalloc((size_t)n_keys, sizeof *p->freq_round);
    int rc = 0;
    if (!p->slot || !p->where || !p->freq || !p->freq_round)
        rc = ERR(e, E_NOMEM, "out of memory for a pool of %d slots", n_slots);
    if (!rc)
        rc = os_pages_take((size_t)n_slots * slot_bytes, &p->pages, e);
    if (rc) {
        pool_close(p);
        return rc;
    }
    for (int i = 0; i < n_slots; i++)
        p->slot[i] = (struct slot){.key = POOL_NONE,
                                   .pin = POOL_NONE,
                                   .prev = POOL_NONE,
                                   .next = i + 1 < n_slots ? i + 1 : POOL_NONE};
    p->free = n_slots ? 0 : POOL_NONE;
    for (int k = 0; k < n_keys; k++)
        p->where[k] = POOL_NONE;
    return 0;
}

void pool_close(struct pool *p)
{
    os_pages_free(&p->pages);
    mem_free(p->slot);
    mem_free(p->where);
    mem_free(p->freq);
    mem_free(p->freq_round);
    *p = (struct pool){0};
}

uint8_t *pool_bytes(const struct pool *p, int slot)
{
    return p->pages.data + (size_t)slot * p->slot_bytes;
}

/* For tests: of all that may go, the one with the lowest lot. */
static int drawn_vacancy(const struct pool *p)
{
    int best = POOL_NONE;
    uint64_t lowest = 0;
    for (int i = p->oldest; i != POOL_NONE; i = p->slot[i].next) {
        uint64_t lot = rng_at(p->evict_seed, p->n_reserved * (uint64_t)p->n + (uint64_t)i);
        if (!slot_is_held(&p->slot[i]) && (best == POOL_NONE || lot < lowest)) {
            best = i;
            lowest = lot;
        }
    }
    return best;
}

int pool_vacancy(const struct pool *p)
{
    if (p->free != POOL_NONE)
        return p->free;
    if (p->evict_seed)
        return drawn_vacancy(p);
    int best = POOL_NONE, seen = 0;
    float least = 0;
    for (int i = p->oldest; i != POOL_NONE && seen < POOL_CANDIDATES; i = p->slot[i].next) {
        const struct slot *s = &p->slot[i];
        if (slot_is_held(s))
            continue;
        if (best != POOL_NONE && s->round != p->slot[best].round)
            break;
        float f = pool_frequency(p, s->key);
        if (best == POOL_NONE || f < least) {
            best = i;
            least = f;
        }
        seen++;
    }
    return best;
}

static void list_remove(struct pool *p, int i)
{
    struct slot *s = &p->slot[i];
    *(s->prev == POOL_NONE ? &p->oldest : &p->slot[s->prev].next) = s->next;
    *(s->next == POOL_NONE ? &p->newest : &p->slot[s->next].prev) = s->prev;
    s->prev = s->next = POOL_NONE;
}

static void list_append(struct pool *p, int i)
{
    struct slot *s = &p->slot[i];
    s->round = p->round;
    s->prev = p->newest;
    s->next = POOL_NONE;
    *(p->newest == POOL_NONE ? &p->oldest : &p->slot[p->newest].next) = i;
    p->newest = i;
}

static void release(struct pool *p, int i)
{
    struct slot *s = &p->slot[i];
    p->where[s->key] = POOL_NONE;
    *s = (struct slot){.key = POOL_NONE, .pin = POOL_NONE, .prev = POOL_NONE, .next = p->free};
    p->free = i;
    p->n_free++;
}

void pool_drop(struct pool *p, int slot)
{
    assert(p->slot[slot].state == SLOT_READY && !slot_is_held(&p->slot[slot]));
    list_remove(p, slot);
    release(p, slot);
}

void pool_reserve(struct pool *p, int slot, int key)
{
    assert(slot == p->free && p->where[key] == POOL_NONE);
    struct slot *s = &p->slot[slot];
    p->free = s->next;
    p->n_free--;
    p->n_reserved++;
    s->next = POOL_NONE;
    s->state = SLOT_READING;
    s->key = key;
    p->where[key] = slot;
}

void pool_arrived(struct pool *p, int slot)
{
    assert(p->slot[slot].state == SLOT_READING);
    p->slot[slot].state = SLOT_READY;
    list_append(p, slot);
}

void pool_failed(struct pool *p, int slot)
{
    assert(p->slot[slot].state == SLOT_READING);
    release(p, slot);
}

void pool_touch(struct pool *p, int slot)
{
    assert(p->slot[slot].state == SLOT_READY);
    list_remove(p, slot);
    list_append(p, slot);
}

void pool_demote(struct pool *p, int slot)
{
    struct slot *s = &p->slot[slot];
    assert(s->state == SLOT_READY);
    list_remove(p, slot);
    s->round = 0;
    s->next = p->oldest;
    *(p->oldest == POOL_NONE ? &p->newest : &p->slot[p->oldest].prev) = slot;
    p->oldest = slot;
}

void pool_count(struct pool *p, int key, int rows)
{
    p->freq[key] = pool_frequency(p, key) + (float)rows;
    p->freq_round[key] = p->round;
}

float pool_frequency(const struct pool *p, int key)
{
    uint32_t age = p->round - p->freq_round[key];
    return age ? p->freq[key] * exp2f(-(float)age / POOL_HALF_LIFE) : p->freq[key];
}
