// The end of a read of the streams: gates, their sum; mixed, as hyper_mix.comp makes it for one row.
// Grid: x = ceil(h / 8 / 256), y = R.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/common.glsl"

layout(local_size_x = 256) in;
layout(push_constant, std430) uniform Params { hyper_gate_params p; };

void main()
{
    uint at = gl_WorkGroupID.x * 256 + LANE;
    uint64_t r = gl_WorkGroupID.y;
    if (at >= p.h / 8) // whole teams of eight
        return;
    float sum[8];
    for (uint ig = 0; ig < p.S; ig++) {
        uint64_t from = ((r * p.S + ig) * p.h + at * 8) * 4;
        float gate[8], x[8];
        floats_get(p.gate + from, gate);
        floats_get(p.norm + from, x);
        [[unroll]] for (uint i = 0; i < 8; i++) {
            precise float y = num_sigmoid(gate[i]) * x[i];
            precise float next = sum[i] + y;
            sum[i] = ig == 0 ? y : next;
        }
    }
    [[unroll]] for (uint i = 0; i < 8; i++) {
        precise float y = sum[i] * p.by_S;
        sum[i] = y;
    }
    floats_put(p.x + (r * p.h + at * 8) * 4, sum);
    acts_put(sum, p.q + r * GPU_ACTS_BYTES(p.h), p.h, at);
}
