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

int engine_options_resolve(const struct config *c, const struct engine_options *o,
                           struct engine_options *out, struct err *e)
{
    *out = *o;
    out->expert_bits = o->expert_bits ? o->expert_bits : 4;
    if (out->expert_bits < 2 || out->expert_bits > 4)
        return ERR(e, E_ARG, "experts of %d bits: want 4, 3 or 2", o->expert_bits);
    out->mtp_norm = o->mtp_norm == -1 ? (int)c->mtp_norm : o->mtp_norm;
    if (out->mtp_norm != MTP_NORM_ALL && out->mtp_norm != MTP_NORM_STREAM)
        return ERR(e, E_ARG, "draft head norm %d: want -1, %d (all) or %d (stream)", o->mtp_norm,
                   MTP_NORM_ALL, MTP_NORM_STREAM);
    out->drafts = o->drafts && c->n_mtp;
    return 0;
}

int32_t engine_argmax(const float *logits, int vocab)
{
    int32_t best = 0;
    for (int32_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}
