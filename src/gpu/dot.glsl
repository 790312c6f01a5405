// dot4(a, b): the sum of four products of signed bytes, exact.
//
// The instruction is core in Vulkan 1.3, but Debian 12's glslc has no words for it
// (GL_EXT_integer_dot_product came later); GL_EXT_spirv_intrinsics names it by number. With
// GPU_PLAIN_DOT it is made of shifts and products, for translators that do not know it (spirv-cross
// --msl of Debian 12).
#ifndef GPU_DOT_GLSL
#define GPU_DOT_GLSL

#ifdef GPU_PLAIN_DOT
int dot4(int a, int b)
{
    int sum = 0;
    for (int i = 0; i < 4; i++)
        sum += bitfieldExtract(a, 8 * i, 8) * bitfieldExtract(b, 8 * i, 8);
    return sum;
}
#else
#extension GL_EXT_spirv_intrinsics : require
// DotProduct 6019, DotProductInput4x8BitPacked 6018; OpSDot 4450 with format 0: four bytes packed.
spirv_instruction(capabilities = [6018, 6019], id = 4450)
int gpu_sdot(int a, int b, spirv_literal int packed_format);

int dot4(int a, int b)
{
    return gpu_sdot(a, b, 0);
}
#endif

#endif
