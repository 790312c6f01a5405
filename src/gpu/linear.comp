// Products of up to four matrices of quantised weights with the same rows of activations.
//
// A team of GPU_LANES(COLS) invocations has OUTS outputs of ROWS rows: an activation is loaded once
// for OUTS weights, a weight once for ROWS activations, and the weights of DEPTH groups are under
// way while one is multiplied. Bits depend on none of these.
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
layout(constant_id = 5) const uint DEPTH = 1;

const uint GROUPS = COLS / 64;
const uint TEAM = GPU_LANES(COLS), PER = (GROUPS + TEAM - 1) / TEAM;
const uint BLOCK = LINEAR_SIZE / TEAM * OUTS;

shared float part[OUTS * ROWS * LINEAR_SIZE];

float acc[OUTS * ROWS];
uint64_t x[ROWS];

void group_products(Packed c[OUTS], uint g)
{
    int high[OUTS * ROWS], low[OUTS * ROWS];
    Group w[OUTS];
    [[unroll]] for (uint o = 0; o < OUTS; o++)
        w[o] = group_of(c[o], BITS);
    [[unroll]] for (uint i = 0; i < OUTS * ROWS; i++)
        high[i] = low[i] = 0;
    [[unroll]] for (uint j = 0; j < 8; j++) {
        ivec2 q[OUTS];
        [[unroll]] for (uint o = 0; o < OUTS; o++)
            q[o] = group_codes(w[o], j, BITS);
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            ivec4 a = ivec4(Fours(x[r] + g * 16).v[GPU_ACTS_UNIT(COLS, 0, j)]);
            [[unroll]] for (uint o = 0; o < OUTS; o++) {
                high[o * ROWS + r] += dot4(q[o].x, a.x) + dot4(q[o].y, a.y);
                low[o * ROWS + r] += dot4(q[o].x, a.z) + dot4(q[o].y, a.w);
            }
        }
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        Floats groups = Floats(x[r] + 2 * COLS + g * 4);
        float scale = groups.v[0], sum = groups.v[GROUPS];
        [[unroll]] for (uint o = 0; o < OUTS; o++)
            acc[o * ROWS + r] = group_add(acc[o * ROWS + r], w[o], high[o * ROWS + r],
                                          low[o * ROWS + r], scale, sum, BITS);
    }
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
    Weights m = Weights(p.base + uint64_t(p.m[im].w) * 16, p.base + uint64_t(p.m[im].scales) * 16,
                        p.base + uint64_t(p.m[im].biases) * 16);

    Packed c[DEPTH][OUTS];
    [[unroll]] for (uint d = 0; d < DEPTH; d++)
        [[unroll]] for (uint o = 0; o < OUTS; o++)
            c[d][o] = packed_load(m, min(first + o, rows - 1), GROUPS,
                                  min(t + d * TEAM, GROUPS - 1), BITS);
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        x[r] = p.x + uint64_t(min(r0 + r, p.R - 1)) * GPU_ACTS_BYTES(COLS);
    [[unroll]] for (uint i = 0; i < OUTS * ROWS; i++)
        acc[i] = 0;
    for (uint i = 0; i < PER; i += DEPTH)
        [[unroll]] for (uint d = 0; d < DEPTH; d++) {
            uint g = t + (i + d) * TEAM, then = g + DEPTH * TEAM;
            if (g < GROUPS)
                group_products(c[d], g);
            if (DEPTH < PER && then < GROUPS)
                [[unroll]] for (uint o = 0; o < OUTS; o++)
                    c[d][o] = packed_load(m, min(first + o, rows - 1), GROUPS, then, BITS);
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
