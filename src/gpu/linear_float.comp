// The same with weights of bf16 or f32 and f32 rows, any n: element i is added to lane i / 8 % 32,
// ascending; then eight lanes meet in pairs, and four of those in pairs.
// Grid: x = all matrices' blocks of outputs, y = R.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/common.glsl"

layout(local_size_x = LINEAR_SIZE) in;
layout(push_constant, std430) uniform Params { linear_params p; };
layout(constant_id = 1) const uint BITS = 16; // or 32
layout(constant_id = 2) const uint COLS = 2560;

const uint TEAM = 32, BLOCK = LINEAR_SIZE / TEAM;
const uint EIGHTS = (COLS + 7) / 8, PER = (EIGHTS + TEAM - 1) / TEAM;
const uint DEPTH = PER < 10 ? PER : 10; // of a lane's weights under way at once

shared float part[LINEAR_SIZE / 8];

struct Packed {
    uvec4 a, b; // b: of f32 alone
};

Packed packed_load(uint64_t row, uint i)
{
    Packed c;
    if (COLS % 8 != 0) {
        [[unroll]] for (uint k = 0; k < 8; k++) {
            uint at = min(8 * i + k, COLS - 1);
            uint u = BITS == 16 ? uint(Halves(row).v[at]) << 16 : Words(row).v[at];
            if (k < 4)
                c.a[k] = u;
            else
                c.b[k - 4] = u;
        }
    } else if (BITS == 16) {
        c.a = Fours(row).v[i];
    } else {
        c.a = Fours(row).v[2 * i];
        c.b = Fours(row).v[2 * i + 1];
    }
    return c;
}

float weight_of(Packed c, uint k)
{
    if (BITS == 16 && COLS % 8 == 0)
        return num_bf16(k % 2 == 0 ? c.a[k / 2] & 0xFFFFu : c.a[k / 2] >> 16);
    return num_float(k < 4 ? c.a[k] : c.b[k - 4]);
}

void values_get(uint64_t row, uint i, out float x[8])
{
    if (COLS % 8 == 0)
        floats_get(row + 32 * i, x);
    else
        [[unroll]] for (uint k = 0; k < 8; k++)
            x[k] = 8 * i + k < COLS ? Floats(row).v[8 * i + k] : 0;
}

void main()
{
    uint block = gl_WorkGroupID.x, im = 0;
    while (block >= (p.m[im].rows + BLOCK - 1) / BLOCK) {
        block -= (p.m[im].rows + BLOCK - 1) / BLOCK;
        im++;
    }
    uint rows = p.m[im].rows, r = gl_WorkGroupID.y, t = LANE % TEAM;
    uint o = block * BLOCK + LANE / TEAM;
    uint64_t from = p.base + uint64_t(p.m[im].w) * 16 +
                    uint64_t(min(o, rows - 1)) * (COLS * (BITS / 8));
    uint64_t row = p.x + uint64_t(r) * (COLS * 4);
    precise float acc = 0;
    for (uint first = t; first < EIGHTS; first += DEPTH * TEAM) {
        Packed c[DEPTH];
        [[unroll]] for (uint d = 0; d < DEPTH; d++)
            c[d] = packed_load(from, min(first + d * TEAM, EIGHTS - 1));
        [[unroll]] for (uint d = 0; d < DEPTH; d++) {
            uint i = first + d * TEAM;
            float x[8];
            values_get(row, min(i, EIGHTS - 1), x);
            [[unroll]] for (uint k = 0; k < 8; k++)
                if (8 * i + k < COLS)
                    acc = acc + weight_of(c[d], k) * x[k];
        }
    }
    float sum = eight_sum(acc);
    if (t % 8 == 0)
        part[LANE / 8] = sum;
    barrier();
    if (t == 0 && o < rows) {
        uint at = LANE / 8;
        precise float low = part[at] + part[at + 1], high = part[at + 2] + part[at + 3];
        precise float all = low + high;
        FloatsOut(p.to).v[p.m[im].to + r * p.m[im].stride + o] = all;
    }
}
