/* How fast a model runs here: see bench.h. */
#include "runner/bench.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "runner/generate.h"

struct bench {
    struct model *m;
    const struct bench_options *o;
    struct bench_result *r;
    struct sequence *seq[BATCH_MAX];
    struct generation *answer[BATCH_MAX];
    struct batch *batch; /* for answers */
    struct tokens prompt;
    float *logits; /* [sequences][vocab] */
    int round;     /* repetitions begun: each has tokens of its own, or the pool would know them */
};

/* The counters that matter, so far. */
struct tally {
    struct counters_sum sum;
    uint64_t touched_bytes, read_ns, copied_bytes, host_experts, brought, brought_used, steps;
    uint64_t phase_ns[PHASE_COUNT];
};

static int open_all(struct bench *b, struct err *e);
static int repeat(struct bench *b, bool counted, struct err *e);
static int feed(struct bench *b, struct err *e);
static int decode_rows(struct bench *b, uint64_t *tokens, struct err *e);
static int decode_answers(struct bench *b, uint64_t *tokens, struct err *e);
static void close_all(struct bench *b);

static int order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void summarise(struct bench_part *p, int n)
{
    double sorted[BENCH_REPETITIONS_MAX];
    memcpy(sorted, p->rate, sizeof sorted);
    qsort(sorted, (size_t)n, sizeof sorted[0], order);
    p->best = n ? sorted[n - 1] : 0;
    p->median = n ? (sorted[(n - 1) / 2] + sorted[n / 2]) / 2 : 0;
}

int bench_run(struct model *m, const struct bench_options *o, struct bench_result *r, struct err *e)
{
    struct bench b = {.m = m, .o = o, .r = r};
    *r = (struct bench_result){.counted = engine_counters(m->engine) != NULL};
    if (o->prompt_tokens + o->tokens + ENGINE_DRAFTS_MAX + 1 > m->ctx)
        return ERR(e, E_LIMIT, "a prompt of %d tokens and %d behind it do not fit a context of %d",
                   o->prompt_tokens, o->tokens, m->ctx);
    int rc = open_all(&b, e);
    if (!rc && !o->no_warm_up)
        rc = repeat(&b, false, e);
    for (int i = 0; !rc && i < o->repetitions; i++) {
        rc = repeat(&b, true, e);
        r->repetitions += !rc;
    }
    if (rc == -E_INTERRUPTED && r->repetitions) {
        err_clear(e);
        rc = 0;
    }
    summarise(&r->prefill, r->repetitions);
    summarise(&r->decode, r->repetitions);
    close_all(&b);
    return rc;
}

static int32_t random_token(const struct bench *b, int s, int pos)
{
    uint64_t at = (uint64_t)b->round << 48 | (uint64_t)s << 32 | (uint32_t)pos;
    return (int32_t)(rng_at(b->o->seed, at) % (uint64_t)b->m->weights.config.vocab);
}

static int open_all(struct bench *b, struct err *e)
{
    const struct engine_ops *ops = b->m->engine->ops;
    size_t vocab = (size_t)b->m->weights.config.vocab;
    int rc = 0;
    b->logits = mem_array((size_t)b->o->sequences * vocab, sizeof *b->logits);
    b->prompt.ids = mem_array((size_t)b->o->prompt_tokens + 1, sizeof *b->prompt.ids);
    if (!b->logits || !b->prompt.ids)
        return ERR(e, E_NOMEM, "out of memory for the logits of %d sequences", b->o->sequences);
    for (int s = 0; !rc && s < b->o->sequences; s++)
        rc = ops->sequence_open(b->m->engine, b->m->ctx, &b->seq[s], e);
    if (!rc && b->o->answers)
        rc = batch_open(b->m, b->o->sequences, b->o->drafts, &b->batch, e);
    return rc;
}

static void close_answers(struct bench *b)
{
    for (int s = 0; s < b->o->sequences; s++) {
        generation_close(b->answer[s]);
        b->answer[s] = NULL;
    }
}

static void close_all(struct bench *b)
{
    close_answers(b);
    batch_close(b->batch);
    for (int s = 0; s < b->o->sequences; s++)
        if (b->seq[s])
            b->m->engine->ops->sequence_close(b->seq[s]);
    mem_free(b->prompt.ids);
    mem_free(b->logits);
}

static struct tally tally_now(const struct bench *b)
{
    const struct counters *c = engine_counters(b->m->engine);
    struct tally t = {0};
    if (!c)
        return t;
    t = (struct tally){.sum = counters_sum(c),
                       .touched_bytes = c->touched_bytes,
                       .read_ns = c->read_ns,
                       .copied_bytes = c->copied_bytes,
                       .host_experts = c->host_experts,
                       .brought = c->brought,
                       .brought_used = c->brought_used,
                       .steps = c->steps};
    memcpy(t.phase_ns, c->phase_ns, sizeof t.phase_ns);
    return t;
}

static void note(const struct bench *b, struct bench_part *p, struct tally from, double seconds,
                 uint64_t tokens)
{
    struct tally to = tally_now(b);
    p->rate[b->r->repetitions] = seconds > 0 ? (double)tokens / seconds : 0;
    p->tokens += tokens;
    p->seconds += seconds;
    p->read_bytes += to.sum.read_bytes - from.sum.read_bytes;
    p->touched_bytes += to.touched_bytes - from.touched_bytes;
    p->reading_s += (double)(to.read_ns - from.read_ns) * 1e-9;
    for (int i = 0; i < PHASE_COUNT; i++)
        p->phase_ns[i] += to.phase_ns[i] - from.phase_ns[i];
    p->steps += to.steps - from.steps;
    p->device_hits += to.sum.device_hits - from.sum.device_hits;
    p->copied_bytes += to.copied_bytes - from.copied_bytes;
    p->host_experts += to.host_experts - from.host_experts;
    p->brought += to.brought - from.brought;
    p->brought_used += to.brought_used - from.brought_used;
    p->hits += to.sum.hits - from.sum.hits;
    p->misses += to.sum.misses - from.sum.misses;
}

static int check_stop(const struct bench *b, struct err *e)
{
    if (b->o->cancelled && b->o->cancelled(b->o->ctx))
        return ERR(e, E_INTERRUPTED, "stopped");
    return 0;
}

/* Prompts, then answers. */
static int repeat(struct bench *b, bool counted, struct err *e)
{
    struct tally from = tally_now(b);
    uint64_t start = clock_ns(), tokens = 0;
    b->round++;
    int rc = feed(b, e);
    if (!rc && counted)
        note(b, &b->r->prefill, from, clock_seconds_since(start),
             (uint64_t)b->o->sequences * (uint64_t)b->o->prompt_tokens);
    from = tally_now(b);
    start = clock_ns();
    if (!rc && b->o->tokens)
        rc = b->o->answers ? decode_answers(b, &tokens, e) : decode_rows(b, &tokens, e);
    if (!rc && counted)
        note(b, &b->r->decode, from, clock_seconds_since(start), tokens);
    close_answers(b);
    return rc;
}

/* Every sequence from empty to its prompt, one after another. For answers all but the last token of
 * the prompt, which the first step feeds. */
static int feed(struct bench *b, struct err *e)
{
    struct engine *g = b->m->engine;
    int most = b->o->prompt_tokens - b->o->answers, rc = 0;
    for (int s = 0; !rc && s < b->o->sequences; s++) {
        g->ops->sequence_reset(b->seq[s]);
        b->prompt.n = (size_t)b->o->prompt_tokens;
        for (int i = 0; i < b->o->prompt_tokens; i++)
            b->prompt.ids[i] = b->o->prompt ? b->o->prompt->ids[i] : random_token(b, s, i);
        for (int at = 0; !rc && at < most; at += g->chunk) {
            int n = most - at < g->chunk ? most - at : g->chunk;
            rc = check_stop(b, e);
            if (!rc)
                rc = g->ops->prefill(g, b->seq[s], b->prompt.ids + at, n,
                                     at + n == most ? b->logits : NULL, e);
        }
        if (rc || !b->o->answers)
            continue;
        const struct generate_options how = {
            .sample = SAMPLE_GREEDY,
            .draft = {.most = b->o->drafts, .source = b->o->lookup ? DRAFTS_LOOKUP : DRAFTS_AUTO},
            .batch = b->batch,
            .max_tokens = b->o->tokens,
            .ignore_stop_ids = true,
        };
        rc = generation_open(b->m, b->seq[s], &b->prompt, &how, &b->answer[s], e);
    }
    if (!rc && !b->o->answers && b->o->prompt_tokens)
        b->r->logits_hash = engine_logits_hash(b->logits, b->m->weights.config.vocab);
    return rc;
}

/* One row of each sequence in a step, of which the likeliest token is asked for. */
static int decode_rows(struct bench *b, uint64_t *tokens, struct err *e)
{
    struct engine *g = b->m->engine;
    struct row rows[BATCH_MAX];
    struct best best[BATCH_MAX] = {0};
    const struct best_job job = {.limit = model_tokens(b->m), .logits = b->logits, .best = best};
    int n = b->o->sequences, rc = 0;
    for (int i = 0; !rc && i < b->o->tokens; i++) {
        for (int s = 0; s < n; s++)
            rows[s] = (struct row){b->seq[s], random_token(b, s, b->o->prompt_tokens + i)};
        rc = check_stop(b, e);
        if (!rc)
            rc = engine_step_best(g, rows, n, &job, e);
        for (int s = 0; !rc && s < n; s++)
            rc = g->ops->commit(g, b->seq[s], 1, e);
        *tokens += rc ? 0 : (uint64_t)n;
    }
    if (!rc)
        b->r->logits_hash = best[n - 1].hash;
    return rc;
}

static int decode_answers(struct bench *b, uint64_t *tokens, struct err *e)
{
    int n = b->o->sequences, rc = 0;
    for (int i = 0; !rc && i < b->o->tokens; i++) {
        const char *text;
        size_t len;
        rc = check_stop(b, e);
        if (!rc)
            batch_run(b->batch, b->answer, n);
        for (int s = 0; !rc && s < n; s++)
            rc = generation_next(b->answer[s], &text, &len, e);
    }
    for (int s = 0; !rc && s < n; s++) {
        struct generate_result one;
        rc = generation_result(b->answer[s], &one, e);
        if (rc)
            break;
        *tokens += (uint64_t)one.n_generated;
        b->r->drafted += (uint64_t)one.n_drafted;
        b->r->accepted += (uint64_t)one.n_accepted;
        b->r->logits_hash = one.logits_hash;
        tokens_free(&one.ids);
    }
    return rc;
}
