// A stream of a row before it is read: what is to be added, and its norm. For a kernel of 512
// invocations with H, S, and p.hyper, p.add, p.inj, p.gamma, p.by_S, p.by_h, p.eps.
//
// A workgroup goes through one stream: lane t has eights t, t + 512, ...; squares of a lane are
// added ascending, lanes meet in pairs of neighbours.
const uint EIGHTS = H / 8, PASSES = (EIGHTS + 511) / 512;

shared float stream_room[64];

float stream_x[PASSES][8], stream_gamma[PASSES][8];

// Weight of what is added to stream ig of row r.
float stream_by(uint r, uint ig)
{
    precise float open = Floats(p.inj).v[r * S + ig] * p.by_S, by = 2.0 * num_sigmoid(open);
    return by;
}

// stream_x: with what is to be added, by times.
void stream_load(uint r, uint ig, bool norm, out float by)
{
    float add[PASSES][8];
    uint64_t hyper = p.hyper + uint64_t(r * S + ig) * (H * 4);
    [[unroll]] for (uint k = 0; k < PASSES; k++) { // all loads, before anything waits for one
        uint at = min(k * 512 + LANE, EIGHTS - 1);
        floats_get(hyper + at * 32, stream_x[k]);
        if (p.add != 0)
            floats_get(p.add + (uint64_t(r) * H + at * 8) * 4, add[k]);
        if (norm)
            floats_get(p.gamma + (ig * H + at * 8) * 4, stream_gamma[k]);
    }
    by = 0.0;
    if (p.add == 0)
        return;
    by = stream_by(r, ig);
    [[unroll]] for (uint k = 0; k < PASSES; k++)
        [[unroll]] for (uint i = 0; i < 8; i++) {
            precise float y = stream_x[k][i] + by * add[k][i];
            stream_x[k][i] = y;
        }
}

// Sum of the stream's squares; once in a kernel, by all invocations.
float stream_squares()
{
    precise float squares = 0.0, s[8];
    [[unroll]] for (uint k = 0; k < PASSES; k++)
        if (k * 512 + LANE < EIGHTS)
            [[unroll]] for (uint i = 0; i < 8; i++)
                squares = squares + stream_x[k][i] * stream_x[k][i];
    float eight = eight_sum(squares);
    if (LANE % 8 == 0)
        stream_room[LANE / 8] = eight;
    barrier();
    [[unroll]] for (uint i = 0; i < 8; i++)
        s[i] = stream_room[LANE % 8 * 8 + i];
    NEIGHBOURS(s, 4)
    NEIGHBOURS(s, 2)
    NEIGHBOURS(s, 1)
    return eight_sum(s[0]);
}

float stream_scale(float squares)
{
    precise float mean = squares * p.by_h + p.eps;
    return num_rsqrt(mean);
}

// stream_x normed.
void stream_norm(float scale)
{
    [[unroll]] for (uint k = 0; k < PASSES; k++)
        [[unroll]] for (uint i = 0; i < 8; i++) {
            precise float y = stream_x[k][i] * scale * stream_gamma[k][i];
            stream_x[k][i] = y;
        }
}
