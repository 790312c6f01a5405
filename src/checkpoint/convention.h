/* Whether a checkpoint stores its zero-centred norms raw (gamma = 1 + w) or folded (gamma = w). */
#ifndef CHECKPOINT_CONVENTION_H
#define CHECKPOINT_CONVENTION_H

#include "checkpoint/checkpoint.h"

enum norm_convention { NORMS_FOLDED, NORMS_RAW };

struct convention {
    enum norm_convention norms;
    double probe; /* median over layers of the mean of attn_hyper_connection.hc_norm; 0: none */
    char because[160]; /* one sentence for the person: names the marker or the probe's value */
};

/* A marker decides: one of a known converter in config.json or in a file's metadata, or experts
 * stored as in the originals. Without one the values of the norms do. An undecided probe (between
 * the two bands) is E_UNSUPPORTED and no norms at all are E_NOTFOUND; both name the flag that
 * decides, --norms raw|folded. Reads a norm of every layer. */
int convention_detect(const struct checkpoint *c, struct convention *out, struct err *e);
/* True for canonical names whose norm is zero-centred in raw files and folded by the packer (all
 * norms but linear_attn.norm and mtp.pre_fc_norm_*). */
int convention_is_folded_norm(const char *canonical);

#endif
