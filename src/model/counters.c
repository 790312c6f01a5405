/* Names and sums of what is counted: see counters.h. */
#include "model/counters.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

#include "base/mem.h"

const char *cause_name(enum cause c)
{
    static const char *const names[CAUSE_COUNT] = {
        [CAUSE_DEMAND] = "demand", [CAUSE_LOOKAHEAD] = "lookahead", [CAUSE_PREFILL] = "prefill",
        [CAUSE_WARM] = "warm",     [CAUSE_NGRAM] = "n-gram",
    };
    return names[c];
}

const char *device_phase_name(enum device_phase p)
{
    static const char *const names[PHASE_COUNT] = {"embed", "read",  "mixer", "route", "experts",
                                                   "head",  "draft", "host",  "wait"};
    return names[p];
}

struct counters_sum counters_sum(const struct counters *c)
{
    struct counters_sum sum = {0};
    for (int i = 0; i < CAUSE_COUNT; i++)
        sum.read_bytes += c->bytes[i];
    for (int il = 0; il < c->n_layers; il++) {
        sum.hits += c->layer[il].hits;
        sum.misses += c->layer[il].misses;
        sum.device_hits += c->layer[il].device_hits;
    }
    return sum;
}

double counters_hit_rate(uint64_t hits, uint64_t misses)
{
    return hits + misses ? (double)hits / (double)(hits + misses) : NAN;
}

struct layer_counters counters_layers(const struct counters *c)
{
    struct layer_counters sum = {0};
    for (int il = 0; il < c->n_layers; il++) {
        const struct layer_counters *x = &c->layer[il];
        sum.selected += x->selected;
        sum.uses += x->uses;
        sum.hits += x->hits;
        sum.misses += x->misses;
        sum.predicted += x->predicted;
        sum.prefetched += x->prefetched;
        sum.prefetch_used += x->prefetch_used;
        sum.prefetch_late += x->prefetch_late;
        sum.prefetch_wasted += x->prefetch_wasted;
        sum.cut += x->cut;
        sum.device_hits += x->device_hits;
        sum.reads += x->reads;
        sum.read_bytes += x->read_bytes;
    }
    return sum;
}

int counters_open(struct counters *c, int n_layers, int n_experts, struct err *e)
{
    const size_t n = (size_t)n_layers * (size_t)n_experts;
    c->n_layers = n_layers;
    c->n_experts = n_experts;
    c->layer = mem_zalloc((size_t)n_layers, sizeof *c->layer);
    c->expert = mem_zalloc(n, sizeof *c->expert);
    if (c->layer && c->expert)
        return 0;
    counters_close(c);
    return ERR(e, E_NOMEM, "no memory for counters of %zu experts", n);
}

void counters_close(struct counters *c)
{
    mem_free(c->layer);
    mem_free(c->expert);
    *c = (struct counters){0};
}

/* Counters alone, so that they can be copied one by one. */
static_assert(sizeof(struct layer_counters) % sizeof(uint64_t) == 0, "words");
static_assert(sizeof(struct expert_counters) % sizeof(uint64_t) == 0, "words");
static_assert((sizeof(struct counters) - offsetof(struct counters, steps)) % sizeof(uint64_t) == 0,
              "words");

static void copy(const void *from, void *to, size_t bytes)
{
    const uint64_t *f = from;
    uint64_t *t = to;
    for (size_t i = 0; i < bytes / sizeof *f; i++)
        t[i] = __atomic_load_n(&f[i], __ATOMIC_RELAXED);
}

void counters_read(const struct counters *c, struct counters *to)
{
    assert(c->n_layers == to->n_layers);
    copy(c->layer, to->layer, (size_t)c->n_layers * sizeof *c->layer);
    copy(&c->steps, &to->steps, sizeof *c - offsetof(struct counters, steps));
}

void counters_experts(const struct counters *c, int il, struct expert_counters *out)
{
    assert(il >= 0 && il < c->n_layers);
    copy(c->expert + (size_t)il * (size_t)c->n_experts, out,
         (size_t)c->n_experts * sizeof *c->expert);
}
