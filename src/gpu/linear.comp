// Products of up to four matrices of quantised weights with the same rows of activations.
//
// A team of GPU_LANES(COLS) invocations has OUTS outputs of ROWS rows: an activation is loaded once
// for OUTS weights, a weight once for ROWS activations. Bits do not depend on either.
// Grid: x = all matrices' blocks of outputs, y = ceil(R / ROWS).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/product.glsl"

layout(local_size_x = LINEAR_SIZE) in;
layout(push_constant, std430) uniform Params { linear_params p; };
layout(constant_id = 1) const uint BITS = 4;
layout(constant_id = 2) const uint COLS = 2560;
layout(constant_id = 3) const uint OUTS = 4;
layout(constant_id = 4) const uint ROWS = 1;

const uint GROUPS = COLS / 64;
const uint TEAM = GPU_LANES(COLS);
const uint BLOCK = LINEAR_SIZE / TEAM * OUTS;

shared float part[OUTS * ROWS * LINEAR_SIZE];

void main()
{
    uint block = gl_WorkGroupID.x, im = 0;
    while (block >= (p.m[im].rows + BLOCK - 1) / BLOCK) {
        block -= (p.m[im].rows + BLOCK - 1) / BLOCK;
        im++;
    }
    uint rows = p.m[im].rows, r0 = gl_WorkGroupID.y * ROWS;
    uint first = (block * (LINEAR_SIZE / TEAM) + LANE / TEAM) * OUTS;
    Weights m = Weights(p.base + uint64_t(p.m[im].w) * 16, p.base + uint64_t(p.m[im].scales) * 16,
                        p.base + uint64_t(p.m[im].biases) * 16);

    uint64_t x[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        x[r] = p.x + uint64_t(min(r0 + r, p.R - 1)) * GPU_ACTS_BYTES(COLS);
    float acc[OUTS * ROWS];
    [[unroll]] for (uint i = 0; i < OUTS * ROWS; i++)
        acc[i] = 0;
    for (uint g = LANE % TEAM; g < GROUPS; g += TEAM) {
        Group c[OUTS];
        [[unroll]] for (uint o = 0; o < OUTS; o++)
            c[o] = group_load(m, min(first + o, rows - 1), GROUPS, g, BITS);
        int high[OUTS * ROWS], low[OUTS * ROWS];
        [[unroll]] for (uint i = 0; i < OUTS * ROWS; i++)
            high[i] = low[i] = 0;
        [[unroll]] for (uint j = 0; j < 8; j++) {
            ivec4 a[ROWS];
            [[unroll]] for (uint r = 0; r < ROWS; r++)
                a[r] = ivec4(Fours(x[r]).v[g * 8 + j]);
            [[unroll]] for (uint o = 0; o < OUTS; o++) {
                ivec2 q = group_codes(c[o], j, BITS);
                [[unroll]] for (uint r = 0; r < ROWS; r++) {
                    high[o * ROWS + r] += dot4(q.x, a[r].x) + dot4(q.y, a[r].y);
                    low[o * ROWS + r] += dot4(q.x, a[r].z) + dot4(q.y, a[r].w);
                }
            }
        }
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            float scale = Floats(x[r] + 2 * COLS).v[g], sum = Floats(x[r] + 2 * COLS).v[GROUPS + g];
            [[unroll]] for (uint o = 0; o < OUTS; o++)
                acc[o * ROWS + r] = group_add(acc[o * ROWS + r], c[o], high[o * ROWS + r],
                                              low[o * ROWS + r], scale, sum, BITS);
        }
    }

    [[unroll]] for (uint i = 0; i < OUTS * ROWS; i++)
        part[i * LINEAR_SIZE + LANE] = acc[i];
    barrier();
    // One invocation for each output: those of a row lie side by side.
    for (uint i = LANE; i < BLOCK * ROWS; i += LINEAR_SIZE) {
        uint o = i % BLOCK, r = i / BLOCK;
        uint at = (o % OUTS * ROWS + r) * LINEAR_SIZE + o / OUTS * TEAM;
        precise float sum = part[at];
        [[unroll]] for (uint t = 1; t < TEAM; t++)
            sum = sum + part[at + t];
        o += block * BLOCK;
        if (o < rows && r0 + r < p.R)
            FloatsOut(p.to).v[p.m[im].to + (r0 + r) * p.m[im].stride + o] = sum;
    }
}
