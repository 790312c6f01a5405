// Scores of the blocks that a row may choose from: src/cpu/select.c has the equation.
//
// A workgroup does 64 blocks of a row, whose keys it takes through shared memory 64 dimensions at a
// time; each invocation has one block and every fourth index head. Rows that see all their blocks
// score none. Grid: x = ceil(blocks / 64), y = rows under way.
#version 460
#extension GL_GOOGLE_include_directive : require
const uint LANES = 256;
#include "gpu/mix.glsl"

layout(local_size_x = LANES) in;
PARAMS(select_params)

layout(constant_id = 1) const uint INDEX_HEADS = 4;
layout(constant_id = 2) const uint INDEX_DIM = 32;
layout(constant_id = 3) const uint RATIO = 4;
layout(constant_id = 4) const uint BUDGET = 16;

const uint BLOCKS = 64, DIMS = 64, STRIDE = DIMS + 1, EACH = (INDEX_HEADS + 3) / 4;
const uint INDEX_ROW = (INDEX_HEADS + 1) * INDEX_DIM;

shared float key[BLOCKS * STRIDE];
shared float query[EACH * 4 * DIMS];
shared float score[EACH * 4 * BLOCKS];

void main()
{
    uint r = p.first + gl_WorkGroupID.y, from = gl_WorkGroupID.x * BLOCKS;
    gpu_row row = Rows(p.rows).v[r];
    uint complete = uint(row.pos + 1) / RATIO;
    if (complete <= BUDGET / RATIO || from >= complete)
        return;
    gpu_segment segment = Segments(p.segments).v[row.segment];
    F32 keys = F32(segment.cache + p.cache * segment.cache_bytes + segment.block);
    uint n = min(BLOCKS, complete - from), ib = LANE % BLOCKS, part = LANE / BLOCKS;
    precise vec4 sum[EACH];
    [[unroll]] for (uint j = 0; j < EACH; j++)
        sum[j] = vec4(0);

    for (uint first = 0; first < INDEX_DIM; first += DIMS) {
        barrier();
        for (uint i = LANE; i < BLOCKS * DIMS; i += 256) {
            uint of = i / DIMS, dim = first + i % DIMS;
            bool any = of < n && dim < INDEX_DIM;
            key[of * STRIDE + i % DIMS] = any ? keys.v[(from + of) * INDEX_DIM + dim] : 0;
        }
        for (uint i = LANE; i < EACH * 4 * DIMS; i += 256) {
            uint ih = i / DIMS, dim = first + i % DIMS;
            bool any = ih < INDEX_HEADS && dim < INDEX_DIM;
            query[i] = any ? F32(p.index).v[r * INDEX_ROW + ih * INDEX_DIM + dim] : 0;
        }
        barrier();
        [[unroll]] for (uint i = 0; i < DIMS; i += 4) {
            uint at = ib * STRIDE + i;
            vec4 k = vec4(key[at], key[at + 1], key[at + 2], key[at + 3]);
            [[unroll]] for (uint j = 0; j < EACH; j++) {
                uint q = (j * 4 + part) * DIMS + i;
                sum[j] = fma(vec4(query[q], query[q + 1], query[q + 2], query[q + 3]), k, sum[j]);
            }
        }
    }
    [[unroll]] for (uint j = 0; j < EACH; j++) {
        precise float dot = (sum[j].x + sum[j].y) + (sum[j].z + sum[j].w);
        score[(j * 4 + part) * BLOCKS + ib] = dot > 0 || isnan(dot) ? dot : 0;
    }
    barrier();
    if (LANE >= n)
        return;
    precise float all = 0;
    for (uint ih = 0; ih < INDEX_HEADS; ih++)
        all += score[ih * BLOCKS + LANE];
    all *= num_rsqrt(float(INDEX_DIM));
    F32(segment.score).v[gl_WorkGroupID.y * segment.blocks + from + LANE] = all;
}
