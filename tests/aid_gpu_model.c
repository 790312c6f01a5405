/* Kernels of products in plain C: see aid_gpu_model.h. */
#include "tests/aid_gpu_model.h"

#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "gpu/numbers.h"
#include "quant/half.h"
#include "quant/lowbit.h"

static uint64_t draws;

static uint32_t draw(void)
{
    return (uint32_t)(rng_at(7, draws++) >> 32);
}

static float draw_float(void)
{
    return (float)(draw() % 20001) / 10000 - 1;
}

void model_floats(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t kind = draw() % 64;
        x[i] = draw_float() * (kind == 0 ? 50 : kind == 1 ? 1e-6f : 1);
    }
    for (size_t i = 64; n > 256 && i < 128; i++)
        x[i] = 0;
}

/* Where the high byte of element i of n is; the low one is 8 further. */
static size_t place(int n, int i)
{
    return (size_t)(GPU_ACTS_UNIT(n, i / 64, i % 64 / 8) * 16 + i % 2 * 4 + i % 8 / 2);
}

void model_quantise(const float *x, int n, uint8_t *row)
{
    float *scale = (float *)(row + 2 * n), *sum = scale + n / 64;
    for (int g = 0; g < n / 64; g++) {
        uint32_t most = 0;
        int32_t codes = 0;
        for (int i = 64 * g; i < 64 * g + 64; i++) {
            uint32_t u = num_bits(x[i]) & 0x7FFFFFFF;
            most = u > most ? u : most;
        }
        for (int i = 64 * g; i < 64 * g + 64; i++) {
            float inverse = acts_inverse(most);
            int32_t q = inverse > 0 ? num_round(x[i] * inverse) : 0, high = (q + 128) >> 8;
            codes += q;
            row[place(n, i)] = (uint8_t)(high & 255);
            row[place(n, i) + 8] = (uint8_t)(q & 255);
        }
        scale[g] = acts_scale(most);
        sum[g] = acts_sum(most, codes);
    }
}

static int code_at(const uint8_t *row, int n, int i)
{
    return (int8_t)row[place(n, i)] * 256 + (int8_t)row[place(n, i) + 8];
}

double model_value(const uint8_t *row, int n, int i)
{
    return (double)code_at(row, n, i) * ((const float *)(row + 2 * n))[i / 64];
}

void model_matrix_init(struct model_matrix *m, int bits, int rows, int cols)
{
    size_t n = (size_t)rows * (size_t)cols, groups = n / 64;
    *m = (struct model_matrix){.bits = bits, .rows = rows, .cols = cols};
    m->w_bytes = bits > 4 ? n * (size_t)bits / 8 : bits == 4 ? n / 2 : lowbit_bytes(bits, n);
    m->w = mem_alloc(m->w_bytes);
    if (bits > 4) {
        for (size_t i = 0; i < n; i++) {
            float x = draw_float() / 8;
            uint16_t h = bf16_from_f32(x);
            memcpy(m->w + i * (size_t)bits / 8, bits == 16 ? (void *)&h : (void *)&x,
                   (size_t)bits / 8);
        }
        return;
    }
    uint8_t *q4 = mem_alloc(n / 2);
    m->steps = mem_alloc(n);
    for (size_t i = 0; i < n / 2; i++)
        q4[i] = (uint8_t)draw();
    for (size_t i = 0; i < n; i++)
        m->steps[i] = (uint8_t)((q4[i / 2] >> (i % 2 * 4) & 15) >> (4 - bits) << (4 - bits));
    if (bits == 4)
        memcpy(m->w, q4, n / 2);
    else
        lowbit_from_q4(bits, q4, n, m->w);
    mem_free(q4);
    m->scales = mem_array(groups, 2);
    m->biases = mem_array(groups, 2);
    for (size_t g = 0; g < groups; g++) {
        float scale = (float)(draw() % 100 + 1) / 3000;
        m->scales[g] = bf16_from_f32(scale);
        m->biases[g] = bf16_from_f32(-7.3f * scale * (draw_float() + 1));
    }
}

void model_matrix_free(struct model_matrix *m)
{
    mem_free(m->w);
    mem_free(m->steps);
    mem_free(m->scales);
    mem_free(m->biases);
}

void model_put(struct aid_gpu *g, struct model_matrix *m)
{
    size_t bytes = (size_t)m->rows * (size_t)(m->cols / 64) * 2;
    m->at_w = aid_gpu_put(g, m->w, m->w_bytes);
    if (m->bits > 4)
        return;
    m->at_scales = aid_gpu_put(g, m->scales, bytes);
    m->at_biases = aid_gpu_put(g, m->biases, bytes);
}

static float float_product(const struct model_matrix *m, int o, const float *x)
{
    float lane[32] = {0}, eight[4];
    for (int i = 0; i < m->cols; i++) {
        size_t at = (size_t)o * (size_t)m->cols + (size_t)i;
        float w =
            m->bits == 16 ? bf16_to_f32(((const uint16_t *)m->w)[at]) : ((const float *)m->w)[at];
        lane[i / 8 % 32] += w * x[i];
    }
    for (int i = 0; i < 4; i++) {
        const float *a = lane + 8 * i;
        eight[i] = ((a[0] + a[1]) + (a[2] + a[3])) + ((a[4] + a[5]) + (a[6] + a[7]));
    }
    return (eight[0] + eight[1]) + (eight[2] + eight[3]);
}

/* acc, and what group g of output o adds to it. */
static float group_added(const struct model_matrix *m, int o, const void *row, int g, float acc)
{
    const float *scale = (const float *)((const uint8_t *)row + 2 * m->cols);
    const float *sum = scale + m->cols / 64;
    size_t at = (size_t)o * (size_t)(m->cols / 64) + (size_t)g;
    int32_t all = 0;
    for (int i = 0; i < 64; i++)
        all += m->steps[at * 64 + (size_t)i] * code_at(row, m->cols, 64 * g + i);
    float s = bf16_to_f32(m->scales[at]), b = bf16_to_f32(m->biases[at]);
    if (m->bits != 4)
        b = b + (m->bits == 3 ? 0.5f : 1.5f) * s;
    acc = acc + (float)all * scale[g] * s;
    return acc + b * sum[g];
}

float model_product(const struct model_matrix *m, int o, const void *row)
{
    if (m->bits > 4)
        return float_product(m, o, row);
    int lanes = GPU_LANES(m->cols);
    float lane[32] = {0};
    for (int g = 0; g < m->cols / 64; g++)
        lane[g % lanes] = group_added(m, o, row, g, lane[g % lanes]);
    float y = lane[0];
    for (int t = 1; t < lanes; t++)
        y = y + lane[t];
    return y;
}

float model_product_runs(const struct model_matrix *m, int o, const void *row, int runs)
{
    int n = m->cols / 64 / runs;
    float y = 0;
    for (int t = 0; t < runs; t++) {
        float run = 0;
        for (int g = t * n; g < (t + 1) * n; g++)
            run = group_added(m, o, row, g, run);
        y = t ? y + run : run;
    }
    return y;
}
