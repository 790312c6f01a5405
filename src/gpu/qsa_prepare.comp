// Heads of keys, values and queries on their way into attention: norms, rotation, the cells of the
// caches. src/cpu/qsa.c has the equations.
//
// A team of 32 invocations does one unit of a row:
//
//      0 ..              n_kv keys: norm, rotate, into the cell as KV8
//      n_kv ..           n_kv values: into the cell as KV8
//      2 n_kv            the raw index key, into its cell
//      2 n_kv + 1        the key of the block that the row completes: mean, norm, rotate
//      2 n_kv + 2 ..     queries, then index queries: norm, rotate, in place; queries also times
//                        1 / sqrt(head_dim)
//
// A block's raw keys that other rows of this batch write are taken from where those take them.
// Rows with a negative position have no cell and are left out. Grid: x = ceil(units / 4), y = rows.
#version 460
#extension GL_GOOGLE_include_directive : require
const uint LANES = 128;
#include "gpu/mix.glsl"
#include "gpu/kv8.glsl"

layout(local_size_x = LANES) in;
PARAMS(qsa_prepare_params)

layout(constant_id = 1) const uint HEADS = 2;
layout(constant_id = 2) const uint KV = 1;
layout(constant_id = 3) const uint HEAD_DIM = 64;
layout(constant_id = 4) const uint ROT = 16;
layout(constant_id = 5) const uint INDEX_HEADS = 4;
layout(constant_id = 6) const uint INDEX_DIM = 32;
layout(constant_id = 7) const uint RATIO = 4;

const uint TEAMS = LANES / 32;
const uint MOST = HEAD_DIM > INDEX_DIM ? HEAD_DIM : INDEX_DIM, HALF = ROT / 2;
const uint RAW = 2 * KV, BLOCK = RAW + 1, QUERY = RAW + 2, INDEX_QUERY = QUERY + HEADS;
const uint CELL = KV * HEAD_DIM, INDEX_ROW = (INDEX_HEADS + 1) * INDEX_DIM;

shared float room[TEAMS * MOST];

gpu_row row;
gpu_segment segment;
uint r, unit;
uint64_t cache;

// Element i of the mean of the block's raw keys.
float block_mean(uint i)
{
    precise float sum = 0;
    for (uint t = 0; t < RATIO; t++) {
        uint back = RATIO - 1 - t; // rows before this one
        float x = back <= row.nth ?
                      F32(p.index).v[(r - back) * INDEX_ROW + INDEX_HEADS * INDEX_DIM + i] :
                      F32(cache + segment.index).v[(uint(row.pos) - back) * INDEX_DIM + i];
        sum += x;
    }
    return sum / float(RATIO);
}

// Where a unit's values come from, and its gamma (0: no norm).
uint64_t source()
{
    if (unit < KV)
        return p.k + 4ul * (r * CELL + unit * HEAD_DIM);
    if (unit < RAW)
        return p.v + 4ul * (r * CELL + (unit - KV) * HEAD_DIM);
    if (unit < QUERY)
        return p.index + 4ul * (r * INDEX_ROW + INDEX_HEADS * INDEX_DIM);
    if (unit < INDEX_QUERY)
        return p.q + 4ul * ((r * HEADS + unit - QUERY) * 2 * HEAD_DIM);
    return p.index + 4ul * (r * INDEX_ROW + (unit - INDEX_QUERY) * INDEX_DIM);
}

uint64_t gamma()
{
    return unit < KV                   ? p.k_norm :
           unit == BLOCK               ? p.index_k_norm :
           unit < QUERY                ? 0ul :
           unit < INDEX_QUERY          ? p.q_norm :
                                         p.index_q_norm;
}

// Turns the pairs (x[i], x[i + HALF]) of the room from `at` on.
void rotate(uint at, uint lane)
{
    F32 rope = F32((unit == BLOCK ? p.rope_block : p.rope) + 4ul * (r * ROT));
    for (uint i = lane; i < HALF; i += 32) {
        float cosine = rope.v[i], sine = rope.v[HALF + i];
        float a = room[at + i], b = room[at + i + HALF];
        precise float x = a * cosine - b * sine, y = b * cosine + a * sine;
        room[at + i] = x;
        room[at + i + HALF] = y;
    }
}

// A head of HEAD_DIM values from `at` on as codes and scales of its cell.
void store_kv8(uint at, uint lane)
{
    bool key = unit < KV;
    uint first = uint(row.pos) * CELL + (key ? unit : unit - KV) * HEAD_DIM;
    U32 codes = U32(cache + (key ? 0ul : segment.v));
    U16 scales = U16(cache + (key ? segment.k_scale : segment.v_scale));
    for (uint i = 4 * lane; i < HEAD_DIM; i += 128) {
        uint most = 0, group = at + (i & ~31u), word = 0;
        for (uint j = 0; j < 32; j++)
            most = max(most, num_bits(room[group + j]) & 0x7FFFFFFFu);
        precise float d = num_float(most) * (1.0 / 127);
        uint scale = half_bits(d);
        if (scale >= 0x7C00u)
            atomicMin(U32(p.bad).v[0], r);
        float inverse = d > 1e-30 && scale < 0x7C00u ? num_reciprocal(d) : 0;
        for (uint j = 0; j < 4; j++) {
            precise float x = room[at + i + j] * inverse;
            int code = inverse > 0 ? clamp(num_round(x), -127, 127) : 0;
            word |= (uint(code) & 255u) << (8 * j);
        }
        codes.v[(first + i) / 4] = word;
        if (i % 32 == 0)
            scales.v[(first + i) / 32] = uint16_t(scale);
    }
}

void store_floats(uint at, uint lane, uint n)
{
    uint cell = unit == BLOCK ? uint(row.pos) / RATIO : uint(row.pos);
    uint64_t to = unit == RAW || unit == BLOCK ?
                      cache + (unit == RAW ? segment.index : segment.block) +
                          4ul * (cell * INDEX_DIM) :
                      source();
    precise float root = unit >= QUERY && unit < INDEX_QUERY ? num_rsqrt(float(HEAD_DIM)) : 1.0;
    for (uint i = lane; i < n; i += 32) {
        precise float x = room[at + i] * root;
        F32(to).v[i] = x;
    }
}

void main()
{
    uint lane = LANE % 32, at = LANE / 32 * MOST;
    r = gl_WorkGroupID.y;
    row = Rows(p.rows).v[r];
    if (row.pos < 0)
        return;
    segment = Segments(p.segments).v[row.segment];
    cache = segment.cache + p.cache * segment.cache_bytes;
    unit = gl_WorkGroupID.x * TEAMS + LANE / 32;
    bool any = unit < p.units && (unit != BLOCK || (uint(row.pos) + 1) % RATIO == 0);
    bool of_head = unit < RAW || (unit >= QUERY && unit < INDEX_QUERY);
    uint n = any ? of_head ? HEAD_DIM : INDEX_DIM : 0;
    F32 from = F32(source());
    precise float squares = 0;
    for (uint i = lane; i < n; i += 32) {
        precise float x = unit == BLOCK ? block_mean(i) : from.v[i];
        room[at + i] = x;
        squares = fma(x, x, squares);
    }
    precise float scale = inverse_root(fold_sum(squares) / float(max(n, 1u)) + p.eps);
    if (gamma() != 0ul)
        for (uint i = lane; i < n; i += 32) {
            precise float x = room[at + i] * scale * F32(gamma()).v[i];
            room[at + i] = x;
        }
    barrier();
    if (any && gamma() != 0ul)
        rotate(at, lane);
    barrier();
    if (any && unit < RAW)
        store_kv8(at, lane);
    else if (any)
        store_floats(at, lane, n);
}
