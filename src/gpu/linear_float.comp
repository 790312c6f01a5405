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
layout(constant_id = 3) const uint OUTS = 1;

const uint TEAM = 32, BLOCK = LINEAR_SIZE / TEAM * OUTS;
const uint EIGHTS = (COLS + 7) / 8;

shared float part[OUTS * LINEAR_SIZE / 8];

void weights_get(uint64_t row, uint i, out float w[8])
{
    if (COLS % 8 != 0) {
        [[unroll]] for (uint k = 0; k < 8; k++) {
            uint at = min(8 * i + k, COLS - 1);
            w[k] = BITS == 16 ? num_bf16(uint(Halves(row).v[at])) : Floats(row).v[at];
        }
    } else if (BITS == 16) {
        uvec4 u = Fours(row).v[i];
        [[unroll]] for (uint k = 0; k < 4; k++) {
            w[2 * k] = num_bf16(u[k] & 0xFFFFu);
            w[2 * k + 1] = num_bf16(u[k] >> 16);
        }
    } else {
        floats_get(row + 32 * i, w);
    }
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
    uint first = (block * (LINEAR_SIZE / TEAM) + LANE / TEAM) * OUTS;
    uint64_t from = p.base + uint64_t(p.m[im].w) * 16, bytes = COLS * (BITS / 8);
    uint64_t row = p.x + uint64_t(r) * (COLS * 4);
    precise float acc[OUTS];
    [[unroll]] for (uint o = 0; o < OUTS; o++)
        acc[o] = 0;
    for (uint i = t; i < EIGHTS; i += TEAM) {
        float x[8];
        values_get(row, i, x);
        [[unroll]] for (uint o = 0; o < OUTS; o++) {
            float w[8];
            weights_get(from + min(first + o, rows - 1) * bytes, i, w);
            [[unroll]] for (uint k = 0; k < 8; k++)
                if (COLS % 8 == 0 || 8 * i + k < COLS)
                    acc[o] = acc[o] + w[k] * x[k];
        }
    }
    [[unroll]] for (uint o = 0; o < OUTS; o++) {
        float sum = eight_sum(acc[o]);
        if (t % 8 == 0)
            part[o * (LINEAR_SIZE / 8) + LANE / 8] = sum;
    }
    barrier();
    for (uint i = LANE; i < BLOCK; i += LINEAR_SIZE) {
        uint at = i % OUTS * (LINEAR_SIZE / 8) + i / OUTS * 4;
        precise float low = part[at] + part[at + 1], high = part[at + 2] + part[at + 3];
        precise float sum = low + high;
        uint o = block * BLOCK + i;
        if (o < rows)
            FloatsOut(p.to).v[p.m[im].to + r * p.m[im].stride + o] = sum;
    }
}
