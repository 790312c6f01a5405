/* The end of the model: logits of what the last read of the streams gives. W_head is the embedding
 * when the two are tied. Where the likeliest tokens are wanted each item looks at the logits that
 * it made while they are near. */
#include <limits.h>
#include <math.h>

#include "cpu/blocks.h"

struct head_job {
    struct cpu *g;
    int first; /* row of the batch that row 0 is */
    const bool *want;
    const float *logits;
};

static bool wanted(const bool *want, int r)
{
    return !want || want[r];
}

static void check_item(void *ctx, int r, int member)
{
    const struct head_job *x = ctx;
    size_t vocab = (size_t)x->g->weights.config.vocab;
    int all = 1;
    (void)member;
    if (!wanted(x->want, r))
        return;
    for (const float *row = x->logits + (size_t)r * vocab, *end = row + vocab; row < end; row++)
        all &= isfinite(*row) != 0;
    if (!all)
        row_spoil(x->g, x->first + r);
}

void cpu_head_logits(struct cpu *g, int first, int n, const bool *want, float *logits)
{
    size_t vocab = (size_t)g->weights.config.vocab;
    struct acts from[ENGINE_ROWS_MAX];
    struct product run[ENGINE_ROWS_MAX]; /* of rows that are wanted */
    int runs = 0;
    for (int r = 0, end; r < n; r = end) {
        for (end = r; end < n && wanted(want, end); end++)
            ;
        if (end == r) {
            end++;
            continue;
        }
        from[runs] = acts_from(&g->scratch.hidden, r);
        run[runs] = (struct product){&g->weights.head,           &from[runs], NULL, end - r,
                                     logits + (size_t)r * vocab, vocab};
        runs++;
    }
    cpu_linear_apply(g, run, runs);
    struct head_job x = {g, first, want, logits};
    each_row(g, n, check_item, &x);
}

struct best_stage {
    struct cpu *g;
    int rows[ENGINE_ROWS_MAX]; /* [p.R] of the batch: those that do not pass */
    const struct best_job *j;
    struct product p;
    int block; /* outputs of an item */
};

/* Logits from .. end - 1 of a row; limit: those that may be best end there. */
static void look(const struct kern *k, const float *row, int from, int end, int limit,
                 struct row_best *best)
{
    best->hash += engine_logits_hash_part(row, from, end);
    for (int i = from; i < end; i++)
        best->bad |= !isfinite(row[i]);
    end = end < limit ? end : limit;
    if (from >= end)
        return;
    const float most = k->max(row + from, end - from);
    if (most < best->most || (most == best->most && from > best->token))
        return;
    while (from < end - 1 && row[from] != most)
        from++;
    best->most = most;
    best->token = from;
}

static void best_item(void *ctx, int item, int member)
{
    const struct best_stage *x = ctx;
    const int vocab = x->p.m->rows, from = item * x->block;
    const int end = vocab - from < x->block ? vocab : from + x->block;
    struct row_best *best = x->g->scratch.best + (size_t)member * ENGINE_ROWS_MAX;
    cpu_linear_outputs(&x->g->kern, &x->p, from, end);
    for (int r = 0; r < x->p.R; r++)
        look(&x->g->kern, x->p.to + (size_t)r * x->p.stride, from, end, x->j->limit, &best[r]);
}

/* Of what all members saw of the r-th of them, row `row` of the batch. */
static struct best best_of(struct cpu *g, int r, int row)
{
    struct row_best all = g->scratch.best[r];
    for (int i = 1; i < team_size(g->team); i++) {
        const struct row_best *one = &g->scratch.best[(size_t)i * ENGINE_ROWS_MAX + (size_t)r];
        all.hash += one->hash;
        all.bad |= one->bad;
        if (one->most > all.most || (one->most == all.most && one->token < all.token)) {
            all.most = one->most;
            all.token = one->token;
        }
    }
    if (all.bad)
        row_spoil(g, row);
    return (struct best){all.token, all.hash};
}

void cpu_head_best(struct cpu *g, int n, const struct best_job *j)
{
    const int vocab = g->weights.config.vocab;
    struct row_best *best = g->scratch.best;
    struct best_stage x = {.g = g, .j = j};
    int R = 0;
    for (int r = 0; r < n; r++)
        if (!j->pass || !j->pass[r])
            x.rows[R++] = r;
    x.p = (struct product){&g->weights.head, &g->scratch.hidden, R < n ? x.rows : NULL, R,
                           j->logits,        (size_t)vocab};
    x.block = cpu_linear_split(g, &x.p);
    for (int i = 0; i < team_size(g->team); i++, best += ENGINE_ROWS_MAX)
        for (int r = 0; r < R; r++)
            best[r] = (struct row_best){.most = -INFINITY, .token = INT_MAX};
    team_run(g->team, (vocab + x.block - 1) / x.block, best_item, &x);
    for (int r = 0; r < R; r++)
        j->best[r] = best_of(g, r, x.rows[r]);
}
