/* Steps for several answers: see batch.h. */
#include "runner/batch.h"

#include <assert.h>

#include "base/clock.h"
#include "base/mem.h"
#include "runner/generate.h"

struct batch {
    struct model *m;
    int answers, rows_max;
    float *logits; /* [rows_max][vocab] */
};

/* Answers of one step and their rows. */
struct shared_step {
    struct generation *g[BATCH_MAX];
    int first[BATCH_MAX + 1]; /* rows of g[i]: first[i] up to first[i + 1] */
    int n;
    struct row rows[ENGINE_ROWS_MAX];
};

static void keep_pending(struct model *m);
static void gather(struct batch *b, struct generation *const *g, int n, struct shared_step *s);
static void step(struct batch *b, struct shared_step *s);

int batch_open(struct model *m, int answers, int drafts, struct batch **out, struct err *e)
{
    assert(answers >= 1 && answers <= BATCH_MAX && drafts >= 0 && drafts <= ENGINE_DRAFTS_MAX);
    struct batch *b = mem_zalloc(1, sizeof *b);
    if (b) {
        *b = (struct batch){.m = m, .answers = answers, .rows_max = answers * (1 + drafts)};
        const size_t vocab = (size_t)m->weights.config.vocab;
        b->logits = mem_array((size_t)b->rows_max * vocab, sizeof *b->logits);
    }
    if (!b || !b->logits) {
        batch_close(b);
        return ERR(e, E_NOMEM, "no memory for steps of %d rows", answers * (1 + drafts));
    }
    *out = b;
    return 0;
}

void batch_close(struct batch *b)
{
    if (!b)
        return;
    mem_free(b->logits);
    mem_free(b);
}

void batch_feed(struct batch *b, struct generation *g, int most)
{
    assert(most > 0);
    if (generation_wants_prompt(g))
        generation_feed(g, most, b->logits);
}

void batch_run(struct batch *b, struct generation *const *g, int n)
{
    struct generation *waiting[BATCH_MAX];
    int n_waiting = 0;
    assert(n <= b->answers);
    keep_pending(b->m);
    for (int i = 0; i < n; i++) {
        if (generation_wants_step(g[i]))
            waiting[n_waiting++] = g[i];
        while (generation_wants_prompt(g[i]))
            generation_feed(g[i], b->m->engine->chunk, b->logits);
    }
    if (!n_waiting)
        return;
    struct shared_step s;
    gather(b, waiting, n_waiting, &s);
    if (s.n)
        step(b, &s);
    for (int i = 0; i < s.n; i++)
        b->m->pending[b->m->n_pending++] = s.g[i];
}

/* An engine has room for the pending rows of one step. So answers that have not given all tokens of
 * the step before commit them now. */
static void keep_pending(struct model *m)
{
    for (int i = 0; i < m->n_pending; i++)
        generation_keep(m->pending[i]);
    m->n_pending = 0;
}

static void gather(struct batch *b, struct generation *const *g, int n, struct shared_step *s)
{
    int R = 0;
    s->n = 0;
    for (int i = 0; i < n; i++) {
        const int k = generation_rows(g[i], n, b->rows_max / n, s->rows + R);
        if (!k)
            continue;
        s->g[s->n] = g[i];
        s->first[s->n++] = R;
        R += k;
    }
    s->first[s->n] = R;
}

/* Rows of answers i to j - 1 in one engine step; what they come to goes to the answers. */
static int step_some(struct batch *b, const struct shared_step *s, int i, int j, struct err *e)
{
    const size_t vocab = (size_t)b->m->weights.config.vocab;
    const int from = s->first[i], R = s->first[j] - from;
    const uint64_t start = clock_ns();
    struct best best[ENGINE_ROWS_MAX];
    bool want[ENGINE_ROWS_MAX];
    for (int k = i; k < j; k++)
        for (int r = s->first[k]; r < s->first[k + 1]; r++)
            want[r - from] = generation_wants_logits(s->g[k]);
    const struct best_job job = {model_tokens(b->m), want, b->logits, best};
    if (engine_step_best(b->m->engine, s->rows + from, R, &job, e))
        return -e->code;
    pace_stepped(&b->m->pace, R, clock_seconds_since(start));
    for (int k = i; k < j; k++)
        generation_take(s->g[k], b->logits + (size_t)(s->first[k] - from) * vocab,
                        best + (s->first[k] - from));
    return 0;
}

/* A failure may belong to one answer, or to a draft that the text would never have come to. So each
 * answer is tried again alone and without drafts, unless that is what failed. */
static void step(struct batch *b, struct shared_step *s)
{
    struct err e = {0};
    if (step_some(b, s, 0, s->n, &e) == 0)
        return;
    if (s->first[s->n] == 1) {
        generation_fail(s->g[0], &e);
        return;
    }
    for (int i = 0; i < s->n; i++) {
        s->rows[i] = s->rows[s->first[i]];
        s->first[i] = i;
        generation_drop_drafts(s->g[i]);
    }
    s->first[s->n] = s->n;
    for (int i = 0; i < s->n; i++) {
        err_clear(&e);
        if (step_some(b, s, i, i + 1, &e))
            generation_fail(s->g[i], &e);
    }
}
