/* The gated residual on a device: S parallel streams of width h, read into one and written back.
 * src/cpu/hyper.c has the equations. Few rows take two dispatches: add, norm and both products of
 * the norm; the rest, with the product back to all streams in its middle. Many rows take five, with
 * norms and products each for themselves, so that weights are read once for a tile of rows. No bit
 * depends on that.
 *
 * h and lowrank are multiples of 64; `up` is quantised. Sums of squares go over 512 lanes, eight
 * elements in a row to a lane, which meet in pairs of neighbours. Products of the norm are sums of
 * streams, ascending, each a chain through its groups; not where streams are wider than 8,192 or
 * `down` is not quantised like inject: these are as all products. */
#ifndef GPU_HYPER_H
#define GPU_HYPER_H

#include "gpu/linear.h"

/* Addresses of a read. Rows are the first of each array. */
struct gpu_hyper {
    struct device *d;
    struct tape *t;
    int R, S, h, low;
    int first; /* row of the batch that row 0 is, for bad */
    float eps;
    u64 hyper;          /* f32 [R][S*h] */
    u64 add;            /* f32 [R][h]: first hyper[g] += 2 sigmoid(inj[g] / S) * add; 0: not */
    u64 inj;            /* f32 [R][S]: the weights that `add` goes by; then those of this read */
    u64 gamma;          /* f32 [S*h] */
    u64 norm_x, norm_q; /* room: f32 [R][S*h], the same as activations */
    u64 low_x;          /* room: gpu_hyper_low_floats */
    u64 room;           /* gpu_hyper_room bytes, for many rows */
    u64 to_x, to_q;     /* [R][h] mixed: f32, and as activations */
    u64 bad;            /* u32: becomes the lowest row with a value that is not finite */
    struct gpu_matrix down, up;
    const struct gpu_matrix *inject; /* NULL: none, inj stays */
    bool many;                       /* for measuring: as many rows, however few there are */
    int outs; /* for measuring: outputs of a workgroup of the first products; 0: the best */
};

size_t gpu_hyper_low_floats(int R, int S, int low); /* of low_x */
size_t gpu_hyper_room(const struct gpu_hyper *x);   /* bytes of room */
/* Ends with a barrier. */
int gpu_hyper_record(const struct gpu_hyper *x, struct err *e);
/* Only adds, and looks for what is not finite. */
int gpu_hyper_record_add(const struct gpu_hyper *x, struct err *e);

#endif
