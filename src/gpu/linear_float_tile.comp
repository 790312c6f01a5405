// linear_float.comp for many rows: a lane has OUTS outputs of ROWS rows, and the same order of sums.
// Grid: x = all matrices' blocks of outputs, y = ceil(R / ROWS).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/common.glsl"

layout(local_size_x = LINEAR_SIZE) in;
layout(push_constant, std430) uniform Params { linear_params p; };
layout(constant_id = 1) const uint BITS = 16; // or 32
layout(constant_id = 2) const uint COLS = 2560;
layout(constant_id = 3) const uint OUTS = 1;
layout(constant_id = 4) const uint ROWS = 1; // that share the weights a lane loads

const uint TEAM = 32, BLOCK = LINEAR_SIZE / TEAM * OUTS;
const uint EIGHTS = (COLS + 7) / 8;

const uint SUMS = OUTS * ROWS;

shared float part[SUMS * LINEAR_SIZE / 8];

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
    uint rows = p.m[im].rows, r0 = gl_WorkGroupID.y * ROWS, t = LANE % TEAM;
    uint first = (block * (LINEAR_SIZE / TEAM) + LANE / TEAM) * OUTS;
    uint64_t from = p.base + uint64_t(p.m[im].w) * 16, bytes = COLS * (BITS / 8);
    precise float acc[SUMS];
    [[unroll]] for (uint i = 0; i < SUMS; i++)
        acc[i] = 0;
    for (uint i = t; i < EIGHTS; i += TEAM) {
        float w[OUTS * 8];
        [[unroll]] for (uint o = 0; o < OUTS; o++) {
            float v[8];
            weights_get(from + min(first + o, rows - 1) * bytes, i, v);
            [[unroll]] for (uint k = 0; k < 8; k++)
                w[o * 8 + k] = v[k];
        }
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            float x[8];
            values_get(p.x + uint64_t(min(r0 + r, p.R - 1)) * (COLS * 4), i, x);
            [[unroll]] for (uint o = 0; o < OUTS; o++)
                [[unroll]] for (uint k = 0; k < 8; k++)
                    if (COLS % 8 == 0 || 8 * i + k < COLS)
                        acc[r * OUTS + o] = acc[r * OUTS + o] + w[o * 8 + k] * x[k];
        }
    }
    [[unroll]] for (uint i = 0; i < SUMS; i++) {
        float sum = eight_sum(acc[i]);
        if (t % 8 == 0)
            part[i * (LINEAR_SIZE / 8) + LANE / 8] = sum;
    }
    barrier();
    for (uint i = LANE; i < BLOCK * ROWS; i += LINEAR_SIZE) {
        uint out_at = i % BLOCK, r = i / BLOCK;
        uint at = (r * OUTS + out_at % OUTS) * (LINEAR_SIZE / 8) + out_at / OUTS * 4;
        precise float low = part[at] + part[at + 1], high = part[at + 2] + part[at + 3];
        precise float sum = low + high;
        uint o = block * BLOCK + out_at;
        if (o < rows && r0 + r < p.R)
            FloatsOut(p.to).v[p.m[im].to + (r0 + r) * p.m[im].stride + o] = sum;
    }
}
