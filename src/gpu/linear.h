/* Products with the weight matrices, recorded: one dispatch for all of the same input and format.
 *
 * An input is rows of n floats and, where n is a multiple of 64, the same as 16-bit activations
 * (params.h), each row GPU_ACTS_BYTES(n) long and aligned to 16. Whoever fills the floats quantises
 * them. The bits of an output depend on its row of weights and its row of the input alone. */
#ifndef GPU_LINEAR_H
#define GPU_LINEAR_H

#include "gpu/device.h"
#include "gpu/params.h"
#include "model/weights.h"

/* A matrix on the device: the addresses of codes (or values), scales and biases, all multiples of
 * 16. */
struct gpu_matrix {
    enum matrix_format format;
    int rows, cols;
    u64 w, scales, biases;
};

/* Output o of row r goes to to + (r * stride + o) floats. */
struct gpu_product {
    struct gpu_matrix m;
    u64 to;
    int stride;
};

/* x: f32 [R][cols], q: the same as activations; what the formats need must be there. The n matrices
 * have the same cols; all outputs lie within 16 GiB, and so do all weights within 64 GiB.
 * Dispatches only, without a barrier. */
struct gpu_linear {
    struct device *d;
    struct tape *t;
    u64 x, q;
    int R;
    int runs; /* not 0: groups of quantised matrices are added in so many equal runs, and these
                 ascending, in place of lanes; in tiles however few rows there are */
};
int gpu_linear_record(const struct gpu_linear *l, const struct gpu_product *p, int n,
                      struct err *e);
/* How products of quantised matrices are cut; no bit depends on it. Outputs and rows of a lane,
 * groups of its weights under way; outs 0: in tiles of `rows` (16, 32 or 64). */
struct gpu_linear_form {
    int outs, rows, depth;
};
/* What gpu_linear_record takes, for `outputs` of a dispatch together. */
struct gpu_linear_form gpu_linear_form(const struct device *d, int R, int cols, size_t outputs);
/* For measuring: in another form. */
int gpu_linear_record_as(const struct gpu_linear *l, const struct gpu_product *p, int n,
                         const struct gpu_linear_form *form, struct err *e);

/* R rows of n floats to activations; n a multiple of 64. */
int gpu_linear_quantise(const struct gpu_linear *l, int n, struct err *e);

#endif
