// hyper_g += what the embedding gives, for each stream. Grid: x = ceil(H / 256), y = rows.
#version 460
#extension GL_GOOGLE_include_directive : require
const uint LANES = 256;
#include "gpu/mix.glsl"

layout(local_size_x = LANES) in;
PARAMS(mtp_add_params)

layout(constant_id = 1) const uint H = 64;
layout(constant_id = 2) const uint S = 4;

void main()
{
    uint r = gl_WorkGroupID.y, i = gl_GlobalInvocationID.x;
    if (i >= H)
        return;
    for (uint ig = 0; ig < S; ig++) {
        uint at = (r * S + ig) * H + i;
        precise float x = F32(p.hyper).v[at] + F32(p.fold).v[r * H + i];
        F32(p.hyper).v[at] = x;
    }
}
