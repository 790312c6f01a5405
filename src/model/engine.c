/* What every engine shares: see engine.h. */
#include "model/engine.h"

static const char *const names[SEEN_COUNT] = {
    [SEEN_EMBED] = "embed",
    [SEEN_PLE] = "ple",
    [SEEN_MIXER] = "mixer",
    [SEEN_MOE] = "moe",
    [SEEN_RESIDUAL] = "residual",
    [SEEN_HIDDEN] = "hidden",
    [SEEN_LOGITS] = "logits",
    [SEEN_ROUTE] = "route",
    [SEEN_ROUTE_WEIGHT] = "route_weight",
    [SEEN_SELECTED] = "selected",
    [SEEN_NGRAM] = "ngram",
    [SEEN_MTP_RESIDUAL] = "mtp_residual",
    [SEEN_MTP_LOGITS] = "mtp_logits",
};

const char *seen_name(enum seen what)
{
    return names[what];
}

int32_t engine_argmax(const float *logits, int vocab)
{
    int32_t best = 0;
    for (int32_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}
