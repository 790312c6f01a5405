// Products of up to four matrices with rows first .. of a batch, in tiles.
// Grid: x = all matrices' blocks of BLOCK outputs, y = ceil(R / TILE).
layout(push_constant, std430) uniform Params { linear_params p; };

void main()
{
    uint block = gl_WorkGroupID.x, im = 0;
    while (block >= (p.m[im].rows + BLOCK - 1) / BLOCK) {
        block -= (p.m[im].rows + BLOCK - 1) / BLOCK;
        im++;
    }
    uint first = gl_WorkGroupID.y * TILE;
    tile_m = Weights(p.base + uint64_t(p.m[im].w) * 16, p.base + uint64_t(p.m[im].scales) * 16,
                     p.base + uint64_t(p.m[im].biases) * 16);
    tile_bits = BITS;
    first_out = block * BLOCK;
    n_outs = min(BLOCK, p.m[im].rows - first_out);
    [[unroll]] for (uint i = 0; i < X_LOADS; i++) {
        uint r = min(first + (i * THREADS + LANE) / 4, p.R - 1);
        tile_x[i] = p.x + uint64_t(r) * GPU_ACTS_BYTES(COLS);
    }
    [[unroll]] for (uint i = 0; i < S_LOADS; i++) {
        uint r = min(first + i * THREADS + LANE, p.R - 1);
        tile_scales[i] = p.x + uint64_t(r) * GPU_ACTS_BYTES(COLS) + 2 * COLS;
    }
    tile_products();
    [[unroll]] for (uint i = 0; i < TILE_OUTPUTS; i++) {
        uint r = first + tile_row(i), o = tile_col(i);
        if (o < n_outs && r < p.R)
            FloatsOut(p.to).v[p.m[im].to + r * p.m[im].stride + first_out + o] = tile_value(i);
    }
}
