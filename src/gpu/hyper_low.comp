// silu(x / S) of rows of n floats, as activations: what hyper_mix.comp makes for one row.
// Grid: x = ceil(n / 8 / 256), y = R.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/common.glsl"

layout(local_size_x = 256) in;
layout(push_constant, std430) uniform Params { hyper_low_params p; };

void main()
{
    uint at = gl_WorkGroupID.x * 256 + LANE;
    uint64_t r = gl_WorkGroupID.y;
    if (at >= p.n / 8) // whole teams of eight
        return;
    float x[8];
    floats_get(p.x + (r * p.n + at * 8) * 4, x);
    [[unroll]] for (uint i = 0; i < 8; i++) {
        precise float y = x[i] * p.by_S;
        x[i] = num_silu(y);
    }
    acts_put(x, p.q + r * GPU_ACTS_BYTES(p.n), p.n, at);
}
