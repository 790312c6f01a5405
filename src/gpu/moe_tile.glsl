// Products with matrices of routed experts' records: a tile is rows that named the same expert, so
// that its weights are read once for all of them.
// Grid: x = n_matrices * ceil(outputs / BLOCK), y = tiles, those that are none included.
layout(push_constant, std430) uniform Params { moe_tile_params p; };

void main()
{
    const uint blocks = (p.outputs + BLOCK - 1) / BLOCK;
    uint im = gl_WorkGroupID.x / blocks;
    uint64_t tile = p.tiles + 12ul * gl_WorkGroupID.y;
    uint first = Words(tile).v[1], n = Words(tile).v[2];
    if (n == 0)
        return;
    uint64_t entry = Addresses(p.table).v[Words(tile).v[0]];
    if (entry == 0) // was cut
        return;
    tile_m = record_weights(entry, p.matrix + im, p.elements);
    tile_bits = BITS != 0 ? BITS : record_bits(entry);
    first_out = gl_WorkGroupID.x % blocks * BLOCK;
    n_outs = min(BLOCK, p.outputs - first_out);
    [[unroll]] for (uint i = 0; i < X_LOADS; i++) {
        uint r = Words(p.list).v[first + min((i * THREADS + LANE) / 4, n - 1)] / p.share;
        tile_x[i] = p.x + uint64_t(r) * GPU_ACTS_BYTES(COLS);
    }
    [[unroll]] for (uint i = 0; i < S_LOADS; i++) {
        uint r = Words(p.list).v[first + min(i * THREADS + LANE, n - 1)] / p.share;
        tile_scales[i] = p.x + uint64_t(r) * GPU_ACTS_BYTES(COLS) + 2 * COLS;
    }
    tile_products();
    [[unroll]] for (uint i = 0; i < TILE_OUTPUTS; i++) {
        uint r = tile_row(i), o = tile_col(i);
        if (o >= n_outs || r >= n)
            continue;
        uint64_t to = (uint64_t(Words(p.list).v[first + r]) * p.n_matrices + im) * p.outputs;
        FloatsOut(p.to + (to + first_out) * 4).v[o] = tile_value(i);
    }
}
