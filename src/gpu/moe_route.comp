// The K largest of E logits, largest first (ties: the lower index), and their weights.
//
// The 64 largest of every 64th element bound the Kth from below; few elements reach that bound, and
// each of them counts how many come before it.
// Grid: x = R.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/common.glsl"

layout(local_size_x = 256) in;
layout(push_constant, std430) uniform Params { moe_route_params p; };
layout(constant_id = 1) const uint E = 512;
layout(constant_id = 2) const uint K = 10; // <= 64, <= E
layout(constant_id = 3) const bool NORM = true; // over the sum of the K, else of all

shared uint most[64];
shared uint bound, n_found;
shared uint found[E], order[E]; // expert, num_order of its logit
shared float weight[K], largest;

SUM_256

float logit(uint ie)
{
    return Floats(p.logits).v[gl_WorkGroupID.x * E + ie];
}

void main()
{
    if (LANE < 64) {
        uint best = 0;
        for (uint ie = LANE; ie < E; ie += 64)
            best = max(best, num_order(logit(ie)));
        most[LANE] = best;
    }
    if (LANE == 0)
        n_found = bound = 0;
    barrier();
    if (LANE < 64) {
        uint before = 0;
        for (uint i = 0; i < 64; i++)
            if (most[i] > most[LANE] || (most[i] == most[LANE] && i < LANE))
                before++;
        if (before == K - 1)
            bound = most[LANE];
    }
    barrier();
    for (uint ie = LANE; ie < E; ie += 256) {
        uint u = num_order(logit(ie));
        if (u >= bound) {
            uint at = atomicAdd(n_found, 1);
            found[at] = ie;
            order[at] = u;
        }
    }
    barrier();
    for (uint at = LANE; at < n_found; at += 256) {
        uint before = 0;
        for (uint i = 0; i < n_found; i++)
            if (order[i] > order[at] || (order[i] == order[at] && found[i] < found[at]))
                before++;
        if (before < K) {
            WordsOut(p.route).v[gl_WorkGroupID.x * K + before] = found[at];
            weight[before] = logit(found[at]);
        }
    }
    barrier();
    precise float all = 0.0;
    if (!NORM) {
        for (uint ie = LANE; ie < E; ie += 256) {
            precise float x = logit(ie) - weight[0];
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
