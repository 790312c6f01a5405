// Quantised matrices, and where those of a routed expert's record are: three blocks of codes, then
// scales and biases of gate, up and down, one behind the other (docs/format.md).
#ifndef GPU_RECORD_GLSL
#define GPU_RECORD_GLSL

// The matrix: codes, scales and biases of row 0.
struct Weights {
    uint64_t w, scales, biases;
};

uint record_bits(uint64_t entry)
{
    return (entry & GPU_RECORD_Q3) != 0 ? 3 : (entry & GPU_RECORD_Q2) != 0 ? 2 : 4;
}

// which: 0 gate, 1 up, 2 down; n: elements of each.
Weights record_weights(uint64_t entry, uint which, uint n)
{
    uint64_t record = GPU_RECORD_ADDRESS(entry);
    uint codes = n / 8 * record_bits(entry), scales = n / 64 * 2;
    uint64_t from = record + 3 * codes + 2 * which * scales;
    return Weights(record + which * codes, from, from + scales);
}

#endif
