/* The blocks of the model, in the order of a token's way through it, for all rows of a batch at
 * once; src/reference has the equation of each in the file of the same name.
 *
 * Each reads and writes what struct scratch says it does, and the parts of the state that belong to
 * the rows of the batch. Sums have an order that depends on neither the number of rows nor the
 * threads (docs/numerics.md). What fails says so; values that are not finite are noted by row
 * (row_spoil) and refused at the end. Names that another engine has too begin with cpu_. */
#ifndef CPU_BLOCKS_H
#define CPU_BLOCKS_H

#include "cpu/state.h"

/* trunk.c: scratch.hyper = the residual after the last layer; batch.add says whether the output of
 * its last block is still to be added, by the read that follows. */
int cpu_trunk_apply(struct cpu *g, struct batch *b, struct err *e);
/* One layer, of the trunk or of the draft head. next: the layer behind it, for lookahead, or
 * NULL. */
int cpu_layer_apply(struct cpu *g, struct batch *b, const struct layer_weights *w,
                    const struct layer_weights *next, struct err *e);

/* ple.c: begin names the rows of the tables that the batch needs; add adds what module m gives to
 * scratch.hyper, in which nothing is left to add. */
int cpu_ple_begin(struct cpu *g, const struct batch *b, struct err *e);
int cpu_ple_add(struct cpu *g, const struct batch *b, int m, struct err *e);
/* The rows that module m keeps after n of the rows of a step or chunk, from plane `plane` of s into
 * the other; rows: the pending ones. */
void cpu_ple_keep_rows(const struct config *c, struct sequence *s, int m, const float *rows, int n);

/* hyper.c: rows of the residual, read. */
struct hyper_job {
    const struct hyper_weights *w;
    float *hyper; /* [R][S*h] */
    int R;
    const float *add; /* [R][h]: first hyper[g] += 2 sigmoid(inj[g] / S) * add; or NULL */
    float *inj;       /* [R][S]: the weights that `add` goes by; then those of this read, unless */
    bool mixer;       /* it has none */
    struct acts *to;  /* [R][h], quantised too */
    int first;        /* row of the batch that row 0 is, for row_spoil */
};
void cpu_hyper_read(struct cpu *g, const struct hyper_job *j);
/* hyper[g] += 2 sigmoid(inj[g] / S) * add, and the check for finite values. */
void cpu_hyper_add(struct cpu *g, const struct hyper_job *j);

/* deltanet.c: scratch.mixed to scratch.out. */
void cpu_deltanet_apply(struct cpu *g, const struct batch *b, const struct deltanet_weights *w);
/* What a commit of n pending rows makes of the plane that is not committed: keep, the inputs of
 * layer il's convolution; replay, all states, unless the n are all: theirs are there already. */
void cpu_deltanet_keep(struct cpu *g, struct sequence *s, int il, int n);
void cpu_deltanet_replay(struct cpu *g, struct sequence *s, int n);

/* qsa.c: qsa_fill writes the cells of the layer's cache; qsa_apply does that and attends. */
void cpu_qsa_fill(struct cpu *g, const struct batch *b, const struct qsa_weights *w);
void cpu_qsa_apply(struct cpu *g, const struct batch *b, const struct qsa_weights *w);
/* select.c: scratch.visible of rows first .. first + n - 1 (n <= ATTEND_ROWS), from the index
 * queries in scratch.index. */
void select_visible(struct cpu *g, const struct batch *b, int first, int n);

/* moe.c: scratch.mixed to scratch.out. next: the layer behind it, for lookahead, or NULL. */
int cpu_moe_apply(struct cpu *g, const struct batch *b, const struct moe_weights *w,
                  const struct layer_weights *next, struct err *e);
/* route.c: scratch.route and route_w of each row from scratch.router. */
void route_choose(struct cpu *g, const struct batch *b);
/* scratch.uses, slot and slot_row from the routes; returns how many experts there are. */
int route_union(struct cpu *g, const struct batch *b);
/* Names the experts that the next layer will probably need. */
void route_ahead(struct cpu *g, const struct batch *b, const struct layer_weights *next);

/* head.c: logits [n][vocab] of the first n rows of scratch.hidden, those that want [n] says (NULL:
 * all); they are rows first .. of the batch, for row_spoil. */
void cpu_head_logits(struct cpu *g, int first, int n, const bool *want, float *logits);
/* Of rows 0 .. n - 1 of the batch those that do not pass: their logits, and what is best. */
void cpu_head_best(struct cpu *g, int n, const struct best_job *j);

/* mtp.c: fills the draft head's cells of the positions before those of b; then hyper holds nothing
 * of use any more. wide: the residuals after the last layer, [R][S*h]. */
void cpu_mtp_fill(struct cpu *g, const struct batch *b, const float *wide);
/* Draft logits: see struct engine_ops. */
int cpu_mtp_draft(struct sequence *s, int32_t next, int depth, int32_t *tokens, float *logits,
                  struct err *e);

#endif
