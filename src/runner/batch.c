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

/* Answers of one step and their rows; those that decode come before those that have a prompt. */
struct shared_step {
    struct generation *g[BATCH_MAX];
    int first[BATCH_MAX + 1]; /* rows of g[i]: first[i] up to first[i + 1] */
    int n, n_decode;
    struct row rows[ENGINE_ROWS_MAX];
};

static void keep_pending(struct model *m);
static void feed_alone(struct batch *b, struct generation *g);
static void gather(const struct batch *b, struct generation *const *g, const bool *shares, int n,
                   struct shared_step *s);
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

/* Rows of a step that n answers leave to prompts, whatever they draft. */
static int room_beside(const struct batch *b, int n)
{
    const int each = n ? b->rows_max / n : 0;
    return ENGINE_ROWS_MAX - n * (each < 1 + ENGINE_DRAFTS_MAX ? each : 1 + ENGINE_DRAFTS_MAX);
}

void batch_shares(const struct batch *b, struct generation *const *g, int n, bool *shares)
{
    int n_decode = 0, n_shares = 0;
    for (int i = 0; i < n; i++)
        n_decode += generation_wants_step(g[i]);
    int room = room_beside(b, n_decode);
    room = room < b->m->engine->prompt_rows ? room : b->m->engine->prompt_rows;
    for (int i = 0; i < n; i++) {
        const int left = generation_wants_prompt(g[i]) ? generation_prompt_left(g[i]) : 0;
        shares[i] = left && left <= room;
        room -= shares[i] ? left : 0;
        n_shares += shares[i];
    }
    for (int i = 0; i < n; i++)
        shares[i] = shares[i] && n_decode + n_shares > 1;
}

void batch_run(struct batch *b, struct generation *const *g, int n)
{
    struct shared_step s;
    bool shares[BATCH_MAX];
    assert(n <= b->answers);
    keep_pending(b->m);
    batch_shares(b, g, n, shares);
    for (int i = 0; i < n; i++)
        if (!shares[i])
            feed_alone(b, g[i]);
    gather(b, g, shares, n, &s);
    if (s.n)
        step(b, &s);
    for (int i = 0; i < s.n_decode; i++)
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

static void feed_alone(struct batch *b, struct generation *g)
{
    while (generation_wants_prompt(g))
        generation_feed(g, b->m->engine->chunk, b->logits);
}

/* n rows of g, which stand behind those that are there, belong to the step. */
static void push(struct shared_step *s, struct generation *g, int n)
{
    if (!n)
        return;
    s->g[s->n++] = g;
    s->first[s->n] = s->first[s->n - 1] + n;
}

static void gather(const struct batch *b, struct generation *const *g, const bool *shares, int n,
                   struct shared_step *s)
{
    int n_decode = 0, n_shares = 0;
    s->n = s->first[0] = 0;
    for (int i = 0; i < n; i++) {
        n_decode += generation_wants_step(g[i]);
        n_shares += shares[i];
    }
    for (int i = 0; i < n; i++)
        if (generation_wants_step(g[i]))
            push(s, g[i],
                 generation_rows(g[i], n_decode, b->rows_max / (n_decode + n_shares),
                                 s->rows + s->first[s->n]));
    s->n_decode = s->n;
    for (int i = 0; i < n; i++)
        if (shares[i])
            push(s, g[i], generation_prompt_rows(g[i], s->rows + s->first[s->n]));
}

/* What the step came to goes to answers i to j - 1: of a prompt, its last row did. */
static void give(struct batch *b, const struct shared_step *s, int i, int j,
                 const struct best *best)
{
    const float *logits = b->logits;
    const size_t vocab = (size_t)b->m->weights.config.vocab;
    for (int k = i; k < j; k++) {
        const bool decodes = k < s->n_decode;
        const int n = decodes ? s->first[k + 1] - s->first[k] : 1;
        (decodes ? generation_take : generation_prompt_take)(s->g[k], logits, best);
        logits += (size_t)n * vocab;
        best += n;
    }
}

/* Rows of answers i to j - 1 in one engine step. */
static int step_some(struct batch *b, const struct shared_step *s, int i, int j, struct err *e)
{
    const int from = s->first[i], R = s->first[j] - from;
    const uint64_t start = clock_ns();
    struct best best[ENGINE_ROWS_MAX];
    bool want[ENGINE_ROWS_MAX], pass[ENGINE_ROWS_MAX];
    for (int k = i; k < j; k++)
        for (int r = s->first[k]; r < s->first[k + 1]; r++) {
            want[r - from] = generation_wants_logits(s->g[k]);
            pass[r - from] = k >= s->n_decode && r + 1 < s->first[k + 1];
        }
    const struct best_job job = {.limit = model_tokens(b->m),
                                 .want = want,
                                 .logits = b->logits,
                                 .best = best,
                                 .pass = j > s->n_decode ? pass : NULL};
    if (engine_step_best(b->m->engine, s->rows + from, R, &job, e))
        return -e->code;
    if (!job.pass)
        pace_stepped(&b->m->pace, R, clock_seconds_since(start));
    give(b, s, i, j, best);
    return 0;
}

/* A failure may belong to one answer, or to a draft that the text would never have come to. So each
 * answer is tried again alone and without drafts, unless that is what failed. */
static void step(struct batch *b, struct shared_step *s)
{
    struct err e = {0};
    if (step_some(b, s, 0, s->n, &e) == 0)
        return;
    if (s->n_decode && s->first[s->n] == 1) {
        generation_fail(s->g[0], &e);
        return;
    }
    for (int i = 0; i < s->n_decode; i++) {
        s->rows[i] = s->rows[s->first[i]];
        s->first[i] = i;
        generation_drop_drafts(s->g[i]);
    }
    s->first[s->n_decode] = s->n_decode;
    for (int i = 0; i < s->n_decode; i++) {
        err_clear(&e);
        if (step_some(b, s, i, i + 1, &e))
            generation_fail(s->g[i], &e);
    }
    for (int i = s->n_decode; i < s->n; i++)
        feed_alone(b, s->g[i]);
}
