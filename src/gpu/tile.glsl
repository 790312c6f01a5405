// What products of many rows share: a workgroup has BLOCK outputs of TILE rows, goes through their
// groups together, and keeps those of weights and activations that are its turn in shared memory,
// as signed bytes in steps of Q4. Lanes of linear.comp are walked one after another, so that every
// bit is the same.
//
// Who includes this defines, after it, what is done with a group:
//     tile_begin()   once, before the first
//     tile_clear()   the lane's sums are 0
//     tile_group()   the group in shared memory is added to the lane's sums
//     tile_lane(t)   lane t's sums are added to all
// and calls tile_products. tile_dot.glsl and coop/tile_coop.glsl are these; linear_tile.glsl and
// moe_tile.glsl say which rows, which weights, and where outputs go.
#ifndef GPU_TILE_GLSL
#define GPU_TILE_GLSL
#extension GL_GOOGLE_include_directive : require
#include "gpu/memory.glsl"
#include "gpu/params_linear.h"
#include "gpu/record.glsl"

layout(local_size_x_id = 1) in;
layout(constant_id = 1) const uint THREADS = 256;
layout(constant_id = 2) const uint COLS = 2560;
layout(constant_id = 3) const uint TILE = 64;
layout(constant_id = 4) const uint BLOCK = 64;
#ifdef RUNS_CONSTANT
layout(constant_id = RUNS_CONSTANT) const uint RUNS = 0; // lanes that each have groups in a row
#else
const uint RUNS = 0;
#endif

const uint GROUPS = COLS / 64, LANES = RUNS > 0 ? RUNS : GPU_LANES(COLS);
const uint RUN = GROUPS / LANES, STEP = RUNS > 0 ? 1 : LANES; // from a lane's group to its next

// A row of a group has 64 bytes and 16 more, which keeps rows in different banks.
#ifdef TILE_SMALL // 8 bytes a unit, for devices whose matrices are 8 wide
#define UNIT uvec2
const uint UNITS = 10, UNIT_BYTES = 8;
#define ROOM_PUT(room, row, at, u)                                                                 \
    room[(row)*UNITS + 2 * (at)] = (u).xy, room[(row)*UNITS + 2 * (at) + 1] = (u).zw
#else
#define UNIT uvec4
const uint UNITS = 5, UNIT_BYTES = 16;
#define ROOM_PUT(room, row, at, u) room[(row)*UNITS + (at)] = u
#endif

shared UNIT codes[BLOCK * UNITS];
shared UNIT high[TILE * UNITS], low[TILE * UNITS];
// Bits of floats, because a matrix of them goes like one of sums.
shared int w_scale[BLOCK], w_bias[BLOCK], x_scale[TILE], x_sum[TILE];

// What an invocation brings of a group: halves of rows of weights, quarters of rows of activations.
const uint W_LOADS = (2 * BLOCK + THREADS - 1) / THREADS;
const uint X_LOADS = (4 * TILE + THREADS - 1) / THREADS;
const uint WIDER = BLOCK > TILE ? BLOCK : TILE, S_LOADS = (WIDER + THREADS - 1) / THREADS;

uvec4 next_w[W_LOADS], next_x[2 * X_LOADS];
vec2 next_of_w[S_LOADS], next_of_x[S_LOADS];

// Of this workgroup: the weights and how many of their rows it has, from `first_out` on.
Weights tile_m;
uint tile_bits, first_out, n_outs;
uint64_t tile_x[X_LOADS], tile_scales[S_LOADS]; // rows of activations this invocation brings

float bf16(uint16_t x)
{
    return uintBitsToFloat(uint(x) << 16);
}

uvec4 half_load(uint64_t from)
{
    if (tile_bits == 4)
        return Fours(from).v[0];
    if (tile_bits == 2)
        return uvec4(Twos(from).v[0], 0, 0);
    return uvec4(Words(from).v[0], Words(from).v[1], Words(from).v[2], 0);
}

// Even and odd codes of elements 8j .. 8j+7 of a half, in steps of Q4.
uvec2 half_codes(uvec4 c, uint j)
{
    if (tile_bits == 4)
        return uvec2(c[j], c[j] >> 4) & 0x0F0F0F0Fu;
    uint w = c[j / 2] >> (2 * (j % 2));
    uvec2 two = uvec2(w, w >> 4) & 0x03030303u;
    if (tile_bits == 2)
        return two << 2;
    uint one = c.z >> (4 * (j / 2) + j % 2);
    return two << 2 | (uvec2(one, one >> 2) & 0x01010101u) << 1;
}

vec2 scale_and_bias(uint place)
{
    float scale = bf16(Halves(tile_m.scales).v[place]);
    precise float bias = bf16(Halves(tile_m.biases).v[place]);
    if (tile_bits != 4)
        bias = bias + (tile_bits == 3 ? 0.5 : 1.5) * scale;
    return vec2(scale, bias);
}

void tile_load(uint g)
{
    [[unroll]] for (uint i = 0; i < W_LOADS; i++) {
        uint at = i * THREADS + LANE, row = first_out + min(at / 2, n_outs - 1);
        uint64_t group = uint64_t(row * GROUPS + g) * (8 * tile_bits);
        next_w[i] = half_load(tile_m.w + group + at % 2 * (4 * tile_bits));
    }
    [[unroll]] for (uint i = 0; i < X_LOADS; i++) {
        uint j = (i * THREADS + LANE) % 4 * 2;
        next_x[2 * i] = Fours(tile_x[i]).v[GPU_ACTS_UNIT(COLS, g, j)];
        next_x[2 * i + 1] = Fours(tile_x[i]).v[GPU_ACTS_UNIT(COLS, g, j + 1)];
    }
    [[unroll]] for (uint i = 0; i < S_LOADS; i++) {
        uint at = i * THREADS + LANE;
        if (at < BLOCK)
            next_of_w[i] = scale_and_bias((first_out + min(at, n_outs - 1)) * GROUPS + g);
        if (at < TILE)
            next_of_x[i] = vec2(Floats(tile_scales[i]).v[g], Floats(tile_scales[i]).v[GROUPS + g]);
    }
}

void tile_store()
{
    [[unroll]] for (uint i = 0; i < W_LOADS; i++) {
        uint at = i * THREADS + LANE;
        uvec4 a = uvec4(half_codes(next_w[i], 0), half_codes(next_w[i], 1));
        uvec4 b = uvec4(half_codes(next_w[i], 2), half_codes(next_w[i], 3));
        if (at < 2 * BLOCK) {
            ROOM_PUT(codes, at / 2, at % 2 * 2, a);
            ROOM_PUT(codes, at / 2, at % 2 * 2 + 1, b);
        }
    }
    [[unroll]] for (uint i = 0; i < X_LOADS; i++) {
        uint at = i * THREADS + LANE;
        uvec4 a = next_x[2 * i], b = next_x[2 * i + 1];
        if (at < 4 * TILE) {
            ROOM_PUT(high, at / 4, at % 4, uvec4(a.xy, b.xy));
            ROOM_PUT(low, at / 4, at % 4, uvec4(a.zw, b.zw));
        }
    }
    [[unroll]] for (uint i = 0; i < S_LOADS; i++) {
        uint at = i * THREADS + LANE;
        if (at < BLOCK) {
            w_scale[at] = floatBitsToInt(next_of_w[i].x);
            w_bias[at] = floatBitsToInt(next_of_w[i].y);
        }
        if (at < TILE) {
            x_scale[at] = floatBitsToInt(next_of_x[i].x);
            x_sum[at] = floatBitsToInt(next_of_x[i].y);
        }
    }
}

// The sum of a group's products, with scale and bias w of the weights, scale and sum x of the
// activations, as group_add in product.glsl.
float tile_add(float acc, int all, ivec2 w, ivec2 x)
{
    precise float a = acc + float(all) * intBitsToFloat(x.x) * intBitsToFloat(w.x);
    precise float b = a + intBitsToFloat(w.y) * intBitsToFloat(x.y);
    return b;
}

void tile_begin();
void tile_clear();
void tile_group();
void tile_lane(uint t);

void tile_products()
{
    tile_begin();
    tile_load(0);
    for (uint t = 0; t < LANES; t++) {
        tile_clear();
        uint first = RUNS > 0 ? t * RUN : t, end = RUNS > 0 ? first + RUN : GROUPS;
        for (uint g = first; g < end; g += STEP) {
            tile_store();
            barrier();
            uint then = g + STEP < end ? g + STEP : RUNS > 0 ? end : t + 1;
            tile_load(min(then, GROUPS - 1));
            tile_group();
            barrier();
        }
        tile_lane(t);
    }
}

#endif
