/* Kernels: arrays in, arrays out. One table of pointers, filled by the reference tier first; each
 * faster tier overwrites what it has (kern_init). kern_ref.c is the definition: a faster tier may
 * differ from it only in the order of f32 additions (tolerance in tests/test_kern.c).
 *
 * Within a tier the bits of out[r][o] are a function of row r of x and row o of the weights alone:
 * not of R, of the range o0..o1, of alignment, or of threads (docs/numerics.md).
 *
 * Products with quantised weights take quantised activations. A row of n activations (n a multiple of
 * 64) is cut into blocks of KERN_BLOCK elements, each with one f32 scale:
 *
 *      code[i] = round-to-nearest-even(x[i] / scale), -127..127;  scale = max |x| / 127, 0 for zeros
 *
 * and keeps, per 64 elements, the f32 sum of the unquantised x: a weight group adds
 *      s * (sum over its 4 blocks of scale * (integer sum of code * weight code))  +  b * sum
 * so the bias term carries no quantisation error. Integer sums of a block are exact in any order.
 *
 * Codes lie in the order in which the nibbles of Q4 weights unpack (low nibbles are the even
 * elements, high nibbles the odd ones), per 64 elements:
 *
 *      byte  0..31   elements 0, 2, 4 ... 62
 *      byte 32..63   elements 1, 3, 5 ... 63
 *
 * and a second copy lies in the order of the Q3/Q2 planes (quant/lowbit.h). */
#ifndef KERN_KERN_H
#define KERN_KERN_H

#include <stddef.h>
#include <stdint.h>

enum { KERN_BLOCK = 16, KERN_GROUP = 64 };

/* R rows of n quantised activations. 64-byte aligned arrays; row r begins at r * n (codes), r * n/16
 * (scale), r * n/64 (sum). */
struct kern_acts {
    int n;
    int8_t *q4;      /* [R][n] codes in Q4 order */
    int8_t *planes;  /* [R][n] codes in Q3/Q2 order; NULL when no low-bit weights will be met */
    float *scale;    /* [R][n / 16] */
    float *sum;      /* [R][n / 64] */
};

/* A quantised matrix [rows][cols], rows contiguous: quant/q4.h, quant/lowbit.h. group is 64. */
struct kern_matrix {
    int bits; /* 4, 3, 2 */
    int rows, cols;
    const uint8_t *codes;
    const uint16_t *scales, *biases; /* [rows][cols / 64] bf16 */
};

struct kern {
    const char *tier; /* "ref", "avx2", "avx512", "neon" */

    /* Quantises rows r0..r1-1 of x [R][n] (row stride n) into a. */
    void (*quantise)(const float *x, int r0, int r1, struct kern_acts *a);
    /* out[r * stride + o] = row o of m times row r of a, for o in o0..o1-1 and all R rows. */
    void (*product)(const struct kern_matrix *m, int o0, int o1, const struct kern_acts *a, int R,
                    float *out, size_t stride);
    /* The same for a subset of rows: row rows[j] of a gives row j of out. */
    void (*product_rows)(const struct kern_matrix *m, int o0, int o1, const struct kern_acts *a,
                         const int *rows, int R, float *out, size_t stride);
    /* bf16 weights w [rows][n] times f32 rows x [R][n]. */
    void (*product_bf16)(const uint16_t *w, int n, int o0, int o1, const float *x, int R, float *out,
                         size_t stride);

    float (*sum_squares)(const float *x, int n);
    float (*dot)(const float *a, const float *b, int n);
    void (*scale_mul)(const float *x, float s, const float *w, int n, float *out); /* x * s * w */
    void (*silu_mul)(float *gate, const float *up, int n); /* gate = silu(gate) * up */
    void (*sigmoid)(float *x, int n);
    void (*silu)(float *x, int n);
    void (*add_scaled)(float *to, const float *x, float s, int n); /* to += s * x, one fma each */

    /* One token of one value head. state [dk][dv] in place; k, q [dk]; v, y [dv]. model.md, Gated
     * DeltaNet: st = decay * st; m = st^T k; delta = beta * (v - m); st += k delta^T; y = st^T q. */
    void (*delta_step)(float *state, const float *k, const float *q, const float *v, float decay,
                       float beta, int dk, int dv, float *y);

    /* Attention over q8 keys and values (quant/kv8.h): scores and weighted sums of whole rows. */
    float (*dot_kv8)(const float *x, const int8_t *codes, const uint16_t *scales, int n);
    void (*add_kv8)(float *to, float w, const int8_t *codes, const uint16_t *scales, int n);
};

/* Fills the table with the best tier this processor and the mask (CHERENKOV_CPU) allow. */
void kern_init(struct kern *k, unsigned cpu);

#endif
