/* What every engine shares: see engine.h. */
#include "model/engine.h"

#include <assert.h>
#include <string.h>

static const char *const names[SEEN_COUNT] = {
    [SEEN_EMBED] = "embed",
    [SEEN_PLE] = "ple",
    [SEEN_MIXER] = "mixer",
    [SEEN_MOE] = "moe",
    [SEEN_RESIDUAL] = "residual",
    [SEEN_HIDDEN] = "hidden",
    [SEEN_LOGITS] = "logits",
    [SEEN_ROUTE] = "route",
    [SEEN_ROUTE_WEIGHT] = "route_weight",
    [SEEN_SELECTED] = "selected",
    [SEEN_NGRAM] = "ngram",
    [SEEN_MTP_RESIDUAL] = "mtp_residual",
    [SEEN_MTP_LOGITS] = "mtp_logits",
};

const char *seen_name(enum seen what)
{
    return names[what];
}

int engine_options_resolve(const struct config *c, const struct engine_options *o,
                           struct engine_options *out, struct err *e)
{
    *out = *o;
    out->expert_bits = o->expert_bits ? o->expert_bits : 4;
    if (out->expert_bits < 2 || out->expert_bits > 4)
        return ERR(e, E_ARG, "experts of %d bits: want 4, 3 or 2", o->expert_bits);
    out->mtp_norm = o->mtp_norm == -1 ? (int)c->mtp_norm : o->mtp_norm;
    if (out->mtp_norm != MTP_NORM_ALL && out->mtp_norm != MTP_NORM_STREAM)
        return ERR(e, E_ARG, "draft head norm %d: want -1, %d (all) or %d (stream)", o->mtp_norm,
                   MTP_NORM_ALL, MTP_NORM_STREAM);
    out->drafts = o->drafts && c->n_mtp;
    return 0;
}

int engine_sizes_resolve(const struct config *c, const struct engine_options *o,
                         struct engine_options *out, struct err *e)
{
    if (o->chunk < 0 || o->chunk > ENGINE_CHUNK_MAX)
        return ERR(e, E_ARG, "prefill of %d tokens at once: want 1 to %d, or 0 for what fits",
                   o->chunk, ENGINE_CHUNK_MAX);
    if (o->pool_slots < 0)
        return ERR(e, E_ARG, "a pool of %d experts: want 1 or more, or 0 for what fits",
                   o->pool_slots);
    out->n_sequences = o->n_sequences ? o->n_sequences : 1;
    out->ctx = o->ctx ? o->ctx : ENGINE_CTX_DEFAULT;
    out->ctx = out->ctx > c->max_pos ? c->max_pos : out->ctx;
    if (out->ctx < 1 || out->n_sequences < 1)
        return ERR(e, E_ARG, "%d sequences of %d tokens: want at least one of one", o->n_sequences,
                   o->ctx);
    return 0;
}

int engine_ctx_check(const struct config *c, int ctx, struct err *e)
{
    if (ctx < 1 || ctx > c->max_pos)
        return ERR(e, E_ARG, "a context of %d tokens: this model takes 1 to %d", ctx, c->max_pos);
    return 0;
}

int engine_rows_check(int R, struct err *e)
{
    if (R < 1 || R > ENGINE_ROWS_MAX)
        return ERR(e, E_ARG, "a step of %d rows: want 1 to %d", R, ENGINE_ROWS_MAX);
    return 0;
}

int engine_pending_check(int R, int used, int pending, struct err *e)
{
    if (used + R > ENGINE_ROWS_MAX)
        return ERR(e, E_LIMIT,
                   "a step of %d rows: %d of other sequences are pending, commit them "
                   "first (%d rows of an engine may be)",
                   R, pending, ENGINE_ROWS_MAX);
    return 0;
}

int engine_row_check(const struct row_check *c, struct err *e)
{
    const struct row *row = c->row;
    if (!c->own)
        return ERR(e, E_ARG, "row %d: its sequence belongs to another engine", c->r);
    if (c->pending)
        return ERR(e, E_ARG, "row %d: its sequence has %d rows pending, commit them first", c->r,
                   c->pending);
    for (int back = 1; c->n == 1 && back <= c->r; back++)
        if (row[-back].seq == row->seq)
            return ERR(e, E_ARG, "row %d: the rows of a sequence must follow one another", c->r);
    if (c->len + c->n > c->ctx)
        return ERR(e, E_LIMIT, "row %d: the context of %d tokens is full", c->r, c->ctx);
    if (row->token < 0 || row->token >= c->vocab)
        return ERR(e, E_ARG, "row %d: token %d is not in the vocabulary of %d", c->r, row->token,
                   c->vocab);
    return 0;
}

int engine_prefill_check(const struct engine *g, int n, struct err *e)
{
    if (n < 1 || n > g->chunk)
        return ERR(e, E_ARG, "a prefill of %d tokens: want 1 to %d", n, g->chunk);
    return 0;
}

int engine_commit_check(int n, int pending, struct err *e)
{
    if (n < 0 || n > pending)
        return ERR(e, E_ARG, "commit of %d rows: %d are pending", n, pending);
    return 0;
}

int engine_draft_check(const struct config *c, const struct draft_check *d, struct err *e)
{
    if (!d->drafts)
        return ERR(e, E_UNSUPPORTED, "no drafts: %s",
                   c->n_mtp ? "the engine was opened without them" : "the model has no draft head");
    if (d->depth < 1 || d->depth > ENGINE_DRAFTS_MAX || d->next < 0 || d->next >= c->vocab)
        return ERR(e, E_ARG, "%d drafts behind token %d: want 1 to %d, a token below %d", d->depth,
                   d->next, ENGINE_DRAFTS_MAX, c->vocab);
    if (d->pending || !d->len)
        return ERR(e, E_ARG,
                   "drafts need committed tokens and no pending rows (there are %d and %d)", d->len,
                   d->pending);
    return 0;
}

const struct counters *engine_counters(const struct engine *g)
{
    return g->ops->counters ? g->ops->counters(g) : NULL;
}

/* Bits of a logit, and what is added to them at its place. */
static uint32_t bits_of(const float *logits, int i)
{
    uint32_t bits;
    memcpy(&bits, logits + i, sizeof bits);
    return bits;
}
static uint64_t salted(const float *logits, int i)
{
    return (uint32_t)(bits_of(logits, i) + (uint32_t)i * 0x9E3779B9u);
}

/* Engines check their logits; one that does not must not end in a token. */
static int check_finite(const float *logits, int vocab, int pos, struct err *e)
{
    uint32_t n_bad = 0;
    for (int i = 0; i < vocab; i++)
        n_bad += (bits_of(logits, i) & 0x7F800000u) == 0x7F800000u;
    if (!n_bad)
        return 0;
    return ERR(e, E_NONFINITE,
               "position %d: %u logits are not finite: the model's computation failed there; check "
               "the store with `cherenkov verify`",
               pos, n_bad);
}

int engine_step_best(struct engine *g, const struct row *rows, int R, const struct best_job *j,
                     struct err *e)
{
    const int vocab = g->weights->config.vocab;
    assert(!j->pass || (g->prompt_rows && g->ops->step_best));
    if (g->ops->step_best)
        return g->ops->step_best(g, rows, R, j, e);
    int rc = g->ops->step(g, rows, R, NULL, j->logits, e);
    for (int r = 0, n = 0; !rc && r < R; r++) {
        const float *logits = j->logits + (size_t)r * (size_t)vocab;
        n = r && rows[r].seq == rows[r - 1].seq ? n + 1 : 0;
        rc = check_finite(logits, vocab, g->ops->sequence_length(rows[r].seq) + n, e);
        j->best[r] =
            (struct best){engine_argmax(logits, j->limit), engine_logits_hash(logits, vocab)};
    }
    for (int r = 0; rc == -E_NONFINITE && r < R; r++) {
        struct err ignored = {0};
        (void)g->ops->commit(g, rows[r].seq, 0, &ignored);
    }
    return rc;
}

int32_t engine_argmax(const float *logits, int vocab)
{
    int32_t best = 0;
    for (int32_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

uint64_t engine_logits_hash(const float *logits, int vocab)
{
    return engine_logits_hash_part(logits, 0, vocab);
}

uint64_t engine_logits_hash_part(const float *logits, int from, int end)
{
    uint64_t sum = 0;
    for (int i = from; i + 1 < end; i += 2)
        sum += salted(logits, i) * salted(logits, i + 1);
    return end % 2 ? sum + salted(logits, end - 1) : sum;
}
