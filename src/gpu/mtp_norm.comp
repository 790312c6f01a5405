// What the products of the draft head's fold take: the normed embedding of a row's token, and the
// normed streams of its residual. src/cpu/mtp.c has the equations.
//
// Workgroup x < S: a stream; S: the embedding. With one norm for all streams each workgroup sums up
// all of them. Rows with a negative position are left out. Grid: x = S + 1, y = rows.
#version 460
#extension GL_GOOGLE_include_directive : require
const uint LANES = 256;
#include "gpu/mix.glsl"

layout(local_size_x = LANES) in;
PARAMS(mtp_norm_params)

layout(constant_id = 1) const uint H = 64;
layout(constant_id = 2) const uint S = 4;
layout(constant_id = 3) const uint FORMAT = 2;
layout(constant_id = 4) const uint GROUP = 64;
layout(constant_id = 5) const bool ALL = true; // one norm over all streams
layout(constant_id = 6) const bool QUANTISE_EMBED = true;
layout(constant_id = 7) const bool QUANTISE_STREAMS = true;

#include "gpu/row.glsl"
#include "gpu/fold_all.glsl"

void main()
{
    uint r = gl_WorkGroupID.y, ig = gl_WorkGroupID.x;
    gpu_row row = Rows(p.rows).v[r];
    if (row.pos < 0)
        return;
    bool embed = ig == S, whole = ALL && !embed;
    bool quantise = embed ? QUANTISE_EMBED : QUANTISE_STREAMS;
    F32 wide = F32(Addresses(p.wide).v[r]);
    F32 gamma = F32(embed ? p.norm_embedding : p.norm_hidden + 4ul * (ig * H));
    uint64_t to = embed ? p.embed : p.streams;
    uint to_row = embed ? r : r * S + ig, from = embed || whole ? 0 : ig * H, n = whole ? S * H : H;

    precise float squares = 0;
    for (uint i = LANE; i < n; i += LANES) {
        float x = embed ? row_value(uint(row.token), H, i) : wide.v[from + i];
        squares = fma(x, x, squares);
    }
    precise float scale = inverse_root(fold_all(squares) / float(n) + p.eps);
    for (uint at = 8 * LANE; at < H; at += 8 * LANES) { // whole teams of eight when quantised
        float x[8];
        for (uint j = 0; j < 8; j++) {
            uint i = at + j;
            precise float y = 0;
            if (i < H)
                y = (embed ? row_value(uint(row.token), H, i) : wide.v[ig * H + i]) * scale *
                    gamma.v[i];
            if (!quantise && i < H)
                F32(to).v[to_row * H + i] = y;
            x[j] = y;
        }
        if (quantise)
            acts_put(x, to + uint64_t(to_row) * GPU_ACTS_BYTES(H), H, at / 8);
    }
}
