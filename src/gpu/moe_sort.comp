// Pairs of a row and an expert, those of an expert side by side, and tiles of them: a counting sort.
// Which place a pair has within its expert changes no result.
// Grid: one workgroup.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/memory.glsl"
#include "gpu/params.h"

layout(local_size_x = 512) in;
layout(push_constant, std430) uniform Params { moe_sort_params p; };
layout(constant_id = 1) const uint E = 512;

const uint EACH = (E + 511) / 512, AT_ONCE = 4;

shared uint count[E], next[E];
shared uvec2 sum[2][512]; // pairs and tiles of the experts up to this invocation's

uint tiles_of(uint n)
{
    return (n + p.rows - 1) / p.rows;
}

void count_pairs()
{
    for (uint i = LANE; i < p.pairs; i += 512 * AT_ONCE) {
        uint e[AT_ONCE];
        [[unroll]] for (uint k = 0; k < AT_ONCE; k++)
            e[k] = Words(p.route).v[min(i + 512 * k, p.pairs - 1)];
        [[unroll]] for (uint k = 0; k < AT_ONCE; k++)
            if (i + 512 * k < p.pairs)
                atomicAdd(count[e[k]], 1);
    }
}

void place_pairs()
{
    for (uint i = LANE; i < p.pairs; i += 512 * AT_ONCE) {
        uint e[AT_ONCE];
        [[unroll]] for (uint k = 0; k < AT_ONCE; k++)
            e[k] = Words(p.route).v[min(i + 512 * k, p.pairs - 1)];
        [[unroll]] for (uint k = 0; k < AT_ONCE; k++)
            if (i + 512 * k < p.pairs)
                WordsOut(p.list).v[atomicAdd(next[e[k]], 1)] = i + 512 * k;
    }
}

// Where the pairs and tiles of this invocation's experts begin.
uvec2 begin_of()
{
    uvec2 own = uvec2(0);
    for (uint i = 0; i < EACH; i++)
        if (LANE * EACH + i < E) {
            uint n = count[LANE * EACH + i];
            own += uvec2(n, tiles_of(n));
        }
    uint from = 0;
    sum[0][LANE] = own;
    barrier();
    for (uint step = 1; step < 512; step *= 2) {
        uvec2 before = LANE >= step ? sum[from][LANE - step] : uvec2(0);
        sum[1 - from][LANE] = sum[from][LANE] + before;
        from = 1 - from;
        barrier();
    }
    return sum[from][LANE] - own;
}

void put_tile(uint at, uint expert, uint first, uint n)
{
    WordsOut to = WordsOut(p.tiles + uint64_t(at) * 12);
    to.v[0] = expert;
    to.v[1] = first;
    to.v[2] = n;
}

void main()
{
    for (uint i = LANE; i < E; i += 512)
        count[i] = 0;
    barrier();
    count_pairs();
    barrier();
    uvec2 at = begin_of();
    for (uint i = 0; i < EACH && LANE * EACH + i < E; i++) {
        uint e = LANE * EACH + i, n = count[e];
        next[e] = at.x;
        for (uint first = 0; first < n; first += p.rows)
            put_tile(at.y++, e, at.x + first, min(p.rows, n - first));
        at.x += n;
    }
    if (LANE == 511)
        sum[0][0].y = at.y; // all tiles
    barrier();
    for (uint i = sum[0][0].y + LANE; i < p.n_tiles; i += 512)
        put_tile(i, 0, 0, 0);
    place_pairs();
}
