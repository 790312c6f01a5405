/* The small arithmetic of the model: see arith.h. The order of every sum is part of the
 * definition. */
#include "reference/arith.h"

#include <math.h>
#include <string.h>

double arith_dot(const float *a, const float *b, int n)
{
    double s[8] = {0};
    int i = 0;
    for (; i + 8 <= n; i += 8)
        for (int l = 0; l < 8; l++)
            s[l] += (double)a[i + l] * (double)b[i + l];
    for (int l = 0; i < n; i++, l++)
        s[l] += (double)a[i] * (double)b[i];
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

float arith_sigmoid(float x)
{
    return (float)(1.0 / (1.0 + exp(-(double)x)));
}

float arith_silu(float x)
{
    return (float)((double)x / (1.0 + exp(-(double)x)));
}

/* exp overflows f64 only above 709; from 40 on log(1 + exp(x)) is x to the last bit of a f64. */
float arith_softplus(float x)
{
    return x > 40 ? x : (float)log1p(exp((double)x));
}

void arith_rms(const struct norm *w, const float *x, float *out)
{
    for (int g = 0; g < w->groups; g++) {
        const float *gamma = w->gamma + (w->shared ? 0 : (size_t)g * w->n);
        const float *from = x + (size_t)g * w->n;
        float *to = out + (size_t)g * w->n;
        float scale = (float)(1.0 / sqrt(arith_dot(from, from, w->n) / w->n + w->eps));
        for (int i = 0; i < w->n; i++)
            to[i] = from[i] * scale * gamma[i];
    }
}

void arith_l2(float *x, int n, float scale)
{
    float inverse = (float)(1.0 / sqrt(arith_dot(x, x, n) + 1e-6));
    for (int i = 0; i < n; i++)
        x[i] = x[i] * inverse * scale;
}

void arith_softmax(float *x, int n)
{
    float max = x[0];
    double sum = 0;
    for (int i = 1; i < n; i++)
        max = x[i] > max ? x[i] : max;
    for (int i = 0; i < n; i++) {
        x[i] = (float)exp((double)x[i] - (double)max);
        sum += (double)x[i];
    }
    for (int i = 0; i < n; i++)
        x[i] = (float)((double)x[i] / sum);
}

void arith_rope_freq(double theta, int rot, float *freq)
{
    for (int i = 0; i < rot / 2; i++)
        freq[i] = (float)pow(theta, -2.0 * i / rot);
}

/* The angle is a f32 product, as the published implementation has it: a trained model has learnt
 * with the rounding of that product, which is 0.01 rad at position 200,000. */
void arith_rope(const float *freq, int rot, int pos, float *x)
{
    int half = rot / 2;
    for (int i = 0; i < half; i++) {
        float angle = (float)pos * freq[i];
        float c = (float)cos((double)angle), s = (float)sin((double)angle);
        float a = x[i], b = x[i + half];
        x[i] = a * c - b * s;
        x[i + half] = b * c + a * s;
    }
}

void arith_top(const float *x, int n, int k, uint8_t *taken, int *best)
{
    memset(taken, 0, (size_t)n);
    for (int j = 0; j < k; j++) {
        int top = -1;
        for (int i = 0; i < n; i++)
            if (!taken[i] && (top < 0 || x[i] > x[top]))
                top = i;
        taken[top] = 1;
        best[j] = top;
    }
}

int arith_finite(const float *x, int n)
{
    int all = 1;
    for (int i = 0; i < n; i++)
        all &= isfinite(x[i]) != 0;
    return all;
}
