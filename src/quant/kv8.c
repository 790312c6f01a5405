/* KV8: see kv8.h. */
#include "quant/kv8.h"

#include <math.h>

#include "quant/half.h"

#define CODE_MAX 127

/* The largest |v|, or NAN if one of them is not finite. */
static float find_peak(const float *v)
{
    float peak = 0;
    for (int i = 0; i < KV8_GROUP; i++) {
        if (!isfinite(v[i]))
            return NAN;
        peak = fabsf(v[i]) > peak ? fabsf(v[i]) : peak;
    }
    return peak;
}

static int8_t code_of(float v, float d)
{
    float q = d > 0 ? rintf(v / d) : 0;
    q = q < CODE_MAX ? q : CODE_MAX; /* d may have lost bits to underflow */
    return (int8_t)(q > -CODE_MAX ? q : -CODE_MAX);
}

int kv8_encode_row(const float *v, size_t n, int8_t *codes, uint16_t *scales)
{
    for (size_t g = 0; g < n / KV8_GROUP; g++, v += KV8_GROUP, codes += KV8_GROUP) {
        float d = find_peak(v) / CODE_MAX;
        uint16_t scale = f16_from_f32(d);
        if (!isfinite(f16_to_f32(scale)))
            return -1;
        scales[g] = scale;
        for (int i = 0; i < KV8_GROUP; i++)
            codes[i] = code_of(v[i], d);
    }
    return 0;
}

void kv8_decode_row(const int8_t *codes, const uint16_t *scales, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)codes[i] * f16_to_f32(scales[i / KV8_GROUP]);
}
