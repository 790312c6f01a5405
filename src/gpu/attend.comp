// Attention of a row's query heads over one part of what the row sees: PART positions in ascending
// order, with the part's own largest score. src/cpu/qsa.c has the equations.
//
// A workgroup does up to AT_ONCE query heads that share a kv head, so that a cell is read once for
// all of them. Scores: keys go through shared memory in steps of two groups, one of each half of
// the dimensions; an invocation has POSITIONS positions, QUERIES heads and a half, and the halves
// are neighbours. Values: an invocation has four dimensions, all heads and every SHARE-th position;
// the shares are added in ascending order. No bit depends on AT_ONCE.
//
// Grid: x = parts * ceil(heads of a kv head / AT_ONCE), y = kv heads, z = rows under way.
#version 460
#extension GL_GOOGLE_include_directive : require
const uint LANES = 256;
#include "gpu/mix.glsl"
#include "gpu/kv8.glsl"

const uint PART = 128;
layout(local_size_x = LANES) in;
PARAMS(attend_params)

layout(constant_id = 1) const uint HEADS = 2;
layout(constant_id = 2) const uint KV = 1;
layout(constant_id = 3) const uint HEAD_DIM = 64;
layout(constant_id = 4) const uint RATIO = 4;
layout(constant_id = 5) const uint BUDGET = 16;
layout(constant_id = 6) const uint PARTS = 1;   // the most of a row
layout(constant_id = 7) const uint AT_ONCE = 4; // or 8, or 12

const uint H = HEADS / KV, SETS = (H + AT_ONCE - 1) / AT_ONCE, CELL = KV * HEAD_DIM;
const uint GROUPS = HEAD_DIM / 32, LOW = (GROUPS + 1) / 2, WORDS = HEAD_DIM / 4;
const uint SHARE = LANES / WORDS, SLICES = AT_ONCE / 4;
const uint POSITIONS = AT_ONCE > 4 ? 2 : 1, QUERIES = AT_ONCE / POSITIONS;
const uint PAIRS = POSITIONS * QUERIES, EACH = PART / POSITIONS;

// Queries, whose upper half is a unit further on, so that halves lie in different banks; and a step
// of keys, four units a position. Later the shares of four heads.
const uint QUERY = WORDS + 1, KEYS = AT_ONCE * QUERY;
const uint TOTALS = SHARE * 4 * WORDS, STEP = KEYS + 4 * PART;
shared uvec4 room[STEP > TOTALS ? STEP : TOTALS];
shared float key_scale[2 * PART];
shared uint cell[PART];              // positions
shared vec4 score[PART * SLICES];    // then weights: those of a position are neighbours
shared float eight_most[8 * AT_ONCE];

#include "gpu/visible.glsl"

uint query_at(uint ih, uint w)
{
    return ih * QUERY + w + (w < LOW * 8 ? 0 : 1);
}

// Unit u of a position of a step, so that eight neighbours that read units of the same number meet
// no bank twice.
uint key_at(uint i, uint u)
{
    return KEYS + i * 4 + (u ^ (i / 2 % 4));
}

void load_queries(uint r, uint head, uint heads)
{
    for (uint i = LANE; i < AT_ONCE * WORDS; i += LANES) {
        uint ih = i / WORDS, w = i % WORDS, at = (r * HEADS + head + ih) * 2 * WORDS + w;
        vec4 q = vec4(0);
        if (ih < heads)
            q = Floats4(p.q).v[at];
        room[query_at(ih, w)] = floatBitsToUint(q);
    }
}

uvec4 next_keys[2];
float next_scale;

// Group s of the lower half and of the upper, if it has one.
uint step_group(uint s, uint upper)
{
    return min(s + upper * LOW, GROUPS - 1);
}

void step_load(uint64_t cache, uint64_t scales, uint kv, uint s)
{
    [[unroll]] for (uint k = 0; k < 2; k++) {
        uint i = LANE / 4 + k * LANES / 4, u = LANE % 4;
        uint64_t at = cache + (uint64_t(cell[i]) * KV + kv) * HEAD_DIM;
        next_keys[k] = Fours(at + step_group(s, u / 2) * 32 + u % 2 * 16).v[0];
    }
    uint at = (cell[LANE / 2] * KV + kv) * GROUPS + step_group(s, LANE % 2);
    next_scale = half_float(uint(U16(scales).v[at]));
}

void step_store()
{
    [[unroll]] for (uint k = 0; k < 2; k++)
        room[key_at(LANE / 4 + k * LANES / 4, LANE % 4)] = next_keys[k];
    key_scale[LANE] = next_scale;
}

float pair_sum[PAIRS];

// A group of an invocation's positions with its queries.
void step_add(uint s, uint first, uint i)
{
    uint upper = LANE % 2;
    precise vec4 dot[PAIRS];
    [[unroll]] for (uint k = 0; k < PAIRS; k++)
        dot[k] = vec4(0);
    [[unroll]] for (uint u = 0; u < 2; u++) {
        uvec4 codes[POSITIONS];
        [[unroll]] for (uint ip = 0; ip < POSITIONS; ip++)
            codes[ip] = room[key_at(i + ip * EACH, 2 * upper + u)];
        [[unroll]] for (uint w = 0; w < 4; w++) {
            vec4 code[POSITIONS];
            [[unroll]] for (uint ip = 0; ip < POSITIONS; ip++)
                code[ip] = code_floats(codes[ip][w]);
            uint at = query_at(first, (upper * LOW + s) * 8 + u * 4 + w);
            [[unroll]] for (uint iq = 0; iq < QUERIES; iq++) {
                vec4 q = uintBitsToFloat(room[at + iq * QUERY]);
                [[unroll]] for (uint ip = 0; ip < POSITIONS; ip++)
                    dot[iq * POSITIONS + ip] = fma(q, code[ip], dot[iq * POSITIONS + ip]);
            }
        }
    }
    [[unroll]] for (uint k = 0; k < PAIRS; k++) {
        precise float all = (dot[k].x + dot[k].y) + (dot[k].z + dot[k].w);
        pair_sum[k] = fma(all, key_scale[2 * (i + k % POSITIONS * EACH) + upper], pair_sum[k]);
    }
}

void score_positions(uint64_t cache, uint64_t scales, uint kv)
{
    uint upper = LANE % 2, i = LANE / 2 % EACH, first = LANE / 2 / EACH * QUERIES;
    [[unroll]] for (uint k = 0; k < PAIRS; k++)
        pair_sum[k] = 0;
    step_load(cache, scales, kv, 0);
    for (uint s = 0; s < LOW; s++) {
        barrier(); // the step before was read
        step_store();
        barrier();
        step_load(cache, scales, kv, min(s + 1, LOW - 1));
        if (upper * LOW + s < GROUPS)
            step_add(s, first, i);
    }
    [[unroll]] for (uint k = 0; k < PAIRS; k++) {
        precise float both = pair_sum[k] + subgroupShuffleXor(pair_sum[k], 1);
        uint ih = first + k / POSITIONS, at = (i + k % POSITIONS * EACH) * SLICES + ih / 4;
        if (k % 2 == upper)
            score[at][ih % 4] = both;
    }
}

// Scores to weights. 64 invocations of a head look for its largest, then eight add its weights.
void soften(uint n, uint row_head, uint part, uint heads)
{
    const float least = num_float(0xFF7FFFFFu);
    uint lane = LANE % 64, of = LANE / 64;
    float most[SLICES];
    [[unroll]] for (uint k = 0; k < SLICES; k++) {
        float x = lane < n ? score[lane * SLICES + k][of] : least;
        float y = lane + 64 < n ? score[(lane + 64) * SLICES + k][of] : least;
        most[k] = max(x, y);
        [[unroll]] for (uint step = 1; step < 8; step *= 2)
            most[k] = max(most[k], subgroupShuffleXor(most[k], step));
        if (LANE % 8 == 0)
            eight_most[32 * k + LANE / 8] = most[k];
    }
    barrier();
    [[unroll]] for (uint k = 0; k < SLICES; k++) {
        [[unroll]] for (uint i = 0; i < 8; i++)
            most[k] = max(most[k], eight_most[32 * k + of * 8 + i]);
        uint at = lane * SLICES + k, far = at + 64 * SLICES, ih = 4 * k + of;
        precise float off = score[at][of] - most[k], on = score[far][of] - most[k];
        score[at][of] = lane < n ? num_exp(off) : 0;
        score[far][of] = lane + 64 < n ? num_exp(on) : 0;
        if (lane == 0 && ih < heads)
            F32(p.part_max).v[(row_head + ih) * PARTS + part] = most[k];
    }
    barrier();
    if (LANE >= 8 * AT_ONCE) // whole teams of eight
        return;
    uint ih = LANE / 8;
    precise float s[16];
    [[unroll]] for (uint i = 0; i < 16; i++)
        s[i] = score[(LANE % 8 + 8 * i) * SLICES + ih / 4][ih % 4];
    HALVES(s, 8)
    HALVES(s, 4)
    HALVES(s, 2)
    HALVES(s, 1)
    precise float sum = s[0];
    [[unroll]] for (uint step = 4; step > 0; step /= 2) {
        precise float other = sum + subgroupShuffleXor(sum, step);
        sum = other;
    }
    if (LANE % 8 == 0 && ih < heads)
        F32(p.part_sum).v[(row_head + ih) * PARTS + part] = sum;
}

// Cells of an invocation under way: of few heads more, and while scores and the cells before are
// computed. H200, soon after 357be86, bench, 8 layers: 4 and 8 1,129 tok/s, 16 1,120.
const bool EARLY = AT_ONCE == 4;
const uint DEPTH = EARLY ? 8 : 4, TURN = DEPTH * SHARE;

vec4 share_sum[AT_ONCE];
uint next_code[DEPTH], next_code_scale[DEPTH];

// Words of the values of positions i, i + SHARE, ...; behind the last the last again.
void values_load(gpu_segment segment, uint64_t cache, uint kv, uint n, uint i)
{
    uint w = LANE % WORDS;
    [[unroll]] for (uint d = 0; d < DEPTH; d++) {
        uint at = (cell[min(i + d * SHARE, n - 1)] * KV + kv) * WORDS + w;
        next_code[d] = U32(cache + segment.v).v[at];
        next_code_scale[d] = uint(U16(cache + segment.v_scale).v[at / 8]);
    }
}

// An invocation's share of the positions, of four dimensions; with EARLY the first are loaded.
void add_values(gpu_segment segment, uint64_t cache, uint kv, uint n)
{
    [[unroll]] for (uint ih = 0; ih < AT_ONCE; ih++)
        share_sum[ih] = vec4(0);
    for (uint i = LANE / WORDS; i < n; i += TURN) {
        if (!EARLY)
            values_load(segment, cache, kv, n, i);
        uint code[DEPTH], scale[DEPTH];
        [[unroll]] for (uint d = 0; d < DEPTH; d++) {
            code[d] = next_code[d];
            scale[d] = next_code_scale[d];
        }
        if (EARLY && i + TURN < n)
            values_load(segment, cache, kv, n, i + TURN);
        [[unroll]] for (uint d = 0; d < DEPTH; d++)
            if (i + d * SHARE < n) {
                vec4 x = code_floats(code[d]);
                float by_scale = half_float(scale[d]);
                [[unroll]] for (uint k = 0; k < SLICES; k++) {
                    precise vec4 by = score[(i + d * SHARE) * SLICES + k] * by_scale;
                    [[unroll]] for (uint j = 0; j < 4; j++)
                        share_sum[4 * k + j] = fma(vec4(by[j]), x, share_sum[4 * k + j]);
                }
            }
    }
}

// Shares of four heads at a time.
void store_part(uint row_head, uint part, uint heads)
{
    uint w = LANE % WORDS, share = LANE / WORDS;
    [[unroll]] for (uint k = 0; k < SLICES; k++) {
        barrier();
        if (share < SHARE)
            [[unroll]] for (uint j = 0; j < 4; j++)
                room[(share * 4 + j) * WORDS + w] = floatBitsToUint(share_sum[4 * k + j]);
        barrier();
        for (uint i = LANE; i < 4 * WORDS && 4 * k + i / WORDS < heads; i += LANES) {
            precise vec4 sum = uintBitsToFloat(room[i]);
            for (uint is = 1; is < SHARE; is++)
                sum += uintBitsToFloat(room[is * 4 * WORDS + i]);
            uint to = ((row_head + 4 * k + i / WORDS) * PARTS + part) * WORDS + i % WORDS;
            FloatsOut4(p.part_out).v[to] = sum;
        }
    }
}

void main()
{
    uint r = p.first + gl_WorkGroupID.z, kv = gl_WorkGroupID.y;
    uint part = gl_WorkGroupID.x / SETS, set = gl_WorkGroupID.x % SETS;
    gpu_row row = Rows(p.rows).v[r];
    uint all = visible_count(row.pos), heads = min(AT_ONCE, H - set * AT_ONCE);
    if (row.pos < 0 || part * PART >= all)
        return;
    gpu_segment segment = Segments(p.segments).v[row.segment];
    uint64_t cache = segment.cache + p.cache * segment.cache_bytes;
    uint n = min(PART, all - part * PART), head = kv * H + set * AT_ONCE;
    uint row_head = gl_WorkGroupID.z * HEADS + head;

    if (LANE < PART) // behind the last the last again
        cell[LANE] = visible_position(r, row.pos, part * PART + min(LANE, n - 1));
    load_queries(r, head, heads);
    barrier();
    if (EARLY)
        values_load(segment, cache, kv, n, LANE / WORDS);
    score_positions(cache, cache + segment.k_scale, kv);
    barrier();
    soften(n, row_head, part, heads);
    add_values(segment, cache, kv, n);
    store_part(row_head, part, heads);
}
