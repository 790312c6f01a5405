/* Float kernels of every vector tier: one body, as in products.h; alone this header is empty. Ends
 * of arrays go through the same operations as the rest, with lanes that are neither read nor
 * written: an element's bits do not depend on where it stands. */
#ifndef KERN_FLOATS_H
#define KERN_FLOATS_H
#ifdef KERN_VEC

#include "quant/kv8.h"

enum {
    WIDE_VECS = 64 / KERN_VEC, /* vectors of 64 lanes */
    HEADS = 4,                 /* rows that share one unpacked row of the cache */
    COLUMN_VECS = 4,           /* vectors of a state's row that are worked on at once */
};

/* How many elements from i on a vector holds. */
KERN_INLINE int vec_left(int n, int i)
{
    return n - i < KERN_VEC ? n - i : KERN_VEC;
}

/* --- sums --- */

static float dot(const float *a, const float *b, int n)
{
    vec s[WIDE_VECS];
    int i = 0;
    KERN_UNROLL
    for (int j = 0; j < WIDE_VECS; j++)
        s[j] = vec_set(0);
    for (; i + 64 <= n; i += 64)
        KERN_UNROLL
    for (int j = 0; j < WIDE_VECS; j++)
        s[j] = vec_fma(vec_load(a + i + j * KERN_VEC), vec_load(b + i + j * KERN_VEC), s[j]);
    KERN_UNROLL
    for (int j = 0; j < WIDE_VECS; j++, i += KERN_VEC)
        if (i < n)
            s[j] =
                vec_fma(vec_load_n(a + i, vec_left(n, i)), vec_load_n(b + i, vec_left(n, i)), s[j]);
    struct lanes all;
    KERN_UNROLL
    for (int h = 0; h < KERN_PARTS; h++) /* 64 lanes to 32 to 16 */
        all.part[h] = vec_add(vec_add(s[h], s[h + 2 * KERN_PARTS]),
                              vec_add(s[h + KERN_PARTS], s[h + 3 * KERN_PARTS]));
    return lanes_fold(all) + 0.0f;
}

static float sum_squares(const float *x, int n)
{
    return dot(x, x, n);
}

static float max(const float *x, int n)
{
    float most[KERN_VEC];
    vec v = vec_set(x[0]);
    int i = 0;
    for (; i + KERN_VEC <= n; i += KERN_VEC)
        v = vec_max(v, vec_load(x + i));
    vec_store_n(most, v, KERN_VEC);
    for (; i < n; i++)
        most[0] = x[i] > most[0] ? x[i] : most[0];
    for (int l = 1; l < KERN_VEC; l++)
        most[0] = most[l] > most[0] ? most[l] : most[0];
    return most[0];
}

/* --- elements --- */

/* For every vector of n elements: k elements from i on. */
#define EACH_VEC(n, i, k)                                                                          \
    for (int i = 0, k = vec_left(n, 0); i < (n); i += KERN_VEC, k = vec_left(n, i))

static void scale_mul(const float *x, float s, const float *w, int n, float *out)
{
    vec by = vec_set(s);
    EACH_VEC(n, i, k)
    vec_store_n(out + i, vec_mul(vec_mul(vec_load_n(x + i, k), by), vec_load_n(w + i, k)), k);
}

static void add_scaled(float *to, const float *x, float s, int n)
{
    vec by = vec_set(s);
    EACH_VEC(n, i, k)
    vec_store_n(to + i, vec_fma(vec_load_n(x + i, k), by, vec_load_n(to + i, k)), k);
}

static void add_product(float *to, const float *a, const float *b, int n)
{
    EACH_VEC(n, i, k)
    vec_store_n(to + i, vec_fma(vec_load_n(a + i, k), vec_load_n(b + i, k), vec_load_n(to + i, k)),
                k);
}

/* exp(x), x <= 0: tiers.h, kern_ref.c. */
KERN_INLINE vec vec_exp(vec x)
{
    vec round = vec_set(KERN_EXP_ROUND);
    vec t = vec_fma(x, vec_set(KERN_EXP_LOG2E), round), k = vec_sub(t, round);
    vec r = vec_take(k, vec_set(KERN_EXP_LN2_LOW), vec_take(k, vec_set(KERN_EXP_LN2_HIGH), x));
    vec p = vec_fma(vec_set(KERN_EXP_C6), r, vec_set(KERN_EXP_C5));
    p = vec_fma(p, r, vec_set(KERN_EXP_C4));
    p = vec_fma(p, r, vec_set(KERN_EXP_C3));
    p = vec_fma(p, r, vec_set(KERN_EXP_C2));
    p = vec_add(vec_set(1), vec_fma(vec_mul(r, r), p, r));
    return vec_zero_below(x, vec_set(KERN_EXP_MIN), vec_mul(p, vec_power(t)));
}

KERN_INLINE vec vec_sigmoid(vec x)
{
    vec e = vec_exp(vec_minus_abs(x)), one = vec_set(1);
    return vec_div(vec_by_sign(x, e, one), vec_add(one, e));
}

KERN_INLINE vec vec_silu(vec x)
{
    vec e = vec_exp(vec_minus_abs(x));
    return vec_div(vec_by_sign(x, vec_mul(x, e), x), vec_add(vec_set(1), e));
}

static void sigmoid(float *x, int n)
{
    EACH_VEC(n, i, k)
    vec_store_n(x + i, vec_sigmoid(vec_load_n(x + i, k)), k);
}

static void silu(float *x, int n)
{
    EACH_VEC(n, i, k)
    vec_store_n(x + i, vec_silu(vec_load_n(x + i, k)), k);
}

static void silu_mul(float *gate, const float *up, int n)
{
    EACH_VEC(n, i, k)
    vec_store_n(gate + i, vec_mul(vec_silu(vec_load_n(gate + i, k)), vec_load_n(up + i, k)), k);
}

static void add_gated(float *to, const float *gate, const float *x, int n)
{
    EACH_VEC(n, i, k)
    {
        vec g = vec_sigmoid(vec_load_n(gate + i, k));
        vec_store_n(to + i, vec_fma(g, vec_load_n(x + i, k), vec_load_n(to + i, k)), k);
    }
}

static float exp_sum(float *x, float most, int n)
{
    struct lanes s;
    vec off = vec_set(most);
    KERN_UNROLL
    for (int h = 0; h < KERN_PARTS; h++)
        s.part[h] = vec_set(0);
    for (int i = 0; i < n; i += KERN_LANES) {
        KERN_UNROLL
        for (int h = 0; h < KERN_PARTS; h++) {
            float *at = x + i + h * KERN_VEC;
            int k = vec_left(n, i + h * KERN_VEC);
            if (k <= 0)
                break;
            vec_store_n(at, vec_exp(vec_sub(vec_load_n(at, k), off)), k);
            s.part[h] = vec_add(s.part[h], vec_load_n(at, k));
        }
    }
    return lanes_fold(s);
}

/* --- DeltaNet --- */

/* V vectors of columns from j on, k of them in the last (all, where V is more than one). The
 * decayed state is made twice rather than stored between the passes. */
KERN_INLINE void delta_columns(const int V, const float *from, float *to,
                               const struct kern_delta *d, int j, int k)
{
    vec m[COLUMN_VECS], y[COLUMN_VECS], delta[COLUMN_VECS];
    vec decay = vec_set(d->decay), beta = vec_set(d->beta);
    size_t row = (size_t)d->dv;
    KERN_UNROLL
    for (int c = 0; c < V; c++)
        m[c] = y[c] = vec_set(0);
    for (int i = 0; i < d->dk; i++) {
        const float *at = from + (size_t)i * row + j;
        KERN_UNROLL
        for (int c = 0; c < V; c++)
            m[c] =
                vec_fma(vec_mul(decay, vec_load_n(at + c * KERN_VEC, k)), vec_set(d->k[i]), m[c]);
    }
    KERN_UNROLL
    for (int c = 0; c < V; c++) {
        delta[c] = vec_mul(beta, vec_sub(vec_load_n(d->v + j + c * KERN_VEC, k), m[c]));
        vec_store_n(d->delta + j + c * KERN_VEC, delta[c], k);
    }
    for (int i = 0; i < d->dk; i++) {
        size_t at = (size_t)i * row + (size_t)j;
        KERN_UNROLL
        for (int c = 0; c < V; c++, at += KERN_VEC) {
            vec st = vec_mul(decay, vec_load_n(from + at, k));
            st = vec_fma(vec_set(d->k[i]), delta[c], st);
            vec_store_n(to + at, st, k);
            y[c] = vec_fma(st, vec_set(d->q[i]), y[c]);
        }
    }
    KERN_UNROLL
    for (int c = 0; c < V; c++)
        vec_store_n(d->y + j + c * KERN_VEC, y[c], k);
}

static void delta_step(const float *from, float *to, const struct kern_delta *d)
{
    int j = 0;
    for (; j + COLUMN_VECS * KERN_VEC <= d->dv; j += COLUMN_VECS * KERN_VEC)
        delta_columns(COLUMN_VECS, from, to, d, j, KERN_VEC);
    for (; j < d->dv; j += KERN_VEC)
        delta_columns(1, from, to, d, j, vec_left(d->dv, j));
}

static void delta_replay(const float *from, float *to, const struct kern_delta *d)
{
    vec decay = vec_set(d->decay);
    for (int i = 0; i < d->dk; i++, from += d->dv, to += d->dv) {
        vec key = vec_set(d->k[i]);
        EACH_VEC(d->dv, j, k)
        vec_store_n(
            to + j,
            vec_fma(key, vec_load_n(d->delta + j, k), vec_mul(decay, vec_load_n(from + j, k))), k);
    }
}

/* --- the 8-bit cache --- */

/* H rows of n at x. */
KERN_INLINE void dot_heads(const int H, const float *x, const struct kern_kv8 *row, int n,
                           float *out)
{
    struct lanes s[HEADS];
    KERN_UNROLL
    for (int a = 0; a < HEADS; a++)
        KERN_UNROLL
    for (int h = 0; h < KERN_PARTS; h++)
        s[a].part[h] = vec_set(0);
    for (int g = 0; g < n / KV8_GROUP; g++) {
        vec scale = vec_set(half_value(row->scales[g]));
        KERN_UNROLL
        for (int h = 0; h < KERN_PARTS; h++) {
            int at = g * KV8_GROUP + h * KERN_VEC;
            vec low = vec_bytes(row->codes + at), high = vec_bytes(row->codes + at + KERN_LANES);
            KERN_UNROLL
            for (int a = 0; a < H; a++) {
                const float *v = x + (size_t)a * (size_t)n + at;
                vec both = vec_fma(vec_load(v + KERN_LANES), high, vec_mul(vec_load(v), low));
                s[a].part[h] = vec_fma(both, scale, s[a].part[h]);
            }
        }
    }
    float sum[HEADS];
    lanes_fold4(&s[0], &s[1], &s[2], &s[3], sum);
    KERN_UNROLL
    for (int a = 0; a < H; a++)
        out[a] = sum[a];
}

static void dot_kv8(const float *x, int H, const struct kern_kv8 *row, int n, float *out)
{
    int h = 0;
    for (; h + HEADS <= H; h += HEADS, x += (size_t)HEADS * (size_t)n)
        dot_heads(HEADS, x, row, n, out + h);
    for (; h < H; h++, x += n)
        dot_heads(1, x, row, n, out + h);
}

static void add_kv8(float *to, int H, const float *w, const struct kern_kv8 *row, int n)
{
    enum { VECS = KV8_GROUP / KERN_VEC };
    for (int g = 0; g < n / KV8_GROUP; g++) {
        float scale = half_value(row->scales[g]);
        vec code[VECS];
        KERN_UNROLL
        for (int j = 0; j < VECS; j++)
            code[j] = vec_bytes(row->codes + g * KV8_GROUP + j * KERN_VEC);
        for (int h = 0; h < H; h++) {
            float *at = to + (size_t)h * (size_t)n + g * KV8_GROUP;
            vec by = vec_set(w[h] * scale);
            KERN_UNROLL
            for (int j = 0; j < VECS; j++)
                vec_store_n(at + j * KERN_VEC, vec_fma(by, code[j], vec_load(at + j * KERN_VEC)),
                            KERN_VEC);
        }
    }
}

/* All kernels of a tier but its name; products.h has the first three. */
static void fill_table(struct kern *k)
{
    k->quantise = quantise;
    k->product = product;
    k->product_bf16 = product_bf16;
    k->sum_squares = sum_squares;
    k->dot = dot;
    k->scale_mul = scale_mul;
    k->add_scaled = add_scaled;
    k->add_product = add_product;
    k->sigmoid = sigmoid;
    k->silu = silu;
    k->silu_mul = silu_mul;
    k->add_gated = add_gated;
    k->max = max;
    k->exp_sum = exp_sum;
    k->delta_step = delta_step;
    k->delta_replay = delta_replay;
    k->dot_kv8 = dot_kv8;
    k->add_kv8 = add_kv8;
}

#endif
#endif
