/* The draft head: one more layer that looks one token further. src/cpu/mtp.c has its equations.
 *
 * Cells of the cache are filled when the token behind them is fed, never before, so a cached prefix
 * does not depend on what followed it; draft rows lie behind that and are overwritten. */
#include <stddef.h>
#include <string.h>

#include "gpu/blocks.h"
#include "gpu/plan.h"

void gpu_mtp_cells(struct gpu *g, struct batch *b, u64 wide, struct batch *cells)
{
    const struct config *c = &g->base.weights->config;
    struct tables *t = &g->host.tables[1];
    u64 width = (u64)c->S * (u64)c->h * sizeof(float);
    int n = 0;
    b->cells = NULL;
    for (int r = 0; g->options.drafts && r < b->R; r++) {
        const struct at *at = &b->host->at[r];
        if (!at->pos)
            continue;
        t->at[n] = (struct at){at->s, at->r, at->pos - 1, at->token};
        g->host.wide[n++] =
            at->r ? wide + (u64)(r - 1) * width : sequence_at(at->s, g->places.wide);
    }
    if (!n)
        return;
    gpu_batch_of_cells(g, cells, n, b->prefill);
    b->cells = cells;
}

int gpu_mtp_fill(struct gpu *g, const struct batch *cells, struct err *e)
{
    const struct layer_weights *w = &g->base.weights->mtp.layer;
    const struct hyper_job read = {.w = &w->attn_hyper,
                                   .hyper = g->scratch.hyper,
                                   .R = cells->R,
                                   .inj = g->scratch.inj,
                                   .mixer = true,
                                   .to = &g->scratch.mixed};
    int rc = gpu_mtp_fold(g, cells, g->scratch.wide, e);
    rc = rc ? rc : gpu_hyper_read(g, &read, e);
    return rc ? rc : gpu_qsa_fill(g, cells, &w->qsa, e);
}

static int see_logits_now(struct gpu *g, struct batch *b, const struct stop *s, struct err *e)
{
    const int vocab = g->base.weights->config.vocab;
    const float *logits = gpu_back(g, g->scratch.logits_back);
    (void)e;
    gpu_see_row(g, b, 0, SEEN_MTP_LOGITS, logits + (size_t)s->n * (size_t)vocab, vocab);
    return 0;
}

/* Draft d: b is its row. scratch.hyper becomes its own residual, scratch.best[d] its token. */
static int row_record(struct gpu *g, struct batch *b, int d, bool back, struct err *e)
{
    const struct config *c = &g->base.weights->config;
    const struct mtp_weights *w = &g->base.weights->mtp;
    const struct head_job head = {.n = 1,
                                  .first = d,
                                  .to = d,
                                  .limit = c->vocab,
                                  .back = back,
                                  .best = g->scratch.best + (u64)d * sizeof(u32)};
    const struct stop see = {.run = see_logits_now, .n = d};
    struct scratch *m = &g->scratch;
    const struct hyper_job read = {.w = &w->mixer,
                                   .hyper = m->hyper,
                                   .R = 1,
                                   .first = d,
                                   .add = m->out,
                                   .inj = m->inj,
                                   .mixer = true,
                                   .to = &m->hidden};
    int rc = gpu_mtp_fold(g, b, m->wide + (u64)d * sizeof(u64), e);
    b->add = false;
    rc = rc ? rc : gpu_layer_apply(g, b, &w->layer, NULL, e);
    rc = rc ? rc : gpu_hyper_read(g, &read, e);
    rc = rc ? rc : gpu_see_rows(g, b, SEEN_MTP_RESIDUAL, m->hyper, c->S * c->h, e);
    rc = rc ? rc : gpu_head_logits(g, &head, e);
    return rc || !g->options.observe ? rc : gpu_stop(g, b, &see, e);
}

/* Each draft's token goes into the row of the next, so that all run without the host. */
static int draft_record(struct gpu *g, struct batch *b, struct err *e)
{
    const u64 best = g->scratch.best;
    int rc = 0;
    for (int d = 0; !rc && d < b->R; d++) {
        struct tables t;
        struct batch row = gpu_batch_row(g, b, d, &t);
        u64 next = row.rows + sizeof(struct gpu_row) + offsetof(struct gpu_row, token);
        rc = row_record(g, &row, d, b->n_heads > 0, e);
        if (!rc && d + 1 < b->R)
            rc = gpu_copy(g, best + (u64)d * sizeof(u32), next, 1, e);
        tape_barrier(g->tape);
    }
    return rc ? rc : gpu_copy(g, best, g->scratch.best_back, (size_t)b->R, e);
}

/* Rows of the drafts: the first token is known, the first residual the sequence's. */
static void draft_rows(struct gpu *g, struct sequence *s, int32_t next, int depth, struct batch *b)
{
    for (int d = 0; d < depth; d++) {
        g->host.tables[1].at[d] = (struct at){s, 0, s->len - 1 + d, d ? 0 : next};
        g->host.wide[d] = d ? g->scratch.hyper : sequence_at(s, g->places.wide);
    }
    gpu_batch_of_drafts(g, b, depth);
    gpu_batch_round(g, b);
}

int gpu_mtp_draft(struct sequence *s, int32_t next, int depth, int32_t *tokens, float *logits,
                  struct err *e)
{
    struct gpu *g = s->g;
    const struct config *c = &g->base.weights->config;
    const size_t vocab = (size_t)c->vocab;
    const struct draft_check check = {g->options.drafts, depth, next, s->len, s->pending};
    struct batch b;
    if (engine_draft_check(c, &check, e))
        return -e->code;
    draft_rows(g, s, next, depth, &b);
    b.n_heads = logits || g->options.observe ? depth : 0;
    const struct plan_key key = {
        .kind = PLAN_DRAFT, .R = depth, .reach = b.reach, .n_heads = b.n_heads};
    int rc = gpu_batch_run(g, &b, g->options.observe ? NULL : &key, draft_record, e);
    rc = rc ? rc : gpu_batch_check(g, &b, e);
    if (rc)
        return rc;
    memcpy(tokens, gpu_back(g, g->scratch.best_back), (size_t)depth * sizeof *tokens);
    if (logits)
        memcpy(logits, gpu_back(g, g->scratch.logits_back), (size_t)depth * vocab * sizeof *logits);
    return 0;
}

int gpu_mtp_rehearse(struct sequence *s, struct err *e)
{
    struct batch b;
    draft_rows(s->g, s, 0, 1, &b);
    return gpu_batch_rehearse(s->g, &b, draft_record, e);
}
