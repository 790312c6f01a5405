/* The reference tier: the definition of every kernel, in plain loops that nobody optimises. Each
 * sum says its order; fmaf is one rounding on every machine. Faster tiers give the same bits. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kern/tiers.h"
#include "quant/half.h"
#include "quant/kv8.h"
#include "quant/lowbit.h"

enum { WIDE_LANES = 64 };

/* Adds the upper half of the lanes to the lower until one is left. */
static float fold(float *lane, int n)
{
    for (int half = n / 2; half; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

/* --- quantised products --- */

/* The largest |x| of a block as the scale's numerator, or 0 if the block has none to speak of.
 * Compares bits, in which NaN is above infinity and that above all else. */
static float block_peak(const float *x)
{
    uint32_t most = 0;
    for (int i = 0; i < KERN_BLOCK; i++) {
        uint32_t u;
        memcpy(&u, &x[i], sizeof u);
        u &= 0x7FFFFFFF;
        most = u > most ? u : most;
    }
    float peak;
    memcpy(&peak, &most, sizeof peak);
    return peak >= KERN_PEAK_MIN && peak <= KERN_PEAK_MAX ? peak : 0;
}

/* The values of group g of row r, from x, as its codes have them. */
static float group_sum(const float *x, const struct kern_acts *a, int r, int g)
{
    float value[KERN_GROUP / KERN_BLOCK];
    bool finite = true;
    for (int i = g * KERN_GROUP; i < (g + 1) * KERN_GROUP; i++)
        finite &= isfinite(x[i]) != 0;
    for (int j = 0; j < KERN_GROUP / KERN_BLOCK; j++) {
        int from = g * KERN_GROUP + j * KERN_BLOCK, sum = 0;
        for (int i = from; i < from + KERN_BLOCK; i++)
            sum += *kern_code(a, r, i);
        value[j] = (float)sum * *kern_scale(a, r, from);
    }
    return (finite ? 0 : NAN) + ((value[0] + value[1]) + (value[2] + value[3]));
}

static void quantise_row(const float *x, struct kern_acts *a, int r)
{
    size_t used = kern_record_at(a->n), bytes = kern_acts_bytes(a->n);
    memset(a->records + (size_t)r * bytes + used, 0, bytes - used);
    for (int b = 0; b < a->n; b += KERN_BLOCK) {
        float peak = block_peak(x + b), inverse = peak > 0 ? 127 / peak : 0;
        *kern_scale(a, r, b) = peak / 127;
        for (int i = b; i < b + KERN_BLOCK; i++)
            *kern_code(a, r, i) = (int8_t)(peak > 0 ? rintf(x[i] * inverse) : 0);
    }
    for (int g = 0; g < a->n / KERN_GROUP; g++)
        a->sum[r * (a->n / KERN_GROUP) + g] = group_sum(x, a, r, g);
}

static void quantise(const float *x, int r0, int r1, struct kern_acts *a)
{
    for (int r = r0; r < r1; r++)
        quantise_row(x + (size_t)r * (size_t)a->n, a, r);
}

/* Code i of a row, in steps of Q4. */
static int weight_code(int bits, const uint8_t *codes, int i)
{
    if (bits == 4)
        return codes[i / 2] >> i % 2 * 4 & 15;
    const uint8_t *chunk = codes + lowbit_bytes(bits, (size_t)(i / 32) * 32);
    int t = i % 32 / 16, r = i % 16, plane = r % 2 * 2 + r / 8, byte = r % 8 / 2;
    int code = (chunk[4 * t + byte] >> 2 * plane & 3) << 2;
    if (bits == 3)
        code |= (chunk[8 + byte] >> (4 * t + plane) & 1) << 1;
    return code;
}

/* Row o of m and row r of a. */
static float product_one(const struct kern_matrix *m, int o, const struct kern_acts *a, int r)
{
    int n = m->cols, groups = n / KERN_GROUP, blocks = n / KERN_BLOCK;
    const uint8_t *codes = m->codes + (size_t)o * kern_row_bytes(m->bits, n);
    const uint16_t *scales = m->scales + (size_t)o * groups,
                   *biases = m->biases + (size_t)o * groups;
    const float *sum = a->sum + (size_t)r * groups;
    float lane[KERN_LANES] = {0}, middle = kern_middle(m->bits);

    for (int b = 0; b < blocks; b++) {
        int dot = 0;
        for (int i = b * KERN_BLOCK; i < (b + 1) * KERN_BLOCK; i++)
            dot += weight_code(m->bits, codes, i) * *kern_code(a, r, i);
        float weight = bf16_to_f32(scales[b * KERN_BLOCK / KERN_GROUP]);
        lane[b % KERN_LANES] =
            fmaf((float)dot * *kern_scale(a, r, b * KERN_BLOCK), weight, lane[b % KERN_LANES]);
    }
    for (int g = 0; g < groups; g++) {
        float bias = fmaf(middle, bf16_to_f32(scales[g]), bf16_to_f32(biases[g]));
        lane[g % KERN_LANES] = fmaf(bias, sum[g], lane[g % KERN_LANES]);
    }
    return fold(lane, KERN_LANES) + 0.0f; /* -0 becomes 0, whichever lanes were empty */
}

static void product(const struct kern_matrix *m, const struct kern_input *x,
                    const struct kern_output *out)
{
    for (int j = 0; j < x->R; j++)
        for (int o = out->o0; o < out->o1; o++)
            out->to[(size_t)j * out->stride + o] =
                product_one(m, o, x->acts, x->rows ? x->rows[j] : j);
}

static int code16(const struct kern_acts16 *x, int i)
{
    const int8_t *code = x->codes + kern_code16_at(i);
    return 256 * code[0] + code[KERN_PART];
}

static float product16_one(const struct kern_matrix *m, int o, const struct kern_acts16 *x)
{
    int n = m->cols, groups = n / KERN_GROUP;
    const uint8_t *codes = m->codes + (size_t)o * kern_row_bytes(m->bits, n);
    const uint16_t *scales = m->scales + (size_t)o * groups,
                   *biases = m->biases + (size_t)o * groups;
    float lane[32] = {0};
    for (int g = 0; g < groups; g++) {
        int dot = 0;
        for (int i = g * KERN_GROUP; i < (g + 1) * KERN_GROUP; i++)
            dot += weight_code(m->bits, codes, i) * code16(x, i);
        float scale = bf16_to_f32(scales[g]);
        float bias = bf16_to_f32(biases[g]) + kern_middle(m->bits) * scale;
        lane[g % x->lanes] += (float)dot * x->scale[g] * scale;
        lane[g % x->lanes] += bias * x->sum[g];
    }
    for (int l = 1; l < x->lanes; l++)
        lane[0] += lane[l];
    return lane[0];
}

static void product16(const struct kern_matrix *m, const struct kern_acts16 *x, int o0, int o1,
                      float *to)
{
    for (int o = o0; o < o1; o++)
        to[o - o0] = product16_one(m, o, x);
}

static void product_bf16(const uint16_t *w, int n, const float *x, int R,
                         const struct kern_output *out)
{
    for (int r = 0; r < R; r++) {
        for (int o = out->o0; o < out->o1; o++) {
            float lane[KERN_LANES] = {0};
            for (int i = 0; i < n; i++)
                lane[i % KERN_LANES] = fmaf(bf16_to_f32(w[(size_t)o * n + i]), x[(size_t)r * n + i],
                                            lane[i % KERN_LANES]);
            out->to[(size_t)r * out->stride + o] = fold(lane, KERN_LANES) + 0.0f;
        }
    }
}

/* --- sums and elements --- */

static float dot(const float *a, const float *b, int n)
{
    float lane[WIDE_LANES] = {0};
    for (int i = 0; i < n; i++)
        lane[i % WIDE_LANES] = fmaf(a[i], b[i], lane[i % WIDE_LANES]);
    return fold(lane, WIDE_LANES) + 0.0f;
}

static float sum_squares(const float *x, int n)
{
    return dot(x, x, n);
}

static void scale_mul(const float *x, float s, const float *w, int n, float *out)
{
    for (int i = 0; i < n; i++)
        out[i] = x[i] * s * w[i];
}

static void add_scaled(float *to, const float *x, float s, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = fmaf(x[i], s, to[i]);
}

static void add_product(float *to, const float *a, const float *b, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = fmaf(a[i], b[i], to[i]);
}

static float max(const float *x, int n)
{
    float most = x[0];
    for (int i = 1; i < n; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

/* --- exp: constants and error in tiers.h --- */

/* exp(x), x <= 0. */
static float exp_of(float x)
{
    float t = fmaf(x, KERN_EXP_LOG2E, KERN_EXP_ROUND), k = t - KERN_EXP_ROUND, power;
    float r = fmaf(-k, KERN_EXP_LN2_LOW, fmaf(-k, KERN_EXP_LN2_HIGH, x));
    uint32_t u;
    memcpy(&u, &t, sizeof u);
    u = (u + 127) << 23; /* the low bits of t are k */
    memcpy(&power, &u, sizeof power);
    float p = fmaf(KERN_EXP_C6, r, KERN_EXP_C5);
    p = fmaf(p, r, KERN_EXP_C4);
    p = fmaf(p, r, KERN_EXP_C3);
    p = fmaf(p, r, KERN_EXP_C2);
    p = 1 + fmaf(r * r, p, r);
    return x < KERN_EXP_MIN ? 0 : p * power;
}

static float sigmoid_of(float x)
{
    float e = exp_of(-fabsf(x));
    return (signbit(x) ? e : 1) / (1 + e);
}

static float silu_of(float x)
{
    float e = exp_of(-fabsf(x));
    return (signbit(x) ? x * e : x) / (1 + e);
}

static void sigmoid(float *x, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = sigmoid_of(x[i]);
}

static void silu(float *x, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = silu_of(x[i]);
}

static void silu_mul(float *gate, const float *up, int n)
{
    for (int i = 0; i < n; i++)
        gate[i] = silu_of(gate[i]) * up[i];
}

static void add_gated(float *to, const float *gate, const float *x, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = fmaf(sigmoid_of(gate[i]), x[i], to[i]);
}

static float exp_sum(float *x, float most, int n)
{
    float lane[KERN_LANES] = {0};
    for (int i = 0; i < n; i++) {
        x[i] = exp_of(x[i] - most);
        lane[i % KERN_LANES] += x[i];
    }
    return fold(lane, KERN_LANES);
}

/* --- DeltaNet --- */

static void delta_replay(const float *from, float *to, const struct kern_delta *d)
{
    for (int i = 0; i < d->dk; i++)
        for (int j = 0; j < d->dv; j++)
            to[i * d->dv + j] = fmaf(d->k[i], d->delta[j], d->decay * from[i * d->dv + j]);
}

static void delta_step(const float *from, float *to, const struct kern_delta *d)
{
    for (int j = 0; j < d->dv; j++) {
        float m = 0;
        for (int i = 0; i < d->dk; i++)
            m = fmaf(d->decay * from[i * d->dv + j], d->k[i], m);
        d->delta[j] = d->beta * (d->v[j] - m);
    }
    delta_replay(from, to, d);
    for (int j = 0; j < d->dv; j++) {
        float y = 0;
        for (int i = 0; i < d->dk; i++)
            y = fmaf(to[i * d->dv + j], d->q[i], y);
        d->y[j] = y;
    }
}

/* --- the 8-bit cache --- */

static void dot_kv8(const float *x, int H, const struct kern_kv8 *row, int n, float *out)
{
    for (int h = 0; h < H; h++, x += n) {
        float lane[KERN_LANES] = {0};
        for (int g = 0; g < n / KV8_GROUP; g++) {
            const float *v = x + g * KV8_GROUP;
            const int8_t *c = row->codes + g * KV8_GROUP;
            float scale = f16_to_f32(row->scales[g]);
            for (int l = 0; l < KERN_LANES; l++) {
                float both = fmaf(v[16 + l], c[16 + l], v[l] * c[l]);
                lane[l] = fmaf(both, scale, lane[l]);
            }
        }
        out[h] = fold(lane, KERN_LANES) + 0.0f;
    }
}

static void add_kv8(float *to, int H, const float *w, const struct kern_kv8 *row, int n)
{
    for (int h = 0; h < H; h++, to += n)
        for (int i = 0; i < n; i++)
            to[i] = fmaf(w[h] * f16_to_f32(row->scales[i / KV8_GROUP]), row->codes[i], to[i]);
}

void kern_init_ref(struct kern *k)
{
    *k = (struct kern){
        .tier = "ref",
        .quantise = quantise,
        .product = product,
        .product16 = product16,
        .product_bf16 = product_bf16,
        .sum_squares = sum_squares,
        .dot = dot,
        .scale_mul = scale_mul,
        .add_scaled = add_scaled,
        .add_product = add_product,
        .sigmoid = sigmoid,
        .silu = silu,
        .silu_mul = silu_mul,
        .add_gated = add_gated,
        .max = max,
        .exp_sum = exp_sum,
        .delta_step = delta_step,
        .delta_replay = delta_replay,
        .dot_kv8 = dot_kv8,
        .add_kv8 = add_kv8,
    };
}
