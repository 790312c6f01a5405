/* Dispatches of the DeltaNet scan: deltanet.comp, or for many rows deltanet_rows.comp,
 * deltanet_chain.comp and deltanet_gate.comp; deltanet_replay.comp. */
#include "gpu/mix.h"

enum {
    SCAN_LANES = 512,
    TEAM_MAX = 16,
    TILE_MAX = 8,                /* rows that go through a workgroup together */
    TILE_FLOATS = 20 * 1024 / 4, /* of the 32 KiB that every device has; sums take the rest */
    MANY_ROWS = 16,              /* of a segment: from so many on in three dispatches */
    CHAIN_LANES = 64,
    CHAIN_TEAM_MAX = 8, /* neighbours of every subgroup */
};

/* Value heads of a workgroup: one, or so few that they fill groups of 64. */
static int scan_heads(const struct config *c, bool codes)
{
    int n = 1;
    while (codes && n * c->dv % 64)
        n++;
    return n;
}

/* Invocations that share a column. */
static int scan_team(const struct config *c, int heads)
{
    int n = TEAM_MAX;
    while (c->dk % n || n * heads * c->dv > SCAN_LANES)
        n /= 2;
    return n;
}

static int scan_tile(const struct config *c, int heads)
{
    int row = heads * (2 * c->dk + c->dv + 2), n = TILE_FLOATS / row;
    return n < 1 ? 1 : n < TILE_MAX ? n : TILE_MAX;
}

size_t deltanet_room(const struct config *c, size_t rows)
{
    return rows * (size_t)GPU_DELTANET_ROOM(c->nk, c->nv, c->dk, c->dv) * sizeof(float);
}

/* Whether a workgroup of the chain can be cut from the columns of a head. */
static bool has_chain(const struct config *c, int team)
{
    return team <= CHAIN_TEAM_MAX && c->dk % (4 * team) == 0 && c->dv % (CHAIN_LANES / team) == 0;
}

static int chain_tile(const struct config *c, int team)
{
    int run = c->dk / team + 4, row = 2 * team * run + CHAIN_LANES / team + 2;
    int n = TILE_FLOATS / row;
    return n < 1 ? 1 : n < TILE_MAX ? n : TILE_MAX;
}

/* The three parts, of segments of at most `rows` rows; team as in the one. */
static int scan_many(const struct mix *m, const struct deltanet_params *p, struct scan s,
                     struct err *e)
{
    const struct config *c = m->config;
    const uint32_t nk = (uint32_t)c->nk, nv = (uint32_t)c->nv;
    const uint32_t dk = (uint32_t)c->dk, dv = (uint32_t)c->dv;
    const int heads = scan_heads(c, s.codes), team = scan_team(c, heads);
    const uint32_t cols = (uint32_t)(CHAIN_LANES / team), width = 2 * nk * dk + nv * dv;
    const uint32_t units = (width + dk - 1) / dk + (nv + 31) / 32;
    const uint32_t n_rows = heads < 8 ? (uint32_t)(8 / heads) : 1;
    const uint32_t of_rows[] = {nk, nv, dk, dv, (uint32_t)c->conv_kernel};
    const uint32_t of_chain[] = {
        CHAIN_LANES, nk, nv, dk, dv, cols, (uint32_t)team, (uint32_t)chain_tile(c, team)};
    const uint32_t of_gate[] = {nk, nv, dk, dv, (uint32_t)heads, c->gate_act == GATE_SILU, s.codes};
    const struct kernel *rows, *chain, *gate;
    int rc = device_kernel(m->device, "deltanet_rows", of_rows, 5, &rows, e);
    rc = rc ? rc : device_kernel(m->device, "deltanet_chain", of_chain, 8, &chain, e);
    rc = rc ? rc : device_kernel(m->device, "deltanet_gate", of_gate, 7, &gate, e);
    if (rc)
        return rc;
    tape_dispatch(m->tape, rows, p, sizeof *p,
                  (struct grid){(units + 7) / 8, (u32)s.rows, (u32)s.n_segments});
    tape_barrier(m->tape);
    tape_dispatch(m->tape, chain, p, sizeof *p,
                  (struct grid){nv * dv / cols, (u32)s.n_segments, 1});
    tape_barrier(m->tape);
    tape_dispatch(m->tape, gate, p, sizeof *p,
                  (struct grid){nv / (u32)heads, (p->R + n_rows - 1) / n_rows, 1});
    return 0;
}

int deltanet_scan(const struct mix *m, const struct deltanet_params *p, struct scan s,
                  struct err *e)
{
    const struct config *c = m->config;
    const bool codes = s.codes;
    int heads = scan_heads(c, codes);
    const uint32_t constants[] = {
        (uint32_t)c->nk,
        (uint32_t)c->nv,
        (uint32_t)c->dk,
        (uint32_t)c->dv,
        (uint32_t)c->conv_kernel,
        (uint32_t)heads,
        (uint32_t)scan_team(c, heads),
        (uint32_t)scan_tile(c, heads),
        c->gate_act == GATE_SILU,
        codes,
    };
    const struct grid groups = {(u32)(c->nv / heads), (u32)s.n_segments, 1};
    const struct kernel *k;
    if (s.rows >= MANY_ROWS && p->room && !p->log && has_chain(c, scan_team(c, heads)))
        return scan_many(m, p, s, e);
    int rc = device_kernel(m->device, "deltanet", constants, 10, &k, e);
    if (!rc)
        tape_dispatch(m->tape, k, p, sizeof *p, groups);
    return rc;
}

int deltanet_replay(const struct mix *m, const struct deltanet_replay_params *p, struct err *e)
{
    const struct config *c = m->config;
    const uint32_t constants[] = {(uint32_t)c->nk, (uint32_t)c->nv, (uint32_t)c->dk,
                                  (uint32_t)c->dv, (uint32_t)c->conv_kernel};
    int width = 2 * c->nk * c->dk + c->nv * c->dv;
    int all = c->nv * c->dk * c->dv + (c->conv_kernel - 1) * width;
    const struct grid groups = {(all + 255) / 256, 1, 1};
    const struct kernel *k;
    int rc = device_kernel(m->device, "deltanet_replay", constants, 5, &k, e);
    if (!rc)
        tape_dispatch(m->tape, k, p, sizeof *p, groups);
    return rc;
}
