// Copies or fills rows of 32-bit words within the device.
//
// Vulkan's own copy commands reach a fifth of the memory's rate on an H200 (851 of 3931 GB/s on the
// compute queue), so copies within the device are a kernel.
// Grid: x = ceil(words / COPY_WORDS), y = rows.
#version 460
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_GOOGLE_include_directive : require
#include "gpu/params.h"

layout(local_size_x = 256) in;
layout(push_constant, std430) uniform Params { copy_params p; };

layout(buffer_reference, std430, buffer_reference_align = 16) restrict buffer Fours { uvec4 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict buffer Ones { uint v[]; };

void copy_fours(uint64_t from, uint64_t to, uint first, uint end)
{
    Fours source = Fours(from), target = Fours(to);
    uvec4 fill = uvec4(p.fill);
    for (uint i = first / 4 + gl_LocalInvocationID.x; i < end / 4; i += 256)
        target.v[i] = from != 0 ? source.v[i] : fill;
}

void copy_ones(uint64_t from, uint64_t to, uint first, uint end)
{
    Ones source = Ones(from), target = Ones(to);
    for (uint i = first + gl_LocalInvocationID.x; i < end; i += 256)
        target.v[i] = from != 0 ? source.v[i] : p.fill;
}

void main()
{
    uint row = gl_WorkGroupID.y;
    uint first = gl_WorkGroupID.x * COPY_WORDS, end = min(p.words, first + COPY_WORDS);
    uint64_t to = p.to + uint64_t(row) * p.to_stride * 4;
    uint64_t from = p.from != 0 ? p.from + uint64_t(row) * p.from_stride * 4 : 0;
    if (((from | to) & 15) == 0 && (p.words & 3) == 0)
        copy_fours(from, to, first, end);
    else
        copy_ones(from, to, first, end);
}
