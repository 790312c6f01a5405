/* Prompt lookup: see lookup.h. */
#include "runner/lookup.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

int lookup_init(struct lookup *l, int cap, struct err *e)
{
    *l = (struct lookup){.cap = cap, .bits = 4};
    while (l->bits < 24 && 1 << l->bits < cap)
        l->bits++;
    const size_t n_latest = (size_t)1 << l->bits;
    l->tokens = mem_array((size_t)cap, sizeof *l->tokens);
    l->before = mem_array((size_t)cap, sizeof *l->before);
    l->latest = mem_array(n_latest, sizeof *l->latest);
    if (!l->tokens || !l->before || !l->latest) {
        lookup_free(l);
        return ERR(e, E_NOMEM, "no memory to look up %d tokens", cap);
    }
    memset(l->latest, 0xff, n_latest * sizeof *l->latest);
    return 0;
}

void lookup_free(struct lookup *l)
{
    mem_free(l->tokens);
    mem_free(l->before);
    mem_free(l->latest);
    *l = (struct lookup){0};
}

/* Of the KEY tokens that end at `at`. */
static uint32_t key(const struct lookup *l, int at)
{
    uint64_t hash = 0;
    for (int i = at - LOOKUP_KEY + 1; i <= at; i++)
        hash = rng_splitmix64(hash ^ (uint64_t)(uint32_t)l->tokens[i]);
    return (uint32_t)(hash >> (64 - l->bits));
}

void lookup_push(struct lookup *l, int32_t token)
{
    const int at = l->n++;
    assert(at < l->cap);
    l->tokens[at] = token;
    l->before[at] = -1;
    if (at < LOOKUP_KEY - 1)
        return;
    int32_t *latest = &l->latest[key(l, at)];
    l->before[at] = *latest;
    *latest = at;
}

/* How many tokens up to `at` equal those up to the end. */
static int match(const struct lookup *l, int at)
{
    const int end = l->n - 1;
    int n = 0;
    while (n < LOOKUP_LENGTH_MAX && n <= at && l->tokens[at - n] == l->tokens[end - n])
        n++;
    return n;
}

int lookup_guess(const struct lookup *l, int most, int32_t *out)
{
    int best = -1, best_n = LOOKUP_KEY - 1, at = l->n ? l->before[l->n - 1] : -1;
    for (int i = 0; i < LOOKUP_TRIES && at >= 0 && best_n < LOOKUP_LENGTH_MAX; i++) {
        const int n = match(l, at);
        if (n > best_n) {
            best = at;
            best_n = n;
        }
        at = l->before[at];
    }
    if (best < 0)
        return 0;
    const int period = l->n - 1 - best;
    for (int i = 0; i < most; i++)
        out[i] = i < period ? l->tokens[best + 1 + i] : out[i - period];
    return most;
}
