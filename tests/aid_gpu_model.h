/* What kernels of products give, in plain C: the same chains of additions and products
 * (gpu/numbers.h, gpu/params.h, gpu/product.glsl), element by element. */
#ifndef TESTS_AID_GPU_MODEL_H
#define TESTS_AID_GPU_MODEL_H

#include "gpu/params.h"
#include "tests/aid_gpu.h"

/* A row of n activations as it lies in memory. */
void model_quantise(const float *x, int n, uint8_t *row);
/* Element i of such a row, as its codes have it. */
double model_value(const uint8_t *row, int n, int i);

/* A matrix of made-up values; codes as in memory, and as whole numbers in steps of Q4. */
struct model_matrix {
    int bits, rows, cols; /* bits 4, 3, 2; or 16, 32: w alone */
    uint8_t *w, *steps;
    size_t w_bytes;
    uint16_t *scales, *biases;
    u64 at_w, at_scales, at_biases; /* on the device, after model_put */
};
void model_matrix_init(struct model_matrix *m, int bits, int rows, int cols);
void model_matrix_free(struct model_matrix *m);
void model_put(struct aid_gpu *g, struct model_matrix *m);
/* Output o for a row: activations, or floats where bits are 16 or 32. */
float model_product(const struct model_matrix *m, int o, const void *row);
/* The same of quantised matrices in runs (struct gpu_linear). */
float model_product_runs(const struct model_matrix *m, int o, const void *row, int runs);

/* Made-up values: mostly ordinary, some rows with outliers and zeros. */
void model_floats(float *x, size_t n);

#endif
