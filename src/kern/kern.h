/* Kernels: arrays in, arrays out. One table of pointers, filled by the reference tier first; each
 * faster tier overwrites what it has (kern_init). kern_ref.c is the definition.
 *
 * Every result is a chain of single IEEE operations (additions, products, fused multiply-adds)
 * whose order is written down here and in kern_ref.c, made so that vectors of 4, 8 and 16 lanes can
 * all follow it. So
 *   - the bits of a result depend on nothing but its own inputs: not on the number of rows, the
 *     range of outputs, the place in an array, alignment, or threads (docs/numerics.md);
 *   - every tier gives the bits of kern_ref.c (tests/test_kern*.c compare them), for finite inputs
 *     and results; what is not finite comes out not finite.
 *
 * "16 lanes" means: element i of a sum is added to lane i % 16, in ascending order, each by one
 * fused multiply-add where it is a product; then lane l += lane l + 8 for l < 8, and so on with 4,
 * 2 and 1. Arrays need no alignment, but 64-byte aligned ones are faster. An output may be an
 * input only where a line says "in place"; otherwise arrays do not overlap. Nothing beyond an
 * array's end is read. Nothing allocates, blocks or fails.
 */
#ifndef KERN_KERN_H
#define KERN_KERN_H

#include <stddef.h>
#include <stdint.h>

enum {
    KERN_LANES = 16,
    KERN_BLOCK = 16, /* elements that share an activation scale */
    KERN_GROUP = 64, /* elements that share a weight scale */
    KERN_CHUNK = KERN_LANES * KERN_BLOCK,
};

/* R rows of n quantised activations, n a multiple of 64. Blocks of 16 elements have a scale:
 *
 *      scale   = max |x| / 127
 *      code[i] = x[i] * (127 / max |x|), to the nearest whole number, ties to even: -127..127
 *
 * A block whose largest magnitude is under 2^-100, or not finite, has scale 0 and codes 0. Groups
 * of 64 keep the sum of their values as the codes have them: block values are whole number * scale,
 * added as (0 + 1) + (2 + 3). A weight is code * scale + bias, small beside its two parts, and so
 * must be what the rounding of an activation does to it: with the sum of the unquantised x the
 * error of the demo model's products was three times as large. What was not finite makes the sum
 * so.
 *
 * Codes and scales of a row lie in records of 256 elements (the last may have 64, 128 or 192): of c
 * elements first c codes, then c / 16 scales. So a product finds all that it needs of a row behind
 * one pointer. The codes lie in four planes, in the order in which the codes of Q4, Q3 and Q2
 * weights come out of their words (quant/q4.h, quant/lowbit.h). Plane p is the record's bytes
 * p*c/4 .. (p+1)*c/4-1; byte 4j + b of plane p belongs to block j of the record, and there to
 * element
 *
 *      plane 0   2b        plane 1   8 + 2b        plane 2   2b + 1        plane 3   9 + 2b */
struct kern_acts {
    int n;
    uint8_t *records; /* [R][kern_acts_bytes(n)], aligned to 4 bytes at least */
    float *sum;       /* [R][n / 64] */
};

/* Where the record of element i, a multiple of 256, begins; bytes of n elements. */
static inline size_t kern_record_at(int i)
{
    return (size_t)i / KERN_BLOCK * (KERN_BLOCK + sizeof(float));
}

/* Bytes of a row: so many that the next is aligned as this one, and that a whole vector of codes or
 * scales can be read wherever some of it belong to the row. Zeros lie behind the last record. */
static inline size_t kern_acts_bytes(int n)
{
    return (kern_record_at(n) + 63) / 64 * 64;
}

static inline int kern_record_elements(int n, int start)
{
    return n - start < KERN_CHUNK ? n - start : KERN_CHUNK;
}

/* Element i of row r. */
static inline int8_t *kern_code(const struct kern_acts *a, int r, int i)
{
    int start = i / KERN_CHUNK * KERN_CHUNK, at = i % KERN_BLOCK;
    int plane = kern_record_elements(a->n, start) / 4;
    int8_t *record =
        (int8_t *)a->records + (size_t)r * kern_acts_bytes(a->n) + kern_record_at(start);
    return record + (at % 2 * 2 + at / 8) * plane + (i - start) / KERN_BLOCK * 4 + at % 8 / 2;
}

/* The scale of the block that element i of row r is in. */
static inline float *kern_scale(const struct kern_acts *a, int r, int i)
{
    int start = i / KERN_CHUNK * KERN_CHUNK;
    uint8_t *record = a->records + (size_t)r * kern_acts_bytes(a->n) + kern_record_at(start);
    void *scales = record + kern_record_elements(a->n, start);
    return (float *)scales + (i - start) / KERN_BLOCK;
}

/* One row of n activations of 16 bits, which products of the gpu engine have (gpu/numbers.h): n a
 * multiple of 64, a group of which has a scale. A code is 256 * high + low, both signed bytes, and
 * at most 32,512 large. Of each 128 elements first the high bytes, then the low ones, in planes as
 * those of a record of 128 above; where n leaves 64, the others' are 0. */
struct kern_acts16 {
    int n, lanes;             /* lanes of a sum: 2, 8 or 32 */
    const int8_t *codes;      /* [kern_acts16_bytes(n)] */
    const float *scale, *sum; /* [n / 64]; sum of the values as the codes have them */
};
enum { KERN_PART = 128 };
static inline size_t kern_acts16_bytes(int n)
{
    return (size_t)(n + KERN_PART - 1) / KERN_PART * 2 * KERN_PART;
}
/* Where the high byte of element i is; the low one is KERN_PART further. */
static inline size_t kern_code16_at(int i)
{
    int at = i % KERN_BLOCK, plane = at % 2 * 2 + at / 8;
    return (size_t)(i / KERN_PART * 2 * KERN_PART + plane * (KERN_PART / 4) +
                    i % KERN_PART / KERN_BLOCK * 4 + at % 8 / 2);
}

/* A quantised matrix [rows][cols], rows contiguous, cols a multiple of 64: quant/q4.h,
 * quant/lowbit.h, group 64. */
struct kern_matrix {
    int bits; /* 4, 3, 2 */
    int rows, cols;
    const uint8_t *codes;
    const uint16_t *scales, *biases; /* [rows][cols / 64] bf16 */
};

/* Rows rows[0..R) of acts (any order, repeats too); rows NULL means 0..R-1. */
struct kern_input {
    const struct kern_acts *acts;
    const int *rows;
    int R;
};

/* Outputs o0..o1-1 of the j-th row of the input go to to[j * stride + o]. */
struct kern_output {
    float *to;
    size_t stride;
    int o0, o1;
};

/* One token of DeltaNet for one value head. */
struct kern_delta {
    int dk, dv;
    const float *k, *q, *v; /* [dk], [dk], [dv] */
    float decay, beta;
    float *delta, *y; /* [dv] */
};

/* One row of an 8-bit cache: quant/kv8.h. */
struct kern_kv8 {
    const int8_t *codes;
    const uint16_t *scales; /* f16, one for 32 codes */
};

struct kern {
    const char *tier; /* "ref", "avx2", "avx512", "neon" */

    /* Quantises rows r0..r1-1 of x [][n] into the same rows of a. */
    void (*quantise)(const float *x, int r0, int r1, struct kern_acts *a);

    /* Row o of m times each row of x. Block b adds (integer sum of its codes' products * scale of
     * the block) * scale of the group to lane b % 16; then group g adds bias * sum to lane g % 16.
     * Q3 and Q2 count in steps of Q4: code 2q or 4q, bias + 0.5 or 1.5 scales. */
    void (*product)(const struct kern_matrix *m, const struct kern_input *x,
                    const struct kern_output *out);
    /* Outputs o0..o1-1 of m times one row, to to[0..]: single products and sums, none fused. Group
     * g adds (integer sum of its codes' products * its scale) * scale of the weights to lane
     * g % lanes, then bias * sum; lanes are added ascending. Q3 and Q2 as above. */
    void (*product16)(const struct kern_matrix *m, const struct kern_acts16 *x, int o0, int o1,
                      float *to);
    /* bf16 weights w [..][n] times f32 rows x [R][n], any n: 16 lanes. */
    void (*product_bf16)(const uint16_t *w, int n, const float *x, int R,
                         const struct kern_output *out);

    /* Sums in 64 lanes, folded like 16. Any n. */
    float (*sum_squares)(const float *x, int n);
    float (*dot)(const float *a, const float *b, int n);

    /* Element by element; any n. The array that changes may be another argument too. */
    void (*scale_mul)(const float *x, float s, const float *w, int n, float *out); /* (x * s) * w */
    void (*add_scaled)(float *to, const float *x, float s, int n);         /* to += x * s, fused */
    void (*add_product)(float *to, const float *a, const float *b, int n); /* to += a * b, fused */

    /* Of exp(-|x|), which is 0 where |x| > 87.33: within 3 ulp of the exact value elsewhere. */
    void (*sigmoid)(float *x, int n);                      /* in place */
    void (*silu)(float *x, int n);                         /* x * sigmoid(x) */
    void (*silu_mul)(float *gate, const float *up, int n); /* gate = silu(gate) * up */
    void (*add_gated)(float *to, const float *gate, const float *x, int n); /* += sigmoid(gate) x */

    /* The largest of n > 0 finite values. */
    float (*max)(const float *x, int n);
    /* x = exp(x - max), in place; returns their sum (16 lanes). x <= max. 0 below e^-87.33. */
    float (*exp_sum)(float *x, float max, int n);

    /* One token of one value head; from, to [dk][dv], to may be from. Gated DeltaNet:
     *   st = decay * from;  m = st^T k;  delta = beta * (v - m);  to = st + k delta^T;  y = to^T q
     * both sums by fused multiply-adds over ascending key dims. */
    void (*delta_step)(const float *from, float *to, const struct kern_delta *d);
    /* The same state from a delta that was kept: to = decay * from + k delta^T. Uses d's k, delta,
     * decay, dk and dv. */
    void (*delta_replay)(const float *from, float *to, const struct kern_delta *d);

    /* Attention over q8 keys and values (quant/kv8.h): H rows x [H][n] share one row of n codes.
     * n a multiple of 32.
     *   out[h] = sum over groups of scale * (x * code of both halves of the group), 16 lanes
     *   to[h] += (w[h] * scale) * code, fused */
    void (*dot_kv8)(const float *x, int H, const struct kern_kv8 *row, int n, float *out);
    void (*add_kv8)(float *to, int H, const float *w, const struct kern_kv8 *row, int n);
};

/* Fills the table with the best tier of the features cpu (base/cpuid.h). */
void kern_init(struct kern *k, unsigned cpu);

#endif
