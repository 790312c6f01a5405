/* What a query of sparse attention sees.
 *
 *   score of b = sum over index heads of relu(index query . key) / sqrt(index_dim)
 *   visible = the budget/ratio complete blocks of the highest score (ties: the lower), and the tail
 *
 * Scores are not negative, so their bits, as whole numbers, are in their order; what is not finite
 * counts as large, and is refused elsewhere. */
#include <math.h>
#include <string.h>

#include "cpu/blocks.h"

struct select_job {
    struct cpu *g;
    const struct batch *b;
    int first;
    int ranges; /* items of a row */
};

static struct sequence *sequence_of(const struct select_job *x, int r)
{
    return x->b->at[x->first + r].s;
}

/* Complete blocks that row r of the group sees, or may choose from. */
static int complete_blocks(const struct select_job *x, int r)
{
    return (x->b->at[x->first + r].pos + 1) / x->g->weights.config.index_ratio;
}

static bool chooses(const struct select_job *x, int r)
{
    const struct config *c = &x->g->weights.config;
    return complete_blocks(x, r) > c->index_budget / c->index_ratio;
}

/* Item (row, range of SCORE_BLOCKS). */
static void score_item(void *ctx, int item, int member)
{
    const struct select_job *x = ctx;
    const struct config *c = &x->g->weights.config;
    int r = item / x->ranges, from = item % x->ranges * SCORE_BLOCKS, n = complete_blocks(x, r);
    const struct sequence *s = sequence_of(x, r);
    const float *key = s->layers[x->b->il].cache.block;
    const float *q =
        x->g->scratch.index + (size_t)(x->first + r) * (c->index_heads + 1) * c->index_dim;
    float *score = s->block_score + (size_t)r * s->blocks;
    float root = (float)(1.0 / sqrt(c->index_dim));
    (void)member;
    n = !chooses(x, r) ? 0 : n < from + SCORE_BLOCKS ? n : from + SCORE_BLOCKS;
    for (int ib = from; ib < n; ib++) {
        float sum = 0;
        for (int ih = 0; ih < c->index_heads; ih++) {
            float dot = x->g->kern.dot(q + (size_t)ih * c->index_dim,
                                       key + (size_t)ib * c->index_dim, c->index_dim);
            sum += dot > 0 ? dot : 0;
        }
        score[ib] = sum * root;
    }
}

/* The k-th largest of n numbers, which change places; 1 <= k <= n. */
static uint32_t kth_largest(uint32_t *v, int n, int k)
{
    for (int from = 0, to = n - 1; from < to;) {
        uint32_t pivot = v[from + (to - from) / 2];
        int i = from, j = to;
        while (i <= j) {
            while (v[i] > pivot)
                i++;
            while (v[j] < pivot)
                j--;
            if (i <= j) {
                uint32_t other = v[i];
                v[i++] = v[j];
                v[j--] = other;
            }
        }
        if (k - 1 <= j)
            to = j;
        else if (k - 1 >= i)
            from = i;
        else
            break;
    }
    return v[k - 1];
}

/* Writes the positions of the best `most` of n blocks, ascending; returns how many. */
static int best_blocks(const struct select_job *x, int r, int n, int most, int *visible)
{
    int ratio = x->g->weights.config.index_ratio, above = 0, found = 0;
    const struct sequence *s = sequence_of(x, r);
    const float *score = s->block_score + (size_t)r * s->blocks;
    uint32_t *rank = s->block_rank + (size_t)r * s->blocks, bits;
    memcpy(rank, score, (size_t)n * sizeof *rank);
    uint32_t edge = kth_largest(rank, n, most);
    for (int ib = 0; ib < most; ib++)
        above += rank[ib] > edge; /* those before the edge are the largest */
    int equal = most - above;
    for (int ib = 0; ib < n; ib++) {
        memcpy(&bits, &score[ib], sizeof bits);
        if (bits < edge || (bits == edge && equal-- <= 0))
            continue;
        for (int t = 0; t < ratio; t++)
            visible[found++] = ib * ratio + t;
    }
    return found;
}

static void choose_item(void *ctx, int r, int member)
{
    const struct select_job *x = ctx;
    const struct config *c = &x->g->weights.config;
    int *visible = x->g->scratch.visible + (size_t)r * x->g->max_visible;
    int complete = complete_blocks(x, r), pos = x->b->at[x->first + r].pos, n = 0;
    (void)member;
    if (chooses(x, r))
        n = best_blocks(x, r, complete, c->index_budget / c->index_ratio, visible);
    for (int p = n ? complete * c->index_ratio : 0; p <= pos; p++)
        visible[n++] = p;
    x->g->scratch.n_visible[r] = n;
}

void select_visible(struct cpu *g, const struct batch *b, int first, int n)
{
    struct select_job x = {.g = g, .b = b, .first = first};
    int most = 0;
    for (int r = 0; r < n; r++)
        if (chooses(&x, r))
            most = complete_blocks(&x, r) > most ? complete_blocks(&x, r) : most;
    x.ranges = (most + SCORE_BLOCKS - 1) / SCORE_BLOCKS;
    team_run(g->team, n * x.ranges, score_item, &x);
    each_row(g, n, choose_item, &x);
    for (int r = 0; r < n; r++)
        cpu_see_ids(g, b, first + r, SEEN_SELECTED, g->scratch.visible + (size_t)r * g->max_visible,
                    g->scratch.n_visible[r]);
}
