// The scan of gated DeltaNet for many rows, the part before the state: convolutions, norms and
// gates of all rows, to p.room (GPU_DELTANET_ROOM floats a row: queries, keys, values, gates). The
// orders of deltanet.comp.
//
// A team of 32 invocations does a unit of a row: DK channels (queries and keys are a unit a head),
// or the gates of 32 heads.
// Grid: x = ceil(units / 8), y = the most rows of a segment, z = segments.
#version 460
#extension GL_GOOGLE_include_directive : require
const uint LANES = 256;
#include "gpu/mix.glsl"

layout(local_size_x = LANES) in;
PARAMS(deltanet_params)

layout(constant_id = 1) const uint NK = 1;
layout(constant_id = 2) const uint NV = 1;
layout(constant_id = 3) const uint DK = 32;
layout(constant_id = 4) const uint DV = 64;
#define KERNEL_CONSTANT 5
#include "gpu/deltanet.glsl"

const uint EACH = (DK + 31) / 32, OF_CHANNELS = (WIDTH + DK - 1) / DK;

void main()
{
    segment = Segments(p.segments).v[gl_WorkGroupID.z];
    uint r = gl_WorkGroupID.y;
    if (r > 0 && r >= segment.n)
        return;
    uint unit = gl_WorkGroupID.x * (LANES / 32) + LANE / 32, lane = LANE % 32;
    F32 to = F32(p.room + uint64_t(segment.first + r) * (GPU_DELTANET_ROOM(NK, NV, DK, DV) * 4));
    precise float x[EACH];
    precise float sum = 0;
    [[unroll]] for (uint k = 0; k < EACH; k++) {
        uint i = lane + 32 * k, ch = unit * DK + i;
        if (i >= DK || ch >= WIDTH)
            continue;
        if (r < segment.n) {
            x[k] = convolved(r, ch);
            sum = fma(x[k], x[k], sum);
            if (r + 1 == segment.n)
                keep_inputs(ch);
        } else {
            keep_window(ch);
        }
    }
    float scale = unit_scale(sum), root = unit_root(unit >= NK);
    [[unroll]] for (uint k = 0; k < EACH; k++) {
        uint i = lane + 32 * k, ch = unit * DK + i;
        precise float unit_x = x[k] * scale * root;
        if (i < DK && ch < WIDTH && r < segment.n)
            to.v[ch] = unit < 2 * NK ? unit_x : x[k];
    }
    uint iv = (unit - OF_CHANNELS) * 32 + lane;
    if (unit >= OF_CHANNELS && iv < NV && r < segment.n) {
        vec2 gates = gates_of(r, iv);
        to.v[WIDTH + 2 * iv] = gates.x;
        to.v[WIDTH + 2 * iv + 1] = gates.y;
    }
}
