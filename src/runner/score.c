/* Logits of given tokens: see score.h. */
#include "runner/score.h"

#include <math.h>

#include "base/mem.h"

enum { SHOWN_ROWS = 16 }; /* rows of logits in memory */

/* The positions that are not shown, chunk by chunk. */
static int skip(const struct score *s, size_t n, struct err *e)
{
    struct engine *g = s->engine;
    for (size_t at = 0; at < n;) {
        const size_t left = n - at, chunk = (size_t)g->chunk, k = left < chunk ? left : chunk;
        if (s->cancelled && s->cancelled(s->ctx))
            return ERR(e, E_INTERRUPTED, "stopped at token %zu", at);
        if (g->ops->prefill(g, s->seq, s->ids + at, (int)k, NULL, e))
            return -e->code;
        at += k;
    }
    return 0;
}

static int feed(const struct score *s, size_t at, int R, float *logits, struct err *e)
{
    struct row rows[ENGINE_ROWS_MAX];
    for (int r = 0; r < R; r++)
        rows[r] = (struct row){s->seq, s->ids[at + (size_t)r]};
    if (s->engine->ops->step(s->engine, rows, R, NULL, logits, e))
        return -e->code;
    return s->engine->ops->commit(s->engine, s->seq, R, e);
}

/* The draft for the token after the next, from the state right behind position pos. */
static int show_draft(const struct score *s, size_t pos, float *logits, struct err *e)
{
    int32_t guess;
    if (!s->drafts || pos + 1 >= s->n_known)
        return 0;
    if (s->engine->ops->draft(s->seq, s->ids[pos + 1], 1, &guess, logits, e))
        return -e->code;
    return s->draft(s->ctx, pos, logits, e);
}

static int run(const struct score *s, float *logits, struct err *e)
{
    const size_t vocab = (size_t)s->engine->weights->config.vocab;
    const size_t most = s->drafts ? 1 : SHOWN_ROWS;
    size_t pos = s->from < s->n ? s->from : s->n;
    if (skip(s, pos, e))
        return -e->code;
    while (pos < s->n) {
        const size_t R = s->n - pos < most ? s->n - pos : most;
        if (feed(s, pos, (int)R, logits, e))
            return -e->code;
        for (size_t r = 0; r < R; r++)
            if (s->row(s->ctx, pos + r, logits + r * vocab, e))
                return -e->code;
        pos += R;
        if (show_draft(s, pos - 1, logits, e))
            return -e->code;
    }
    return 0;
}

int score_run(const struct score *s, struct err *e)
{
    const size_t vocab = (size_t)s->engine->weights->config.vocab;
    float *logits = mem_array(SHOWN_ROWS * vocab, sizeof *logits);
    if (!logits)
        return ERR(e, E_NOMEM, "no memory for %d rows of %zu logits", SHOWN_ROWS, vocab);
    int rc = run(s, logits, e);
    mem_free(logits);
    return rc;
}

int score_greedy(struct engine *engine, struct sequence *seq, int32_t id, size_t n,
                 struct tokens *out, struct err *e)
{
    const int vocab = engine->weights->config.vocab;
    float *logits = mem_array((size_t)vocab, sizeof *logits);
    int rc = logits ? 0 : ERR(e, E_NOMEM, "no memory for %d logits", vocab);
    for (size_t i = 0; !rc && i < n; i++) {
        const struct row row = {seq, id};
        rc = tokens_push(out, id, e);
        if (rc || i + 1 == n)
            break;
        rc = engine->ops->step(engine, &row, 1, NULL, logits, e);
        if (!rc)
            rc = engine->ops->commit(engine, seq, 1, e);
        id = engine_argmax(logits, vocab);
    }
    mem_free(logits);
    return rc;
}

double score_nll(const float *logits, int vocab, int32_t id)
{
    const int best = engine_argmax(logits, vocab);
    const double top = logits[best];
    double sum = 1; /* the best one's share */
    for (int i = 0; i < vocab; i++)
        sum += i == best ? 0 : exp(logits[i] - top);
    return log(sum) + top - logits[id];
}
