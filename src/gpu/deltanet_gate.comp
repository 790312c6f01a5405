// The scan of gated DeltaNet for many rows, the part behind the state: y = rms(y) * act(z), from
// p.room to where the output product finds it. The orders of deltanet.comp.
//
// Grid: x = NV / HEADS, y = ceil(R / ROWS).
#version 460
#extension GL_GOOGLE_include_directive : require
const uint LANES = 256;
#include "gpu/mix.glsl"

layout(local_size_x = LANES) in;
PARAMS(deltanet_params)

layout(constant_id = 1) const uint NK = 1;
layout(constant_id = 2) const uint NV = 1;
layout(constant_id = 3) const uint DK = 32;
layout(constant_id = 4) const uint DV = 64;
layout(constant_id = 5) const uint HEADS = 1; // HEADS * DV: a multiple of 64 if QUANTISE
layout(constant_id = 6) const bool SILU = false;
layout(constant_id = 7) const bool QUANTISE = true; // to: activations, else f32
#include "gpu/deltanet.glsl"

const uint ROWS = HEADS < 8 ? 8 / HEADS : 1, COLS = HEADS * DV;
const uint GATES = (DV + 31) / 32, ITEMS = LANES / 32;

shared float values[ROWS * COLS];

void gate_item(uint row, uint of, bool any)
{
    uint lane = LANE % 32, iv = gl_WorkGroupID.x * HEADS + of % HEADS;
    F32 from = F32(p.room + uint64_t(row) * (GPU_DELTANET_ROOM(NK, NV, DK, DV) * 4));
    float x[GATES];
    precise float sum = 0;
    [[unroll]] for (uint k = 0; k < GATES; k++) {
        uint j = lane + 32 * k;
        if (any && j < DV) {
            x[k] = from.v[2 * KEY_CHANNELS + iv * DV + j];
            sum = fma(x[k], x[k], sum);
        }
    }
    precise float scale = inverse_root(fold_sum(sum) / float(DV) + p.eps);
    [[unroll]] for (uint k = 0; k < GATES; k++) {
        uint j = lane + 32 * k;
        if (any && j < DV) {
            float z = F32(p.z).v[row * VALUES + iv * DV + j];
            precise float y = x[k] * scale * F32(p.norm).v[j];
            y *= SILU ? num_silu(z) : num_sigmoid(z);
            values[of * DV + j] = y;
        }
    }
}

void main()
{
    uint first = gl_WorkGroupID.y * ROWS, n = min(ROWS, p.R - first);
    for (uint base = 0; base < ROWS * HEADS; base += ITEMS) {
        uint of = base + LANE / 32;
        gate_item(first + of / HEADS, of, of < n * HEADS);
    }
    barrier();
    uint head = gl_WorkGroupID.x * HEADS;
    if (!QUANTISE) {
        for (uint i = LANE; i < n * COLS; i += LANES)
            F32(p.to).v[(first + i / COLS) * VALUES + head * DV + i % COLS] = values[i];
        return;
    }
    for (uint i = 8 * LANE; i < n * COLS; i += 8 * LANES) { // whole teams of eight
        float x[8];
        for (uint j = 0; j < 8; j++)
            x[j] = values[i + j];
        acts_put(x, p.to + uint64_t(first + i / COLS) * GPU_ACTS_BYTES(VALUES), VALUES,
                 (head * DV + i % COLS) / 8);
    }
}
