/* Dispatches of sparse attention: qsa_prepare.comp, select_score.comp, select.comp, attend.comp,
 * attend_merge.comp. */
#include "gpu/mix.h"

enum {
    TEAMS = 4, /* units of a row in a workgroup of qsa_prepare */
    SCORE_BLOCKS = 64,
    PART = 128, /* positions of a part */
    HEADS_AT_ONCE = 4,
    MANY_ROWS = 16, /* from so many rows on all heads of a kv head go together */
    ROOM_BYTES =
        27 * 1024 + 512, /* of the 32 KiB that every device has, for queries, keys, scores */
    MERGE_ELEMENTS = 256,
};

static int over(int n, int by)
{
    return (n + by - 1) / by;
}

int attend_visible(const struct config *c)
{
    return c->index_budget + c->index_ratio - 1;
}

int attend_parts(const struct config *c)
{
    return over(attend_visible(c), PART);
}

int qsa_prepare(const struct mix *m, const struct qsa_prepare_params *p, int R, bool queries,
                struct err *e)
{
    const struct config *c = m->config;
    const uint32_t constants[] = {
        (uint32_t)c->n_heads,     (uint32_t)c->n_kv,      (uint32_t)c->head_dim,   (uint32_t)c->rot,
        (uint32_t)c->index_heads, (uint32_t)c->index_dim, (uint32_t)c->index_ratio};
    int units = 2 * c->n_kv + 2 + (queries ? c->n_heads + c->index_heads : 0);
    const struct grid groups = {over(units, TEAMS), R, 1};
    struct qsa_prepare_params all = *p;
    const struct kernel *k;
    int rc = device_kernel(m->device, "qsa_prepare", constants, 7, &k, e);
    all.units = (uint32_t)units;
    if (!rc)
        tape_dispatch(m->tape, k, &all, sizeof all, groups);
    return rc;
}

int select_blocks(const struct mix *m, const struct select_params *p, int n, int blocks,
                  struct err *e)
{
    const struct config *c = m->config;
    const uint32_t scores[] = {(uint32_t)c->index_heads, (uint32_t)c->index_dim,
                               (uint32_t)c->index_ratio, (uint32_t)c->index_budget};
    const struct grid score_groups = {over(blocks, SCORE_BLOCKS), n, 1}, groups = {n, 1, 1};
    const struct kernel *score, *choose;
    int rc = device_kernel(m->device, "select_score", scores, 4, &score, e);
    if (!rc)
        rc = device_kernel(m->device, "select", scores + 2, 2, &choose, e);
    if (rc)
        return rc;
    tape_dispatch(m->tape, score, p, sizeof *p, score_groups);
    tape_barrier(m->tape);
    tape_dispatch(m->tape, choose, p, sizeof *p, groups);
    return 0;
}

/* Heads of a workgroup: few rows want many workgroups, many rows want cells read once. */
static int heads_at_once(const struct config *c, int n)
{
    int heads = c->n_heads / c->n_kv, most = n < MANY_ROWS ? HEADS_AT_ONCE : 3 * HEADS_AT_ONCE;
    int one = (c->head_dim / 4 + 1) * 16 + PART * 4, keys = PART * 64, k = HEADS_AT_ONCE;
    while (k < heads && k < most && (k + HEADS_AT_ONCE) * one + keys <= ROOM_BYTES)
        k += HEADS_AT_ONCE;
    return k;
}

int attend_rows(const struct mix *m, const struct attend_params *p, int n, int positions,
                bool codes, struct err *e)
{
    const struct config *c = m->config;
    uint32_t heads = (uint32_t)c->n_heads, dim = (uint32_t)c->head_dim;
    uint32_t ratio = (uint32_t)c->index_ratio, budget = (uint32_t)c->index_budget;
    uint32_t parts = (uint32_t)attend_parts(c);
    int at_once = heads_at_once(c, n);
    const uint32_t of_part[] = {heads, (uint32_t)c->n_kv, dim, ratio, budget,
                                parts, (uint32_t)at_once};
    const uint32_t of_merge[] = {heads, dim, ratio, budget, parts, codes};
    int most = positions < attend_visible(c) ? positions : attend_visible(c);
    int sets = over(c->n_heads / c->n_kv, at_once);
    const struct grid part_groups = {over(most, PART) * sets, c->n_kv, n};
    const struct grid merge_groups = {over(c->n_heads * c->head_dim, MERGE_ELEMENTS), n, 1};
    const struct kernel *part, *merge;
    int rc = device_kernel(m->device, "attend", of_part, 7, &part, e);
    if (!rc)
        rc = device_kernel(m->device, "attend_merge", of_merge, 6, &merge, e);
    if (rc)
        return rc;
    tape_dispatch(m->tape, part, p, sizeof *p, part_groups);
    tape_barrier(m->tape);
    tape_dispatch(m->tape, merge, p, sizeof *p, merge_groups);
    return 0;
}
