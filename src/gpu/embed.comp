// The residual that the trunk starts from: S copies of a row's embedding. Grid: x = ceil(H / 256),
// y = rows.
#version 460
#extension GL_GOOGLE_include_directive : require
const uint LANES = 256;
#include "gpu/mix.glsl"

layout(local_size_x = LANES) in;
PARAMS(embed_params)

layout(constant_id = 1) const uint H = 64;
layout(constant_id = 2) const uint S = 4;
layout(constant_id = 3) const uint FORMAT = 2;
layout(constant_id = 4) const uint GROUP = 64;

#include "gpu/row.glsl"

void main()
{
    uint r = gl_WorkGroupID.y, i = gl_GlobalInvocationID.x;
    if (i >= H)
        return;
    float x = row_value(uint(Rows(p.rows).v[r].token), H, i);
    for (uint ig = 0; ig < S; ig++)
        F32(p.to).v[(r * S + ig) * H + i] = x;
}
