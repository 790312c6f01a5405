// The outputs of a row's experts, added in routing order, the shared expert's last.
// Grid: x = ceil(h / 256), y = R.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/common.glsl"

layout(local_size_x = 256) in;
layout(push_constant, std430) uniform Params { moe_sum_params p; };

void main()
{
    uint at = gl_WorkGroupID.x * 256 + LANE, r = gl_WorkGroupID.y;
    if (at >= p.h)
        return;
    precise float sum = 0.0;
    for (uint k = 0; k < p.K; k++) {
        uint pair = r * p.K + k;
        if (Addresses(p.table).v[Words(p.route).v[pair]] != 0)
            sum = sum + Floats(p.weight).v[pair] * Floats(p.routed + uint64_t(pair) * p.h * 4).v[at];
    }
    sum = sum + num_sigmoid(Floats(p.open).v[r]) * Floats(p.of_shared + uint64_t(r) * p.h * 4).v[at];
    FloatsOut(p.to).v[r * p.h + at] = sum;
}
