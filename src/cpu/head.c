/* The end of the model: logits of what the last read of the streams gives. W_head is the embedding
 * when the two are tied. */
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
