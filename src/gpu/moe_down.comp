// The outputs of a row's K experts and of the shared one, combined: COLUMNS columns of all of them
// in a workgroup, added in routing order, the shared expert last.
// Grid: x = H / COLUMNS, y = R.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/moe.glsl"

layout(local_size_x = 256) in;
layout(push_constant, std430) uniform Params { moe_down_params p; };
layout(constant_id = 1) const uint H = 2560;
layout(constant_id = 2) const uint INTER = 640;
layout(constant_id = 3) const uint SHARED = 640;
layout(constant_id = 4) const uint K = 10;
layout(constant_id = 5) const uint COLUMNS = 16; // even

const uint LANES_INTER = GPU_LANES(INTER), LANES_SHARED = GPU_LANES(SHARED);
const uint TEAM = LANES_INTER > LANES_SHARED ? LANES_INTER : LANES_SHARED;
const uint HALF = COLUMNS / 2, ITEMS = (K + 1) * HALF * TEAM, LINE = (K + 1) * COLUMNS;

shared float part[TEAM * LINE]; // [lane][expert][column]

// Two columns share the activations that one lane loads.
vec2 products(Weights m, uvec2 row, uint64_t x, uint n, uint t, uint lanes, uint bits)
{
    uint groups = n / 64;
    vec2 acc = vec2(0);
    for (uint g = t; g < groups; g += lanes) {
        Group c = group_load(m, row.x, groups, g, bits), d = group_load(m, row.y, groups, g, bits);
        ivec2 high = ivec2(0), low = ivec2(0);
        [[unroll]] for (uint j = 0; j < 8; j++) {
            ivec4 a = ivec4(Fours(x).v[g * 8 + j]);
            ivec2 q = group_codes(c, j, bits), s = group_codes(d, j, bits);
            high += ivec2(dot4(q.x, a.x) + dot4(q.y, a.y), dot4(s.x, a.x) + dot4(s.y, a.y));
            low += ivec2(dot4(q.x, a.z) + dot4(q.y, a.w), dot4(s.x, a.z) + dot4(s.y, a.w));
        }
        float scale = Floats(x + 2 * n).v[g], sum = Floats(x + 2 * n).v[groups + g];
        acc.x = group_add(acc.x, c, high.x, low.x, scale, sum, bits);
        acc.y = group_add(acc.y, d, high.y, low.y, scale, sum, bits);
    }
    return acc;
}

vec2 item_product(uint r, uint k, uvec2 row, uint t)
{
    if (k == K) {
        Weights m = Weights(p.down.w, p.down.scales, p.down.biases);
        uint64_t x = p.shared_act + uint64_t(r) * GPU_ACTS_BYTES(SHARED);
        return t < LANES_SHARED ? products(m, row, x, SHARED, t, LANES_SHARED, 4) : vec2(0);
    }
    uint64_t entry = Addresses(p.table).v[Words(p.route).v[r * K + k]];
    if (entry == 0 || t >= LANES_INTER)
        return vec2(0);
    Weights m = record_weights(entry, 2, INTER * H);
    uint64_t x = p.act + uint64_t(r * K + k) * GPU_ACTS_BYTES(INTER);
    uint bits = record_bits(entry);
    if (bits == 4)
        return products(m, row, x, INTER, t, LANES_INTER, 4);
    if (bits == 3)
        return products(m, row, x, INTER, t, LANES_INTER, 3);
    return products(m, row, x, INTER, t, LANES_INTER, 2);
}

float output_of(uint k, uint c, uint lanes)
{
    precise float y = part[k * COLUMNS + c];
    for (uint t = 1; t < lanes; t++)
        y = y + part[t * LINE + k * COLUMNS + c];
    return y;
}

void main()
{
    uint from = gl_WorkGroupID.x * COLUMNS, r = gl_WorkGroupID.y;
    for (uint i = LANE; i < ITEMS; i += 256) {
        uint t = i % TEAM, c = i / TEAM % HALF, k = i / (TEAM * HALF);
        vec2 y = item_product(r, k, uvec2(from + c, from + c + HALF), t);
        part[t * LINE + k * COLUMNS + c] = y.x;
        part[t * LINE + k * COLUMNS + c + HALF] = y.y;
    }
    barrier();
    if (LANE >= COLUMNS)
        return;
    precise float sum = 0.0;
    for (uint k = 0; k < K; k++) {
        if (Addresses(p.table).v[Words(p.route).v[r * K + k]] != 0)
            sum = sum +
                        Floats(p.weight).v[r * K + k] * output_of(k, LANE, LANES_INTER);
    }
    sum =
        sum + num_sigmoid(Floats(p.open).v[r]) * output_of(K, LANE, LANES_SHARED);
    FloatsOut(p.to).v[r * H + from + LANE] = sum;
}
