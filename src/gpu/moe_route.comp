// The K largest of E logits, largest first (ties: the lower index), and their weights.
//
// An element's place is that of its logit, then of its number, so no two are equal. The 64 largest
// of every 64th element bound the Kth from below; few elements reach that bound, K of the 64 times
// E / 64 at most, and each of them counts how many come before it.
// Grid: x = R.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/common.glsl"

layout(local_size_x = 256) in;
layout(push_constant, std430) uniform Params { moe_route_params p; };
layout(constant_id = 1) const uint E = 512;
layout(constant_id = 2) const uint K = 10; // <= 64, <= E
layout(constant_id = 3) const bool NORM = true; // over the sum of the K, else of all

shared float value[E];
shared uvec2 most[64], bound, found[E]; // order, E - 1 - expert
shared uint n_found;
shared float weight[K];

SUM_256

uvec2 place_of(uint ie)
{
    return uvec2(num_order(value[ie]), E - 1 - ie);
}

bool before(uvec2 a, uvec2 b)
{
    return a.x > b.x || (a.x == b.x && a.y > b.y);
}

void main()
{
    [[unroll]] for (uint i = 0; i < E; i += 256) {
        uint ie = min(i + LANE, E - 1);
        value[ie] = Floats(p.logits).v[gl_WorkGroupID.x * E + ie];
    }
    if (LANE == 0) {
        n_found = 0;
        bound = uvec2(0);
    }
    barrier();
    if (LANE < 64) {
        uvec2 best = uvec2(0);
        [[unroll]] for (uint i = 0; i < E; i += 64) {
            uvec2 here = i + LANE < E ? place_of(i + LANE) : uvec2(0);
            if (before(here, best))
                best = here;
        }
        most[LANE] = best;
    }
    barrier();
    // Four lanes count for each of the 64.
    uint before_it = 0;
    [[unroll]] for (uint i = 0; i < 64; i += 4)
        before_it += before(most[i + LANE % 4], most[LANE / 4]) ? 1 : 0;
    before_it += subgroupShuffleXor(before_it, 1);
    before_it += subgroupShuffleXor(before_it, 2);
    if (LANE % 4 == 0 && before_it == K - 1)
        bound = most[LANE / 4];
    barrier();
    [[unroll]] for (uint i = 0; i < E; i += 256) {
        uvec2 here = place_of(min(i + LANE, E - 1));
        if (i + LANE < E && !before(bound, here))
            found[atomicAdd(n_found, 1)] = here;
    }
    barrier();
    for (uint at = LANE; at < n_found; at += 256) {
        uint place = 0;
        for (uint i = 0; i < n_found; i++)
            place += before(found[i], found[at]) ? 1 : 0;
        if (place < K) {
            uint ie = E - 1 - found[at].y;
            WordsOut(p.route).v[gl_WorkGroupID.x * K + place] = ie;
            weight[place] = value[ie];
        }
    }
    barrier();
    precise float all = 0.0;
    if (!NORM) {
        for (uint ie = LANE; ie < E; ie += 256) {
            precise float x = value[ie] - weight[0];
            all = all + num_exp(x);
        }
        all = sum_256(all);
    }
    precise float w = 0.0;
    if (LANE < K) {
        precise float x = weight[LANE] - weight[0];
        w = num_exp(x);
    }
    barrier();
    if (LANE < K)
        weight[LANE] = w;
    barrier();
    if (LANE < K) {
        if (NORM)
            for (uint k = 0; k < K; k++)
                all = all + weight[k];
        precise float y = w * num_reciprocal(all);
        FloatsOut(p.weight).v[gl_WorkGroupID.x * K + LANE] = y;
    }
}
