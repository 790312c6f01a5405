// The best token of each row (ties: the lower id), in two dispatches: of every HEAD_PART logits,
// with a mark on the row where one is not finite; then of those.
// Grid: x = n_parts, or 1 with LAST; y = R.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/common.glsl"

layout(local_size_x = 256) in;
layout(push_constant, std430) uniform Params { head_best_params p; };
layout(constant_id = 1) const bool LAST = false;

shared uvec2 room[256]; // order of a logit, its id

bool before(uvec2 a, uvec2 b)
{
    return a.x > b.x || (a.x == b.x && a.y < b.y);
}

uvec2 best_of_part(uint r)
{
    uint end = min(p.vocab, (gl_WorkGroupID.x + 1) * HEAD_PART);
    uvec2 best = uvec2(0, 0xFFFFFFFFu);
    bool bad = false;
    for (uint i = gl_WorkGroupID.x * HEAD_PART + LANE; i < end; i += 256) {
        float x = Floats(p.logits + uint64_t(r) * p.vocab * 4).v[i];
        uvec2 here = uvec2(num_order(x), i);
        bad = bad || not_finite(x);
        if (i < p.limit && before(here, best))
            best = here;
    }
    if (bad)
        atomicMin(WordsOut(p.bad).v[0], p.first + r);
    return best;
}

uvec2 best_of_parts(uint r)
{
    uvec2 best = uvec2(0, 0xFFFFFFFFu);
    for (uint i = LANE; i < p.n_parts; i += 256) {
        uint at = (r * p.n_parts + i) * 2;
        uvec2 here = uvec2(Words(p.parts).v[at], Words(p.parts).v[at + 1]);
        if (before(here, best))
            best = here;
    }
    return best;
}

void main()
{
    uint r = gl_WorkGroupID.y;
    room[LANE] = LAST ? best_of_parts(r) : best_of_part(r);
    for (uint step = 128; step > 0; step /= 2) {
        barrier();
        if (LANE < step && before(room[LANE + step], room[LANE]))
            room[LANE] = room[LANE + step];
    }
    if (LANE != 0)
        return;
    if (LAST) {
        WordsOut(p.best).v[r] = room[0].y;
    } else {
        WordsOut(p.parts).v[(r * p.n_parts + gl_WorkGroupID.x) * 2] = room[0].x;
        WordsOut(p.parts).v[(r * p.n_parts + gl_WorkGroupID.x) * 2 + 1] = room[0].y;
    }
}
