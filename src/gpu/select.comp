// The BUDGET / RATIO blocks of the highest score of a row, ties to the lower, ascending.
//
// Scores are not negative, so their bits are in their order; what is not finite counts as large and
// is refused elsewhere. One workgroup finds the lowest score that is chosen, eight bits at a time
// from the top, and of how many equal ones the first are; then it marks the chosen in words of bits
// and writes them down. Rows that see all their blocks choose none. Grid: x = rows under way.
#version 460
#extension GL_GOOGLE_include_directive : require
const uint LANES = 512;
#include "gpu/mix.glsl"

layout(local_size_x = LANES) in;
PARAMS(select_params)

layout(constant_id = 1) const uint RATIO = 4;
layout(constant_id = 2) const uint BUDGET = 16;

const uint CHOSEN = BUDGET / RATIO, BINS = 256;
const uint COPIES = 8;               // of the bins: scores are alike, and counting them collides
const uint WORDS = 4, SLAB = LANES * WORDS * 32; // blocks that are marked at once

shared uint bins[COPIES * BINS];
shared uint scan_room[LANES];
shared uint above[LANES * WORDS], equal[LANES * WORDS];
shared uint found_digit, found_left;

// The sum of x over the invocations before this one.
uint scan_before(uint x)
{
    uint sum = x;
    for (uint step = 1; step < LANES; step *= 2) {
        barrier();
        scan_room[LANE] = sum;
        barrier();
        if (LANE >= step)
            sum += scan_room[LANE - step];
    }
    return sum - x;
}

uint scan_total(uint before, uint x)
{
    barrier();
    if (LANE == LANES - 1)
        scan_room[0] = before + x;
    barrier();
    return scan_room[0];
}

// Of the scores whose bits above `shift` + 8 are those of `edge`: the digit that the left-th
// largest has, and how many are left to choose of those that share it.
void find_digit(U32 score, uint n, uint edge, uint shift, uint left)
{
    for (uint i = LANE; i < COPIES * BINS; i += LANES)
        bins[i] = 0;
    barrier();
    for (uint i = LANE; i < n; i += LANES) {
        uint u = score.v[i];
        if (shift == 24 || u >> (shift + 8) == edge >> (shift + 8))
            atomicAdd(bins[LANE % COPIES * BINS + (u >> shift) % BINS], 1);
    }
    barrier();
    uint bin = BINS - 1 - LANE % BINS, count = 0; // the largest digit first
    for (uint i = 0; LANE < BINS && i < COPIES; i++)
        count += bins[i * BINS + bin];
    uint before = scan_before(count);
    if (before < left && before + count >= left) {
        found_digit = bin;
        found_left = left - before;
    }
    barrier();
}

// Marks blocks first .. of the row: those above the edge, and those at it.
void mark_slab(U32 score, uint n, uint first, uint edge)
{
    barrier();
    for (uint i = LANE; i < LANES * WORDS; i += LANES)
        above[i] = equal[i] = 0;
    barrier();
    for (uint i = first + LANE; i < min(n, first + SLAB); i += LANES) {
        uint u = score.v[i], word = (i - first) / 32, bit = 1u << (i - first) % 32;
        if (u > edge)
            atomicOr(above[word], bit);
        else if (u == edge)
            atomicOr(equal[word], bit);
    }
    barrier();
}

// The first `most` of the bits of w.
uint first_bits(uint w, uint most)
{
    uint taken = 0;
    for (; most > 0 && w != 0; most--) {
        taken |= w & -w;
        w &= w - 1;
    }
    return taken;
}

void main()
{
    uint r = p.first + gl_WorkGroupID.x;
    gpu_row row = Rows(p.rows).v[r];
    uint n = uint(row.pos + 1) / RATIO;
    if (n <= CHOSEN)
        return;
    gpu_segment segment = Segments(p.segments).v[row.segment];
    U32 score = U32(segment.score + 4ul * gl_WorkGroupID.x * segment.blocks);
    U32 to = U32(p.chosen + 4ul * r * CHOSEN);
    uint edge = 0, left = CHOSEN, done = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        find_digit(score, n, edge, uint(shift), left);
        edge |= found_digit << shift;
        left = found_left;
    }
    for (uint first = 0; first < n; first += SLAB) {
        mark_slab(score, n, first, edge);
        uint at = LANE * WORDS, ties = 0, count = 0;
        for (uint i = 0; i < WORDS; i++)
            ties += bitCount(equal[at + i]);
        uint before = scan_before(ties), all = scan_total(before, ties);
        uint open = left > before ? left - before : 0;
        uint word[WORDS];
        for (uint i = 0; i < WORDS; i++) {
            uint taken = first_bits(equal[at + i], open);
            open -= bitCount(taken);
            word[i] = above[at + i] | taken;
            count += bitCount(word[i]);
        }
        left = left > all ? left - all : 0;
        before = scan_before(count);
        uint next = done + before;
        for (uint i = 0; i < WORDS; i++)
            for (uint w = word[i]; w != 0; w &= w - 1)
                to.v[next++] = first + (at + i) * 32 + findLSB(w);
        done += scan_total(before, count);
    }
}
