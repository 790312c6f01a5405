/* Engine "cpu": steps, prefills and drafts. See cpu.h, open.c for how it is made, and blocks.h for
 * the model itself.
 *
 * What an observer is told is what engine "reference" tells, but block by block: of each block all
 * rows of the batch, in their order. A prefill tells hidden and logits of its last row only. */
#include "cpu/cpu.h"

#include <string.h>

#include "cpu/blocks.h"
#include "cpu/open.h"

/* Row r, the nth row of its sequence. */
static int row_check(const struct cpu *g, const struct row *row, int r, int n, struct err *e)
{
    const struct sequence *s = row->seq;
    return engine_row_check(&(struct row_check){.row = row,
                                                .r = r,
                                                .n = n,
                                                .own = s->g == g,
                                                .pending = s->pending,
                                                .len = s->len,
                                                .ctx = s->ctx,
                                                .vocab = g->weights.config.vocab},
                            e);
}

/* Checks the rows and makes a batch of them; the sequences are as before. */
static int batch_of_rows(struct cpu *g, const struct row *rows, int R, struct batch *b,
                         struct err *e)
{
    struct scratch *m = &g->scratch;
    struct pending *p = &g->pending;
    int n = 0, rc = engine_rows_check(R, e);
    if (rc)
        return rc;
    p->used = p->rows ? p->used : 0;
    if (engine_pending_check(R, p->used, p->rows, e))
        return -e->code;
    *b = (struct batch){.at = m->at, .R = R, .segments = m->segments, .pending = p->used, .il = -1};
    for (int r = 0; r < R; r++) {
        struct sequence *s = rows[r].seq;
        n = r && s == rows[r - 1].seq ? n + 1 : 1;
        rc = row_check(g, &rows[r], r, n, e);
        if (rc)
            return rc;
        if (n == 1)
            b->segments[b->n_segments++] = (struct segment){s, r, 0};
        b->segments[b->n_segments - 1].n = n;
        b->at[r] = (struct at){s, n - 1, s->len + n - 1, rows[r].token};
        s->tokens[s->len + n - 1] = rows[r].token;
    }
    return 0;
}

static int batch_of_tokens(struct cpu *g, struct sequence *s, const int32_t *tokens, int n,
                           struct batch *b, struct err *e)
{
    struct scratch *m = &g->scratch;
    if (engine_prefill_check(&g->base, n, e))
        return -e->code;
    *b = (struct batch){
        .at = m->at, .R = n, .segments = m->segments, .n_segments = 1, .prefill = true, .il = -1};
    b->segments[0] = (struct segment){s, 0, n};
    for (int r = 0; r < n; r++) {
        int rc = row_check(g, &(struct row){s, tokens[r]}, r, r + 1, e);
        if (rc)
            return rc;
        b->at[r] = (struct at){s, r, s->len + r, tokens[r]};
        s->tokens[s->len + r] = tokens[r];
    }
    return 0;
}

/* The last read, of rows first .. of the batch, to scratch.hidden. */
static void read_hidden(struct cpu *g, const struct batch *b, int first)
{
    const struct config *c = &g->weights.config;
    struct scratch *m = &g->scratch;
    const struct hyper_job read = {
        .w = &g->weights.mixer,
        .hyper = m->hyper + (size_t)first * c->S * c->h,
        .R = b->R - first,
        .add = b->add ? m->out + (size_t)first * c->h : NULL,
        .inj = m->inj + (size_t)first * c->S,
        .mixer = true,
        .to = &m->hidden,
        .first = first,
    };
    cpu_hyper_read(g, &read);
    for (int r = first; r < b->R; r++)
        cpu_see_row(g, b, r, SEEN_HIDDEN, m->hidden.x + (size_t)(r - first) * c->h, c->h);
}

/* What a step gives of its rows: logits of those that are wanted, or what is best of all. */
struct step_job {
    const bool *want;
    float *logits;
    const struct best_job *best; /* or NULL */
};

static void see_logits(const struct cpu *g, const struct batch *b, const struct step_job *j)
{
    const int vocab = g->weights.config.vocab;
    const bool *pass = j->best ? j->best->pass : NULL;
    for (int r = 0, at = 0; r < b->R; r++) {
        if ((!j->want || j->want[r]) && (!pass || !pass[r]))
            cpu_see_row(g, b, r, SEEN_LOGITS, j->logits + (size_t)at * (size_t)vocab, vocab);
        at += !pass || !pass[r];
    }
}

static int step_apply(struct cpu *g, struct batch *b, const struct step_job *j, struct err *e)
{
    const struct config *c = &g->weights.config;
    size_t wide = (size_t)c->S * c->h;
    int rc = cpu_trunk_apply(g, b, e);
    if (rc)
        return rc;
    read_hidden(g, b, 0);
    if (j->best)
        cpu_head_best(g, b->R, j->best);
    else
        cpu_head_logits(g, 0, b->R, j->want, j->logits);
    rc = batch_check(g, b, e);
    if (rc)
        return rc;
    see_logits(g, b, j);
    if (!g->options.drafts)
        return 0;
    float *rows = g->pending.wide + (size_t)b->pending * wide;
    memcpy(rows, g->scratch.hyper, (size_t)b->R * wide * sizeof *rows);
    cpu_mtp_fill(g, b, rows);
    return batch_check(g, b, e);
}

static int step_run(struct cpu *g, const struct row *rows, int R, const struct step_job *j,
                    struct err *e)
{
    struct batch b;
    int rc = batch_of_rows(g, rows, R, &b, e);
    if (rc)
        return rc;
    batch_begin(g);
    rc = step_apply(g, &b, j, e);
    if (rc)
        return rc;
    for (int i = 0; i < b.n_segments; i++) {
        struct segment *s = &b.segments[i];
        s->s->pending = s->n;
        s->s->first = b.pending + s->first;
    }
    g->pending.rows += R;
    g->pending.used += R;
    counters_add(&g->counters.steps, 1);
    counters_add(&g->counters.rows, (uint64_t)R);
    return 0;
}

static int cpu_step(struct engine *base, const struct row *rows, int R, const bool *want,
                    float *logits, struct err *e)
{
    const struct step_job j = {.want = want, .logits = logits};
    return step_run((struct cpu *)base, rows, R, &j, e);
}

static int cpu_step_best(struct engine *base, const struct row *rows, int R,
                         const struct best_job *best, struct err *e)
{
    const struct step_job j = {.logits = best->logits, .best = best};
    return step_run((struct cpu *)base, rows, R, &j, e);
}

/* What is left when the last layer of a prefill is through: the residual of all rows, the logits of
 * the last, the draft head's cells. */
static int prefill_end(struct cpu *g, struct batch *b, float *logits, struct err *e)
{
    const struct config *c = &g->weights.config;
    struct scratch *m = &g->scratch;
    size_t wide = (size_t)c->S * c->h;
    const struct hyper_job write = {.hyper = m->hyper, .R = b->R, .add = m->out, .inj = m->inj};
    if (b->add)
        cpu_hyper_add(g, &write);
    b->add = false;
    if (logits) {
        read_hidden(g, b, b->R - 1);
        cpu_head_logits(g, b->R - 1, 1, NULL, logits);
    }
    int rc = batch_check(g, b, e);
    if (rc)
        return rc;
    if (logits)
        cpu_see_row(g, b, b->R - 1, SEEN_LOGITS, logits, c->vocab);
    if (!g->options.drafts)
        return 0;
    memcpy(m->last_wide, m->hyper + (size_t)(b->R - 1) * wide, wide * sizeof *m->last_wide);
    cpu_mtp_fill(g, b, m->hyper);
    return batch_check(g, b, e);
}

static int cpu_prefill(struct engine *base, struct sequence *s, const int32_t *tokens, int n,
                       float *logits, struct err *e)
{
    struct cpu *g = (struct cpu *)base;
    const struct config *c = &g->weights.config;
    struct batch b;
    int rc = batch_of_tokens(g, s, tokens, n, &b, e);
    if (rc)
        return rc;
    batch_begin(g);
    rc = cpu_trunk_apply(g, &b, e);
    rc = rc ? rc : prefill_end(g, &b, logits, e);
    if (rc)
        return rc;
    if (s->wide)
        memcpy(s->wide, g->scratch.last_wide, (size_t)c->S * c->h * sizeof *s->wide);
    s->plane = !s->plane;
    s->len += n;
    counters_add(&g->counters.prefill_tokens, (uint64_t)n);
    return 0;
}

static const struct counters *cpu_counters(const struct engine *g)
{
    return &((const struct cpu *)g)->counters;
}

const struct engine_ops cpu_engine = {
    .name = "cpu",
    .summary = "vector instructions, all processors, experts read as they are needed",
    .open = cpu_open,
    .close = cpu_close,
    .sequence_open = cpu_sequence_open,
    .sequence_close = cpu_sequence_close,
    .sequence_reset = cpu_sequence_reset,
    .sequence_length = cpu_sequence_length,
    .step = cpu_step,
    .step_best = cpu_step_best,
    .prefill = cpu_prefill,
    .commit = cpu_sequence_commit,
    .draft = cpu_mtp_draft,
    .save = cpu_sequence_save,
    .restore = cpu_sequence_restore,
    .counters = cpu_counters,
};
