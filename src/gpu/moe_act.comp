// silu(gate) * up of rows, as activations.
// Grid: x * y >= ceil(rows * n / 8 / 256), lines of x one after another.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/common.glsl"

layout(local_size_x = 256) in;
layout(push_constant, std430) uniform Params { moe_act_params p; };

void main()
{
    uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint i = group * 256 + LANE, row = i / (p.n / 8), at = i % (p.n / 8);
    if (row >= p.rows) // whole teams of eight
        return;
    uint64_t gate = p.x + (uint64_t(row) * 2 * p.n + at * 8) * 4;
    float x[8], y[8];
    floats_get(gate, x);
    floats_get(gate + p.n * 4, y);
    [[unroll]] for (uint k = 0; k < 8; k++) {
        precise float z = num_silu(x[k]) * y[k];
        x[k] = z;
    }
    acts_put(x, p.act + uint64_t(row) * GPU_ACTS_BYTES(p.n), p.n, at);
}
