// The best token of each row (ties: the lower id): of every HEAD_PART logits, with a mark on the row
// where one is not finite; and with LAST, of those parts. Beside it the row's hash
// (engine_logits_hash), which is a sum of numbers in any order, left in parts.
// Grid: x = n_parts, or 1 with LAST; y = R.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/common.glsl"

layout(local_size_x = 256) in;
layout(push_constant, std430) uniform Params { head_best_params p; };
layout(constant_id = 1) const bool LAST = false;

shared uvec2 room[256]; // order of a logit, its id
shared uint64_t sums[256];

bool before(uvec2 a, uvec2 b)
{
    return a.x > b.x || (a.x == b.x && a.y < b.y);
}

struct Part {
    uvec2 best;
    uint64_t hash;
};

uint64_t salted(float x, uint i)
{
    return uint64_t(num_bits(x) + i * 0x9E3779B9u);
}

Part part_of_logits(uint r)
{
    const uint PAIRS = HEAD_PART / 512; // of an invocation
    Floats logits = Floats(p.logits + uint64_t(r) * p.vocab * 4);
    Part part = Part(uvec2(0, 0xFFFFFFFFu), 0);
    float x[2 * PAIRS];
    bool bad = false;
    uint from = gl_WorkGroupID.x * HEAD_PART + 2 * LANE;
    [[unroll]] for (uint k = 0; k < 2 * PAIRS; k++)
        x[k] = logits.v[min(from + k / 2 * 512 + k % 2, p.vocab - 1)];
    [[unroll]] for (uint i = 0; i < 2 * PAIRS; i += 2) {
        uint64_t product = 1;
        [[unroll]] for (uint k = i; k < i + 2; k++) {
            uint id = from + k / 2 * 512 + k % 2;
            uvec2 here = uvec2(num_order(x[k]), id);
            bad = bad || not_finite(x[k]);
            product *= id < p.vocab ? salted(x[k], id) : 1;
            if (id < p.limit && before(here, part.best))
                part.best = here;
        }
        part.hash += from + i / 2 * 512 < p.vocab ? product : 0;
    }
    if (bad)
        atomicMin(WordsOut(p.bad).v[0], p.first + r);
    return part;
}

Part part_of_parts(uint r)
{
    Part part = Part(uvec2(0, 0xFFFFFFFFu), 0);
    for (uint i = LANE; i < p.n_parts; i += 256) {
        uint at = (r * p.n_parts + i) * 4;
        uvec2 here = uvec2(Words(p.parts).v[at], Words(p.parts).v[at + 1]);
        if (before(here, part.best))
            part.best = here;
    }
    return part;
}

void main()
{
    uint r = gl_WorkGroupID.y;
    Part part;
    if (LAST)
        part = part_of_parts(r);
    else
        part = part_of_logits(r);
    room[LANE] = part.best;
    sums[LANE] = part.hash;
    for (uint step = 128; step > 0; step /= 2) {
        barrier();
        if (LANE < step && before(room[LANE + step], room[LANE]))
            room[LANE] = room[LANE + step];
        if (LANE < step)
            sums[LANE] += sums[LANE + step];
    }
    if (LANE != 0)
        return;
    uvec2 hash = unpackUint2x32(sums[0]);
    if (LAST) {
        WordsOut(p.best).v[r] = room[0].y;
    } else {
        uint at = (r * p.n_parts + gl_WorkGroupID.x) * 4;
        WordsOut(p.parts).v[at] = room[0].x;
        WordsOut(p.parts).v[at + 1] = room[0].y;
        WordsOut(p.parts).v[at + 2] = hash.x;
        WordsOut(p.parts).v[at + 3] = hash.y;
    }
}
