// The streams of the residual: adds the output of the block before, and norms them.
// Grid: x = S, y = R.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/common.glsl"

layout(local_size_x = 256) in;
layout(push_constant, std430) uniform Params { hyper_norm_params p; };
layout(constant_id = 1) const uint H = 2560;
layout(constant_id = 2) const uint S = 4;

const uint EIGHTS = H / 8, PASSES = (EIGHTS + 255) / 256;

SUM_256

void main()
{
    uint ig = gl_WorkGroupID.x, r = gl_WorkGroupID.y, stream = r * S + ig;
    uint64_t hyper = p.hyper + uint64_t(stream) * (H * 4);
    precise float squares = 0.0;
    float x[PASSES][8], add[PASSES][8], gamma[PASSES][8];
    precise float by = 0.0;
    [[unroll]] for (uint k = 0; k < PASSES; k++) { // all loads, before anything waits for one
        uint at = min(k * 256 + LANE, EIGHTS - 1);
        floats_get(hyper + at * 32, x[k]);
        if (p.add != 0)
            floats_get(p.add + (uint64_t(r) * H + at * 8) * 4, add[k]);
        if (p.q != 0)
            floats_get(p.gamma + (ig * H + at * 8) * 4, gamma[k]);
    }
    if (p.add != 0) {
        precise float open = Floats(p.inj).v[stream] * p.by_S;
        by = 2.0 * num_sigmoid(open);
    }
    [[unroll]] for (uint k = 0; k < PASSES; k++) {
        uint at = k * 256 + LANE;
        if (at >= EIGHTS)
            break;
        if (p.add != 0) {
            [[unroll]] for (uint i = 0; i < 8; i++) {
                precise float y = x[k][i] + by * add[k][i];
                x[k][i] = y;
            }
            floats_put(hyper + at * 32, x[k]);
        }
        [[unroll]] for (uint i = 0; i < 8; i++)
            squares = squares + x[k][i] * x[k][i];
    }
    float all = sum_256(squares);
    if (LANE == 0 && not_finite(all))
        atomicMin(WordsOut(p.bad).v[0], p.first + r);
    if (p.q == 0)
        return;
    precise float mean = all * p.by_h + p.eps;
    float scale = num_rsqrt(mean);
    [[unroll]] for (uint k = 0; k < PASSES; k++) {
        uint at = k * 256 + LANE;
        if (at >= EIGHTS) // H is a multiple of 64: whole teams of eight
            break;
        [[unroll]] for (uint i = 0; i < 8; i++) {
            precise float y = x[k][i] * scale * gamma[k][i];
            x[k][i] = y;
        }
        floats_put(p.x + (uint64_t(stream) * H + at * 8) * 4, x[k]);
        acts_put(x[k], p.q + uint64_t(r) * GPU_ACTS_BYTES(S * H), S * H, ig * EIGHTS + at);
    }
}
