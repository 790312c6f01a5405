// The K largest of E logits of a row, largest first (ties: the lower index): chosen[K], and weight[K],
// their logits. By the first 256 invocations of a workgroup, all of which call it.
//
// An element's place is that of its logit, then of its number, so no two are equal. The 64 largest
// of every 64th element bound the Kth from below; few elements reach that bound, K of the 64 times
// E / 64 at most, and each of them counts how many come before it.
//
// Whoever includes this has the constants E and K; K <= 64, <= E.
#ifndef GPU_CHOOSE_GLSL
#define GPU_CHOOSE_GLSL
#include "gpu/common.glsl"

shared float value[E];
shared uvec2 most[64], bound, found[E]; // order, E - 1 - expert
shared uint n_found, chosen[K];
shared float weight[K];

uvec2 place_of(uint ie)
{
    return uvec2(num_order(value[ie]), E - 1 - ie);
}

bool before(uvec2 a, uvec2 b)
{
    return a.x > b.x || (a.x == b.x && a.y > b.y);
}

void choose(uint64_t logits)
{
    bool mine = LANE < 256;
    [[unroll]] for (uint i = 0; i < E; i += 256) {
        uint ie = min(i + LANE, E - 1);
        if (mine)
            value[ie] = Floats(logits).v[ie];
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
        before_it += before(most[i + LANE % 4], most[LANE / 4 % 64]) ? 1 : 0;
    before_it += subgroupShuffleXor(before_it, 1);
    before_it += subgroupShuffleXor(before_it, 2);
    if (mine && LANE % 4 == 0 && before_it == K - 1)
        bound = most[LANE / 4];
    barrier();
    [[unroll]] for (uint i = 0; i < E; i += 256) {
        uvec2 here = place_of(min(i + LANE, E - 1));
        if (mine && i + LANE < E && !before(bound, here))
            found[atomicAdd(n_found, 1)] = here;
    }
    barrier();
    for (uint at = LANE; mine && at < n_found; at += 256) {
        uint place = 0;
        for (uint i = 0; i < n_found; i++)
            place += before(found[i], found[at]) ? 1 : 0;
        if (place < K) {
            chosen[place] = E - 1 - found[at].y;
            weight[place] = value[E - 1 - found[at].y];
        }
    }
    barrier();
}

// weight[] becomes exp(weight[] - weight[0]).
void choose_exp()
{
    precise float w = 0.0;
    if (LANE < K) {
        precise float x = weight[LANE] - weight[0];
        w = num_exp(x);
    }
    barrier();
    if (LANE < K)
        weight[LANE] = w;
    barrier();
}

// Of place LANE < K, over the sum of the K, or over `all`.
float choose_weight(float all, bool norm)
{
    precise float sum = all;
    if (norm)
        for (uint k = 0; k < K; k++)
            sum = sum + weight[k];
    precise float y = weight[LANE] * num_reciprocal(sum);
    return y;
}

#endif
