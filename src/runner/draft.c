/* Guessing the next tokens: see draft.h. */
#include "runner/draft.h"

#include "base/clock.h"
#include "base/log.h"

int drafter_init(struct drafter *d, struct model *m, const struct draft_options *o, int cap,
                 struct err *e)
{
    *d = (struct drafter){.m = m, .o = *o};
    if (o->most < 0 || o->most > ENGINE_DRAFTS_MAX)
        return ERR(e, E_ARG, "%d drafts a step: want 0 to %d", o->most, ENGINE_DRAFTS_MAX);
    if (o->most && o->source == DRAFTS_HEAD && !m->drafts)
        return ERR(e, E_UNSUPPORTED, "no drafts of the head: %s",
                   m->weights.config.n_mtp ? "the model was opened without them"
                                           : "the model has no draft head");
    if (!o->most)
        return 0;
    if (lookup_init(&d->lookup, cap, e))
        return -e->code;
    if (!m->drafts || o->source == DRAFTS_LOOKUP || o->hook)
        return 0;
    d->head = true;
    return 0;
}

void drafter_free(struct drafter *d)
{
    lookup_free(&d->lookup);
}

void drafter_push(struct drafter *d, int32_t token)
{
    if (d->o.most)
        lookup_push(&d->lookup, token);
}

static int guess_head(struct drafter *d, struct sequence *seq, int depth, int32_t *out)
{
    const int32_t next = d->lookup.tokens[d->lookup.n - 1];
    const uint64_t start = clock_ns();
    struct err e = {0};
    if (d->m->engine->ops->draft(seq, next, depth, out, NULL, &e)) {
        log_say(LOG_WARN, "this answer goes on without the draft head: %s", e.msg);
        d->head = false;
        return 0;
    }
    pace_drafted(&d->m->pace, depth, clock_seconds_since(start));
    return depth;
}

/* The depth and the source that promise most. looked: tokens that lookup has. */
static int choose(struct drafter *d, int together, int looked, int most)
{
    double head_rate = -1, lookup_rate = -1;
    int head = 0, lookup = 0;
    struct pace *p = &d->m->pace;
    if (d->head)
        head = pace_depth(p, DRAFT_HEAD, together, most, &head_rate);
    if (looked)
        lookup = pace_depth(p, DRAFT_LOOKUP, together, looked, &lookup_rate);
    d->latest = lookup_rate >= head_rate ? DRAFT_LOOKUP : DRAFT_HEAD;
    const int detour = pace_detour(p, d->latest == DRAFT_HEAD ? most : looked);
    return detour >= 0 ? detour : d->latest == DRAFT_HEAD ? head : lookup;
}

int drafter_guess(struct drafter *d, struct sequence *seq, int together, int most, int32_t *out)
{
    const struct lookup *l = &d->lookup;
    if (most < 1)
        return 0;
    d->latest = DRAFT_LOOKUP;
    if (d->o.hook)
        return d->o.hook->guess(d->o.hook->ctx, l->tokens, l->n, most, out);
    const int looked = d->o.source == DRAFTS_HEAD ? 0 : lookup_guess(l, most, out);
    int n = looked;
    if (!looked && !d->head)
        return 0;
    if (!d->o.always)
        n = choose(d, together, looked, most);
    else if (!looked) {
        d->latest = DRAFT_HEAD;
        n = most;
    }
    return n && d->latest == DRAFT_HEAD ? guess_head(d, seq, n, out) : n;
}

void drafter_verified(struct drafter *d, int n, int n_accepted)
{
    pace_verified(&d->m->pace, d->latest, n, n_accepted);
}
