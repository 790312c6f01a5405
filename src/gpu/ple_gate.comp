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

void main()
{
    uint r = gl_WorkGroupID.y, stream = gl_WorkGroupID.x * H, at = r * S * H + stream;
    gpu_row row = Rows(p.rows).v[r];
    uint pending = Segments(p.segments).v[row.segment].pending + row.nth;
    F32 key = F32(p.key), hyper = F32(p.hyper), value = F32(p.value);
    precise float keys = 0, queries = 0, dot = 0, squares = 0;
    for (uint i = LANE; i < H; i += LANES) {
        keys = fma(key.v[at + i], key.v[at + i], keys);
        queries = fma(hyper.v[at + i], hyper.v[at + i], queries);
    }
    precise float of_key = inverse_root(fold_all(keys) / float(H) + p.eps);
    precise float of_query = inverse_root(fold_all(queries) / float(H) + p.eps);
    for (uint i = LANE; i < H; i += LANES) {
        precise float k = key.v[at + i] * of_key * F32(p.norm_key).v[stream + i];
        precise float q = hyper.v[at + i] * of_query * F32(p.norm_query).v[stream + i];
        dot = fma(k, q, dot);
    }
    precise float gate = soft_gate(fold_all(dot) * num_rsqrt(float(H)));
    for (uint i = LANE; i < H; i += LANES) {
        precise float gv = gate * value.v[r * H + i];
        squares = fma(gv, gv, squares);
        key.v[at + i] = gv;
    }
    precise float scale = inverse_root(fold_all(squares) / float(H) + p.eps);
    for (uint i = LANE; i < H; i += LANES) {
        precise float gv = gate * value.v[r * H + i];
        precise float n = gv * scale * F32(p.norm_conv).v[stream + i];
        F32(p.normed).v[pending * S * H + stream + i] = n;
    }
}
