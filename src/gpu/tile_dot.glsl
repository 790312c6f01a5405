// tile.glsl with dot products of four bytes: an invocation has OUTS outputs of ROWS rows.
#include "gpu/dot.glsl"

const uint OUTS = BLOCK / 16, ROWS = TILE / 16; // 256 invocations

float total[OUTS * ROWS], acc[OUTS * ROWS];

void tile_begin()
{
}

void tile_clear()
{
    [[unroll]] for (uint i = 0; i < OUTS * ROWS; i++)
        acc[i] = 0.0;
}

void tile_group()
{
    uint o0 = LANE % 16, r0 = LANE / 16;
    int highs[OUTS * ROWS], lows[OUTS * ROWS];
    [[unroll]] for (uint i = 0; i < OUTS * ROWS; i++)
        highs[i] = lows[i] = 0;
    [[unroll]] for (uint u = 0; u < 4; u++)
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            ivec4 h = ivec4(high[(r0 + 16 * r) * UNITS + u]);
            ivec4 l = ivec4(low[(r0 + 16 * r) * UNITS + u]);
            [[unroll]] for (uint o = 0; o < OUTS; o++) {
                ivec4 q = ivec4(codes[(o0 + 16 * o) * UNITS + u]);
                [[unroll]] for (uint i = 0; i < 4; i++) {
                    highs[o * ROWS + r] += dot4(q[i], h[i]);
                    lows[o * ROWS + r] += dot4(q[i], l[i]);
                }
            }
        }
    [[unroll]] for (uint o = 0; o < OUTS; o++)
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            uint i = o * ROWS + r;
            uint at = o0 + 16 * o, row = r0 + 16 * r;
            acc[i] = tile_add(acc[i], 256 * highs[i] + lows[i], ivec2(w_scale[at], w_bias[at]),
                              ivec2(x_scale[row], x_sum[row]));
        }
}

void tile_lane(uint t)
{
    [[unroll]] for (uint i = 0; i < OUTS * ROWS; i++) {
        precise float sum = total[i] + acc[i];
        total[i] = t == 0 ? acc[i] : sum;
    }
}

// What this invocation has: n outputs, the ith of row tile_row(i) and column tile_col(i).
const uint TILE_OUTPUTS = OUTS * ROWS;

uint tile_row(uint i)
{
    return LANE / 16 + 16 * (i % ROWS);
}

uint tile_col(uint i)
{
    return LANE % 16 + 16 * (i / ROWS);
}

float tile_value(uint i)
{
    return total[i];
}
