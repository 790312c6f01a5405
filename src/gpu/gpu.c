/* Engine "gpu": steps and prefills. See gpu.h, open.c for how it is made, draft.c for the draft
 * head, and blocks.h for the model itself.
 *
 * What an observer is told is what engine "reference" tells, but block by block: of each block all
 * rows of the batch, in their order. A prefill tells hidden and logits of its last row only. */
#include "gpu/gpu.h"

#include <string.h>

#include "gpu/blocks.h"
#include "gpu/open.h"

static size_t wide_bytes(const struct gpu *g)
{
    const struct config *c = &g->base.weights->config;
    return (size_t)c->S * (size_t)c->h * sizeof(float);
}

/* The last read, of rows first .. of the batch, to scratch.hidden, and their logits. */
static int end_rows(struct gpu *g, const struct batch *b, int first, struct err *e)
{
    const struct weights *w = g->base.weights;
    const struct config *c = &w->config;
    struct scratch *m = &g->scratch;
    const struct hyper_job read = {
        .w = &w->mixer,
        .hyper = m->hyper + (u64)first * wide_bytes(g),
        .R = b->R - first,
        .first = first,
        .add = b->add ? m->out + (u64)first * (u64)c->h * sizeof(float) : 0,
        .inj = m->inj + (u64)first * (u64)c->S * sizeof(float),
        .mixer = true,
        .to = &m->hidden,
    };
    int rc = gpu_hyper_read(g, &read, e);
    return rc ? rc : gpu_head_logits(g, first, b->R - first, e);
}

/* Reports hidden and logits of rows first .. , of which scratch holds the rows from 0 on. */
static int see_end(struct gpu *g, const struct batch *b, int first, const bool *want, struct err *e)
{
    const struct config *c = &g->base.weights->config;
    const float *logits = gpu_back(g, g->scratch.logits);
    int n = b->R - first;
    if (!g->options.observe)
        return 0;
    int rc = gpu_batch_flush(g, e);
    rc = rc ? rc
            : device_download(g->device, &g->local, g->scratch.hidden.x - g->local.address,
                              g->host.seen, (size_t)n * (size_t)c->h * sizeof(float), e);
    for (int r = 0; !rc && r < n; r++)
        gpu_see_row(g, b, first + r, SEEN_HIDDEN, g->host.seen + (size_t)r * c->h, c->h);
    for (int r = 0; !rc && r < n; r++)
        if (!want || want[r])
            gpu_see_row(g, b, first + r, SEEN_LOGITS, logits + (size_t)r * c->vocab, c->vocab);
    return rc;
}

static int step_record(struct gpu *g, struct batch *b, const bool *want, struct err *e)
{
    u64 kept = g->pending.wide + (u64)b->pending * wide_bytes(g);
    int rc = gpu_trunk_apply(g, b, e);
    rc = rc ? rc : end_rows(g, b, 0, e);
    rc = rc ? rc : see_end(g, b, 0, want, e);
    if (rc || !g->options.drafts)
        return rc;
    rc = gpu_copy(g, g->scratch.hyper, kept, (size_t)b->R * wide_bytes(g) / sizeof(float), e);
    tape_barrier(g->tape);
    return rc ? rc : gpu_mtp_fill(g, b, kept, e);
}

static int gpu_step(struct engine *base, const struct row *rows, int R, const bool *want,
                    float *logits, struct err *e)
{
    struct gpu *g = (struct gpu *)base;
    const size_t vocab = (size_t)base->weights->config.vocab;
    const float *made = gpu_back(g, g->scratch.logits);
    struct batch b;
    int rc = gpu_batch_of_rows(g, rows, R, &b, e);
    if (rc)
        return rc;
    gpu_batch_begin(g);
    rc = gpu_batch_run(g, step_record(g, &b, want, e), e);
    rc = rc ? rc : gpu_batch_check(g, &b, e);
    if (rc)
        return rc;
    for (int r = 0; r < R; r++)
        if (!want || want[r])
            memcpy(logits + (size_t)r * vocab, made + (size_t)r * vocab, vocab * sizeof *logits);
    for (int i = 0; i < b.n_segments; i++) {
        const struct gpu_segment *s = &b.segment[i];
        b.seq[i]->pending = (int)s->n;
        b.seq[i]->first = b.pending + (int)s->first;
    }
    g->pending.rows += R;
    g->pending.used += R;
    g->counters.steps++;
    g->counters.rows += (uint64_t)R;
    return 0;
}

/* What is left when the last layer of a prefill is through: the residual of all rows, the logits of
 * the last, the draft head's cells. */
static int prefill_end(struct gpu *g, struct batch *b, bool logits, struct err *e)
{
    struct scratch *m = &g->scratch;
    const struct hyper_job write = {.hyper = m->hyper, .R = b->R, .add = m->out, .inj = m->inj};
    int rc = b->add ? gpu_hyper_add(g, &write, e) : 0;
    b->add = false;
    if (!rc && logits) {
        rc = end_rows(g, b, b->R - 1, e);
        rc = rc ? rc : see_end(g, b, b->R - 1, NULL, e);
    }
    if (rc || !g->options.drafts)
        return rc;
    rc = gpu_copy(g, m->hyper + (u64)(b->R - 1) * wide_bytes(g), m->last_wide,
                  wide_bytes(g) / sizeof(float), e);
    tape_barrier(g->tape);
    rc = rc ? rc : gpu_mtp_fill(g, b, m->hyper, e);
    return rc;
}

static int prefill_record(struct gpu *g, struct batch *b, bool logits, struct err *e)
{
    int rc = gpu_trunk_apply(g, b, e);
    return rc ? rc : prefill_end(g, b, logits, e);
}

/* The last token's residual becomes the sequence's, once all has gone well. */
static int keep_wide(struct gpu *g, const struct sequence *s, struct err *e)
{
    if (!g->options.drafts)
        return 0;
    gpu_batch_begin(g);
    int rc = gpu_copy(g, g->scratch.last_wide, sequence_at(s, g->places.wide),
                      wide_bytes(g) / sizeof(float), e);
    return gpu_batch_run(g, rc, e);
}

static int gpu_prefill(struct engine *base, struct sequence *s, const int32_t *tokens, int n,
                       float *logits, struct err *e)
{
    struct gpu *g = (struct gpu *)base;
    struct batch b;
    int rc = gpu_batch_of_tokens(g, s, tokens, n, &b, e);
    if (rc)
        return rc;
    gpu_batch_begin(g);
    rc = gpu_batch_run(g, prefill_record(g, &b, logits != NULL, e), e);
    rc = rc ? rc : gpu_batch_check(g, &b, e);
    if (!rc && logits)
        memcpy(logits, gpu_back(g, g->scratch.logits),
               (size_t)base->weights->config.vocab * sizeof *logits);
    rc = rc ? rc : keep_wide(g, s, e);
    if (rc)
        return rc;
    s->plane = !s->plane;
    s->len += n;
    g->counters.prefill_tokens += (uint64_t)n;
    return 0;
}

static const struct counters *gpu_counters(const struct engine *g)
{
    return &((const struct gpu *)g)->counters;
}

const struct engine_ops gpu_engine = {
    .name = "gpu",
    .summary =
        "kernels on a GPU, through Vulkan; experts in its memory, or read as they are needed",
    .open = gpu_open,
    .close = gpu_close,
    .sequence_open = gpu_sequence_open,
    .sequence_close = gpu_sequence_close,
    .sequence_reset = gpu_sequence_reset,
    .sequence_length = gpu_sequence_length,
    .step = gpu_step,
    .prefill = gpu_prefill,
    .commit = gpu_sequence_commit,
    .draft = gpu_mtp_draft,
    .save = gpu_sequence_save,
    .restore = gpu_sequence_restore,
    .counters = gpu_counters,
};
