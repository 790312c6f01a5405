/* Engine "gpu": steps and prefills. See gpu.h, open.c for how it is made, draft.c for the draft
 * head, and blocks.h for the model itself.
 *
 * What an observer is told is what engine "reference" tells, but block by block: of each block all
 * rows of the batch, in their order. A prefill tells hidden and logits of its last row only. */
#include "gpu/gpu.h"

#include <string.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "gpu/blocks.h"
#include "gpu/head.h"
#include "gpu/open.h"
#include "gpu/plan.h"

static size_t wide_bytes(const struct gpu *g)
{
    const struct config *c = &g->base.weights->config;
    return (size_t)c->S * (size_t)c->h * sizeof(float);
}

/* The last read, of the rows that want logits, to scratch.hidden, and their logits. */
static int end_rows(struct gpu *g, const struct batch *b, struct err *e)
{
    const struct weights *w = g->base.weights;
    const struct config *c = &w->config;
    struct scratch *m = &g->scratch;
    const u64 first = (u64)b->first_head;
    const struct hyper_job read = {
        .w = &w->mixer,
        .hyper = m->hyper + first * wide_bytes(g),
        .R = b->n_heads,
        .first = b->first_head,
        .add = b->add ? m->out + first * (u64)c->h * sizeof(float) : 0,
        .inj = m->inj + first * (u64)c->S * sizeof(float),
        .mixer = true,
        .to = &m->hidden,
    };
    gpu_phase(g, PHASE_HEAD);
    const struct head_job head = {.n = b->n_heads,
                                  .first = b->first_head,
                                  .limit = b->limit,
                                  .back = b->back,
                                  .parts = m->parts_back};
    int rc = gpu_hyper_read(g, &read, e);
    return rc ? rc : gpu_head_logits(g, &head, e);
}

static bool wanted(const struct batch *b, int r)
{
    return !b->want || b->want[r];
}

/* What is left to add to rows of which no logits are wanted, or to all. */
static int add_rows(struct gpu *g, const struct batch *b, int first, int n, struct err *e)
{
    const struct config *c = &g->base.weights->config;
    struct scratch *m = &g->scratch;
    const u64 at = (u64)first;
    const struct hyper_job write = {.hyper = m->hyper + at * wide_bytes(g),
                                    .R = n,
                                    .first = first,
                                    .add = m->out + at * (u64)c->h * sizeof(float),
                                    .inj = m->inj + at * (u64)c->S * sizeof(float)};
    return n && b->add ? gpu_hyper_add(g, &write, e) : 0;
}

static int see_end_now(struct gpu *g, struct batch *b, const struct stop *s, struct err *e)
{
    const struct config *c = &g->base.weights->config;
    const float *logits = gpu_back(g, g->scratch.logits_back);
    int n = b->n_heads;
    int rc = device_download(g->device, &g->local, g->scratch.hidden.x - g->local.address,
                             g->host.seen, (size_t)n * (size_t)c->h * sizeof(float), e);
    (void)s;
    for (int r = 0; !rc && r < n; r++)
        gpu_see_row(g, b, b->first_head + r, SEEN_HIDDEN, g->host.seen + (size_t)r * c->h, c->h);
    for (int r = 0; !rc && r < n; r++)
        if (wanted(b, b->first_head + r))
            gpu_see_row(g, b, b->first_head + r, SEEN_LOGITS, logits + (size_t)r * c->vocab,
                        c->vocab);
    return rc;
}

/* Reports hidden and logits. */
static int see_end(struct gpu *g, struct batch *b, struct err *e)
{
    const struct stop s = {.run = see_end_now};
    return g->options.observe ? gpu_stop(g, b, &s, e) : 0;
}

/* Keeps the residuals of n rows, which drafts start from, and fills the draft head's cells. */
static int end_drafts(struct gpu *g, const struct batch *b, u64 from, u64 to, int n, struct err *e)
{
    if (!g->options.drafts)
        return 0;
    gpu_phase(g, PHASE_DRAFT);
    int rc = gpu_copy(g, from, to, (size_t)n * wide_bytes(g) / sizeof(float), e);
    tape_barrier(g->tape);
    return rc || !b->cells ? rc : gpu_mtp_fill(g, b->cells, e);
}

/* --- steps --- */

/* Of a step the rows from the first to the last that is asked for get logits. */
static void choose_heads(const struct gpu *g, struct batch *b, const bool *want)
{
    int first = 0, end = b->R;
    b->want = want;
    while (want && !g->options.observe && first < end && !want[first])
        first++;
    while (want && !g->options.observe && end > first && !want[end - 1])
        end--;
    b->first_head = first;
    b->n_heads = end - first;
}

/* Where the residuals of a step's rows are kept. */
static u64 wide_of(const struct gpu *g, const struct batch *b)
{
    return g->pending.wide + (u64)b->pending * wide_bytes(g);
}

static int step_record(struct gpu *g, struct batch *b, struct err *e)
{
    const int end = b->first_head + b->n_heads;
    int rc = gpu_trunk_apply(g, b, e);
    rc = rc ? rc : add_rows(g, b, 0, b->first_head, e);
    rc = rc ? rc : add_rows(g, b, end, b->R - end, e);
    if (!rc && b->n_heads) {
        rc = end_rows(g, b, e);
        rc = rc ? rc : see_end(g, b, e);
    }
    return rc ? rc : end_drafts(g, b, g->scratch.hyper, wide_of(g, b), b->R, e);
}

/* Whether a plan serves: nothing of what is recorded may depend on what the host finds out. */
static bool keeps(const struct gpu *g, int R)
{
    const struct config *c = &g->base.weights->config;
    int most = R * c->K < c->E ? R * c->K : c->E;
    return !g->options.observe && (g->experts.resident || most <= g->experts.slots_max);
}

static int step_start(struct gpu *g, struct batch *b, struct err *e)
{
    int rc = gpu_rows_begin(g, b, e);
    if (rc)
        return rc;
    if (!keeps(g, b->R))
        return gpu_batch_run(g, b, NULL, step_record, e);
    gpu_batch_round(g, b);
    const struct plan_key key = {.kind = PLAN_STEP,
                                 .R = b->R,
                                 .n_segments = b->n_segments,
                                 .pending = b->pending,
                                 .cells = b->cells ? b->cells->R : 0,
                                 .reach = b->reach,
                                 .first = b->first_head,
                                 .n_heads = b->n_heads,
                                 .back = b->back,
                                 .limit = b->limit};
    return gpu_batch_run(g, b, &key, step_record, e);
}

static int step_run(struct gpu *g, struct batch *b, struct err *e)
{
    struct batch cells;
    gpu_mtp_cells(g, b, wide_of(g, b), &cells);
    const int rc = step_start(g, b, e);
    b->cells = NULL;
    return rc;
}

/* Logits of the wanted rows, from the host's own memory. */
static void take_logits(const struct gpu *g, const struct batch *b, const bool *want, float *logits)
{
    const size_t vocab = (size_t)g->base.weights->config.vocab;
    const float *made = gpu_back(g, g->scratch.logits_back);
    for (int i = 0; i < b->n_heads; i++) {
        const size_t r = (size_t)b->first_head + (size_t)i;
        if (!want || want[r])
            memcpy(logits + r * vocab, made + (size_t)i * vocab, vocab * sizeof *logits);
    }
}

/* The rows of a step that went well are pending. */
static void step_end(struct gpu *g, const struct batch *b)
{
    for (int i = 0; i < b->n_segments; i++) {
        const struct gpu_segment *s = &b->segment[i];
        b->seq[i]->pending = (int)s->n;
        b->seq[i]->first = b->pending + (int)s->first;
    }
    g->pending.rows += b->R;
    g->pending.used += b->R;
}

static int gpu_step(struct engine *base, const struct row *rows, int R, const bool *want,
                    float *logits, struct err *e)
{
    struct gpu *g = (struct gpu *)base;
    const uint64_t start = clock_ns();
    struct batch b;
    int rc = gpu_batch_of_rows(g, rows, R, &b, e);
    if (rc)
        return rc;
    choose_heads(g, &b, want);
    rc = step_run(g, &b, e);
    rc = rc ? rc : gpu_batch_check(g, &b, e);
    if (rc)
        return rc;
    take_logits(g, &b, want, logits);
    step_end(g, &b);
    gpu_count(g, &b, start);
    return 0;
}

static int gpu_step_best(struct engine *base, const struct row *rows, int R,
                         const struct best_job *j, struct err *e)
{
    struct gpu *g = (struct gpu *)base;
    const void *parts = gpu_back(g, g->scratch.parts_back);
    const uint64_t start = clock_ns();
    struct batch b;
    bool any = false;
    int rc = gpu_batch_of_rows(g, rows, R, &b, e);
    if (rc)
        return rc;
    for (int r = 0; j->want && r < R; r++)
        any = any || j->want[r];
    choose_heads(g, &b, NULL);
    b.back = any || g->options.observe;
    b.limit = j->limit;
    rc = step_run(g, &b, e);
    rc = rc ? rc : gpu_batch_check(g, &b, e);
    if (rc)
        return rc;
    for (int r = 0; r < R; r++)
        j->best[r] = gpu_best_of(parts, r, g->base.weights->config.vocab);
    if (any)
        take_logits(g, &b, j->want, j->logits);
    step_end(g, &b);
    gpu_count(g, &b, start);
    return 0;
}

/* --- prefills --- */

/* The trunk, then what is left when its last layer is through: the residual of all rows, the logits
 * of the last, the draft head's cells. */
static int prefill_record(struct gpu *g, struct batch *b, struct err *e)
{
    struct scratch *m = &g->scratch;
    int rc = gpu_trunk_apply(g, b, e);
    rc = rc ? rc : add_rows(g, b, 0, b->R, e);
    b->add = false;
    if (!rc && b->n_heads) {
        rc = end_rows(g, b, e);
        rc = rc ? rc : see_end(g, b, e);
    }
    return rc ? rc
              : end_drafts(g, b, m->hyper + (u64)(b->R - 1) * wide_bytes(g), m->last_wide, 1, e);
}

/* The last token's residual becomes the sequence's, once all has gone well. */
static int keep_wide(struct gpu *g, const struct sequence *s, struct err *e)
{
    if (!g->options.drafts)
        return 0;
    gpu_aside_begin(g);
    int rc = gpu_copy(g, g->scratch.last_wide, sequence_at(s, g->places.wide),
                      wide_bytes(g) / sizeof(float), e);
    return gpu_aside_end(g, rc, e);
}

static int gpu_prefill(struct engine *base, struct sequence *s, const int32_t *tokens, int n,
                       float *logits, struct err *e)
{
    struct gpu *g = (struct gpu *)base;
    const uint64_t start = clock_ns();
    struct batch b, cells;
    int rc = gpu_batch_of_tokens(g, s, tokens, n, &b, e);
    if (rc)
        return rc;
    b.first_head = n - 1;
    b.n_heads = logits != NULL;
    gpu_mtp_cells(g, &b, g->scratch.hyper, &cells);
    rc = gpu_rows_begin(g, &b, e);
    rc = rc ? rc : gpu_batch_run(g, &b, NULL, prefill_record, e);
    rc = rc ? rc : gpu_batch_check(g, &b, e);
    if (!rc && logits)
        memcpy(logits, gpu_back(g, g->scratch.logits_back),
               (size_t)base->weights->config.vocab * sizeof *logits);
    rc = rc ? rc : keep_wide(g, s, e);
    if (rc)
        return rc;
    s->plane = !s->plane;
    s->len += n;
    gpu_count(g, &b, start);
    return 0;
}

/* --- at open: every kernel that steps, prefills, drafts and commits will ask for --- */

static int rehearse_rows(struct sequence *s, int R, struct err *e)
{
    struct gpu *g = s->g;
    struct row rows[ENGINE_ROWS_MAX];
    struct batch b, cells;
    for (int r = 0; r < R; r++)
        rows[r] = (struct row){s, 0};
    int rc = gpu_batch_of_rows(g, rows, R, &b, e);
    if (rc)
        return rc;
    choose_heads(g, &b, NULL);
    b.reach = s->ctx;
    gpu_mtp_cells(g, &b, wide_of(g, &b), &cells);
    return gpu_batch_rehearse(g, &b, step_record, e);
}

static int rehearse_tokens(struct sequence *s, int n, struct err *e)
{
    struct gpu *g = s->g;
    struct batch b, cells;
    memset(s->tokens, 0, (size_t)n * sizeof *s->tokens);
    int rc = gpu_batch_of_tokens(g, s, s->tokens, n, &b, e);
    if (rc)
        return rc;
    b.first_head = n - 1;
    b.n_heads = 1;
    b.reach = s->ctx;
    gpu_mtp_cells(g, &b, g->scratch.hyper, &cells);
    return gpu_batch_rehearse(g, &b, prefill_record, e);
}

/* Of rows that were never computed: what it leaves in s is not used. */
static int rehearse_commit(struct sequence *s, int pending, struct err *e)
{
    s->pending = pending;
    s->g->pending.rows += pending;
    return gpu_sequence_commit(&s->g->base, s, 1, e);
}

int gpu_rehearse(struct gpu *g, struct err *e)
{
    const int ctx = g->options.ctx, chunk = g->base.chunk < ctx ? g->base.chunk : ctx;
    struct sequence *s;
    int rc = gpu_sequence_open(&g->base, ctx, &s, e);
    if (rc)
        return rc;
    for (int R = 1; !rc && R <= ENGINE_ROWS_MAX && R <= ctx; R *= 2) { /* kernels' sizes */
        rc = interrupt_check(e);
        rc = rc ? rc : rehearse_rows(s, R, e);
    }
    for (int n = chunk; !rc && n > ENGINE_ROWS_MAX / 2; n /= 8) {
        rc = interrupt_check(e);
        rc = rc ? rc : rehearse_tokens(s, n, e);
    }
    rc = rc || ctx < 2 ? rc : rehearse_commit(s, 2, e);
    rc = rc || !g->options.drafts ? rc : gpu_mtp_rehearse(s, e);
    gpu_sequence_close(s);
    return rc;
}

static bool gpu_lost(const struct engine *base)
{
    return device_lost(((const struct gpu *)base)->device);
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
    .step_best = gpu_step_best,
    .prefill = gpu_prefill,
    .commit = gpu_sequence_commit,
    .draft = gpu_mtp_draft,
    .save = gpu_sequence_save,
    .restore = gpu_sequence_restore,
    .counters = gpu_counters,
    .lost = gpu_lost,
};
