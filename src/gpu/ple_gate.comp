// PLE of a stream of a row: gates the value by how key and residual agree, and norms it for the
// convolution. src/cpu/ple.c has the equations. Grid: x = S, y = rows.
#version 460
#extension GL_GOOGLE_include_directive : require
const uint LANES = 256;
#include "gpu/mix.glsl"

layout(local_size_x = LANES) in;
PARAMS(ple_params)

layout(constant_id = 1) const uint H = 64;
layout(constant_id = 2) const uint S = 4;

#include "gpu/fold_all.glsl"

float soft_gate(float dot)
{
    float size = max(abs(dot), 1e-6);
    precise float root = size * num_rsqrt(size);
    return num_sigmoid(dot > 0 ? root : dot < 0 ? -root : isnan(dot) ? dot : 0);
}

const uint PER = (H + LANES - 1) / LANES; // columns of an invocation

void main()
{
    uint r = gl_WorkGroupID.y, stream = gl_WorkGroupID.x * H, at = r * S * H + stream;
    float key[PER], hyper[PER], value[PER], of_conv[PER], of_keys[PER], of_queries[PER];
    [[unroll]] for (uint k = 0; k < PER; k++) { // all loads, before anything waits for one
        uint i = min(LANE + k * LANES, H - 1);
        key[k] = F32(p.key).v[at + i];
        hyper[k] = F32(p.hyper).v[at + i];
        value[k] = F32(p.value).v[r * H + i];
        of_keys[k] = F32(p.norm_key).v[stream + i];
        of_queries[k] = F32(p.norm_query).v[stream + i];
        of_conv[k] = F32(p.norm_conv).v[stream + i];
    }
    gpu_row row = Rows(p.rows).v[r];
    uint pending = Segments(p.segments).v[row.segment].pending + row.nth;
    precise float keys = 0, queries = 0, dot = 0, squares = 0;
    [[unroll]] for (uint k = 0; k < PER; k++)
        if (LANE + k * LANES < H) {
            keys = fma(key[k], key[k], keys);
            queries = fma(hyper[k], hyper[k], queries);
        }
    precise float of_key = inverse_root(fold_all(keys) / float(H) + p.eps);
    precise float of_query = inverse_root(fold_all(queries) / float(H) + p.eps);
    [[unroll]] for (uint k = 0; k < PER; k++) {
        precise float kn = key[k] * of_key * of_keys[k], qn = hyper[k] * of_query * of_queries[k];
        if (LANE + k * LANES < H)
            dot = fma(kn, qn, dot);
    }
    precise float gate = soft_gate(fold_all(dot) * num_rsqrt(float(H)));
    [[unroll]] for (uint k = 0; k < PER; k++) {
        precise float gv = gate * value[k];
        value[k] = gv;
        if (LANE + k * LANES < H)
            squares = fma(gv, gv, squares);
    }
    precise float scale = inverse_root(fold_all(squares) / float(H) + p.eps);
    [[unroll]] for (uint k = 0; k < PER; k++) {
        uint i = LANE + k * LANES;
        precise float n = value[k] * scale * of_conv[k];
        if (i >= H)
            continue;
        F32(p.key).v[at + i] = value[k];
        F32(p.normed).v[pending * S * H + stream + i] = n;
    }
}
