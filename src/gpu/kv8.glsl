// Rows of the KV cache as bytes in groups of 32, as quant/kv8.h has them. Scales are f16 by whole
// numbers: conversions of the device may drop denormals.

// Bits of the f16 nearest to x, ties to even; x >= 0. 0x7C00: there is none.
uint half_bits(float x)
{
    uint u = num_bits(x);
    precise float small = x * 16777216.0;
    if (x < 6.103515625e-5)
        return uint(num_round(small));
    if (!(x < 65520.0))
        return 0x7C00u;
    return (u - 0x38000000u + 0xFFFu + ((u >> 13) & 1u)) >> 13;
}

float half_float(uint h)
{
    precise float small = float(h) * 5.9604644775390625e-8;
    return h < 0x400u ? small : num_float((h << 13) + 0x38000000u);
}

// Four codes of a word, the lowest byte first.
vec4 code_floats(uint w)
{
    int i = int(w);
    return vec4(float((i << 24) >> 24), float((i << 16) >> 24), float((i << 8) >> 24),
                float(i >> 24));
}
