/* Routed experts of a few rows on the processor, to the bit what the kernels of moe.h give: inputs
 * of 16 bits in groups of 64, sums in the same lanes, all of it single sums and products
 * (numbers.h). So nothing depends on who computed an expert.
 *
 *     host_moe_rows -> host_moe_add, of each expert -> host_moe_run
 *
 * One thread calls this; a team of its own shares the work. Nothing allocates after open. */
#ifndef GPU_HOST_MOE_H
#define GPU_HOST_MOE_H

#include <stdint.h>

#include "base/err.h"

enum { HOST_MOE_ROWS = 8 }; /* of a step at most: with more, few experts are used once */

struct host_moe;
/* h and inter multiples of 64, K experts of a row; threads 0: one for each processor. E_NOMEM,
 * E_IO; E_ARG: CHERENKOV_CPU asks for what the processor has not got. */
int host_moe_open(int h, int inter, int K, int threads, struct host_moe **out, struct err *e);
void host_moe_close(struct host_moe *m); /* NULL is fine */
/* The inputs: R rows of activations as kernels write them (GPU_ACTS_BYTES of h each), copied. */
void host_moe_rows(struct host_moe *m, const uint8_t *q, int R);
/* An expert that n > 0 pairs r * K + k of these rows use, none of which another one has. The record
 * is borrowed until host_moe_run has returned. */
void host_moe_add(struct host_moe *m, const uint8_t *record, int bits, const int *pair, int n);
/* Outputs f32 [h] of all pairs that were added, each to its row of to [HOST_MOE_ROWS * K][h], which
 * is written once and not read. Then no expert is added any more; rows stay. */
void host_moe_run(struct host_moe *m, float *to);

#endif
