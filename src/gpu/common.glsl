// What the kernels of products share: teams of invocations, rows of 16-bit activations.
//
// Invocations are counted along subgroups (LANE), so that eight in a row are of one subgroup
// whatever its size is; more than eight meet in shared memory. Workgroups have a multiple of 64.
#ifndef GPU_COMMON_GLSL
#define GPU_COMMON_GLSL
#extension GL_KHR_shader_subgroup_shuffle : require
#include "gpu/memory.glsl"
#include "gpu/numbers.h"
#include "gpu/params.h"

// Sum over the eight lanes of a team, in pairs: neighbours first. All eight have it.
float eight_sum(float x)
{
    precise float a = x + subgroupShuffleXor(x, 1);
    precise float b = a + subgroupShuffleXor(a, 2);
    precise float c = b + subgroupShuffleXor(b, 4);
    return c;
}

// The first n of s become sums of pairs of neighbours. A step of a tree for itself, and not a loop
// that halves n: compilers unroll the one, and keep s in memory for the other.
#define NEIGHBOURS(s, n)                                                                           \
    [[unroll]] for (uint i = 0; i < n; i++)                                                        \
        s[i] = s[2 * i] + s[2 * i + 1];
// The same with the upper half.
#define HALVES(s, n)                                                                               \
    [[unroll]] for (uint i = 0; i < n; i++)                                                        \
        s[i] = s[i] + s[i + n];

// Sum over a workgroup of 256, in pairs of neighbours again; all have it. Once in a kernel.
#define SUM_256                                                                                    \
    shared float sum_256_room[32];                                                                 \
    float sum_256(float x)                                                                         \
    {                                                                                              \
        precise float s[32];                                                                       \
        float eight = eight_sum(x);                                                                \
        if (LANE % 8 == 0)                                                                         \
            sum_256_room[LANE / 8] = eight;                                                        \
        barrier();                                                                                 \
        [[unroll]] for (uint i = 0; i < 32; i++)                                                   \
            s[i] = sum_256_room[i];                                                                \
        NEIGHBOURS(s, 16)                                                                          \
        NEIGHBOURS(s, 8)                                                                           \
        NEIGHBOURS(s, 4)                                                                           \
        NEIGHBOURS(s, 2)                                                                           \
        NEIGHBOURS(s, 1)                                                                           \
        return s[0];                                                                               \
    }

bool not_finite(float x)
{
    return (num_bits(x) & 0x7F800000u) == 0x7F800000u;
}

// Codes of eight elements as they lie in memory, scale and sum of their group: that of eight lanes
// that follow one another and call this together.
void acts_make(float x[8], out uvec4 word, out float scale, out float sum)
{
    uint most = 0;
    [[unroll]] for (uint i = 0; i < 8; i++)
        most = max(most, num_bits(x[i]) & 0x7FFFFFFFu);
    [[unroll]] for (uint step = 1; step < 8; step *= 2)
        most = max(most, subgroupShuffleXor(most, step));
    float inverse = acts_inverse(most);
    int codes = 0;
    word = uvec4(0);
    [[unroll]] for (uint i = 0; i < 8; i++) {
        precise float scaled = x[i] * inverse;
        int q = inverse > 0.0 ? num_round(scaled) : 0, high = (q + 128) >> 8;
        codes += q;
        word[i % 2] |= (uint(high) & 255u) << (i / 2 * 8);
        word[2 + i % 2] |= (uint(q) & 255u) << (i / 2 * 8);
    }
    [[unroll]] for (uint step = 1; step < 8; step *= 2)
        codes += subgroupShuffleXor(codes, step);
    scale = acts_scale(most);
    sum = acts_sum(most, codes);
}

// The at-th eight elements of a row of n activations at `row`; lanes as above.
void acts_put(float x[8], uint64_t row, uint n, uint at)
{
    uvec4 word;
    float scale, sum;
    acts_make(x, word, scale, sum);
    FoursOut(row).v[GPU_ACTS_UNIT(n, at / 8, at % 8)] = word;
    if (at % 8 == 0) {
        FloatsOut groups = FloatsOut(row + 2 * n);
        groups.v[at / 8] = scale;
        groups.v[n / 64 + at / 8] = sum;
    }
}

void floats_get(uint64_t from, out float x[8])
{
    vec4 a = Floats4(from).v[0], b = Floats4(from).v[1];
    [[unroll]] for (uint i = 0; i < 4; i++) {
        x[i] = a[i];
        x[4 + i] = b[i];
    }
}

void floats_put(uint64_t to, float x[8])
{
    FloatsOut4(to).v[0] = vec4(x[0], x[1], x[2], x[3]);
    FloatsOut4(to).v[1] = vec4(x[4], x[5], x[6], x[7]);
}

#endif
