// silu(gate x) * up x of the K experts of each row and of the shared one, as activations: 64
// columns in a workgroup. Which experts those are is there, or, where there are logits, found by every
// workgroup for itself, which costs less than a dispatch of its own.
// Grid: x = max(INTER, SHARED) / 64, y = R * K pairs of a row and an expert, then R rows of the
// shared expert.
#version 460
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 512) in;
layout(constant_id = 1) const uint H = 2560;
layout(constant_id = 2) const uint INTER = 640;
layout(constant_id = 3) const uint SHARED = 640;
layout(constant_id = 4) const uint K = 10;
layout(constant_id = 5) const uint DEPTH = 2; // groups of weights under way, of each output
layout(constant_id = 6) const uint E = 512; // of p.logits
layout(constant_id = 7) const bool CHOOSE = false; // weights are over the sum of the K
layout(constant_id = 8) const bool HOST = false; // the host may have computed some experts
#include "gpu/choose.glsl"
#include "gpu/product.glsl"
layout(push_constant, std430) uniform Params { moe_up_params p; };

// Outputs are 64 of gate, then 64 of up; a team has OUTS of them.
const uint GROUPS = H / 64, TEAM = GPU_LANES(H), PER = (GROUPS + TEAM - 1) / TEAM;
const uint TEAMS = TEAM < 4 ? 128 : 512 / TEAM, OUTS = 128 / TEAMS;

shared float part[128 * TEAM], sums[128], act[64];

Packed c[DEPTH][OUTS];

void outputs_load(uint d, Weights gate, Weights up, uint from, uint g, uint bits)
{
    [[unroll]] for (uint o = 0; o < OUTS; o++) {
        uint at = o * TEAMS + LANE / TEAM % TEAMS;
        Weights m = at < 64 ? gate : up;
        c[d][o] = packed_load(m, from + at % 64, GROUPS, g, bits);
    }
}

void products(Weights gate, Weights up, uint64_t x, uint from, uint bits)
{
    float acc[OUTS];
    uint t = LANE % TEAM;
    [[unroll]] for (uint d = 0; d < DEPTH; d++)
        outputs_load(d, gate, up, from, min(t + d * TEAM, GROUPS - 1), bits);
    [[unroll]] for (uint o = 0; o < OUTS; o++)
        acc[o] = 0.0;
    for (uint i = 0; i < PER; i += DEPTH)
        [[unroll]] for (uint d = 0; d < DEPTH; d++) {
            uint g = t + (i + d) * TEAM, then = g + DEPTH * TEAM;
            if (g < GROUPS) {
                float scale = Floats(x + 2 * H).v[g], sum = Floats(x + 2 * H).v[GROUPS + g];
                int high[OUTS], low[OUTS];
                Group w[OUTS];
                [[unroll]] for (uint o = 0; o < OUTS; o++) {
                    w[o] = group_of(c[d][o], bits);
                    high[o] = low[o] = 0;
                }
                [[unroll]] for (uint j = 0; j < 8; j++) {
                    ivec4 a = ivec4(Fours(x + g * 16).v[GPU_ACTS_UNIT(H, 0, j)]);
                    [[unroll]] for (uint o = 0; o < OUTS; o++) {
                        ivec2 q = group_codes(w[o], j, bits);
                        high[o] += dot4(q.x, a.x) + dot4(q.y, a.y);
                        low[o] += dot4(q.x, a.z) + dot4(q.y, a.w);
                    }
                }
                [[unroll]] for (uint o = 0; o < OUTS; o++)
                    acc[o] = group_add(acc[o], w[o], high[o], low[o], scale, sum, bits);
            }
            if (DEPTH < PER && then < GROUPS)
                outputs_load(d, gate, up, from, then, bits);
        }
    if (LANE < TEAMS * TEAM)
        [[unroll]] for (uint o = 0; o < OUTS; o++)
            part[o * TEAMS * TEAM + LANE] = acc[o];
}

// The expert of a pair. One workgroup of a row leaves what it chose to those that come later.
uint expert_of(uint pair)
{
    if (!CHOOSE)
        return Words(p.route).v[pair];
    choose(p.logits + uint64_t(pair / K) * E * 4);
    uint ie = chosen[pair % K];
    if (pair % K == 0 && gl_WorkGroupID.x == 0) {
        choose_exp();
        if (LANE < K) {
            WordsOut(p.route).v[pair + LANE] = chosen[LANE];
            FloatsOut(p.weight).v[pair + LANE] = choose_weight(0.0, true);
        }
    }
    return ie;
}

void main()
{
    uint from = gl_WorkGroupID.x * 64, pair = gl_WorkGroupID.y, r = pair / K, bits = 4;
    uint inter = INTER;
    uint64_t to = p.act + uint64_t(pair) * GPU_ACTS_BYTES(INTER);
    Weights gate, up;
    if (pair < p.R * K) {
        uint64_t entry = Addresses(p.table).v[expert_of(pair)];
        if (entry == 0 || from >= INTER || (HOST && (entry & GPU_RECORD_HOST) != 0))
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
