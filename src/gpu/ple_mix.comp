// PLE over time: the gated value plus a dilated convolution of the normed rows, into the residual;
// and the rows that the other plane keeps, as if all rows were committed.
//
// Workgroup y < n: row y; behind them KEEP for each segment. Grid: x = ceil(S * H / 256),
// y = rows + segments * KEEP.
#version 460
#extension GL_GOOGLE_include_directive : require
const uint LANES = 256;
#include "gpu/mix.glsl"

layout(local_size_x = LANES) in;
PARAMS(ple_params)

layout(constant_id = 1) const uint WIDTH = 256; // S * H
layout(constant_id = 2) const uint KERNEL = 4;
layout(constant_id = 3) const uint DILATION = 3;

const uint KEEP = DILATION * (KERNEL - 1);

// Normed row r of the segment, which may lie before it.
float normed_at(gpu_segment segment, int r, uint i)
{
    if (r < 0)
        return F32(segment.state + p.keep_at[segment.plane] * 4ul).v[(int(KEEP) + r) * WIDTH + i];
    return F32(p.normed).v[(segment.pending + r) * WIDTH + i];
}

void mix_row(uint r, uint i)
{
    gpu_row row = Rows(p.rows).v[r];
    gpu_segment segment = Segments(p.segments).v[row.segment];
    precise float sum = 0;
    for (uint t = 0; t < KERNEL; t++) {
        int from = int(row.nth) - int(DILATION * (KERNEL - 1 - t));
        sum = fma(F32(p.taps).v[i * KERNEL + t], normed_at(segment, from, i), sum);
    }
    uint at = r * WIDTH + i;
    precise float gv = F32(p.key).v[at] + num_silu(sum), x = F32(p.hyper).v[at] + gv;
    F32(p.key).v[at] = gv;
    F32(p.hyper).v[at] = x;
}

void main()
{
    uint y = gl_WorkGroupID.y, i = gl_GlobalInvocationID.x;
    if (i >= WIDTH)
        return;
    if (y < p.n) {
        mix_row(y, i);
        return;
    }
    gpu_segment segment = Segments(p.segments).v[(y - p.n) / KEEP];
    uint kept = (y - p.n) % KEEP;
    F32 to = F32(segment.state + p.keep_at[1 - segment.plane] * 4ul);
    to.v[kept * WIDTH + i] = normed_at(segment, int(segment.n + kept) - int(KEEP), i);
}
