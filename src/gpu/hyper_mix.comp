// The read of the streams behind its first product: silu and activations of the low rank, the
// product back to all streams, gates, their sum; mixed, 64 columns of it in a workgroup.
//
// The low rank is small: that every workgroup makes its activations again costs less than a
// dispatch of its own.
// Grid: x = H / 64, y = R.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/product.glsl"

layout(local_size_x = 256) in;
layout(push_constant, std430) uniform Params { hyper_mix_params p; };
layout(constant_id = 1) const uint H = 2560;
layout(constant_id = 2) const uint S = 4;
layout(constant_id = 3) const uint LOW = 320; // a multiple of 64
layout(constant_id = 4) const uint BITS = 4;

const uint GROUPS = LOW / 64, TEAM = GPU_LANES(LOW), OUTS = S * 64, ITEMS = OUTS * TEAM;
const uint LOW_PASSES = (LOW / 8 + 255) / 256;

shared float low[LOW];
shared uvec4 code[LOW / 8];
shared float low_scale[GROUPS], low_sum[GROUPS];
shared float part[ITEMS], gated[OUTS], mixed[64];

void low_make(uint r)
{
    for (uint i = LANE; i < LOW; i += 256) {
        precise float x = Floats(p.low).v[r * LOW + i] * p.by_S;
        low[i] = num_silu(x);
    }
    barrier();
    for (uint at = LANE; at < LOW / 8; at += 256) {
        float x[8], scale, sum;
        uvec4 word;
        [[unroll]] for (uint i = 0; i < 8; i++)
            x[i] = low[at * 8 + i];
        acts_make(x, word, scale, sum);
        code[at] = word;
        if (at % 8 == 0) {
            low_scale[at / 8] = scale;
            low_sum[at / 8] = sum;
        }
    }
    barrier();
}

float lane_product(Weights m, uint row, uint t)
{
    float acc = 0.0;
    [[unroll]] for (uint g = t; g < GROUPS; g += TEAM) {
        Group c = group_load(m, row, GROUPS, g, BITS);
        int high = 0, lows = 0;
        [[unroll]] for (uint j = 0; j < 8; j++) {
            ivec4 a = ivec4(code[g * 8 + j]);
            ivec2 q = group_codes(c, j, BITS);
            high += dot4(q.x, a.x) + dot4(q.y, a.y);
            lows += dot4(q.x, a.z) + dot4(q.y, a.w);
        }
        acc = group_add(acc, c, high, lows, low_scale[g], low_sum[g], BITS);
    }
    return acc;
}

void main()
{
    uint from = gl_WorkGroupID.x * 64, r = gl_WorkGroupID.y;
    Weights m = Weights(p.w, p.scales, p.biases);
    low_make(r);
    [[unroll]] for (uint first = 0; first < ITEMS; first += 256) {
        uint i = first + LANE, o = i / TEAM;
        if (i < ITEMS)
            part[i] = lane_product(m, o / 64 * H + from + o % 64, i % TEAM);
    }
    barrier();
    for (uint i = LANE; i < OUTS; i += 256) {
        precise float u = part[i * TEAM];
        [[unroll]] for (uint t = 1; t < TEAM; t++)
            u = u + part[i * TEAM + t];
        precise float y =
            num_sigmoid(u) * Floats(p.norm).v[(r * S + i / 64) * H + from + i % 64];
        gated[i] = y;
    }
    barrier();
    if (LANE < 64) {
        precise float sum = gated[LANE];
        [[unroll]] for (uint ig = 1; ig < S; ig++)
            sum = sum + gated[ig * 64 + LANE];
        sum = sum * p.by_S;
        mixed[LANE] = sum;
        FloatsOut(p.x).v[r * H + from + LANE] = sum;
    }
    barrier();
    if (LANE < 8) {
        float x[8];
        [[unroll]] for (uint i = 0; i < 8; i++)
            x[i] = mixed[LANE * 8 + i];
        acts_put(x, p.q + uint64_t(r) * GPU_ACTS_BYTES(H), H, from / 8 + LANE);
    }
}
