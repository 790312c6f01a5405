// The parts of a row's attention meet, in ascending order, and pass their gate.
//
//   att = sum over parts of exp(most of the part - largest) * its output, divided by the same of
//   its weights; then times sigmoid(gate)
//
// A workgroup does 256 elements of a row, whatever heads they are of. Grid: x = ceil(HEADS *
// HEAD_DIM / 256), y = rows under way.
#version 460
#extension GL_GOOGLE_include_directive : require
const uint LANES = 256;
#include "gpu/mix.glsl"

const uint PART = 128;
layout(local_size_x = LANES) in;
PARAMS(attend_params)

layout(constant_id = 1) const uint HEADS = 2;
layout(constant_id = 2) const uint HEAD_DIM = 64;
layout(constant_id = 3) const uint RATIO = 4;
layout(constant_id = 4) const uint BUDGET = 16;
layout(constant_id = 5) const uint PARTS = 1;
layout(constant_id = 6) const bool QUANTISE = true;

const uint WIDTH = HEADS * HEAD_DIM;

shared float room[LANES];
#include "gpu/visible.glsl"

float merged(uint r, uint i, uint parts)
{
    uint head = gl_WorkGroupID.y * HEADS + i / HEAD_DIM;
    F32 part_max = F32(p.part_max), part_sum = F32(p.part_sum), part_out = F32(p.part_out);
    float most = part_max.v[head * PARTS];
    for (uint ip = 1; ip < parts; ip++)
        most = max(most, part_max.v[head * PARTS + ip]);
    precise float sum = 0, out_sum = 0;
    for (uint ip = 0; ip < parts; ip++) {
        uint at = head * PARTS + ip;
        precise float factor = num_exp(part_max.v[at] - most);
        sum = fma(factor, part_sum.v[at], sum);
        out_sum = fma(factor, part_out.v[at * HEAD_DIM + i % HEAD_DIM], out_sum);
    }
    uint gate = (r * HEADS + i / HEAD_DIM) * 2 * HEAD_DIM + HEAD_DIM + i % HEAD_DIM;
    precise float att = out_sum * num_reciprocal(sum) * num_sigmoid(F32(p.q).v[gate]);
    return att;
}

void main()
{
    uint r = p.first + gl_WorkGroupID.y, from = gl_WorkGroupID.x * LANES;
    int pos = Rows(p.rows).v[r].pos;
    if (pos < 0)
        return;
    uint parts = (visible_count(pos) + PART - 1) / PART, i = from + LANE;
    float att = i < WIDTH ? merged(r, i, parts) : 0;
    if (!QUANTISE) {
        if (i < WIDTH)
            F32(p.to).v[r * WIDTH + i] = att;
        return;
    }
    room[LANE] = att;
    barrier();
    float x[8];
    if (LANE >= LANES / 8 || from + 8 * LANE >= WIDTH) // whole teams of eight
        return;
    [[unroll]] for (uint j = 0; j < 8; j++)
        x[j] = room[8 * LANE + j];
    acts_put(x, p.to + uint64_t(r) * GPU_ACTS_BYTES(WIDTH), WIDTH, from / 8 + LANE);
}
