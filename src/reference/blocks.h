/* The blocks of the model, in the order of a token's way through it; each is the equation of its
 * file.
 *
 * g holds config, weights and room; `at` says which row of which sequence. hyper is the wide
 * residual [S*h], x and out are [h]. Blocks that keep state write the part of the pending row at->r
 * and of the position at->pos, nothing else. Only moe_apply, ple_apply and what calls them can
 * fail: a source may. */
#ifndef REFERENCE_BLOCKS_H
#define REFERENCE_BLOCKS_H

#include "reference/state.h"

/* trunk.c: the wide residual after the last layer of the token at at->pos. */
int trunk_apply(struct reference *g, struct at *at, float *hyper, struct err *e);
/* One layer, of the trunk or of the draft head: hyper is changed in place. */
int layer_apply(struct reference *g, const struct at *at, const struct layer_weights *w,
                float *hyper, struct err *e);

/* ple.c: what module m adds to hyper. */
int ple_apply(struct reference *g, const struct at *at, int m, const float *hyper, float *out,
              struct err *e);

/* hyper.c: mixed [h], and inj [S] unless it is NULL. */
void hyper_read(struct reference *g, const struct hyper_weights *w, const float *hyper,
                float *mixed, float *inj);
void hyper_write(const struct config *c, const float *inj, const float *out, float *hyper);

/* deltanet.c */
void deltanet_apply(struct reference *g, const struct at *at, const struct deltanet_weights *w,
                    const float *x, float *out);
/* Makes the first n logged updates on the committed state. */
void deltanet_commit(const struct config *c, struct deltanet_state *d, int n);

/* qsa.c: qsa_fill writes the cell at->pos of the layer's cache; qsa_apply does that and attends. */
void qsa_fill(struct reference *g, const struct at *at, const struct qsa_weights *w,
              const float *x);
void qsa_apply(struct reference *g, const struct at *at, const struct qsa_weights *w,
               const float *x, float *out);

/* moe.c */
int moe_apply(struct reference *g, const struct at *at, const struct moe_weights *w, const float *x,
              float *out, struct err *e);
/* E_UNSUPPORTED when experts of this form cannot be used at this many bits. */
int moe_check(const struct expert *x, int bits, struct err *e);

/* head.c: the mixer's read, [h], and the logits of such a read, [vocab]. E_NONFINITE names
 * at->pos. */
void head_mix(struct reference *g, const struct hyper_weights *mixer, const float *hyper,
              float *hidden);
int head_logits(struct reference *g, const struct at *at, const float *hidden, float *logits,
                struct err *e);

/* mtp.c: the draft head's row at->pos, which pairs `wide`, the residual at at->pos, with the token
 * behind it. mtp_fill writes its cell of the cache only; mtp_apply gives its logits [vocab] and
 * leaves its own wide residual in scratch.hyper, which may be the `wide` of the next call. */
void mtp_fill(struct reference *g, const struct at *at, const float *wide, int32_t token);
int mtp_apply(struct reference *g, const struct at *at, const float *wide, int32_t token,
              float *logits, struct err *e);

#endif
