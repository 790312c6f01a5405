// The read of the streams behind its first product: silu and activations of the low rank, the
// product back to all streams, gates, their sum; mixed, 64 columns of it in a workgroup.
//
// The low rank is small: that every workgroup makes its activations again costs less than a
// dispatch of its own.
// Grid: x = H / 64, y = R.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/product.glsl"

layout(local_size_x = 512) in;
layout(push_constant, std430) uniform Params { hyper_mix_params p; };
layout(constant_id = 1) const uint H = 2560;
layout(constant_id = 2) const uint S = 4;
layout(constant_id = 3) const uint LOW = 320; // a multiple of 64
layout(constant_id = 4) const uint BITS = 4;

const uint GROUPS = LOW / 64, TEAM = GPU_LANES(LOW), OUTS = S * 64, ITEMS = OUTS * TEAM;
const uint PER = (GROUPS + TEAM - 1) / TEAM, DEPTH = 3;

shared float low[LOW];
shared uvec4 code[LOW / 8];
shared float low_scale[GROUPS], low_sum[GROUPS];
shared float part[ITEMS], gated[OUTS], mixed[64];

void low_make(uint r)
{
    for (uint i = LANE; i < LOW; i += 512) {
        precise float x = Floats(p.low).v[r * LOW + i] * p.by_S;
        low[i] = num_silu(x);
    }
    barrier();
    for (uint at = LANE; at < LOW / 8; at += 512) {
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

// What item i goes through: groups t, t + TEAM, ... of a row of weights; the first DEPTH are loaded
// before the activations are made.
struct Item {
    uint row, t;
    Packed c[DEPTH];
};

Item item_load(Weights m, uint i, uint from)
{
    Item x;
    uint o = min(i, ITEMS - 1) / TEAM;
    x.row = o / 64 * H + from + o % 64;
    x.t = i % TEAM;
    [[unroll]] for (uint d = 0; d < DEPTH; d++)
        x.c[d] = packed_load(m, x.row, GROUPS, min(x.t + d * TEAM, GROUPS - 1), BITS);
    return x;
}

float item_product(Weights m, Item x)
{
    float acc = 0.0;
    [[unroll]] for (uint k = 0; k < PER; k++) {
        uint g = x.t + k * TEAM;
        if (g < GROUPS) {
            Group c = k < DEPTH ? group_of(x.c[min(k, DEPTH - 1)], BITS)
                                : group_load(m, x.row, GROUPS, g, BITS);
            int high = 0, lows = 0;
            [[unroll]] for (uint j = 0; j < 8; j++) {
                ivec4 a = ivec4(code[g * 8 + j]);
                ivec2 q = group_codes(c, j, BITS);
                high += dot4(q.x, a.x) + dot4(q.y, a.y);
                lows += dot4(q.x, a.z) + dot4(q.y, a.w);
            }
            acc = group_add(acc, c, high, lows, low_scale[g], low_sum[g], BITS);
        }
    }
    return acc;
}

void main()
{
    uint from = gl_WorkGroupID.x * 64, r = gl_WorkGroupID.y;
    Weights m = Weights(p.w, p.scales, p.biases);
    Item item = item_load(m, LANE, from);
    low_make(r);
    if (LANE < ITEMS)
        part[LANE] = item_product(m, item);
    for (uint i = 512 + LANE; i < ITEMS; i += 512)
        part[i] = item_product(m, item_load(m, i, from));
    barrier();
    for (uint i = LANE; i < OUTS; i += 512) {
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
