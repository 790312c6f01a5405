// Rows of a matrix of any dense format, for a kernel with FORMAT (enum matrix_format) and GROUP,
// and p.w, p.scales, p.biases.

const uint FORMAT_F32 = 0, FORMAT_BF16 = 1; // else Q4

// Element i of row `row` of [..][n].
float row_value(uint row, uint n, uint i)
{
    uint64_t at = uint64_t(row) * n + i;
    if (FORMAT == FORMAT_F32)
        return F32(p.w + 4 * at).v[0];
    if (FORMAT == FORMAT_BF16)
        return num_bf16(uint(U16(p.w + 2 * at).v[0]));
    uint64_t group = at / GROUP;
    uint code = U32(p.w + at / 8 * 4).v[0] >> (4 * (i % 8)) & 15u;
    precise float x = float(code) * num_bf16(uint(U16(p.scales + 2 * group).v[0]));
    x += num_bf16(uint(U16(p.biases + 2 * group).v[0]));
    return x;
}
