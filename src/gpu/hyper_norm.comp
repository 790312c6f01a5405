// The streams of the residual: adds the output of the block before, and norms them.
// Grid: x = S, y = R.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/common.glsl"

layout(local_size_x = 512) in;
layout(push_constant, std430) uniform Params { hyper_norm_params p; };
layout(constant_id = 1) const uint H = 2560;
layout(constant_id = 2) const uint S = 4;

#include "gpu/hyper.glsl"

void main()
{
    uint ig = gl_WorkGroupID.x, r = gl_WorkGroupID.y, stream = r * S + ig;
    float by;
    stream_load(r, ig, p.q != 0, by);
    float all = stream_squares();
    if (LANE == 0 && not_finite(all))
        atomicMin(WordsOut(p.bad).v[0], p.first + r);
    [[unroll]] for (uint k = 0; k < PASSES; k++)
        if (p.add != 0 && k * 512 + LANE < EIGHTS)
            floats_put(p.hyper + (uint64_t(stream) * EIGHTS + k * 512 + LANE) * 32, stream_x[k]);
    if (p.q == 0)
        return;
    stream_norm(stream_scale(all));
    [[unroll]] for (uint k = 0; k < PASSES; k++) {
        uint at = k * 512 + LANE;
        if (at < EIGHTS) { // H is a multiple of 64: whole teams of eight
            floats_put(p.x + (uint64_t(stream) * EIGHTS + at) * 32, stream_x[k]);
            acts_put(stream_x[k], p.q + uint64_t(r) * GPU_ACTS_BYTES(S * H), S * H,
                     ig * EIGHTS + at);
        }
    }
}
