/* The bounded pool of slots, each a place for one record: which record is where, which slot may be
 * given up next. Opening takes addresses; a slot takes memory when it is first filled, and free
 * ones are filled in their order, so that a short run is not kept waiting while the system clears
 * a pool that it does not use. Knows no files and no time; reads.c and visit.c tell it what
 * happened.
 *
 *            pool_reserve             pool_arrived
 *      FREE ---------------> READING ---------------> READY <---+ pool_pin, pool_unpin
 *       ^                      |                        |  |    |
 *       |      pool_failed     |                        |  +----+ (touch: most recent)
 *       +----------------------+------------------------+
 *                                      pool_drop (eviction, only of what nobody holds)
 *
 * READY slots are a list in the order of their last use, counted in rounds (a round is one walk
 * through the layers). The oldest round is given up first; within it, what was used least, by a
 * count that halves every POOL_HALF_LIFE rounds. */
#ifndef STREAM_POOL_H
#define STREAM_POOL_H

#include "base/err.h"
#include "base/os.h"

enum {
    POOL_NONE = -1,
    POOL_HALF_LIFE =
        512, /* rounds; expected: an expert of 512 is used every 51 tokens on average */
    POOL_CANDIDATES = 64, /* of the oldest round, among which frequency decides */
};

enum slot_state { SLOT_FREE, SLOT_READING, SLOT_READY };

struct slot {
    enum slot_state state;
    int key;       /* layer * E + expert; POOL_NONE when free */
    int bits;      /* precision of the record */
    int pin;       /* what holds it (an entry of the visit), POOL_NONE: nothing */
    int held;      /* loans beside the visit: not given up either */
    bool prefetch; /* read by lookahead and not used since */
    uint32_t round;
    int prev, next; /* READY: the list of use; FREE: next is the list of free ones */
};

struct pool {
    struct slot *slot;
    int n, n_free;
    struct os_pages pages;
    size_t slot_bytes;
    int n_keys;
    int *where; /* [n_keys] slot or POOL_NONE */
    float *freq;
    uint32_t *freq_round; /* of freq's last change */
    int oldest, newest, free;
    uint32_t round;
    uint64_t evict_seed; /* for tests: not 0, what goes next is any that may, drawn from this */
    uint64_t n_reserved; /* so far */
};

static inline bool slot_is_held(const struct slot *s)
{
    return s->pin != POOL_NONE || s->held;
}

/* n_slots FREE slots for records 0..n_keys-1, none of which is there. E_NOMEM: nothing is held. */
int pool_open(struct pool *p, int n_slots, size_t slot_bytes, int n_keys, struct err *e);
void pool_close(struct pool *p);                     /* zeros are fine */
uint8_t *pool_bytes(const struct pool *p, int slot); /* [slot_bytes]; borrowed until pool_close */

/* A slot that nothing would miss: a free one, else the READY one to give up next; POOL_NONE when
 * all are held or being read. Changes nothing. */
int pool_vacancy(const struct pool *p);
void pool_drop(struct pool *p, int slot);             /* READY, not held -> FREE */
void pool_reserve(struct pool *p, int slot, int key); /* FREE -> READING */
void pool_arrived(struct pool *p, int slot);          /* READING -> READY, most recent */
void pool_failed(struct pool *p, int slot);           /* READING -> FREE */

void pool_touch(struct pool *p, int slot);  /* READY: becomes the most recent */
void pool_demote(struct pool *p, int slot); /* READY: becomes the next to go */
/* Counts uses of a key by so many rows. */
void pool_count(struct pool *p, int key, int rows);
float pool_frequency(const struct pool *p, int key); /* decayed to this round */

#endif
