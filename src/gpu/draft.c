/* The draft head: one more layer that looks one token further. src/cpu/mtp.c has its equations.
 *
 * Cells of the cache are filled when the token behind them is fed, never before, so a cached prefix
 * does not depend on what followed it; draft rows lie behind that and are overwritten. */
#include <string.h>

#include "gpu/blocks.h"
#include "gpu/plan.h"

int gpu_mtp_cells(struct gpu *g, const struct batch *b, u64 wide, struct batch *cells)
{
    const struct config *c = &g->base.weights->config;
    struct tables *t = &g->host.tables[1];
    u64 width = (u64)c->S * (u64)c->h * sizeof(float);
    int n = 0;
    for (int r = 0; r < b->R; r++) {
        const struct at *at = &b->host->at[r];
        if (!at->pos)
            continue;
        t->at[n] = (struct at){at->s, at->r, at->pos - 1, at->token};
        g->host.wide[n++] =
            at->r ? wide + (u64)(r - 1) * width : sequence_at(at->s, g->places.wide);
    }
    if (n)
        gpu_batch_of_cells(g, cells, n, b->prefill);
    return n;
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
    int rc = gpu_mtp_fold(g, cells, e);
    rc = rc ? rc : gpu_hyper_read(g, &read, e);
    return rc ? rc : gpu_qsa_fill(g, cells, &w->qsa, e);
}

/* Records a draft row from the residual at host.wide; scratch.hyper becomes its own. */
static int draft_record(struct gpu *g, struct batch *b, struct err *e)
{
    const struct mtp_weights *w = &g->base.weights->mtp;
    struct scratch *m = &g->scratch;
    const struct hyper_job read = {.w = &w->mixer,
                                   .hyper = m->hyper,
                                   .R = 1,
                                   .add = m->out,
                                   .inj = m->inj,
                                   .mixer = true,
                                   .to = &m->hidden};
    int rc = gpu_mtp_fold(g, b, e);
    b->add = false;
    rc = rc ? rc : gpu_layer_apply(g, b, &w->layer, NULL, e);
    rc = rc ? rc : gpu_hyper_read(g, &read, e);
    rc = rc ? rc
            : gpu_see_rows(g, b, SEEN_MTP_RESIDUAL, m->hyper,
                           g->base.weights->config.S * g->base.weights->config.h, e);
    return rc ? rc : gpu_head_logits(g, 0, 1, e);
}

static int draft_row(struct gpu *g, struct batch *b, u64 wide, float *logits, struct err *e)
{
    const size_t vocab = (size_t)g->base.weights->config.vocab;
    g->host.wide[0] = wide;
    gpu_batch_round(g, b);
    const struct plan_key key = {.kind = PLAN_DRAFT, .R = 1, .reach = b->reach};
    int rc = gpu_batch_run(g, b, g->options.observe ? NULL : &key, draft_record, e);
    rc = rc ? rc : gpu_batch_check(g, b, e);
    if (rc)
        return rc;
    memcpy(logits, gpu_back(g, g->scratch.logits), vocab * sizeof *logits);
    gpu_see_row(g, b, 0, SEEN_MTP_LOGITS, logits, (int)vocab);
    return 0;
}

int gpu_mtp_draft(struct sequence *s, int32_t next, int depth, int32_t *tokens, float *logits,
                  struct err *e)
{
    struct gpu *g = s->g;
    const struct config *c = &g->base.weights->config;
    u64 wide = sequence_at(s, g->places.wide);

    const struct draft_check check = {g->options.drafts, depth, next, s->len, s->pending};
    if (engine_draft_check(c, &check, e))
        return -e->code;
    for (int d = 0; d < depth; d++, logits += c->vocab) {
        struct batch b;
        g->host.tables[1].at[0] = (struct at){s, 0, s->len - 1 + d, next};
        gpu_batch_of_cells(g, &b, 1, false);
        int rc = draft_row(g, &b, wide, logits, e);
        if (rc)
            return rc;
        next = tokens[d] = engine_argmax(logits, c->vocab);
        wide = g->scratch.hyper;
    }
    return 0;
}
