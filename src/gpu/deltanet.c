/* Dispatches of the DeltaNet scan: deltanet.comp, deltanet_replay.comp. */
#include "gpu/mix.h"

enum {
    SCAN_LANES = 512,
    TEAM_MAX = 16,
    TILE_MAX = 8,                /* rows that go through a workgroup together */
    TILE_FLOATS = 20 * 1024 / 4, /* of the 32 KiB that every device has; sums take the rest */
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

int deltanet_scan(const struct mix *m, const struct deltanet_params *p, int n_segments, bool codes,
                  struct err *e)
{
    const struct config *c = m->config;
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
    const struct grid groups = {c->nv / heads, n_segments, 1};
    const struct kernel *k;
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
