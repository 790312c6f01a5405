// The read of the streams behind its first product: silu and activations of the low rank, the
// product back to all streams, gates, their sum; mixed, 64 columns of it in a workgroup.
//
// The low rank is small: that every workgroup makes its activations again costs less than a
// dispatch of its own.
// Grid: x = H / 64, y = R.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/product.glsl"

layout(local_size_x = 512) in;
layout(push_constant, std430) uniform Params { hyper_mix_params p; };
layout(constant_id = 1) const uint H = 2560;
layout(constant_id = 2) const uint S = 4;
layout(constant_id = 3) const uint LOW = 320; // a multiple of 64
layout(constant_id = 4) const uint BITS = 4;
layout(constant_id = 5) const uint DEPTH = 3; // groups of weights under way in a lane
layout(constant_id = 6) const uint PARTS = 1; // of p.low; more than one: hyper_down.comp made them

const uint GROUPS = LOW / 64, TEAM = GPU_LANES(LOW), OUTS = S * 64, ITEMS = OUTS * TEAM;
const uint PER = (GROUPS + TEAM - 1) / TEAM;

shared float low[LOW];
shared uvec4 code[LOW / 8];
shared float low_scale[GROUPS], low_sum[GROUPS];
shared float part[ITEMS], gated[OUTS], mixed[64];

// Output i of the first products of row r: its parts, ascending.
const uint OF_PART = PARTS > 1 ? LOW + S : LOW;

float low_of(uint r, uint i)
{
    float part[PARTS];
    [[unroll]] for (uint ip = 0; ip < PARTS; ip++)
        part[ip] = Floats(p.low).v[(r * PARTS + ip) * OF_PART + i];
    precise float sum = part[0];
    [[unroll]] for (uint ip = 1; ip < PARTS; ip++)
        sum = sum + part[ip];
    return sum;
}

void low_make(uint r)
{
    for (uint i = LANE; i < LOW; i += 512) {
        precise float x = low_of(r, i) * p.by_S;
        low[i] = num_silu(x);
    }
    barrier();
    for (uint at = LANE; at < LOW / 8; at += 512) {
        float x[8], scale, sum;
        uvec4 word;
        [[unroll]] for (uint i = 0; i < 8; i++)
            x[i] = low[at * 8 + i];
        acts_make(x, word, scale, sum);
        code[at] = word;
        if (at % 8 == 0) {
            low_scale[at / 8] = scale;
            low_sum[at / 8] = sum;
        }
    }
    barrier();
}

Packed c[DEPTH];

// Row of weights of item i, which goes through groups i % TEAM, then TEAM further.
uint item_row(uint i, uint from)
{
    uint o = min(i, ITEMS - 1) / TEAM;
    return o / 64 * H + from + o % 64;
}

// The first groups, before the activations are made.
void item_load(Weights m, uint row, uint t)
{
    [[unroll]] for (uint d = 0; d < DEPTH; d++)
        c[d] = packed_load(m, row, GROUPS, min(t + d * TEAM, GROUPS - 1), BITS);
}

float item_product(Weights m, uint row, uint t)
{
    float acc = 0.0;
    for (uint i = 0; i < PER; i += DEPTH)
        [[unroll]] for (uint d = 0; d < DEPTH; d++) {
            uint g = t + (i + d) * TEAM, then = g + DEPTH * TEAM;
            if (g < GROUPS) {
                Group w = group_of(c[d], BITS);
                int high = 0, lows = 0;
                [[unroll]] for (uint j = 0; j < 8; j++) {
                    ivec4 a = ivec4(code[g * 8 + j]);
                    ivec2 q = group_codes(w, j, BITS);
                    high += dot4(q.x, a.x) + dot4(q.y, a.y);
                    lows += dot4(q.x, a.z) + dot4(q.y, a.w);
                }
                acc = group_add(acc, w, high, lows, low_scale[g], low_sum[g], BITS);
            }
            if (DEPTH < PER && then < GROUPS)
                c[d] = packed_load(m, row, GROUPS, then, BITS);
        }
    return acc;
}

// Element i of stream ig, normed, of row r; without p.norm also that of the residual, with what was
// to be added, which no other invocation reads.
struct Stream {
    float norm, x;
};

Stream stream_load(uint r, uint ig, uint i)
{
    Stream s;
    uint at = (r * S + ig) * H + i;
    if (p.norm != 0) {
        s.norm = Floats(p.norm).v[at];
        return s;
    }
    float by = Floats(p.kept).v[r * 2 * S + ig];
    float scale = Floats(p.kept).v[(r * 2 + 1) * S + ig];
    precise float x = Floats(p.hyper).v[at];
    if (p.add != 0)
        x = x + by * Floats(p.add).v[r * H + i];
    precise float norm = x * scale * Floats(p.gamma).v[ig * H + i];
    s.norm = norm;
    s.x = x;
    return s;
}

void main()
{
    uint from = gl_WorkGroupID.x * 64, r = gl_WorkGroupID.y;
    Weights m = Weights(p.up.w, p.up.scales, p.up.biases);
    item_load(m, item_row(LANE, from), LANE % TEAM);
    // The first of those that this invocation gates, before anything waits.
    uint mine = min(LANE, OUTS - 1);
    Stream stream = stream_load(r, mine / 64, from + mine % 64);
    low_make(r);
    for (uint i = LANE; i < ITEMS; i += 512) {
        if (i != LANE)
            item_load(m, item_row(i, from), i % TEAM);
        part[i] = item_product(m, item_row(i, from), i % TEAM);
    }
    barrier();
    for (uint i = LANE; i < OUTS; i += 512) {
        precise float u = part[i * TEAM];
        [[unroll]] for (uint t = 1; t < TEAM; t++)
            u = u + part[i * TEAM + t];
        if (i != LANE)
            stream = stream_load(r, i / 64, from + i % 64);
        if (p.norm == 0 && p.add != 0)
            FloatsOut(p.hyper).v[(r * S + i / 64) * H + from + i % 64] = stream.x;
        precise float y = num_sigmoid(u) * stream.norm;
        gated[i] = y;
    }
    barrier();
    if (p.norm == 0 && p.inj != 0 && gl_WorkGroupID.x == 0 && LANE < S)
        FloatsOut(p.inj).v[r * S + LANE] = low_of(r, LOW + LANE);
    if (LANE < 64) {
        precise float sum = gated[LANE];
        [[unroll]] for (uint ig = 1; ig < S; ig++)
            sum = sum + gated[ig * 64 + LANE];
        sum = sum * p.by_S;
        mixed[LANE] = sum;
        FloatsOut(p.x).v[r * H + from + LANE] = sum;
    }
    barrier();
    if (LANE < 8) {
        float x[8];
        [[unroll]] for (uint i = 0; i < 8; i++)
            x[i] = mixed[LANE * 8 + i];
        acts_put(x, p.q + uint64_t(r) * GPU_ACTS_BYTES(H), H, from / 8 + LANE);
    }
}
