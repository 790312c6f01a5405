// The read of the streams up to its first products, for few rows: a workgroup adds to one stream of
// a row, norms it, and has its part of OUTS outputs of the two products. The streams stay as they
// are; hyper_mix writes them, and adds the parts.
//
// A part is a chain through the groups of its stream. Groups are multiplied by as many invocations
// as there are, before the chain is added.
// Grid: x = ceil((LOW + S) / OUTS), or of LOW alone without an inject matrix; y = S, z = R.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/product.glsl"

layout(local_size_x = 512) in;
layout(push_constant, std430) uniform Params { hyper_down_params p; };
layout(constant_id = 1) const uint H = 2560;
layout(constant_id = 2) const uint S = 4;
layout(constant_id = 3) const uint LOW = 320;
layout(constant_id = 4) const uint BITS = 4;
layout(constant_id = 5) const uint OUTS = 12;

#include "gpu/hyper.glsl"

const uint GROUPS = H / 64, ITEMS = OUTS * GROUPS, PER = (ITEMS + 511) / 512;
const uint LINE = GROUPS + 1; // of a line; odd, so that a group's eight are in other banks

shared uvec4 code[8 * LINE];
shared float scales[GROUPS], sums[GROUPS];
shared vec2 term[OUTS * LINE]; // of a group: of its codes, of its bias

// Activations of the stream; by and scale of it are left for hyper_mix.
void acts_all(uint r, uint ig)
{
    float by;
    stream_load(r, ig, true, by);
    float all = stream_squares(), scale = stream_scale(all);
    if (gl_WorkGroupID.x == 0 && LANE == 0) {
        if (not_finite(all))
            atomicMin(WordsOut(p.bad).v[0], p.first + r);
        FloatsOut(p.kept).v[r * 2 * S + ig] = by;
        FloatsOut(p.kept).v[(r * 2 + 1) * S + ig] = scale;
    }
    stream_norm(scale);
    [[unroll]] for (uint k = 0; k < PASSES; k++) {
        uint at = k * 512 + LANE;
        if (at < EIGHTS) { // whole teams of eight
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
    barrier();
}

// Group g of the stream's part of output o; behind the last output the last again.
Packed output_load(uint ig, uint o, uint g)
{
    bool inject = o >= LOW && p.inject.w != 0;
    Weights m = inject ? Weights(p.inject.w, p.inject.scales, p.inject.biases)
                       : Weights(p.down.w, p.down.scales, p.down.biases);
    return packed_load(m, inject ? min(o - LOW, S - 1) : min(o, LOW - 1), S * GROUPS,
                       ig * GROUPS + g, BITS);
}

vec2 group_terms(Packed c, uint g)
{
    Group w = group_of(c, BITS);
    int high = 0, low = 0;
    [[unroll]] for (uint j = 0; j < 8; j++) {
        ivec4 a = ivec4(code[j * LINE + g]);
        ivec2 q = group_codes(w, j, BITS);
        high += dot4(q.x, a.x) + dot4(q.y, a.y);
        low += dot4(q.x, a.z) + dot4(q.y, a.w);
    }
    return group_products(w, high, low, scales[g], sums[g], BITS);
}

void main()
{
    uint ig = gl_WorkGroupID.y, r = gl_WorkGroupID.z, first = gl_WorkGroupID.x * OUTS;
    Packed c[PER];
    [[unroll]] for (uint i = 0; i < PER; i++) {
        uint item = min(i * 512 + LANE, ITEMS - 1);
        c[i] = output_load(ig, first + item / GROUPS, item % GROUPS);
    }
    acts_all(r, ig);
    [[unroll]] for (uint i = 0; i < PER; i++) {
        uint item = i * 512 + LANE, g = item % GROUPS;
        if (item < ITEMS)
            term[item / GROUPS * LINE + g] = group_terms(c[i], g);
    }
    barrier();
    uint o = first + LANE, n = LOW + (p.inject.w != 0 ? S : 0);
    if (LANE >= OUTS || o >= n)
        return;
    precise float sum = 0.0;
    [[unroll]] for (uint g = 0; g < GROUPS; g++) {
        vec2 two = term[LANE * LINE + g];
        sum = sum + two.x;
        sum = sum + two.y;
    }
    FloatsOut(p.parts).v[(r * S + ig) * (LOW + S) + o] = sum;
}
