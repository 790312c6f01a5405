/* Choosing a token from logits: see sample.h, and docs/numerics.md for order and ties.
 *
 * Candidates live in a heap with the best one (largest logit, then lowest id) on top. The filters
 * keep a prefix of the descending order, so only that prefix is ever taken off the heap. With
 * top-k, and greedy, no more than k candidates are kept at all, the worst of them on top while
 * logits are looked through: some twenty of a quarter million. */
#include "runner/sample.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

struct candidate {
    double logit;
    int32_t id;
};

struct sampler {
    struct sample_options o;
    int vocab, n_used;
    /* [n_candidates <= n_used]. While they are ranked the first n_near, those that are not far from
     * the best, are a heap of n_heap and the ones taken off it. In order of ids until there are too
     * many to keep, or until they are ranked. */
    struct candidate *heap;
    int n_candidates, n_near, n_heap;
    bool cut;                            /* there were more candidates than are kept */
    double top;                          /* the largest logit of a candidate */
    int32_t *count;                      /* [vocab] occurrences in prompt and answer */
    double *bias;                        /* [n_used], or NULL */
    const struct constraint *constraint; /* or NULL */
    uint32_t *allowed;                   /* [words(n_used)] with a constraint */
};

static int take_biases(struct sampler *s, const struct sample_options *o, struct err *e);
static int gather(struct sampler *s, const float *logits, uint64_t position, struct err *e);
static bool better(struct candidate a, struct candidate b);
static int32_t best(const struct sampler *s);
static int32_t draw(struct sampler *s, double u);

int sample_options_check(const struct sample_options *o, struct err *e)
{
    const struct {
        const char *name;
        double value, lo, hi;
    } real[] = {
        {"temperature", o->temperature, 0, 100},
        {"top-p", o->top_p, 0, 1},
        {"min-p", o->min_p, 0, 1},
        {"presence penalty", o->presence, -100, 100},
        {"frequency penalty", o->frequency, -100, 100},
        {"repetition penalty", o->repetition, 0.01, 100},
    };
    for (size_t i = 0; i < sizeof real / sizeof real[0]; i++)
        if (!(real[i].value >= real[i].lo && real[i].value <= real[i].hi))
            return ERR(e, E_ARG, "%s is %g, want a number from %g to %g", real[i].name,
                       real[i].value, real[i].lo, real[i].hi);
    if (o->top_k < 0)
        return ERR(e, E_ARG, "top-k is %d, want 0 (all) or more", o->top_k);
    if (o->n_bias < 0 || o->n_bias > SAMPLE_BIAS_MAX)
        return ERR(e, E_ARG, "%d logit biases, want at most %d", o->n_bias, SAMPLE_BIAS_MAX);
    for (int i = 0; i < o->n_bias; i++)
        if (!(o->bias[i].add >= -100 && o->bias[i].add <= 100))
            return ERR(e, E_ARG, "the logit bias of token %d is %g, want a number from -100 to 100",
                       (int)o->bias[i].id, o->bias[i].add);
    return 0;
}

int sampler_open(int vocab, int n_tokens_used, const struct sample_options *o, struct sampler **out,
                 struct err *e)
{
    if (sample_options_check(o, e))
        return -e->code;
    if (n_tokens_used < 1 || n_tokens_used > vocab)
        return ERR(e, E_ARG, "%d tokens to choose from, want 1 to the model's %d", n_tokens_used,
                   vocab);
    struct sampler *s = mem_zalloc(1, sizeof *s);
    if (s) {
        *s = (struct sampler){.o = *o, .vocab = vocab, .n_used = n_tokens_used};
        s->heap = mem_array((size_t)n_tokens_used, sizeof *s->heap);
        s->count = mem_zalloc((size_t)vocab, sizeof *s->count);
    }
    if (!s || !s->heap || !s->count) {
        sampler_close(s);
        return ERR(e, E_NOMEM, "no memory for choosing among %d tokens", n_tokens_used);
    }
    if (take_biases(s, o, e)) {
        sampler_close(s);
        return -e->code;
    }
    *out = s;
    return 0;
}

void sampler_close(struct sampler *s)
{
    if (!s)
        return;
    mem_free(s->heap);
    mem_free(s->count);
    mem_free(s->bias);
    mem_free(s->allowed);
    mem_free(s);
}

static size_t words(int n_tokens)
{
    return ((size_t)n_tokens + 31) / 32;
}

int sampler_constrain(struct sampler *s, const struct constraint *c, struct err *e)
{
    if (!s->allowed)
        s->allowed = mem_array(words(s->n_used), sizeof *s->allowed);
    if (!s->allowed)
        return ERR(e, E_NOMEM, "no memory for a mask of %d tokens", s->n_used);
    s->constraint = c;
    return 0;
}

void sampler_accept(struct sampler *s, int32_t id)
{
    if (id >= 0 && id < s->vocab && s->count[id] < INT32_MAX)
        s->count[id]++;
}

int sampler_choose(struct sampler *s, const float *logits, uint64_t position, int32_t *id,
                   struct err *e)
{
    if (gather(s, logits, position, e))
        return -e->code;
    *id = s->o.temperature > 0 ? draw(s, rng_unit_at(s->o.seed, position)) : best(s);
    return 0;
}

bool sampler_takes_best(const struct sampler *s)
{
    const struct sample_options *o = &s->o;
    return !(o->temperature > 0) && o->repetition == 1 && o->frequency == 0 && o->presence == 0 &&
           !s->bias && !s->constraint;
}

/* Biases by token, so that a choice looks none up. */
static int take_biases(struct sampler *s, const struct sample_options *o, struct err *e)
{
    s->o.bias = NULL;
    if (!o->n_bias)
        return 0;
    s->bias = mem_zalloc((size_t)s->n_used, sizeof *s->bias);
    if (!s->bias)
        return ERR(e, E_NOMEM, "no memory for %d logit biases", o->n_bias);
    for (int i = 0; i < o->n_bias; i++) {
        if (o->bias[i].id < 0 || o->bias[i].id >= s->n_used)
            return ERR(e, E_ARG, "a logit bias is for token %d, the ids are 0 to %d",
                       (int)o->bias[i].id, s->n_used - 1);
        s->bias[o->bias[i].id] = o->bias[i].add;
    }
    return 0;
}

static double penalised(const struct sampler *s, int i, double logit)
{
    const struct sample_options *o = &s->o;
    if (s->count[i]) {
        logit = logit > 0 ? logit / o->repetition : logit * o->repetition;
        logit -= o->frequency * s->count[i] + o->presence;
    }
    return s->bias ? logit + s->bias[i] : logit;
}

/* NULL: all tokens. */
static const uint32_t *ask_constraint(struct sampler *s)
{
    const struct constraint *c = s->constraint;
    if (!c)
        return NULL;
    memset(s->allowed, 0, words(s->n_used) * sizeof *s->allowed);
    return c->mask(c->ctx, s->allowed, s->n_used) ? s->allowed : NULL;
}

/* x at i of a heap of n and down to where it belongs; above others: better, or worse, than they. */
static void sift_down(struct candidate *h, int n, int i, bool worst_first)
{
    struct candidate x = h[i];
    for (int child = 2 * i + 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && better(h[child + 1], h[child]) != worst_first)
            child++;
        if (better(h[child], x) == worst_first)
            break;
        h[i] = h[child];
        i = child;
    }
    h[i] = x;
}

static void heapify(struct candidate *h, int n, bool worst_first)
{
    for (int i = n / 2 - 1; i >= 0; i--)
        sift_down(h, n, i, worst_first);
}

/* How many candidates can matter. */
static int most_kept(const struct sampler *s)
{
    const int k = s->o.temperature > 0 ? s->o.top_k : 1;
    return k && k < s->n_used ? k : s->n_used;
}

/* One more candidate, of a higher id than those before. */
static void keep(struct sampler *s, int most, struct candidate c)
{
    if (s->n_candidates < most) {
        s->heap[s->n_candidates++] = c;
        return;
    }
    if (!s->cut)
        heapify(s->heap, most, true);
    s->cut = true;
    if (!better(c, s->heap[0]))
        return;
    s->heap[0] = c;
    sift_down(s->heap, most, 0, true);
}

/* The candidates that can matter, with their logits after penalties and biases; the top one. */
static int gather(struct sampler *s, const float *logits, uint64_t position, struct err *e)
{
    const uint32_t *allowed = ask_constraint(s);
    const int most = most_kept(s);
    s->n_candidates = 0;
    s->cut = false;
    for (int i = 0; i < s->n_used; i++) {
        if (!isfinite(logits[i]))
            return ERR(e, E_NONFINITE,
                       "the logit of token %d at position %llu is %g: the model's "
                       "computation failed there; check the store with `cherenkov verify`",
                       i, (unsigned long long)position, (double)logits[i]);
        if (!allowed || allowed[i / 32] >> (i % 32) & 1)
            keep(s, most, (struct candidate){penalised(s, i, logits[i]), i});
    }
    if (!s->n_candidates)
        return ERR(e, E_UNSUPPORTED,
                   "the answer's grammar allows no token at position %llu: it asks for text that "
                   "the model's tokens cannot spell",
                   (unsigned long long)position);
    s->top = -INFINITY;
    for (int i = 0; i < s->n_candidates; i++)
        s->top = s->heap[i].logit > s->top ? s->heap[i].logit : s->top;
    return 0;
}

static bool better(struct candidate a, struct candidate b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

static int32_t best(const struct sampler *s)
{
    struct candidate top = s->heap[0];
    for (int i = 1; i < s->n_candidates; i++)
        if (better(s->heap[i], top))
            top = s->heap[i];
    return top.id;
}

static void rank_first(struct sampler *s, int n)
{
    s->n_near = s->n_heap = n;
    heapify(s->heap, n, false);
}

/* Ranks those that a draw hardly ever goes beyond: a tail of a quarter million need not be a heap
 * for that. */
static void rank_near(struct sampler *s)
{
    const double least = s->top - 16 * s->o.temperature; /* weights of 1e-7 and more */
    int n = 0;
    for (int i = 0; i < s->n_candidates; i++)
        if (s->heap[i].logit >= least) {
            const struct candidate c = s->heap[i];
            s->heap[i] = s->heap[n];
            s->heap[n++] = c;
        }
    rank_first(s, n);
}

/* The candidate of a rank, 0 the best. Taken ones are kept behind the heap, best last. */
static struct candidate ranked(struct sampler *s, int rank)
{
    if (rank >= s->n_near)
        rank_first(s, s->n_candidates);
    while (s->n_near - s->n_heap <= rank) {
        struct candidate top = s->heap[0];
        s->heap[0] = s->heap[--s->n_heap];
        sift_down(s->heap, s->n_heap, 0, false);
        s->heap[s->n_heap] = top;
    }
    return s->heap[s->n_near - 1 - rank];
}

/* How likely a candidate is beside the best one, whose logit is s->top. */
static double weight(const struct sampler *s, struct candidate c)
{
    return exp((c.logit - s->top) / s->o.temperature);
}

/* How many of the best n top-p and min-p leave over, at least one; *mass is that of the n before
 * and of those left after. */
static int cut(struct sampler *s, int n, double *mass)
{
    const double enough = s->o.top_p * *mass;
    int kept = 0;
    for (*mass = 0; kept < n; kept++) {
        double w = weight(s, ranked(s, kept));
        if (kept && (*mass >= enough || w < s->o.min_p))
            break;
        *mass += w;
    }
    return kept;
}

/* u in [0, 1) falls on one of the candidates kept. Masses are summed in descending order; that of
 * all candidates there are, which are not sorted for it, in order of ids. */
static int32_t draw(struct sampler *s, double u)
{
    const struct sample_options *o = &s->o;
    int n = s->n_candidates;
    double mass = 0, at = 0;
    for (int i = 0; !s->cut && i < n; i++)
        mass += weight(s, s->heap[i]);
    rank_near(s);
    for (int i = 0; s->cut && i < n; i++)
        mass += weight(s, ranked(s, i));
    if (o->top_p < 1 || o->min_p > 0)
        n = cut(s, n, &mass);
    struct candidate chosen = ranked(s, 0);
    for (int i = 0; i < n && at <= u * mass; i++) {
        double w = weight(s, ranked(s, i));
        if (w == 0) /* rounding in mass must not end on a token that cannot be drawn */
            break;
        chosen = ranked(s, i);
        at += w;
    }
    return chosen.id;
}

/* --- what the model itself says --- */

static void keep_likely(struct sample_logprobs *p, int n_top, int32_t id, double logit)
{
    int at = p->n_top;
    if (at == n_top && (!n_top || logit <= p->top[at - 1].logprob))
        return;
    at -= at == n_top;
    for (; at && p->top[at - 1].logprob < logit; at--)
        p->top[at] = p->top[at - 1];
    p->top[at] = (struct sample_logprob){id, logit};
    p->n_top += p->n_top < n_top;
}

void sampler_logprobs(const struct sampler *s, const float *logits, int32_t id, int n_top,
                      struct sample_logprobs *out)
{
    double top = logits[0], sum = 0;
    out->n_top = 0;
    for (int i = 0; i < s->n_used; i++) {
        keep_likely(out, n_top, i, logits[i]);
        top = logits[i] > top ? logits[i] : top;
    }
    for (int i = 0; i < s->n_used; i++)
        sum += exp(logits[i] - top);
    const double whole = top + log(sum);
    out->chosen = (struct sample_logprob){id, logits[id] - whole};
    for (int i = 0; i < out->n_top; i++)
        out->top[i].logprob -= whole;
}
