// The read of the streams up to its first products, for few rows: each workgroup adds and norms all
// streams of its row for itself, and then has some outputs of the two products. The streams stay as
// they are; hyper_mix writes them.
// Grid: x = ceil((LOW + S) / (256 / TEAM)), or of LOW alone without an inject matrix; y = R.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/product.glsl"

layout(local_size_x = 256) in;
layout(push_constant, std430) uniform Params { hyper_down_params p; };
layout(constant_id = 1) const uint H = 2560;
layout(constant_id = 2) const uint S = 4;
layout(constant_id = 3) const uint LOW = 320;
layout(constant_id = 4) const uint BITS = 4;
layout(constant_id = 5) const uint DEPTH = 5; // groups of weights under way in a lane

#include "gpu/hyper.glsl"

const uint WIDE = S * H, GROUPS = WIDE / 64, TEAM = GPU_LANES(WIDE);
const uint PER = (GROUPS + TEAM - 1) / TEAM;
const uint LINE = GROUPS + 1; // units of a line; odd, so that a group's eight are in other banks

shared uvec4 code[8 * LINE];
shared float scales[GROUPS], sums[GROUPS], part[256];

// Activations of all streams; by and scale of each are left for hyper_mix.
void acts_all(uint r)
{
    bool first = gl_WorkGroupID.x == 0 && LANE % 64 == 0;
    for (uint from = 0; from < S; from += 4) {
        uint ig = from + LANE / 64;
        float by = 0.0;
        if (ig < S)
            stream_load(r, ig, true, by);
        float all = stream_squares(), scale = stream_scale(all);
        if (ig >= S)
            continue;
        if (first) {
            if (not_finite(all))
                atomicMin(WordsOut(p.bad).v[0], p.first + r);
            FloatsOut(p.kept).v[(r * 3 + 1) * S + ig] = by;
            FloatsOut(p.kept).v[(r * 3 + 2) * S + ig] = scale;
        }
        stream_norm(scale);
        [[unroll]] for (uint k = 0; k < PASSES; k++) {
            uint at = ig * EIGHTS + k * 64 + LANE % 64;
            if (k * 64 + LANE % 64 < EIGHTS) { // whole teams of eight
                uvec4 word;
                float s, sum;
                acts_make(stream_x[k], word, s, sum);
                code[at % 8 * LINE + at / 8] = word;
                if (at % 8 == 0) {
                    scales[at / 8] = s;
                    sums[at / 8] = sum;
                }
            }
        }
    }
    barrier();
}

void main()
{
    uint r = gl_WorkGroupID.y, t = LANE % TEAM, o = gl_WorkGroupID.x * (256 / TEAM) + LANE / TEAM;
    bool inject = o >= LOW && p.inject.w != 0;
    uint row = inject ? min(o - LOW, S - 1) : min(o, LOW - 1);
    Weights m = inject ? Weights(p.inject.w, p.inject.scales, p.inject.biases)
                       : Weights(p.down.w, p.down.scales, p.down.biases);
    Packed c[DEPTH];
    [[unroll]] for (uint d = 0; d < DEPTH; d++)
        c[d] = packed_load(m, row, GROUPS, min(t + d * TEAM, GROUPS - 1), BITS);
    acts_all(r);
    float acc = 0.0;
    for (uint i = 0; i < PER; i += DEPTH)
        [[unroll]] for (uint d = 0; d < DEPTH; d++) {
            uint g = t + (i + d) * TEAM, then = g + DEPTH * TEAM;
            if (g < GROUPS) {
                Group w = group_of(c[d], BITS);
                int high = 0, low = 0;
                [[unroll]] for (uint j = 0; j < 8; j++) {
                    ivec4 a = ivec4(code[j * LINE + g]);
                    ivec2 q = group_codes(w, j, BITS);
                    high += dot4(q.x, a.x) + dot4(q.y, a.y);
                    low += dot4(q.x, a.z) + dot4(q.y, a.w);
                }
                acc = group_add(acc, w, high, low, scales[g], sums[g], BITS);
            }
            if (DEPTH < PER && then < GROUPS)
                c[d] = packed_load(m, row, GROUPS, then, BITS);
        }
    part[LANE] = acc;
    barrier();
    if (t != 0)
        return;
    precise float sum = part[LANE];
    [[unroll]] for (uint i = 1; i < TEAM; i++)
        sum = sum + part[LANE + i];
    if (o < LOW)
        FloatsOut(p.low).v[r * LOW + o] = sum;
    else if (inject && o < LOW + S)
        FloatsOut(p.kept).v[r * 3 * S + o - LOW] = sum;
}
