/* Behind the logits on a device: the best token of each row, their hash, and rows that are not
 * finite. */
#ifndef GPU_HEAD_H
#define GPU_HEAD_H

#include "gpu/linear.h"
#include "model/engine.h"

struct gpu_best {
    struct device *d;
    struct tape *t;
    int R, vocab, limit; /* limit: ids below it may be best */
    int first;           /* row of the batch that row 0 is, for bad */
    u64 logits;          /* f32 [R][vocab] */
    u64 parts;           /* gpu_best_room(R, vocab) bytes, for gpu_best_of */
    u64 best;            /* u32 [R]: the id of the largest, ties to the lower; 0: not wanted */
    u64 bad;             /* u32: becomes the lowest row with a logit that is not finite */
};
size_t gpu_best_room(int R, int vocab);
/* Ends with a barrier. */
int gpu_best_record(const struct gpu_best *x, struct err *e);
/* What is in parts of row r: the largest logit's id, and engine_logits_hash. */
struct best gpu_best_of(const void *parts, int r, int vocab);

#endif
