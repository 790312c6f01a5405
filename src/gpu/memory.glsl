// Memory behind addresses, invocations counted along subgroups (LANE).
#ifndef GPU_MEMORY_GLSL
#define GPU_MEMORY_GLSL
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require

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

#endif
