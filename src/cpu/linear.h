/* Products with the weight matrices, for many rows at once: one stage of the team for all that have
 * the same input. */
#ifndef CPU_LINEAR_H
#define CPU_LINEAR_H

#include "base/layout.h"
#include "kern/kern.h"
#include "model/weights.h"

struct cpu;

/* The input of products: rows of n floats and, where n is a multiple of 64, the same quantised.
 * Whoever fills x quantises it (once, whatever it goes through). */
struct acts {
    float *x;           /* [rows][n] */
    struct kern_acts q; /* records NULL where n is not a multiple of 64 */
    int n;
};
void acts_place(struct acts *a, size_t rows, int n, struct layout *l);
/* Each of `whole`'s rows as `parts` rows: the same floats, codes of their own. */
void acts_place_split(struct acts *a, const struct acts *whole, size_t rows, int parts,
                      struct layout *l);
/* Quantises rows r0 .. r1-1. */
void acts_quantise(const struct kern *k, struct acts *a, int r0, int r1);
/* Quantises elements from .. from + n - 1 of a row, both multiples of KERN_CHUNK. */
void acts_quantise_part(const struct kern *k, struct acts *a, int row, int from, int n);
/* The rows from `row` on. */
struct acts acts_from(const struct acts *a, int row);

/* Row j of the output, at to + j * stride, is m times row rows[j] of x (rows NULL: row j). */
struct product {
    const struct matrix *m;
    const struct acts *x;
    const int *rows;
    int R;
    float *to;
    size_t stride;
};

enum { LINEAR_MOST = 160 }; /* products of one call */

/* All of n products, outputs split over the team; counts the weights they go through. */
void cpu_linear_apply(struct cpu *g, const struct product *p, int n);
/* For a stage of a caller's own that goes through one product: counts its weights, and returns how
 * many outputs, an even number unless they are all, make an item. */
int cpu_linear_split(struct cpu *g, const struct product *p);
/* Outputs o0 .. o1-1 of one, by the calling thread. */
void cpu_linear_outputs(const struct kern *k, const struct product *p, int o0, int o1);
/* n rows of m from o on, as a matrix. */
struct matrix cpu_linear_part(const struct matrix *m, int o, int n);

#endif
