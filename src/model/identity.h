/* What a saved sequence belongs to: a number made of the engine, the config, the weights, and the
 * options that change what is computed. */
#ifndef MODEL_IDENTITY_H
#define MODEL_IDENTITY_H

#include "model/weights.h"

struct identity_options {
    const char *engine;
    int expert_bits, mtp_norm; /* resolved: enum mtp_norm */
    bool drafts;
};

/* Asks the source for a few experts and rows; E_NOMEM, or what the source says. */
int identity_of(const struct weights *w, const struct identity_options *o, uint64_t *out,
                struct err *e);

#endif
