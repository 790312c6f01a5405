// The outputs of a row's K experts and of the shared one, combined: COLUMNS columns of all of them
// in a workgroup, added in routing order, the shared expert last.
// Grid: x = H / COLUMNS, y = R.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/product.glsl"

layout(local_size_x = 384) in;
layout(push_constant, std430) uniform Params { moe_down_params p; };
layout(constant_id = 1) const uint H = 2560;
layout(constant_id = 2) const uint INTER = 640;
layout(constant_id = 3) const uint SHARED = 640;
layout(constant_id = 4) const uint K = 10;
layout(constant_id = 5) const uint COLUMNS = 16;
layout(constant_id = 6) const uint DEPTH = 5; // groups of weights under way in a lane
layout(constant_id = 7) const bool HOST = false; // the host may have computed some experts

const uint LANES_INTER = GPU_LANES(INTER), LANES_SHARED = GPU_LANES(SHARED);
const uint TEAM = LANES_INTER > LANES_SHARED ? LANES_INTER : LANES_SHARED;
const uint ITEMS = (K + 1) * COLUMNS * TEAM, LINE = (K + 1) * COLUMNS;

shared float part[TEAM * LINE]; // [lane][expert][column]
shared float weight[K + 1];
shared bool there[K + 1];

Packed c[DEPTH];

void groups_load(Weights m, uint row, uint groups, uint first, uint lanes, uint bits)
{
    [[unroll]] for (uint d = 0; d < DEPTH; d++)
        c[d] = packed_load(m, row, groups, min(first + d * lanes, groups - 1), bits);
}

float products(Weights m, uint row, uint64_t x, uint n, uint t, uint lanes, uint bits)
{
    uint groups = n / 64, per = (groups + lanes - 1) / lanes;
    float acc = 0.0;
    for (uint i = 0; i < per; i += DEPTH) {
        groups_load(m, row, groups, t + i * lanes, lanes, bits);
        [[unroll]] for (uint d = 0; d < DEPTH; d++) {
            uint g = t + (i + d) * lanes;
            if (g < groups) {
                Group w = group_of(c[d], bits);
                int high = 0, low = 0;
                [[unroll]] for (uint j = 0; j < 8; j++) {
                    ivec4 a = ivec4(Fours(x + g * 16).v[GPU_ACTS_UNIT(n, 0, j)]);
                    ivec2 q = group_codes(w, j, bits);
                    high += dot4(q.x, a.x) + dot4(q.y, a.y);
                    low += dot4(q.x, a.z) + dot4(q.y, a.w);
                }
                float scale = Floats(x + 2 * n).v[g], sum = Floats(x + 2 * n).v[groups + g];
                acc = group_add(acc, w, high, low, scale, sum, bits);
            }
        }
    }
    return acc;
}

float item_product(uint r, uint k, uint row, uint t)
{
    if (k == K) {
        Weights m = Weights(p.down.w, p.down.scales, p.down.biases);
        uint64_t x = p.shared_act + uint64_t(r) * GPU_ACTS_BYTES(SHARED);
        return t < LANES_SHARED ? products(m, row, x, SHARED, t, LANES_SHARED, 4) : 0.0;
    }
    uint64_t entry = Addresses(p.table).v[Words(p.route).v[r * K + k]];
    if (entry == 0 || t >= LANES_INTER)
        return 0.0;
    if (HOST && (entry & GPU_RECORD_HOST) != 0) {
        uint64_t y = (entry & ~GPU_RECORD_HOST) + uint64_t(r * K + k) * (4 * H);
        return t == 0 ? Floats(y).v[row] : 0.0;
    }
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
    if (LANE < K) {
        weight[LANE] = Floats(p.weight).v[r * K + LANE];
        there[LANE] = Addresses(p.table).v[Words(p.route).v[r * K + LANE]] != 0;
    } else if (LANE == K) {
        weight[K] = num_sigmoid(Floats(p.open).v[r]);
        there[K] = true;
    }
    for (uint i = LANE; i < ITEMS; i += 384) {
        uint t = i % TEAM, c = i / TEAM % COLUMNS, k = i / (TEAM * COLUMNS);
        part[t * LINE + k * COLUMNS + c] = item_product(r, k, from + c, t);
    }
    barrier();
    if (LANE >= COLUMNS)
        return;
    precise float sum = 0.0;
    [[unroll]] for (uint k = 0; k <= K; k++) {
        float y = output_of(k, LANE, k < K ? LANES_INTER : LANES_SHARED);
        if (there[k])
            sum = sum + weight[k] * y;
    }
    FloatsOut(p.to).v[r * H + from + LANE] = sum;
}
