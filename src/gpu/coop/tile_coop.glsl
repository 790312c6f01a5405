// tile.glsl with cooperative matrices: a subgroup has MT by NT matrices of MM rows and MN outputs,
// each the sum of products of signed bytes.
//
// Which row and output an element of a matrix is depends on the device; a matrix of their numbers,
// loaded like any other, says so. So what becomes of an element is computed as in tile_dot.glsl.
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require

layout(constant_id = 0) const uint SUBGROUP = 32;
layout(constant_id = 5) const uint MM = 16;
layout(constant_id = 6) const uint MN = 16;
layout(constant_id = 7) const uint MK = 32;
layout(constant_id = 8) const uint MT = 2;
layout(constant_id = 9) const uint NT = 2;

const uint WIDE = TILE / (MT * MM); // subgroups along rows; the others are along outputs
const uint STEPS = 64 / MK, ELEMENTS = MM * MN / SUBGROUP;

#define ROWS_OF coopmat<int8_t, gl_ScopeSubgroup, MM, MK, gl_MatrixUseA>
#define OUTS_OF coopmat<int8_t, gl_ScopeSubgroup, MK, MN, gl_MatrixUseB>
#define SUMS_OF coopmat<int32_t, gl_ScopeSubgroup, MM, MN, gl_MatrixUseAccumulator>

shared int numbers[MM * MN];

float total[MT * NT * ELEMENTS], acc[MT * NT * ELEMENTS];
uint first_row, first_col;                  // of this subgroup
uint row_of[ELEMENTS], col_of[ELEMENTS];    // in a matrix

void tile_begin()
{
    for (uint i = LANE; i < MM * MN; i += THREADS)
        numbers[i] = int(i);
    barrier();
    SUMS_OF number;
    coopMatLoad(number, numbers, 0, MN, gl_CooperativeMatrixLayoutRowMajor);
    [[unroll]] for (uint i = 0; i < ELEMENTS; i++) {
        row_of[i] = uint(number[i]) / MN;
        col_of[i] = uint(number[i]) % MN;
    }
    first_row = gl_SubgroupID % WIDE * (MT * MM);
    first_col = gl_SubgroupID / WIDE * (NT * MN);
}

void tile_clear()
{
    [[unroll]] for (uint i = 0; i < MT * NT * ELEMENTS; i++)
        acc[i] = 0.0;
}

void tile_group()
{
    ROWS_OF highs[MT * STEPS], lows[MT * STEPS];
    [[unroll]] for (uint m = 0; m < MT; m++)
        [[unroll]] for (uint s = 0; s < STEPS; s++) {
            uint at = (first_row + m * MM) * UNITS + s * MK / UNIT_BYTES;
            coopMatLoad(highs[m * STEPS + s], high, at, UNITS, gl_CooperativeMatrixLayoutRowMajor);
            coopMatLoad(lows[m * STEPS + s], low, at, UNITS, gl_CooperativeMatrixLayoutRowMajor);
        }
    SUMS_OF xs[MT], xt[MT];
    [[unroll]] for (uint m = 0; m < MT; m++) {
        coopMatLoad(xs[m], x_scale, first_row + m * MM, 0, gl_CooperativeMatrixLayoutColumnMajor);
        coopMatLoad(xt[m], x_sum, first_row + m * MM, 0, gl_CooperativeMatrixLayoutColumnMajor);
    }
    [[unroll]] for (uint n = 0; n < NT; n++) {
        SUMS_OF ws, wb;
        coopMatLoad(ws, w_scale, first_col + n * MN, 0, gl_CooperativeMatrixLayoutRowMajor);
        coopMatLoad(wb, w_bias, first_col + n * MN, 0, gl_CooperativeMatrixLayoutRowMajor);
        OUTS_OF q[STEPS];
        [[unroll]] for (uint s = 0; s < STEPS; s++)
            coopMatLoad(q[s], codes, (first_col + n * MN) * UNITS + s * MK / UNIT_BYTES, UNITS,
                        gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (uint m = 0; m < MT; m++) {
            SUMS_OF h = SUMS_OF(0), l = SUMS_OF(0);
            [[unroll]] for (uint s = 0; s < STEPS; s++) {
                h = coopMatMulAdd(highs[m * STEPS + s], q[s], h);
                l = coopMatMulAdd(lows[m * STEPS + s], q[s], l);
            }
            [[unroll]] for (uint i = 0; i < ELEMENTS; i++) {
                uint at = (n * MT + m) * ELEMENTS + i;
                acc[at] = tile_add(acc[at], 256 * h[i] + l[i], ivec2(ws[i], wb[i]),
                                   ivec2(xs[m][i], xt[m][i]));
            }
        }
    }
}

void tile_lane(uint t)
{
    [[unroll]] for (uint i = 0; i < MT * NT * ELEMENTS; i++) {
        precise float sum = total[i] + acc[i];
        total[i] = t == 0 ? acc[i] : sum;
    }
}

// What this invocation has: n outputs, the ith of row tile_row(i) and column tile_col(i).
const uint TILE_OUTPUTS = MT * NT * ELEMENTS;

uint tile_row(uint i)
{
    return first_row + i / ELEMENTS % MT * MM + row_of[i % ELEMENTS];
}

uint tile_col(uint i)
{
    return first_col + i / ELEMENTS / MT * MN + col_of[i % ELEMENTS];
}

float tile_value(uint i)
{
    return total[i];
}
