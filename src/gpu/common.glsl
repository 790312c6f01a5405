// What the kernels of products share: memory behind addresses, teams of invocations, rows of 16-bit
// activations.
//
// Invocations are counted along subgroups (LANE), so that eight in a row are of one subgroup
// whatever its size is; more than eight meet in shared memory. Workgroups have a multiple of 64 invocations.
#ifndef GPU_COMMON_GLSL
#define GPU_COMMON_GLSL
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "gpu/numbers.h"
#include "gpu/params.h"

// T v[] at an address that is a multiple of ALIGN.
#define MEMORY(name, T, ALIGN, access)                                                             \
    layout(buffer_reference, std430, buffer_reference_align = ALIGN) access buffer name            \
    {                                                                                              \
        T v[];                                                                                     \
    }
MEMORY(Fours, uvec4, 16, readonly restrict);
MEMORY(Twos, uvec2, 8, readonly restrict);
MEMORY(Words, uint, 4, readonly restrict);
MEMORY(Halves, uint16_t, 2, readonly restrict);
MEMORY(Floats, float, 4, readonly restrict);
MEMORY(Floats4, vec4, 16, readonly restrict);
MEMORY(Addresses, uint64_t, 8, readonly restrict);
MEMORY(FoursOut, uvec4, 16, writeonly restrict);
MEMORY(FloatsOut, float, 4, restrict);
MEMORY(FloatsOut4, vec4, 16, restrict);
MEMORY(WordsOut, uint, 4, );

#define LANE (gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID)

// Sum over the eight lanes of a team, in pairs: neighbours first. All eight have it.
float eight_sum(float x)
{
    precise float a = x + subgroupShuffleXor(x, 1);
    precise float b = a + subgroupShuffleXor(a, 2);
    precise float c = b + subgroupShuffleXor(b, 4);
    return c;
}

// Eight elements, the at-th eight of a row of n activations at `row`: eight lanes that follow one
// another and call this together have a group.
void acts_put(float x[8], uint64_t row, uint n, uint at)
{
    uint most = 0;
    [[unroll]] for (uint i = 0; i < 8; i++)
        most = max(most, num_bits(x[i]) & 0x7FFFFFFFu);
    [[unroll]] for (uint step = 1; step < 8; step *= 2)
        most = max(most, subgroupShuffleXor(most, step));
    float inverse = acts_inverse(most);
    int codes = 0;
    uvec4 word = uvec4(0);
    [[unroll]] for (uint i = 0; i < 8; i++) {
        precise float scaled = x[i] * inverse;
        int q = inverse > 0.0 ? num_round(scaled) : 0, high = (q + 128) >> 8;
        codes += q;
        word[i % 2] |= (uint(high) & 255u) << (i / 2 * 8);
        word[2 + i % 2] |= (uint(q) & 255u) << (i / 2 * 8);
    }
    [[unroll]] for (uint step = 1; step < 8; step *= 2)
        codes += subgroupShuffleXor(codes, step);
    FoursOut(row).v[at] = word;
    if (at % 8 == 0) {
        FloatsOut groups = FloatsOut(row + 2 * n);
        groups.v[at / 8] = acts_scale(most);
        groups.v[n / 64 + at / 8] = acts_sum(most, codes);
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
