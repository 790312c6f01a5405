/* Names and sums of what is counted: see counters.h. */
#include "model/counters.h"

const char *cause_name(enum cause c)
{
    static const char *const names[CAUSE_COUNT] = {
        [CAUSE_DEMAND] = "demand", [CAUSE_LOOKAHEAD] = "lookahead", [CAUSE_PREFILL] = "prefill",
        [CAUSE_WARM] = "warm",     [CAUSE_NGRAM] = "n-gram",
    };
    return names[c];
}

struct counters_sum counters_sum(const struct counters *c)
{
    struct counters_sum sum = {0};
    for (int i = 0; i < CAUSE_COUNT; i++)
        sum.read_bytes += c->bytes[i];
    for (int il = 0; il < c->n_layers; il++) {
        sum.hits += c->layer[il].hits;
        sum.misses += c->layer[il].misses;
    }
    return sum;
}
