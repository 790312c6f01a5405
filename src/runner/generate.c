/* From prompt to text: see generate.h. */
#include "runner/generate.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "text/detok.h"
#include "text/stop.h"

/* A token that was drawn and not given yet. */
struct made {
    int32_t id;
    uint64_t hash; /* of the logits it was drawn from */
    uint64_t ns;   /* when */
    struct sample_logprobs logprobs;
};

struct generation {
    struct model *m;
    struct sequence *seq;
    struct generate_options o;
    struct batch *own, *batch;   /* own: NULL when it was given one */
    const struct tokens *prompt; /* NULL once fed */
    int n_prompt, n_cached, n_max;
    struct sampler *sampler;             /* has seen all that was made */
    struct drafter drafter;              /* has seen all that was given */
    int32_t rows[1 + ENGINE_DRAFTS_MAX]; /* of the step under way or not yet committed */
    int n_rows;
    struct made made[1 + ENGINE_DRAFTS_MAX];
    int n_made, n_given;       /* of the latest step */
    const struct made *latest; /* what the latest call gave, or NULL */
    bool ahead;                /* all that was made is committed, given or not */
    struct tokens ids;         /* given */
    uint64_t hash;             /* of the logits of the last one */
    struct detok detok;
    struct stop stop;
    struct buf piece, text; /* of the token just given: before and behind the stop strings */
    enum finish finish;
    struct err failure; /* of a step or a draw; the next call returns it */
    int n_drafted, n_accepted, n_steps;
    uint64_t start_ns, first_ns, last_ns; /* call, first token, latest token */
};

static int prepare(struct generation *g, struct err *e);
static int advance(struct generation *g, struct err *e);
static void give(struct generation *g);
static int settle(struct generation *g, struct err *e);
static void forget_pending(struct generation *g);
static int release(struct generation *g, struct err *e);
static bool cancelled(struct generation *g);
static bool ends(const struct generation *g, int32_t id);
static void draw(struct generation *g, const float *logits, const struct best *best);

const char *finish_name(enum finish f)
{
    static const char *const names[] = {"none", "stop", "length", "interrupted"};
    return names[f];
}

int generation_check(const struct model *m, const struct tokens *prompt, struct err *e)
{
    if (prompt->n == 0)
        return ERR(e, E_ARG, "the prompt has no tokens: give at least one");
    if (prompt->n >= (size_t)m->ctx)
        return ERR(
            e, E_LIMIT,
            "the prompt has %zu tokens and the context holds %d, answer included: shorten the "
            "prompt or raise --max-ctx",
            prompt->n, m->ctx);
    return model_check_ids(m, prompt, e);
}

int generation_open(struct model *m, struct sequence *seq, const struct tokens *prompt,
                    const struct generate_options *o, struct generation **out, struct err *e)
{
    const int n_cached = m->engine->ops->sequence_length(seq);
    int rc = generation_check(m, prompt, e);
    if (rc)
        return rc;
    if ((size_t)n_cached >= prompt->n)
        return ERR(e, E_ARG, "the state holds %d tokens, the prompt %zu: nothing is left to feed",
                   n_cached, prompt->n);
    struct generation *g = mem_zalloc(1, sizeof *g);
    if (!g)
        return ERR(e, E_NOMEM, "no memory for an answer");
    const int room = m->ctx - (int)prompt->n;
    *g = (struct generation){.m = m, .seq = seq, .o = *o, .prompt = prompt, .n_cached = n_cached};
    g->n_prompt = (int)prompt->n;
    g->n_max = o->max_tokens && o->max_tokens < room ? o->max_tokens : room;
    rc = prepare(g, e);
    if (rc) {
        generation_close(g);
        return rc;
    }
    *out = g;
    return 0;
}

void generation_close(struct generation *g)
{
    if (!g)
        return;
    struct err e = {0}; /* nothing to report to: who cares calls generation_end */
    settle(g, &e);
    forget_pending(g);
    batch_close(g->own);
    sampler_close(g->sampler);
    drafter_free(&g->drafter);
    tokens_free(&g->ids);
    stop_free(&g->stop);
    buf_free(&g->piece);
    buf_free(&g->text);
    mem_free(g);
}

int generation_next(struct generation *g, const char **text, size_t *len, struct err *e)
{
    *text = NULL;
    *len = 0;
    g->latest = NULL;
    if (g->finish)
        return 0;
    buf_clear(&g->text);
    if (advance(g, e) || release(g, e))
        return -e->code;
    *text = buf_str(&g->text);
    *len = g->text.len;
    return 0;
}

bool generation_given(const struct generation *g, struct given *out)
{
    if (!g->latest)
        return false;
    *out = (struct given){.id = g->latest->id, .is_stop = ends(g, g->latest->id)};
    out->logprobs = g->o.logprobs ? &g->latest->logprobs : NULL;
    return true;
}

int generation_waiting(const struct generation *g)
{
    return g->n_made - g->n_given;
}

int generation_end(struct generation *g, struct err *e)
{
    if (!g->finish)
        g->finish = FINISH_INTERRUPTED;
    return settle(g, e);
}

int generation_result(const struct generation *g, struct generate_result *out, struct err *e)
{
    struct tokens ids = {0};
    for (size_t i = 0; i < g->ids.n; i++)
        if (tokens_push(&ids, g->ids.ids[i], e)) {
            tokens_free(&ids);
            return -e->code;
        }
    const bool any = g->ids.n > 0;
    *out = (struct generate_result){
        .finish = g->finish,
        .stop_string = g->stop.hit ? (int)g->stop.which : -1,
        .n_prompt = g->n_prompt,
        .n_cached = g->n_cached,
        .n_generated = (int)g->ids.n,
        .prefill_s = any ? (double)(g->first_ns - g->start_ns) * 1e-9 : 0,
        .decode_s = any ? (double)(g->last_ns - g->first_ns) * 1e-9 : 0,
        .n_drafted = g->n_drafted,
        .n_accepted = g->n_accepted,
        .n_steps = g->n_steps,
        .logits_hash = g->hash,
        .ids = ids,
    };
    return 0;
}

int generate(struct model *m, struct sequence *seq, const struct tokens *prompt,
             const struct generate_options *o, struct generate_result *out, struct err *e)
{
    struct generation *g;
    const char *text = NULL;
    size_t len = 0;
    int rc = generation_open(m, seq, prompt, o, &g, e);
    if (rc)
        return rc;
    rc = generation_next(g, &text, &len, e);
    while (!rc && text) {
        if (len && o->on_text && o->on_text(o->ctx, text, len)) {
            rc = generation_end(g, e);
            break;
        }
        rc = generation_next(g, &text, &len, e);
    }
    if (!rc)
        rc = generation_result(g, out, e);
    generation_close(g);
    return rc;
}

static int prepare(struct generation *g, struct err *e)
{
    struct model *m = g->m;
    if (g->o.n_stop && !m->tokenizer)
        return ERR(e, E_ARG, "stop strings need a tokenizer, and the model was opened without");
    if (g->o.top_logprobs < 0 || g->o.top_logprobs > SAMPLE_TOP_MAX)
        return ERR(e, E_ARG, "logprobs of the %d likeliest tokens, want 0 to %d", g->o.top_logprobs,
                   SAMPLE_TOP_MAX);
    if (sampler_open(m->weights.config.vocab, model_tokens(m), &g->o.sample, &g->sampler, e) ||
        (g->o.constraint && sampler_constrain(g->sampler, g->o.constraint, e)) ||
        stop_init(&g->stop, g->o.stop, g->o.n_stop, e) ||
        drafter_init(&g->drafter, m, &g->o.draft, g->n_prompt + g->n_max, e) ||
        (!g->o.batch && batch_open(m, 1, g->o.draft.most, &g->own, e)))
        return -e->code;
    g->batch = g->own ? g->own : g->o.batch;
    detok_init(&g->detok, m->tokenizer, !g->o.ignore_stop_ids);
    g->ids.ids = mem_array((size_t)g->n_max, sizeof *g->ids.ids);
    if (!g->ids.ids || !buf_reserve(&g->piece, 256) || !buf_reserve(&g->text, 256))
        return ERR(e, E_NOMEM, "no memory for an answer of %d tokens", g->n_max);
    g->ids.cap = (size_t)g->n_max;
    return 0;
}

/* One token is given, if the answer goes on: one that waits, or else one of a step. */
static int advance(struct generation *g, struct err *e)
{
    if (generation_waiting(g))
        cancelled(g);
    else
        batch_run(g->batch, &g, 1);
    if (!g->finish && generation_waiting(g))
        give(g);
    else if (g->failure.code) {
        *e = g->failure;
        return -e->code;
    }
    return g->finish || !generation_waiting(g) ? settle(g, e) : 0;
}

/* Asks whether to go on; if not, the answer is over. */
static bool cancelled(struct generation *g)
{
    if (g->o.cancelled && g->o.cancelled(g->o.ctx))
        g->finish = FINISH_INTERRUPTED;
    return g->finish == FINISH_INTERRUPTED;
}

static void give(struct generation *g)
{
    const struct made *made = &g->made[g->n_given++];
    g->latest = made;
    g->ids.ids[g->ids.n++] = made->id;
    g->hash = made->hash;
    g->last_ns = made->ns;
    if (g->ids.n == 1)
        g->first_ns = made->ns;
    drafter_push(&g->drafter, made->id);
    buf_clear(&g->piece);
    if (ends(g, made->id))
        g->finish = FINISH_STOP;
    else if (g->m->tokenizer)
        detok_push(&g->detok, made->id, &g->piece);
    if (stop_push(&g->stop, g->piece.data, g->piece.len, &g->text))
        g->finish = FINISH_STOP;
    if (!g->finish && g->ids.n == (size_t)g->n_max)
        g->finish = FINISH_LENGTH;
}

/* Commits a row for each token given: the row of the one before it. The rest never happened; if it
 * is committed already, the sequence starts over. */
static int settle(struct generation *g, struct err *e)
{
    struct engine *engine = g->m->engine;
    const int n_rows = g->n_rows;
    if (g->ahead && g->n_given < g->n_made)
        engine->ops->sequence_reset(g->seq);
    g->ahead = false;
    g->n_rows = 0;
    g->n_made = g->n_given;
    return n_rows ? engine->ops->commit(engine, g->seq, g->n_given, e) : 0;
}

/* Before it is gone, it must not be asked to keep its rows. */
static void forget_pending(struct generation *g)
{
    struct model *m = g->m;
    for (int i = 0; i < m->n_pending; i++)
        if (m->pending[i] == g)
            m->pending[i--] = m->pending[--m->n_pending];
}

/* At the end, what was held back until then. */
static int release(struct generation *g, struct err *e)
{
    if (g->finish && !g->stop.hit) {
        buf_clear(&g->piece);
        if (g->m->tokenizer)
            detok_finish(&g->detok, &g->piece);
        if (!stop_push(&g->stop, g->piece.data, g->piece.len, &g->text))
            stop_finish(&g->stop, &g->text);
    }
    return buf_check(&g->piece, e) ? -e->code : buf_check(&g->text, e);
}

/* --- making tokens --- */

bool generation_wants_prompt(const struct generation *g)
{
    return g->prompt && !g->finish && !g->failure.code;
}

bool generation_wants_step(const struct generation *g)
{
    return !g->prompt && !generation_waiting(g) && !g->finish && !g->failure.code;
}

/* What looks at all tokens sees those of the prompt. */
static void begin(struct generation *g)
{
    g->start_ns = clock_ns();
    for (int i = 0; i < g->n_prompt; i++) {
        sampler_accept(g->sampler, g->prompt->ids[i]);
        drafter_push(&g->drafter, g->prompt->ids[i]);
    }
}

void generation_feed(struct generation *g, int most, float *logits)
{
    struct engine *engine = g->m->engine;
    const int at = engine->ops->sequence_length(g->seq), left = g->n_prompt - at;
    int n = left < most ? left : most;
    if (n > engine->chunk)
        n = engine->chunk;
    if (!g->start_ns)
        begin(g);
    if (cancelled(g) ||
        engine->ops->prefill(engine, g->seq, g->prompt->ids + at, n, n == left ? logits : NULL,
                             &g->failure) ||
        n < left)
        return;
    g->prompt = NULL;
    draw(g, logits, NULL);
}

int generation_prompt_left(const struct generation *g)
{
    return g->prompt ? g->n_prompt - g->m->engine->ops->sequence_length(g->seq) : 0;
}

int generation_prompt_rows(struct generation *g, struct row *rows)
{
    const int left = generation_prompt_left(g);
    if (!g->start_ns)
        begin(g);
    if (cancelled(g))
        return 0;
    for (int i = 0; i < left; i++)
        rows[i] = (struct row){g->seq, g->prompt->ids[g->n_prompt - left + i]};
    return left;
}

void generation_prompt_take(struct generation *g, const float *logits, const struct best *best)
{
    struct engine *engine = g->m->engine;
    if (engine->ops->commit(engine, g->seq, generation_prompt_left(g), &g->failure))
        return;
    g->prompt = NULL;
    draw(g, logits, best);
}

static bool ends(const struct generation *g, int32_t id)
{
    return !g->o.ignore_stop_ids && model_is_stop(g->m, id);
}

/* Drafts up to the first that would end the answer: no row behind that one could count. */
static int guess(struct generation *g, int together, int most)
{
    int32_t *out = g->rows + 1;
    const int n = drafter_guess(&g->drafter, g->seq, together, most, out);
    int n_kept = 0;
    while (n_kept < n && !ends(g, out[n_kept]))
        n_kept++;
    return n_kept;
}

int generation_rows(struct generation *g, int together, int most, struct row *rows)
{
    const int left = g->n_max - (int)g->ids.n, n = left < most ? left : most;
    const int most_drafts = n - 1 < g->o.draft.most ? n - 1 : g->o.draft.most;
    assert(g->n_rows == 0 && left > 0);
    if (cancelled(g))
        return 0;
    g->rows[0] = g->ids.ids[g->ids.n - 1];
    g->n_given = g->n_made = 0;
    g->n_rows = 1 + guess(g, together, most_drafts);
    for (int r = 0; r < g->n_rows; r++)
        rows[r] = (struct row){g->seq, g->rows[r]};
    return g->n_rows;
}

bool generation_wants_logits(const struct generation *g)
{
    return g->o.logprobs || !sampler_takes_best(g->sampler);
}

void generation_take(struct generation *g, const float *logits, const struct best *best)
{
    const size_t vocab = (size_t)g->m->weights.config.vocab;
    const int n_drafts = g->n_rows - 1;
    int r = 0;
    g->n_steps++;
    draw(g, logits, best);
    for (; !g->failure.code && r < n_drafts && g->made[r].id == g->rows[r + 1]; r++)
        draw(g, logits + (size_t)(r + 1) * vocab, best + r + 1);
    g->n_drafted += n_drafts;
    g->n_accepted += r;
    drafter_verified(&g->drafter, n_drafts, r);
}

void generation_drop_drafts(struct generation *g)
{
    g->n_rows = 1;
}

void generation_keep(struct generation *g)
{
    struct engine *engine = g->m->engine;
    if (g->n_rows && !g->failure.code &&
        !engine->ops->commit(engine, g->seq, g->n_made, &g->failure)) {
        g->n_rows = 0;
        g->ahead = true;
    }
}

void generation_fail(struct generation *g, const struct err *why)
{
    g->failure = *why;
    g->n_rows = 0;
}

static int choose(struct generation *g, const float *logits, struct made *made)
{
    const size_t position = (size_t)g->n_prompt + g->ids.n + (size_t)g->n_made;
    int rc = sampler_choose(g->sampler, logits, position, &made->id, &g->failure);
    if (!rc && g->o.constraint)
        rc = g->o.constraint->accept(g->o.constraint->ctx, made->id, &g->failure);
    if (!rc && g->o.logprobs)
        sampler_logprobs(g->sampler, logits, made->id, g->o.top_logprobs, &made->logprobs);
    return rc;
}

/* One more token is made, as the sampler says for its position. best: of these logits, which then
 * are there only if they are wanted; or NULL. A failure is told once what was made before it is
 * given. */
static void draw(struct generation *g, const float *logits, const struct best *best)
{
    struct made *made = &g->made[g->n_made];
    if (best && !generation_wants_logits(g))
        made->id = best->token;
    else if (choose(g, logits, made))
        return;
    made->hash = best ? best->hash : engine_logits_hash(logits, g->m->weights.config.vocab);
    made->ns = clock_ns();
    sampler_accept(g->sampler, made->id);
    g->n_made++;
}
