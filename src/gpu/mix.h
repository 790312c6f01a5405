/* Dispatches of the kernels that mix rows over time and streams, by stem: parameters in, dispatches
 * on a tape out. They know addresses and the config, nothing of weights or sequences; the blocks
 * fill the parameters, tests too.
 *
 * No function records a barrier unless its line says so. Kernels are made on first use; constants
 * depend on the config alone, so the bits do not depend on rows or segments. `codes`: what a
 * product takes next is written as rows of 16-bit activations (params.h), else as f32. */
#ifndef GPU_MIX_H
#define GPU_MIX_H

#include "gpu/device.h"
#include "gpu/params.h"
#include "model/weights.h"

struct mix {
    struct device *device;
    struct tape *tape;
    const struct config *config;
};

/* E_UNSUPPORTED where the kernels' workgroups have no room for the shapes of the config. */
int mix_check(const struct config *c, struct err *e);

/* deltanet.c: the scan of p->R rows in segments of at most `rows`, which writes the other plane of
 * states and windows as if all rows were committed; and the same plane after p->n pending rows.
 * Many rows that keep no log take three dispatches with barriers between, where p->room has
 * deltanet_room bytes for p->R rows. */
struct scan {
    int n_segments, rows;
    bool codes;
};
int deltanet_scan(const struct mix *m, const struct deltanet_params *p, struct scan s,
                  struct err *e);
size_t deltanet_room(const struct config *c, size_t rows);
int deltanet_replay(const struct mix *m, const struct deltanet_replay_params *p, struct err *e);

/* qsa.c: cells of R rows, and with `queries` those too (p->units is set here). */
int qsa_prepare(const struct mix *m, const struct qsa_prepare_params *p, int R, bool queries,
                struct err *e);
/* The chosen blocks of rows p->first .. + n - 1, whose sequences have at most `blocks`
 * blocks. Two dispatches with a barrier between. */
int select_blocks(const struct mix *m, const struct select_params *p, int n, int blocks,
                  struct err *e);
/* Attention of rows p->first .. + n - 1, no position of which is `positions` or later.
 * Two dispatches with a barrier between. */
int attend_rows(const struct mix *m, const struct attend_params *p, int n, int positions,
                bool codes, struct err *e);
/* The most positions that a row sees, and parts of them: strides of part_max and the others. */
int attend_visible(const struct config *c);
int attend_parts(const struct config *c);

/* streams.c: PLE, from keys and values of p->n rows in n segments to the residual. Writes the other
 * plane's rows as if all were committed. Two dispatches with a barrier between. */
int ple_mix(const struct mix *m, const struct ple_params *p, int n_segments, struct err *e);

/* S copies of the embeddings of R rows; what the products of the fold take; the sum of what
 * they gave. */
int embed_rows(const struct mix *m, const struct embed_params *p, const struct matrix *embed, int R,
               struct err *e);
struct mtp_form {
    enum mtp_norm norm;
    bool embed_codes, stream_codes; /* what the two products take */
};
int mtp_norm(const struct mix *m, const struct mtp_norm_params *p, const struct matrix *embed,
             const struct mtp_form *form, int R, struct err *e);
int mtp_add(const struct mix *m, const struct mtp_add_params *p, int R, struct err *e);

#endif
