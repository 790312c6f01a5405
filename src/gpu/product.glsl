// The product of a row of quantised weights with a row of activations, group by group. All kernels
// of products go through this, so that they have the same bits.
//
// A group gives float(integer sum) * activation scale * weight scale, then bias * activation sum,
// each product and each addition rounded. Lane t of GPU_LANES(n) adds groups t, t + lanes, ...;
// then lanes are added ascending. Q3 and Q2 count in steps of Q4: code 2q or 4q, bias + 0.5 or 1.5
// scales.
#ifndef GPU_PRODUCT_GLSL
#define GPU_PRODUCT_GLSL
#include "gpu/common.glsl"
#include "gpu/dot.glsl"
#include "gpu/record.glsl"

// Codes of a group, its scale and bias: as they lie in memory; as numbers.
struct Packed {
    uint code[8];
    uint scale, bias;
};
struct Group {
    uint code[8];
    float scale, bias;
};

// Nothing here waits for what is loaded.
Packed packed_load(Weights m, uint row, uint groups, uint g, uint bits)
{
    Packed c;
    uint place = row * groups + g;
    uint64_t from = m.w + uint64_t(place) * (8 * bits);
    if (bits == 3) {
        [[unroll]] for (uint i = 0; i < 3; i++) {
            uvec2 two = Twos(from).v[i];
            c.code[2 * i] = two.x;
            c.code[2 * i + 1] = two.y;
        }
    } else {
        uvec4 a = Fours(from).v[0], b = bits == 4 ? Fours(from).v[1] : uvec4(0);
        [[unroll]] for (uint i = 0; i < 4; i++) {
            c.code[i] = a[i];
            c.code[4 + i] = b[i];
        }
    }
    c.scale = uint(Halves(m.scales).v[place]);
    c.bias = uint(Halves(m.biases).v[place]);
    return c;
}

Group group_of(Packed from, uint bits)
{
    Group c;
    c.code = from.code;
    c.scale = num_bf16(from.scale);
    precise float bias = num_bf16(from.bias);
    if (bits != 4)
        bias = bias + (bits == 3 ? 0.5 : 1.5) * c.scale;
    c.bias = bias;
    return c;
}

Group group_load(Weights m, uint row, uint groups, uint g, uint bits)
{
    return group_of(packed_load(m, row, groups, g, bits), bits);
}

// The even and the odd ones of elements 8j .. 8j+7.
ivec2 group_codes(Group c, uint j, uint bits)
{
    if (bits == 4)
        return ivec2(c.code[j] & 0x0F0F0F0Fu, (c.code[j] >> 4) & 0x0F0F0F0Fu);
    uint half_at = j / 4, t = j % 4 / 2, p = j % 2;
    if (bits == 2) {
        uint w = c.code[2 * half_at + t] >> (2 * p);
        return ivec2(w & 0x03030303u, (w >> 4) & 0x03030303u);
    }
    uint w = c.code[3 * half_at + t] >> (2 * p), low = c.code[3 * half_at + 2] >> (4 * t + p);
    return ivec2((w & 0x03030303u) << 1 | (low & 0x01010101u),
                 ((w >> 4) & 0x03030303u) << 1 | ((low >> 2) & 0x01010101u));
}

// What a group adds, one after the other. scale and sum are those of the activations; high, low: sums
// of the codes' products with high and low bytes.
vec2 group_products(Group c, int high, int low, float scale, float sum, uint bits)
{
    int all = (256 * high + low) << (4 - bits);
    precise float a = float(all) * scale * c.scale, b = c.bias * sum;
    return vec2(a, b);
}

float group_add(float acc, Group c, int high, int low, float scale, float sum, uint bits)
{
    vec2 two = group_products(c, high, low, scale, sum, bits);
    precise float a = acc + two.x;
    precise float b = a + two.y;
    return b;
}

#endif
