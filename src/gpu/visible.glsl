// What a row sees, from its position and the blocks it chose (select.comp): all positions up to its
// own while there are at most BUDGET / RATIO complete blocks, else those of the chosen blocks and
// of the one that is not complete. For a kernel with RATIO, BUDGET and p.chosen.

bool visible_chooses(int pos)
{
    return uint(pos + 1) / RATIO > BUDGET / RATIO;
}

uint visible_count(int pos)
{
    return visible_chooses(pos) ? BUDGET + uint(pos + 1) % RATIO : uint(pos + 1);
}

// The i-th, ascending.
uint visible_position(uint r, int pos, uint i)
{
    if (!visible_chooses(pos))
        return i;
    if (i >= BUDGET)
        return uint(pos + 1) / RATIO * RATIO + i - BUDGET;
    return U32(p.chosen).v[r * (BUDGET / RATIO) + i / RATIO] * RATIO + i % RATIO;
}
