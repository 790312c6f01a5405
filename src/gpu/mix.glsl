// What the kernels that mix rows share (deltanet, qsa, select, ple, mtp): memory behind addresses,
// sums of a workgroup in an order that no device changes.
#include "gpu/common.glsl"

MEMORY(F32, float, 4, );
MEMORY(U32, uint, 4, );
MEMORY(U16, uint16_t, 2, );
MEMORY(Segments, gpu_segment, 8, readonly restrict);
MEMORY(Rows, gpu_row, 4, readonly restrict);

#define PARAMS(name)                                                                               \
    layout(push_constant, std430) uniform Params                                                   \
    {                                                                                              \
        name p;                                                                                    \
    };

// Each team of 32 invocations gets the sum of its x: a tree, the upper half to the lower. All of
// the workgroup call it. For a kernel of LANES invocations.
shared float fold_room[LANES];

float fold_sum(float x)
{
    precise float s[16];
    uint team = LANE & ~31u;
    barrier();
    fold_room[LANE] = x;
    barrier();
    [[unroll]] for (uint i = 0; i < 16; i++)
        s[i] = fold_room[team + i] + fold_room[team + i + 16];
    HALVES(s, 8)
    HALVES(s, 4)
    HALVES(s, 2)
    HALVES(s, 1)
    return s[0];
}

// log(1 + e^x): the logarithm as a series in s = e / (2 + e), e = e^-|x|.
float softplus(float x)
{
    precise float e = num_exp(-abs(x)), s = e * num_reciprocal(2.0 + e), s2 = s * s;
    precise float sum = 1.0 / 17;
    sum = sum * s2 + 1.0 / 15;
    sum = sum * s2 + 1.0 / 13;
    sum = sum * s2 + 1.0 / 11;
    sum = sum * s2 + 1.0 / 9;
    sum = sum * s2 + 1.0 / 7;
    sum = sum * s2 + 1.0 / 5;
    sum = sum * s2 + 1.0 / 3;
    sum = sum * s2 + 1.0;
    precise float y = 2.0 * s * sum + (x > 0 ? x : 0);
    return y;
}

// 1 / sqrt(x) wherever rms and l2 need it: x >= 2^-100, else as at 2^-100.
float inverse_root(float x)
{
    return x < 7.8886090522e-31 ? 1.1258999068e15 : num_rsqrt(x);
}
