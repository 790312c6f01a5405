/* Names of what is counted: see counters.h. */
#include "model/counters.h"

const char *cause_name(enum cause c)
{
    static const char *const names[CAUSE_COUNT] = {
        [CAUSE_DEMAND] = "demand", [CAUSE_LOOKAHEAD] = "lookahead", [CAUSE_PREFILL] = "prefill",
        [CAUSE_WARM] = "warm",     [CAUSE_NGRAM] = "n-gram",
    };
    return names[c];
}
