// silu(gate x) * up x of the K experts of each row and of the shared one, as activations: 64
// columns in a workgroup.
// Grid: x = max(INTER, SHARED) / 64, y = R * K pairs of a row and an expert, then R rows of the
// shared expert.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/moe.glsl"

layout(local_size_x = 256) in;
layout(push_constant, std430) uniform Params { moe_up_params p; };
layout(constant_id = 1) const uint H = 2560;
layout(constant_id = 2) const uint INTER = 640;
layout(constant_id = 3) const uint SHARED = 640;
layout(constant_id = 4) const uint K = 10;

// Outputs are 64 of gate, then 64 of up; a team has OUTS of them.
const uint GROUPS = H / 64, TEAM = GPU_LANES(H), TEAMS = 256 / TEAM, OUTS = 128 / TEAMS;

shared float part[128 * TEAM], sums[128], act[64];

void products(Weights gate, Weights up, uint64_t x, uint from, uint bits)
{
    float acc[OUTS];
    [[unroll]] for (uint o = 0; o < OUTS; o++)
        acc[o] = 0.0;
    for (uint g = LANE % TEAM; g < GROUPS; g += TEAM) {
        Group c[OUTS];
        int high[OUTS], low[OUTS];
        [[unroll]] for (uint o = 0; o < OUTS; o++) {
            uint at = o * TEAMS + LANE / TEAM;
            Weights m = at < 64 ? gate : up;
            c[o] = group_load(m, from + at % 64, GROUPS, g, bits);
            high[o] = low[o] = 0;
        }
        [[unroll]] for (uint j = 0; j < 8; j++) {
            ivec4 a = ivec4(Fours(x).v[g * 8 + j]);
            [[unroll]] for (uint o = 0; o < OUTS; o++) {
                ivec2 q = group_codes(c[o], j, bits);
                high[o] += dot4(q.x, a.x) + dot4(q.y, a.y);
                low[o] += dot4(q.x, a.z) + dot4(q.y, a.w);
            }
        }
        float scale = Floats(x + 2 * H).v[g], sum = Floats(x + 2 * H).v[GROUPS + g];
        [[unroll]] for (uint o = 0; o < OUTS; o++)
            acc[o] = group_add(acc[o], c[o], high[o], low[o], scale, sum, bits);
    }
    [[unroll]] for (uint o = 0; o < OUTS; o++)
        part[o * 256 + LANE] = acc[o];
}

void main()
{
    uint from = gl_WorkGroupID.x * 64, pair = gl_WorkGroupID.y, r = pair / K, bits = 4;
    uint inter = INTER;
    uint64_t to = p.act + uint64_t(pair) * GPU_ACTS_BYTES(INTER);
    Weights gate, up;
    if (pair < p.R * K) {
        uint64_t entry = Addresses(p.table).v[Words(p.route).v[pair]];
        if (entry == 0 || from >= INTER)
            return;
        gate = record_weights(entry, 0, INTER * H);
        up = record_weights(entry, 1, INTER * H);
        bits = record_bits(entry);
    } else {
        r = pair - p.R * K;
        inter = SHARED;
        to = p.shared_act + uint64_t(r) * GPU_ACTS_BYTES(SHARED);
        if (from >= SHARED)
            return;
        gate = Weights(p.gate.w, p.gate.scales, p.gate.biases);
        up = Weights(p.up.w, p.up.scales, p.up.biases);
    }
    uint64_t x = p.x + uint64_t(r) * GPU_ACTS_BYTES(H);
    if (bits == 4)
        products(gate, up, x, from, 4);
    else if (bits == 3)
        products(gate, up, x, from, 3);
    else
        products(gate, up, x, from, 2);
    barrier();
    if (LANE < 128) {
        precise float sum = part[LANE * TEAM];
        [[unroll]] for (uint t = 1; t < TEAM; t++)
            sum = sum + part[LANE * TEAM + t];
        sums[LANE] = LANE < 64 ? num_silu(sum) : sum;
    }
    barrier();
    if (LANE < 64) {
        precise float y = sums[LANE] * sums[64 + LANE];
        act[LANE] = y;
    }
    barrier();
    if (LANE < 8) {
        float v[8];
        [[unroll]] for (uint i = 0; i < 8; i++)
            v[i] = act[LANE * 8 + i];
        acts_put(v, to, inter, from / 8 + LANE);
    }
}
