// Attention of a row's query heads over one part of what the row sees: PART positions in ascending
// order, with the part's own largest score. src/cpu/qsa.c has the equations.
//
// A workgroup does up to AT_ONCE query heads that share a kv head. Scores: two invocations for a
// position, each with half of the dimensions. Values: an invocation has four dimensions and every
// SHARE-th position; the shares are added in ascending order.
//
// Grid: x = parts * ceil(heads of a kv head / AT_ONCE), y = kv heads, z = rows under way.
#version 460
#extension GL_GOOGLE_include_directive : require
const uint LANES = 256;
#include "gpu/mix.glsl"
#include "gpu/kv8.glsl"

const uint PART = 128, AT_ONCE = 4;
layout(local_size_x = LANES) in;
PARAMS(attend_params)

layout(constant_id = 1) const uint HEADS = 2;
layout(constant_id = 2) const uint KV = 1;
layout(constant_id = 3) const uint HEAD_DIM = 64;
layout(constant_id = 4) const uint RATIO = 4;
layout(constant_id = 5) const uint BUDGET = 16;
layout(constant_id = 6) const uint PARTS = 1; // the most of a row

const uint H = HEADS / KV, SETS = (H + AT_ONCE - 1) / AT_ONCE, CELL = KV * HEAD_DIM;
const uint GROUPS = HEAD_DIM / 32, LOW = (GROUPS + 1) / 2, WORDS = HEAD_DIM / 4;
const uint SHARE = LANES / WORDS;

shared vec4 query[AT_ONCE * WORDS];
shared uint cell[PART];               // positions
shared float score[AT_ONCE * PART];   // then weights
shared float half_score[AT_ONCE * PART];
shared float eight_most[LANES / 8];
shared vec4 total[SHARE * AT_ONCE * WORDS];

#include "gpu/visible.glsl"

void load_queries(uint r, uint head, uint heads)
{
    for (uint i = LANE; i < AT_ONCE * WORDS; i += LANES) {
        uint ih = i / WORDS, at = (r * HEADS + head + ih) * 2 * HEAD_DIM + i % WORDS * 4;
        F32 q = F32(p.q);
        query[i] = ih < heads ? vec4(q.v[at], q.v[at + 1], q.v[at + 2], q.v[at + 3]) : vec4(0);
    }
}

// Half of the dimensions of a position, with all heads.
void score_position(uint64_t cache, gpu_segment segment, uint kv, uint n)
{
    uint i = LANE % PART, upper = LANE / PART;
    if (i >= n)
        return;
    uint at = cell[i] * CELL + kv * HEAD_DIM;
    U32 codes = U32(cache + at);
    U16 scales = U16(cache + segment.k_scale + at / 32 * 2);
    precise float sum[AT_ONCE];
    [[unroll]] for (uint ih = 0; ih < AT_ONCE; ih++)
        sum[ih] = 0;
    for (uint g = upper * LOW; g < (upper == 0 ? LOW : GROUPS); g++) {
        precise vec4 dot[AT_ONCE];
        [[unroll]] for (uint ih = 0; ih < AT_ONCE; ih++)
            dot[ih] = vec4(0);
        [[unroll]] for (uint w = 0; w < 8; w++) {
            vec4 code = code_floats(codes.v[g * 8 + w]);
            [[unroll]] for (uint ih = 0; ih < AT_ONCE; ih++)
                dot[ih] = fma(query[ih * WORDS + g * 8 + w], code, dot[ih]);
        }
        float scale = half_float(uint(scales.v[g]));
        [[unroll]] for (uint ih = 0; ih < AT_ONCE; ih++) {
            precise float all = (dot[ih].x + dot[ih].y) + (dot[ih].z + dot[ih].w);
            sum[ih] = fma(all, scale, sum[ih]);
        }
    }
    [[unroll]] for (uint ih = 0; ih < AT_ONCE; ih++) {
        if (upper == 0)
            score[ih * PART + i] = sum[ih];
        else
            half_score[ih * PART + i] = sum[ih];
    }
}

// Scores of a head to weights: its largest and the sum of the weights by 64 invocations.
void soften(uint n, uint row_head, uint part, uint heads)
{
    uint ih = LANE / 64, lane = LANE % 64, at = ih * PART + lane;
    precise float x = score[at] + half_score[at], y = score[at + 64] + half_score[at + 64];
    const float least = num_float(0xFF7FFFFFu);
    float most = max(lane < n ? x : least, lane + 64 < n ? y : least);
    [[unroll]] for (uint step = 1; step < 8; step *= 2)
        most = max(most, subgroupShuffleXor(most, step));
    if (LANE % 8 == 0)
        eight_most[LANE / 8] = most;
    barrier();
    [[unroll]] for (uint i = 0; i < 8; i++)
        most = max(most, eight_most[ih * 8 + i]);
    precise float off = x - most, on = y - most;
    x = lane < n ? num_exp(off) : 0;
    y = lane + 64 < n ? num_exp(on) : 0;
    score[at] = x;
    score[at + 64] = y;
    half_score[at] = x + y;
    for (uint step = 32; step > 0; step /= 2) {
        barrier();
        if (lane < step) {
            precise float sum = half_score[at] + half_score[at + step];
            half_score[at] = sum;
        }
    }
    if (lane == 0 && ih < heads) {
        F32(p.part_max).v[(row_head + ih) * PARTS + part] = most;
        F32(p.part_sum).v[(row_head + ih) * PARTS + part] = half_score[at];
    }
    barrier();
}

// An invocation's share of the positions, of four dimensions.
void add_values(uint64_t cache, gpu_segment segment, uint kv, uint n)
{
    uint w = LANE % WORDS, share = LANE / WORDS;
    if (share >= SHARE)
        return;
    precise vec4 sum[AT_ONCE];
    [[unroll]] for (uint ih = 0; ih < AT_ONCE; ih++)
        sum[ih] = vec4(0);
    for (uint i = share; i < n; i += SHARE) {
        uint at = cell[i] * CELL + kv * HEAD_DIM + 4 * w;
        float scale = half_float(uint(U16(cache + segment.v_scale).v[at / 32]));
        vec4 code = code_floats(U32(cache + segment.v).v[at / 4]);
        [[unroll]] for (uint ih = 0; ih < AT_ONCE; ih++) {
            precise float by = score[ih * PART + i] * scale;
            sum[ih] = fma(vec4(by), code, sum[ih]);
        }
    }
    [[unroll]] for (uint ih = 0; ih < AT_ONCE; ih++)
        total[(share * AT_ONCE + ih) * WORDS + w] = sum[ih];
}

void store_part(uint row_head, uint part, uint heads)
{
    for (uint i = LANE; i < heads * WORDS; i += LANES) {
        precise vec4 sum = total[i];
        for (uint share = 1; share < SHARE; share++)
            sum += total[share * AT_ONCE * WORDS + i];
        uint at = ((row_head + i / WORDS) * PARTS + part) * HEAD_DIM + i % WORDS * 4;
        [[unroll]] for (uint j = 0; j < 4; j++)
            F32(p.part_out).v[at + j] = sum[j];
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

    if (LANE < n)
        cell[LANE] = visible_position(r, row.pos, part * PART + LANE);
    if (LANE >= n && LANE < PART)
        for (uint ih = 0; ih < AT_ONCE; ih++)
            score[ih * PART + LANE] = half_score[ih * PART + LANE] = 0;
    load_queries(r, head, heads);
    barrier();
    score_position(cache, segment, kv, n);
    barrier();
    soften(n, row_head, part, heads);
    add_values(cache, segment, kv, n);
    barrier();
    store_part(row_head, part, heads);
}
