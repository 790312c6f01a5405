// Gated DeltaNet between its input products and its output product, for HEADS value heads of one
// segment, row after row: src/cpu/deltanet.c has the equations. For a few rows; many rows take
// three dispatches instead, deltanet_rows.comp, deltanet_chain.comp and deltanet_gate.comp.
//
// A state [DK][DV] lives in registers from its first row to its last: TEAM invocations share a
// column, each with PER key dimensions. Columns of neighbours are neighbours in memory. Rows come
// in tiles of at most TILE: what does not depend on the state (convolution, norms, gates) is done
// for a whole tile at once; the scan itself costs two barriers a row.
//
// Sums: of a head's squares 32 lanes and a tree; over key dimensions PER in a chain, then TEAM
// ascending. No bit depends on tiles or on how many rows or segments there are.
//
// Grid: x = NV / HEADS, y = segments.
#version 460
#extension GL_GOOGLE_include_directive : require
const uint LANES = 512;
#include "gpu/mix.glsl"

layout(local_size_x = LANES) in;
PARAMS(deltanet_params)

layout(constant_id = 1) const uint NK = 1;
layout(constant_id = 2) const uint NV = 1;
layout(constant_id = 3) const uint DK = 32;
layout(constant_id = 4) const uint DV = 64;
layout(constant_id = 6) const uint HEADS = 1; // HEADS * DV <= LANES; a multiple of 64 if QUANTISE
layout(constant_id = 7) const uint TEAM = 8;  // divides DK; TEAM * HEADS * DV <= LANES
layout(constant_id = 8) const uint TILE = 8;
layout(constant_id = 9) const bool SILU = false;
layout(constant_id = 10) const bool QUANTISE = true; // to: activations, else f32

#define KERNEL_CONSTANT 5
#include "gpu/deltanet.glsl"

const uint COLS = HEADS * DV, KEYS = HEADS * DK, PER = DK / TEAM;
const uint LOG = WIDTH + KEY_CHANNELS + VALUES + NV;

// In fours, because an invocation reads a run of them.
const uint FOURS = (TILE * KEYS + 3) / 4;
shared vec4 queries[FOURS], keys[FOURS];
shared float values[TILE * COLS]; // v, then y
shared float decays[TILE * HEADS], betas[TILE * HEADS];
shared float first_room[LANES], second_room[LANES];

uint head; // the workgroup's first

// Channel `at` of a row's part of the convolution: queries, keys, values of the workgroup's heads.
uint channel_of(uint at)
{
    if (at < 2 * KEYS) {
        uint of = at % KEYS;
        return at / KEYS * KEY_CHANNELS + key_head(head + of / DK) * DK + of % DK;
    }
    return 2 * KEY_CHANNELS + head * DV + (at - 2 * KEYS);
}

// Whether channel `at` is written by this workgroup: heads with one key head leave it to the first.
bool owns(uint at)
{
    return at >= 2 * KEYS || (head + at % KEYS / DK) % (NV / NK) == 0;
}

uint log_row(uint r)
{
    return (segment.pending + r) * LOG;
}

void load_row(uint r, uint to, uint at)
{
    uint ch = channel_of(at);
    float x = convolved(r, ch);
    if (at < KEYS)
        queries[(to * KEYS + at) / 4][(to * KEYS + at) % 4] = x;
    else if (at < 2 * KEYS)
        keys[(to * KEYS + at - KEYS) / 4][(to * KEYS + at - KEYS) % 4] = x;
    else
        values[to * COLS + at - 2 * KEYS] = x;
    if (!owns(at))
        return;
    if (p.log != 0)
        F32(p.log).v[log_row(r) + ch] = inputs[KEEP];
    if (r + 1 == segment.n)
        keep_inputs(ch);
}

// Decay and beta of a head of row r.
void load_gates(uint r, uint to, uint of)
{
    uint iv = head + of;
    vec2 gates = gates_of(r, iv);
    decays[to * HEADS + of] = gates.x;
    betas[to * HEADS + of] = gates.y;
    if (p.log != 0)
        F32(p.log).v[log_row(r) + LOG - NV + iv] = gates.x;
}

void load_tile(uint first, uint n)
{
    const uint each = 2 * KEYS + COLS;
    for (uint i = LANE; i < n * each; i += LANES)
        load_row(first + i / each, i / each, i % each);
    for (uint i = LANES - 1 - LANE; i < n * HEADS; i += LANES) // by lanes without a channel, if any
        load_gates(first + i / HEADS, i / HEADS, i % HEADS);
}

// Queries and keys of a tile to length 1, queries also times 1 / sqrt(DK). An item is a head of a
// row; its keys go to the log.
void norm_tile(uint first, uint n)
{
    uint lane = LANE % 32;
    for (uint base = 0; base < 2 * n * HEADS; base += LANES / 32) {
        uint item = base + LANE / 32, of = item / 2;
        bool any = item < 2 * n * HEADS, key = item % 2 != 0;
        precise float sum = 0;
        for (uint i = lane; any && i < DK; i += 32) {
            uint at = of * DK + i;
            float x = key ? keys[at / 4][at % 4] : queries[at / 4][at % 4];
            sum = fma(x, x, sum);
        }
        precise float scale = unit_scale(sum), root = unit_root(key);
        uint iv = head + of % HEADS;
        bool log = p.log != 0 && key && iv % (NV / NK) == 0;
        for (uint i = lane; any && i < DK; i += 32) {
            uint at = of * DK + i;
            precise float x = key ? keys[at / 4][at % 4] : queries[at / 4][at % 4];
            x = x * scale * root;
            if (key)
                keys[at / 4][at % 4] = x;
            else
                queries[at / 4][at % 4] = x;
            if (log)
                F32(p.log).v[log_row(first + of / HEADS) + WIDTH + key_head(iv) * DK + i] = x;
        }
    }
}

// Elements at .. at + 3 of keys or queries, of a run of PER from a multiple of PER on.
vec4 keys_at(uint at)
{
    vec4 k;
    [[unroll]] for (uint j = 0; PER % 4 != 0 && j < 4; j++)
        k[j] = keys[min((at + j) / 4, FOURS - 1)][(at + j) % 4];
    return PER % 4 == 0 ? keys[at / 4] : k;
}

vec4 queries_at(uint at)
{
    vec4 q;
    [[unroll]] for (uint j = 0; PER % 4 != 0 && j < 4; j++)
        q[j] = queries[min((at + j) / 4, FOURS - 1)][(at + j) % 4];
    return PER % 4 == 0 ? queries[at / 4] : q;
}

// z and weights of the norm for item `of` of a tile, elements LANE % 32, 32 further, ...
const uint GATES = (DV + 31) / 32;
float gate_z[GATES], gate_norm[GATES];

void gate_load(uint first, uint n, uint of)
{
    uint row = segment.first + first + min(of / HEADS, n - 1);
    uint z = row * VALUES + (head + of % HEADS) * DV;
    [[unroll]] for (uint k = 0; k < GATES; k++) {
        uint j = min(LANE % 32 + 32 * k, DV - 1);
        gate_z[k] = F32(p.z).v[z + j];
        gate_norm[k] = F32(p.norm).v[j];
    }
}

// y = rms(y) * act(z) of a tile, whose first items are loaded.
void gate_tile(uint first, uint n)
{
    uint lane = LANE % 32;
    for (uint base = 0; base < n * HEADS; base += LANES / 32) {
        uint of = base + LANE / 32;
        bool any = of < n * HEADS;
        precise float sum = 0;
        for (uint j = lane; any && j < DV; j += 32)
            sum = fma(values[of * DV + j], values[of * DV + j], sum);
        precise float scale = inverse_root(fold_sum(sum) / float(DV) + p.eps);
        if (base > 0)
            gate_load(first, n, of);
        [[unroll]] for (uint k = 0; k < GATES; k++) {
            uint j = lane + 32 * k;
            if (any && j < DV) {
                precise float y = values[of * DV + j] * scale * gate_norm[k];
                y *= SILU ? num_silu(gate_z[k]) : num_sigmoid(gate_z[k]);
                values[of * DV + j] = y;
            }
        }
    }
}

// y of a tile to where the output product finds it.
void store_tile(uint first, uint n)
{
    uint row = segment.first + first;
    if (!QUANTISE) {
        for (uint i = LANE; i < n * COLS; i += LANES)
            F32(p.to).v[(row + i / COLS) * VALUES + head * DV + i % COLS] = values[i];
        return;
    }
    for (uint i = 8 * LANE; i < n * COLS; i += 8 * LANES) { // whole teams of eight
        float x[8];
        for (uint j = 0; j < 8; j++)
            x[j] = values[i + j];
        acts_put(x, p.to + uint64_t(row + i / COLS) * GPU_ACTS_BYTES(VALUES), VALUES,
                 (head * DV + i % COLS) / 8);
    }
}

// The other plane's window where no row is.
void keep_windows()
{
    for (uint i = LANE; i < 2 * KEYS + COLS; i += LANES)
        if (owns(i))
            keep_window(channel_of(i));
}

void main()
{
    segment = Segments(p.segments).v[gl_WorkGroupID.y];
    head = gl_WorkGroupID.x * HEADS;
    uint t = LANE, col = t % COLS, team = t / COLS, of = col / DV;
    bool busy = team < TEAM;
    uint at = ((head + of) * DK + team * PER) * DV + col % DV;
    float st[PER];
    F32 from = F32(segment.state + p.st_at[segment.plane] * 4ul);
    F32 to = F32(segment.state + p.st_at[1 - segment.plane] * 4ul);
    [[unroll]] for (uint i = 0; i < PER; i++)
        st[i] = busy ? from.v[at + i * DV] : 0;

    for (uint first = 0; first < segment.n; first += TILE) {
        uint n = min(TILE, segment.n - first);
        load_tile(first, n);
        gate_load(first, n, LANE / 32);
        barrier();
        norm_tile(first, n);
        barrier();
        for (uint r = 0; r < n; r++) {
            uint key = (r * HEADS + of) * DK + team * PER;
            float decay = decays[r * HEADS + of];
            precise float m = 0, y = 0;
            if (busy) {
                [[unroll]] for (uint i = 0; i < PER; i += 4) {
                    vec4 k = keys_at(key + i);
                    [[unroll]] for (uint j = 0; j < 4 && i + j < PER; j++) {
                        precise float aged = decay * st[i + j];
                        st[i + j] = aged;
                        m = fma(aged, k[j], m);
                    }
                }
            }
            first_room[t] = m;
            barrier();
            m = 0;
            for (uint i = 0; i < TEAM; i++)
                m += first_room[i * COLS + col];
            precise float delta = betas[r * HEADS + of] * (values[r * COLS + col] - m);
            if (busy) {
                [[unroll]] for (uint i = 0; i < PER; i += 4) {
                    vec4 k = keys_at(key + i), q = queries_at(key + i);
                    [[unroll]] for (uint j = 0; j < 4 && i + j < PER; j++) {
                        precise float next = fma(k[j], delta, st[i + j]);
                        st[i + j] = next;
                        y = fma(next, q[j], y);
                    }
                }
            }
            second_room[t] = y;
            barrier();
            if (team != 0)
                continue;
            y = 0;
            for (uint i = 0; i < TEAM; i++)
                y += second_room[i * COLS + col];
            values[r * COLS + col] = y;
            if (p.log != 0)
                F32(p.log).v[log_row(first + r) + WIDTH + KEY_CHANNELS + head * DV + col] = delta;
        }
        if (busy && first + n == segment.n) // on its way while the rows are gated
            [[unroll]] for (uint i = 0; i < PER; i++)
                to.v[at + i * DV] = st[i];
        barrier();
        gate_tile(first, n);
        barrier();
        store_tile(first, n);
        barrier();
    }
    if (segment.n > 0)
        return;
    keep_windows();
    if (busy)
        [[unroll]] for (uint i = 0; i < PER; i++)
            to.v[at + i * DV] = st[i];
}
