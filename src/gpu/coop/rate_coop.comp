// For measuring: what a tile of coop/tile_coop.glsl could reach if nothing had to be brought into
// shared memory; params_rate.h says what is repeated.
// Grid: x = workgroups.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/tile.glsl"
layout(constant_id = 10) const uint WHAT = 1;
#include "gpu/coop/tile_coop.glsl"
#include "gpu/params_rate.h"

layout(push_constant, std430) uniform Params { rate_params p; };

SUMS_OF sums[MT * NT];
ROWS_OF rows[MT * STEPS * 2]; // high bytes, low bytes
OUTS_OF outs[NT * STEPS];

void operands_load()
{
    [[unroll]] for (uint s = 0; s < STEPS; s++) {
        [[unroll]] for (uint m = 0; m < MT; m++) {
            uint at = (first_row + m * MM) * UNITS + s * MK / UNIT_BYTES, i = 2 * (m * STEPS + s);
            coopMatLoad(rows[i], high, at, UNITS, gl_CooperativeMatrixLayoutRowMajor);
            coopMatLoad(rows[i + 1], low, at, UNITS, gl_CooperativeMatrixLayoutRowMajor);
        }
        [[unroll]] for (uint n = 0; n < NT; n++)
            coopMatLoad(outs[n * STEPS + s], codes,
                        (first_col + n * MN) * UNITS + s * MK / UNIT_BYTES, UNITS,
                        gl_CooperativeMatrixLayoutColumnMajor);
    }
}

void group_multiply()
{
    [[unroll]] for (uint n = 0; n < NT; n++)
        [[unroll]] for (uint m = 0; m < MT; m++)
            [[unroll]] for (uint i = 0; i < 2 * STEPS; i++)
                sums[n * MT + m] = coopMatMulAdd(rows[2 * m * STEPS + i], outs[n * STEPS + i / 2],
                                                 sums[n * MT + m]);
}

// Bytes of no pattern: a device may draw less power for zeros, and have higher clocks.
void room_fill()
{
    for (uint i = LANE; i < BLOCK * UNITS; i += THREADS)
        codes[i] = UNIT((i + p.seed) * 0x9E3779B1u) & 0x0F0F0F0Fu;
    for (uint i = LANE; i < TILE * UNITS; i += THREADS) {
        high[i] = UNIT((i + p.seed) * 0x85EBCA6Bu);
        low[i] = UNIT((i + p.seed) * 0xC2B2AE35u);
    }
    for (uint i = LANE; i < BLOCK; i += THREADS)
        w_scale[i] = w_bias[i] = floatBitsToInt(1.0 / float(i + p.seed));
    for (uint i = LANE; i < TILE; i += THREADS)
        x_scale[i] = x_sum[i] = floatBitsToInt(1.0 / float(i + p.seed));
}

void main()
{
    room_fill();
    tile_begin();
    tile_clear();
    [[unroll]] for (uint i = 0; i < MT * NT; i++)
        sums[i] = SUMS_OF(0);
    barrier();
    operands_load();
    for (uint g = 0; g < p.groups; g++) {
        if (WHAT == RATE_SUMS)
            tile_group();
        else {
            if (WHAT == RATE_SHARED)
                operands_load();
            group_multiply();
        }
        if (WHAT != RATE_MATRICES)
            barrier(); // loads stay where they are
    }
    uint all = 0;
    [[unroll]] for (uint i = 0; i < MT * NT; i++)
        [[unroll]] for (uint k = 0; k < ELEMENTS; k++)
            all ^= uint(sums[i][k]) ^ floatBitsToUint(acc[i * ELEMENTS + k]);
    WordsOut(p.to).v[gl_WorkGroupID.x * THREADS + LANE] = all;
}
