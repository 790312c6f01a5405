// Reads n units of 16 bytes and keeps an xor of them for each workgroup: the ceiling that the
// memory of a device sets for kernels that stream weights. For bench/bench_gpu_seam.c.
// Grid: any x; a workgroup reads every x-th piece of READ_UNITS units.
#version 460
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#include "gpu/params.h"

layout(local_size_x = 256) in;
layout(push_constant, std430) uniform Params { read_params p; };

layout(buffer_reference, std430, buffer_reference_align = 16) readonly restrict buffer Fours {
    uvec4 v[];
};
layout(buffer_reference, std430, buffer_reference_align = 4) writeonly restrict buffer Ones {
    uint v[];
};

shared uint part[256];

void main()
{
    Fours from = Fours(p.from);
    uint me = gl_LocalInvocationID.x;
    uvec4 all = uvec4(0);
    for (uint piece = gl_WorkGroupID.x; piece < p.n / READ_UNITS; piece += gl_NumWorkGroups.x)
        [[unroll]] for (uint k = 0; k < READ_UNITS / 256; k++)
            all ^= from.v[piece * READ_UNITS + k * 256 + me];
    part[me] = all.x ^ all.y ^ all.z ^ all.w;
    barrier();
    if (me == 0) {
        uint sum = 0;
        for (uint i = 0; i < 256; i++)
            sum ^= part[i];
        Ones(p.to).v[gl_WorkGroupID.x] = sum;
    }
}
