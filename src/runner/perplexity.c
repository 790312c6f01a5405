/* Likelihood of a text, window by window: see perplexity.h. */
#include "runner/perplexity.h"

#include "runner/score.h"

struct window {
    const struct perplexity_options *o;
    const int32_t *ids; /* of the whole text */
    size_t begin;
    int vocab;
    double *nll;
};

static bool cancelled(void *ctx)
{
    const struct window *w = ctx;
    return w->o->cancelled && w->o->cancelled(w->o->ctx);
}

/* The logits after a token score the one behind it. */
static int row(void *ctx, size_t pos, const float *logits, struct err *e)
{
    struct window *w = ctx;
    const size_t next = w->begin + pos + 1;
    if (cancelled(ctx))
        return ERR(e, E_INTERRUPTED, "stopped at token %zu", next);
    w->nll[next] = score_nll(logits, w->vocab, w->ids[next]);
    return 0;
}

int perplexity_run(struct engine *engine, struct sequence *seq, const struct tokens *ids,
                   const struct perplexity_options *o, double *nll, struct err *e)
{
    const size_t window = (size_t)o->window, stride = (size_t)o->stride;
    struct window w = {o, ids->ids, 0, engine->weights->config.vocab, nll};
    if (ids->n < 2)
        return ERR(e, E_ARG, "the text has %zu token%s: want at least two, one to predict the next",
                   ids->n, ids->n == 1 ? "" : "s");
    if (o->stride < 1 || o->stride >= o->window)
        return ERR(e, E_ARG,
                   "a stride of %d in windows of %d tokens: want 1 to one less than the "
                   "window",
                   o->stride, o->window);
    nll[0] = 0;
    for (size_t done = 1; done < ids->n; w.begin += stride) {
        const size_t left = ids->n - w.begin, n = left < window ? left : window;
        const struct score s = {.engine = engine,
                                .seq = seq,
                                .ids = ids->ids + w.begin,
                                .n = n - 1,
                                .n_known = n,
                                .from = done - 1 - w.begin,
                                .ctx = &w,
                                .cancelled = cancelled,
                                .row = row};
        engine->ops->sequence_reset(seq);
        if (score_run(&s, e))
            return -e->code;
        done = w.begin + n;
    }
    return 0;
}
