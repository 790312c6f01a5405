// The scan of gated DeltaNet for many rows, the state itself, from what deltanet_rows.comp left.
// The columns of a state do not know of one another, so a workgroup has COLS of them; TEAM
// neighbours share one, each with PER key dimensions in registers, and meet without a barrier. Sums
// go in the orders of deltanet.comp. y takes the place of the value.
//
// Grid: x = NV * DV / COLS, y = segments.
#version 460
#extension GL_GOOGLE_include_directive : require
layout(local_size_x_id = 1) in;
layout(constant_id = 1) const uint LANES = 64; // COLS * TEAM
#include "gpu/mix.glsl"
PARAMS(deltanet_params)

layout(constant_id = 2) const uint NK = 1;
layout(constant_id = 3) const uint NV = 1;
layout(constant_id = 4) const uint DK = 32;
layout(constant_id = 5) const uint DV = 64;
layout(constant_id = 6) const uint COLS = 16; // divides DV
layout(constant_id = 7) const uint TEAM = 4;  // at most 8; divides DK / 4
layout(constant_id = 8) const uint TILE = 8;  // rows that are brought together
#include "gpu/deltanet.glsl"

const uint PER = DK / TEAM, FOURS = PER / 4, RUN = FOURS + 1; // runs lie in different banks
const uint UNITS = 2 * DK / 4, ROW = GPU_DELTANET_ROOM(NK, NV, DK, DV);
const uint LOADS = (TILE * UNITS + LANES - 1) / LANES;
const uint V_LOADS = (TILE * COLS + LANES - 1) / LANES, G_LOADS = (TILE + LANES - 1) / LANES;

shared vec4 keys[TILE * 2 * TEAM * RUN]; // of a row: query, key
shared float values[TILE * COLS];
shared vec2 gates[TILE];

vec4 next_keys[LOADS];
float next_values[V_LOADS];
vec2 next_gates[G_LOADS];
uint iv, first_col;

uint64_t row_at(uint r)
{
    return p.room + uint64_t(segment.first + min(r, segment.n - 1)) * (ROW * 4);
}

void tile_load(uint first)
{
    [[unroll]] for (uint k = 0; k < LOADS; k++) {
        uint i = k * LANES + LANE, u = i % UNITS;
        uint head = u / (UNITS / 2) * NK + key_head(iv);
        next_keys[k] = Floats4(row_at(first + i / UNITS)).v[head * (DK / 4) + u % (UNITS / 2)];
    }
    [[unroll]] for (uint k = 0; k < V_LOADS; k++) {
        uint i = k * LANES + LANE;
        F32 row = F32(row_at(first + i / COLS));
        next_values[k] = row.v[2 * KEY_CHANNELS + iv * DV + first_col + i % COLS];
    }
    [[unroll]] for (uint k = 0; k < G_LOADS; k++) {
        F32 row = F32(row_at(first + k * LANES + LANE));
        next_gates[k] = vec2(row.v[WIDTH + 2 * iv], row.v[WIDTH + 2 * iv + 1]);
    }
}

void tile_store()
{
    [[unroll]] for (uint k = 0; k < LOADS; k++) {
        uint i = k * LANES + LANE, u = i % (UNITS / 2);
        if (i < TILE * UNITS)
            keys[(i / (UNITS / 2) * TEAM + u / FOURS) * RUN + u % FOURS] = next_keys[k];
    }
    [[unroll]] for (uint k = 0; k < V_LOADS; k++)
        if (k * LANES + LANE < TILE * COLS)
            values[k * LANES + LANE] = next_values[k];
    [[unroll]] for (uint k = 0; k < G_LOADS; k++)
        if (k * LANES + LANE < TILE)
            gates[k * LANES + LANE] = next_gates[k];
}

// Sum over a team, ascending; all have it.
float team_sum(float x)
{
    uint base = gl_SubgroupInvocationID / TEAM * TEAM;
    precise float sum = 0;
    [[unroll]] for (uint i = 0; i < TEAM; i++)
        sum += subgroupShuffle(x, base + i);
    return sum;
}

float st[PER];

// Row r of a tile.
float step_row(uint r)
{
    uint query = (2 * r * TEAM + LANE % TEAM) * RUN, key = query + TEAM * RUN;
    float decay = gates[r].x, beta = gates[r].y;
    precise float m = 0, y = 0;
    [[unroll]] for (uint i = 0; i < FOURS; i++) {
        vec4 k = keys[key + i];
        [[unroll]] for (uint j = 0; j < 4; j++) {
            precise float aged = decay * st[4 * i + j];
            st[4 * i + j] = aged;
            m = fma(aged, k[j], m);
        }
    }
    precise float delta = beta * (values[r * COLS + LANE / TEAM] - team_sum(m));
    [[unroll]] for (uint i = 0; i < FOURS; i++) {
        vec4 k = keys[key + i], q = keys[query + i];
        [[unroll]] for (uint j = 0; j < 4; j++) {
            precise float next = fma(k[j], delta, st[4 * i + j]);
            st[4 * i + j] = next;
            y = fma(next, q[j], y);
        }
    }
    return team_sum(y);
}

void main()
{
    segment = Segments(p.segments).v[gl_WorkGroupID.y];
    iv = gl_WorkGroupID.x * COLS / DV;
    first_col = gl_WorkGroupID.x * COLS % DV;
    uint col = first_col + LANE / TEAM, team = LANE % TEAM;
    uint at = (iv * DK + team * PER) * DV + col;
    F32 from = F32(segment.state + p.st_at[segment.plane] * 4ul);
    [[unroll]] for (uint i = 0; i < PER; i++)
        st[i] = from.v[at + i * DV];
    if (segment.n > 0)
        tile_load(0);
    for (uint first = 0; first < segment.n; first += TILE) {
        barrier(); // the tile before was read
        tile_store();
        barrier();
        tile_load(first + TILE);
        uint n = min(TILE, segment.n - first);
        for (uint r = 0; r < n; r++) {
            float y = step_row(r);
            if (team == 0)
                F32(row_at(first + r)).v[2 * KEY_CHANNELS + iv * DV + col] = y;
        }
    }
    F32 to = F32(segment.state + p.st_at[1 - segment.plane] * 4ul);
    [[unroll]] for (uint i = 0; i < PER; i++)
        to.v[at + i * DV] = st[i];
}
