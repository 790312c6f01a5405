/* The blocks of the model, in the order of a token's way through it, for all rows of a batch at
 * once; src/reference has the equation of each in the file of the same name.
 *
 * Each function records dispatches into g->tape, with the barriers between its own; the first
 * dispatch of a block may rely on a barrier before it, and each block ends with one. It reads and
 * writes what struct scratch says it does, and the parts of the state that belong to the rows. Sums
 * have an order that depends on neither the number of rows nor the device's lanes
 * (docs/numerics.md). A recording that fails (no memory, no such kernel) says so. Values that are
 * not finite are noted by row in scratch.bad. */
#ifndef GPU_BLOCKS_H
#define GPU_BLOCKS_H

#include "gpu/linear.h"
#include "gpu/state.h"

/* --- trunk.c --- */

int gpu_trunk_apply(struct gpu *g, struct batch *b, struct err *e);
/* One layer, of the trunk or of the draft head. next: the layer behind it, for lookahead, or
 * NULL. */
int gpu_layer_apply(struct gpu *g, struct batch *b, const struct layer_weights *w,
                    const struct layer_weights *next, struct err *e);

/* --- rows.c, the input of PLE: begin starts the reads of all rows of the tables that the batch
 * needs; take records a stop that waits for them and decodes those of all modules --- */

int gpu_rows_begin(struct gpu *g, const struct batch *b, struct err *e);
int gpu_rows_take(struct gpu *g, struct batch *b, struct err *e);
/* Reports the rows of module m. */
int gpu_see_ngram(struct gpu *g, struct batch *b, int m, struct err *e);

/* --- visit.c: routed experts of a layer: scratch.mixed to scratch.out --- */

/* next: the layer behind, for lookahead, or NULL. */
int gpu_visit_apply(struct gpu *g, struct batch *b, const struct moe_weights *w,
                    const struct layer_weights *next, struct err *e);
/* Gives back the experts of the visit that is open, if one is. */
void gpu_visit_close(struct gpu *g);
/* What experts get of the device. */
struct share {
    bool resident; /* a place for each */
    uint64_t tier; /* bytes; 0: none */
};
/* The device's tier; all experts into it, if the engine is resident. */
int gpu_experts_open(struct gpu *g, const struct share *s, struct err *e);
/* The stream's slots where the device sees them. */
int gpu_experts_import(struct gpu *g, struct err *e);
void gpu_experts_free(struct gpu *g);

/* --- ahead.c: copies of experts beside the tapes --- */

/* slots: of the pool. With a tier that does not hold all experts. */
void gpu_copies_open(struct gpu *g, int slots);
/* What was copied is the stream's again; once at each stop for a layer's experts. */
void gpu_copies_settle(struct gpu *g);
/* Starts copies to the device of some of guess [n], experts of record layer il that are not there,
 * most likely first, behind all that was started. */
int gpu_ahead_start(struct gpu *g, int il, const int *guess, int n, struct err *e);
/* Starts copies to the pool of what is about to leave the device. */
int gpu_keep_start(struct gpu *g, struct err *e);
void gpu_copies_end(struct gpu *g); /* waits for all */

/* --- host_share.c: experts that the processor computes while others are copied --- */

/* With a tier that does not hold all experts, behind plans_open; measures. */
int gpu_share_open(struct gpu *g, struct err *e);
void gpu_share_close(struct gpu *g);
/* Whether it may compute some of this batch. */
bool gpu_shares(const struct gpu *g, const struct batch *b);
/* Records the copy of the rows' inputs, for the next stop. */
int gpu_share_back(struct gpu *g, const struct batch *b, struct err *e);
/* How many of n entries of the open visit it takes, from the last one on. */
int gpu_share_of(const struct gpu *g, const struct stream_entry *entry, int n);
/* Outputs of entries for rows first .. first + R - 1 of the batch, to host.outputs. */
void gpu_share_compute(struct gpu *g, int first, int R, const struct stream_entry *entry, int n);

/* --- blocks.c --- */

/* A matrix of the engine's weights, on the device. */
struct gpu_matrix gpu_matrix_of(const struct gpu *g, const struct matrix *m);

/* The residual, read and written. */

struct hyper_job {
    const struct hyper_weights *w;
    u64 hyper;    /* [R][S*h] */
    int R, first; /* first: row of the batch that row 0 is, for scratch.bad */
    u64 add;      /* [R][h]: first hyper[g] += 2 sigmoid(inj[g] / S) * add; 0: not */
    u64 inj;      /* [R][S]: the weights that `add` goes by; then those of this read, unless */
    bool mixer;   /* it has none */
    const struct gpu_acts *to; /* [R][h], quantised too */
};
int gpu_hyper_read(struct gpu *g, const struct hyper_job *j, struct err *e);
/* hyper[g] += 2 sigmoid(inj[g] / S) * add, and the check for finite values. */
int gpu_hyper_add(struct gpu *g, const struct hyper_job *j, struct err *e);

/* --- blocks.c: module m adds to scratch.hyper; scratch.ple_e.x is there. What was added is left in
 * scratch.norm.x for observers. Steps leave their normed rows in pending.ple[m], a prefill in
 * scratch.ple_rows; the plane that is not committed becomes what it is after all rows --- */

/* What comes first and needs no residual. Dispatches only, without a barrier. */
int gpu_ple_begin(struct gpu *g, const struct batch *b, int m, struct err *e);
int gpu_ple_add(struct gpu *g, const struct batch *b, int m, struct err *e);
/* The rows that module m keeps after n of the segment's rows, into the plane that is not committed;
 * rows: the segment's first. */
int gpu_ple_keep_rows(struct gpu *g, const struct sequence *s, int m, u64 rows, int n,
                      struct err *e);

/* --- blocks.c: scratch.mixed to scratch.out; the plane that is not committed becomes what it is
 * after all rows --- */

int gpu_deltanet_apply(struct gpu *g, const struct batch *b, const struct deltanet_weights *w,
                       struct err *e);
/* Makes the plane that is not committed what it is after n pending rows. */
int gpu_deltanet_commit(struct gpu *g, const struct sequence *s, int n, struct err *e);

/* --- blocks.c: qsa_fill writes the cells of the layer's cache; qsa_apply does that and
 * attends: scratch.mixed to scratch.out --- */

int gpu_qsa_fill(struct gpu *g, const struct batch *b, const struct qsa_weights *w, struct err *e);
int gpu_qsa_apply(struct gpu *g, const struct batch *b, const struct qsa_weights *w, struct err *e);

/* --- blocks.c: logits of the first rows of scratch.hidden to rows of scratch.logits, and the best
 * token of each --- */

struct head_job {
    int n;     /* rows */
    int first; /* of the batch that row 0 is, for scratch.bad */
    int to;    /* row of scratch.logits that row 0 goes to */
    int limit; /* ids below it may be best */
    bool back; /* logits to scratch.logits_back too */
    u64 parts; /* for gpu_best_of, in `back`; 0: best is wanted */
    u64 best;  /* u32 [n], or 0 */
};
int gpu_head_logits(struct gpu *g, const struct head_job *j, struct err *e);

/* --- draft.c --- */

/* Makes `cells` those of the draft head for the positions before those of b, and b->cells; without
 * drafts, or where there are none, b->cells is NULL. wide: the residuals of b after the last layer,
 * [R][S*h]. */
void gpu_mtp_cells(struct gpu *g, struct batch *b, u64 wide, struct batch *cells);
/* Fills the cells; then hyper holds nothing of use any more. */
int gpu_mtp_fill(struct gpu *g, const struct batch *cells, struct err *e);
/* Draft logits: see struct engine_ops. */
int gpu_mtp_draft(struct sequence *s, int32_t next, int depth, int32_t *tokens, float *logits,
                  struct err *e);

/* gpu_batch_rehearse of a draft behind the first token of s. */
int gpu_mtp_rehearse(struct sequence *s, struct err *e);

/* --- blocks.c --- */

/* scratch.hyper = S copies of each row's embedding. */
int gpu_embed(struct gpu *g, const struct batch *b, struct err *e);
/* scratch.hyper = what the draft head's layer starts from, of each row's token and the residual at
 * wide[r] (wide: rows of scratch.wide); those may be rows of scratch.hyper: all are read before any
 * is written. */
int gpu_mtp_fold(struct gpu *g, const struct batch *b, u64 wide, struct err *e);

#endif
