// The K largest of E logits, largest first (ties: the lower index), and their weights.
// Grid: x = R.
#version 460
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 256) in;
layout(constant_id = 1) const uint E = 512;
layout(constant_id = 2) const uint K = 10; // <= 64, <= E
layout(constant_id = 3) const bool NORM = true; // over the sum of the K, else of all
#include "gpu/choose.glsl"
layout(push_constant, std430) uniform Params { moe_route_params p; };

SUM_256

void main()
{
    uint at = gl_WorkGroupID.x * K + LANE;
    choose(p.logits + uint64_t(gl_WorkGroupID.x) * E * 4);
    precise float all = 0.0;
    if (!NORM) {
        for (uint ie = LANE; ie < E; ie += 256) {
            precise float x = value[ie] - weight[0];
            all = all + num_exp(x);
        }
        all = sum_256(all);
    }
    choose_exp();
    if (LANE < K) {
        WordsOut(p.route).v[at] = chosen[LANE];
        FloatsOut(p.weight).v[at] = choose_weight(all, NORM);
    }
}
