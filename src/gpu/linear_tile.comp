// linear.comp for many rows: a workgroup has 64 outputs of TILE rows, goes through their groups
// together, and keeps those of weights and activations that are its turn in shared memory.
//
// An invocation has 4 outputs of TILE / 16 rows. It walks the lanes of linear.comp one after
// another, so that every bit is the same.
// Grid: x = all matrices' blocks of 64 outputs, y = ceil(R / TILE).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/product.glsl"

layout(local_size_x = 256) in;
layout(push_constant, std430) uniform Params { linear_params p; };
layout(constant_id = 1) const uint BITS = 4;
layout(constant_id = 2) const uint COLS = 2560;
layout(constant_id = 3) const uint TILE = 32; // a multiple of 16, at most 32

const uint GROUPS = COLS / 64, LANES = GPU_LANES(COLS);
const uint BLOCK = 64, OUTS = 4, ROWS = TILE / 16;

shared ivec2 codes[8][BLOCK]; // even and odd ones of eight elements
shared float w_scale[BLOCK], w_bias[BLOCK];
shared ivec4 acts[TILE][8];
shared float x_scale[TILE], x_sum[TILE];

// What this invocation brings of a group: a row of weights, an eighth of a row of activations.
struct Load {
    Group c;
    uvec4 x;
    float scale, sum;
};

Load load(Weights m, uint row, uint64_t x, uint g)
{
    Load l;
    if (LANE < BLOCK)
        l.c = group_load(m, row, GROUPS, g, BITS);
    if (LANE < 8 * TILE)
        l.x = Fours(x).v[GPU_ACTS_UNIT(COLS, g, LANE % 8)];
    if (LANE < 8 * TILE && LANE % 8 == 0) {
        l.scale = Floats(x + 2 * COLS).v[g];
        l.sum = Floats(x + 2 * COLS).v[GROUPS + g];
    }
    return l;
}

void store(Load l)
{
    if (LANE < BLOCK) {
        [[unroll]] for (uint j = 0; j < 8; j++)
            codes[j][LANE] = group_codes(l.c, j, BITS);
        w_scale[LANE] = l.c.scale;
        w_bias[LANE] = l.c.bias;
    }
    if (LANE < 8 * TILE)
        acts[LANE / 8][LANE % 8] = ivec4(l.x);
    if (LANE < 8 * TILE && LANE % 8 == 0) {
        x_scale[LANE / 8] = l.scale;
        x_sum[LANE / 8] = l.sum;
    }
}

float total[OUTS * ROWS], acc[OUTS * ROWS];

void group_products()
{
    uint o0 = LANE % 16, r0 = LANE / 16;
    int high[OUTS * ROWS], low[OUTS * ROWS];
    [[unroll]] for (uint i = 0; i < OUTS * ROWS; i++)
        high[i] = low[i] = 0;
    [[unroll]] for (uint j = 0; j < 8; j++)
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            ivec4 a = acts[r0 + 16 * r][j];
            [[unroll]] for (uint o = 0; o < OUTS; o++) {
                ivec2 q = codes[j][o0 + 16 * o];
                high[o * ROWS + r] += dot4(q.x, a.x) + dot4(q.y, a.y);
                low[o * ROWS + r] += dot4(q.x, a.z) + dot4(q.y, a.w);
            }
        }
    [[unroll]] for (uint o = 0; o < OUTS; o++) {
        Group c;
        c.scale = w_scale[o0 + 16 * o];
        c.bias = w_bias[o0 + 16 * o];
        [[unroll]] for (uint r = 0; r < ROWS; r++)
            acc[o * ROWS + r] =
                group_add(acc[o * ROWS + r], c, high[o * ROWS + r], low[o * ROWS + r],
                          x_scale[r0 + 16 * r], x_sum[r0 + 16 * r], BITS);
    }
}

void main()
{
    uint block = gl_WorkGroupID.x, im = 0;
    while (block >= (p.m[im].rows + BLOCK - 1) / BLOCK) {
        block -= (p.m[im].rows + BLOCK - 1) / BLOCK;
        im++;
    }
    uint rows = p.m[im].rows, first = gl_WorkGroupID.y * TILE;
    Weights m = Weights(p.base + uint64_t(p.m[im].w) * 16, p.base + uint64_t(p.m[im].scales) * 16,
                        p.base + uint64_t(p.m[im].biases) * 16);
    uint row = min(block * BLOCK + LANE, rows - 1);
    uint64_t x = p.x + uint64_t(min(first + LANE / 8, p.R - 1)) * GPU_ACTS_BYTES(COLS);

    Load next = load(m, row, x, 0);
    for (uint t = 0; t < LANES; t++) {
        [[unroll]] for (uint i = 0; i < OUTS * ROWS; i++)
            acc[i] = 0.0;
        for (uint g = t; g < GROUPS; g += LANES) {
            store(next);
            barrier();
            uint then = g + LANES < GROUPS ? g + LANES : min(t + 1, GROUPS - 1);
            next = load(m, row, x, then);
            group_products();
            barrier();
        }
        [[unroll]] for (uint i = 0; i < OUTS * ROWS; i++) {
            precise float sum = total[i] + acc[i];
            total[i] = t == 0 ? acc[i] : sum;
        }
    }
    [[unroll]] for (uint o = 0; o < OUTS; o++)
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            uint at = block * BLOCK + LANE % 16 + 16 * o, ir = first + LANE / 16 + 16 * r;
            if (at < rows && ir < p.R)
                FloatsOut(p.to).v[p.m[im].to + ir * p.m[im].stride + at] = total[o * ROWS + r];
        }
}
