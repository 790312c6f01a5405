/* How a batch becomes work of the device: recorded, started, and what the host does in between.
 *
 * Blocks record into g->tape, and where the host has something to do in the middle of a batch they
 * record a stop. What a batch comes to is then a row of tapes with stops between them:
 *
 *      tape -> stop -> tape -> ... -> tape
 *
 * A plan keeps them: batches with the same key differ in what stands in the tables of a batch
 * alone, so the next one starts the same tapes and runs the same stops, and nothing is recorded.
 * Batches without a key run as they are recorded, each part when its stop is reached.
 *
 * Work aside (what a commit leaves to do) is started and not waited for: all that is started later
 * comes after it. The host waits before it writes what a tape still reads. */
#ifndef GPU_PLAN_H
#define GPU_PLAN_H

#include "gpu/state.h"

/* What push constants and grids of a batch depend on; all else is in tables. Compared as bytes. */
struct plan_key {
    enum plan_kind { PLAN_STEP = 1, PLAN_DRAFT } kind;
    int R, n_segments;
    int pending;        /* of the engine before it */
    int cells;          /* of the draft head that it fills */
    int reach;          /* struct batch */
    int first, n_heads; /* rows with logits */
    int back, limit;    /* struct batch */
};

struct stop {
    int (*run)(struct gpu *g, struct batch *b, const struct stop *s, struct err *e);
    bool early;  /* reads nothing that the tapes before it make: they may still run */
    bool later;  /* the tape behind it, which needs nothing of it, is started before it runs */
    bool inside; /* waits for the tape before it alone; the visit that is open stays so */
    int il;      /* layer that the batch is in */
    const struct moe_weights *w;      /* of a visit */
    const struct layer_weights *next; /* of a visit with lookahead, or NULL */
    int first, R;                     /* of a visit: rows first .. of R */
    enum seen what;                   /* of a report: n values a row at x */
    u64 x;
    int n;
};

/* Tapes for n plans of at most `parts` tapes each. */
int plans_open(struct gpu *g, int n, int parts, struct err *e);
void plans_close(struct gpu *g); /* after gpu_wait; zeros are fine */

uint64_t plans_recorded(const struct gpu *g); /* so far; for tests */

/* Records the batch, or finds its plan, and runs it to its end. key NULL: no plan. After a failure
 * nothing runs any more. */
typedef int gpu_record(struct gpu *g, struct batch *b, struct err *e);
int gpu_batch_run(struct gpu *g, struct batch *b, const struct plan_key *key, gpu_record *record,
                  struct err *e);
/* Records the batch for the sake of its kernels, and runs nothing. */
int gpu_batch_rehearse(struct gpu *g, struct batch *b, gpu_record *record, struct err *e);
/* Records a stop. Whether it has run when this returns: plan_passes. */
int gpu_stop(struct gpu *g, struct batch *b, const struct stop *s, struct err *e);
/* What is recorded runs at once, and is not kept. */
bool plan_passes(const struct gpu *g);
/* Lets the device begin with what is recorded so far, where that is not kept. */
int gpu_start(struct gpu *g, struct batch *b, struct err *e);

/* What is recorded from here on belongs to this part. */
void gpu_phase(struct gpu *g, enum device_phase p);

/* Recording of work aside: end starts it if rc, what recording came to, is 0, and returns rc or
 * what starting came to. */
void gpu_aside_begin(struct gpu *g);
int gpu_aside_end(struct gpu *g, int rc, struct err *e);

uint64_t gpu_started(const struct gpu *g); /* the value of what was started last */
/* Waits for all that was started, and gives back the records of experts that it read. */
int gpu_wait(struct gpu *g, struct err *e);

#endif
