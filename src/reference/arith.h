/* The small arithmetic of the model. Arrays are f32; sums are taken in f64 in a fixed order and
 * rounded once, and so are exp, log, sine and cosine (docs/numerics.md says why). Nothing here
 * allocates. Unless a line says otherwise, outputs may be the inputs but may not overlap them
 * otherwise. */
#ifndef REFERENCE_ARITH_H
#define REFERENCE_ARITH_H

#include <stdint.h>

/* sum of a[i] * b[i]. Eight partial sums, element i in sum i % 8, added as a tree of three
 * levels. */
double arith_dot(const float *a, const float *b, int n);

float arith_sigmoid(float x);  /* 1 / (1 + exp(-x)) */
float arith_silu(float x);     /* x * sigmoid(x) */
float arith_softplus(float x); /* log(1 + exp(x)) */

/* out = x / sqrt(mean(x^2) + eps) * gamma, for each of `groups` consecutive runs of n values. gamma
 * is [groups][n], or [n] for all of them when `shared`. */
struct norm {
    const float *gamma;
    int groups, n, shared;
    double eps;
};
void arith_rms(const struct norm *w, const float *x, float *out);
/* x = x / sqrt(sum(x^2) + 1e-6) * scale, in place. */
void arith_l2(float *x, int n, float scale);
/* x = exp(x - max) / sum, in place; n > 0. */
void arith_softmax(float *x, int n);

/* freq[i] = theta^(-2i/rot), i < rot/2. */
void arith_rope_freq(double theta, int rot, float *freq);
/* Rotates the pairs (x[i], x[i + rot/2]) by the angle pos * freq[i], in place. */
void arith_rope(const float *freq, int rot, int pos, float *x);

/* The k largest of x[0..n), largest first, equal ones by ascending index. taken[i] becomes whether
 * i is among them. k <= n. */
void arith_top(const float *x, int n, int k, uint8_t *taken, int *best);

/* Whether all n values are finite. */
int arith_finite(const float *x, int n);

#endif
