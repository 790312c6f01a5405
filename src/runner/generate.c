/* From prompt to text: see generate.h. */
#include "runner/generate.h"

#include <string.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/mem.h"
#include "text/detok.h"
#include "text/stop.h"

struct generation {
    struct model *m;
    struct sequence *seq;
    struct generate_options o;
    const struct tokens *prompt; /* NULL once fed */
    int n_prompt, n_cached, n_max;
    struct sampler *sampler;
    float *logits; /* [vocab] of the last token fed */
    struct tokens ids;
    struct detok detok;
    struct stop stop;
    struct buf piece, text; /* of the token just made: before and behind the stop strings */
    enum finish finish;
    uint64_t start_ns, first_ns, last_ns; /* call, first token, latest token */
};

static int prepare(struct generation *g, struct err *e);
static int feed(struct generation *g, struct err *e);
static int choose(struct generation *g, struct err *e);
static int release(struct generation *g, struct err *e);

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
    sampler_close(g->sampler);
    mem_free(g->logits);
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
    if (g->finish)
        return 0;
    buf_clear(&g->text);
    if (feed(g, e) || (!g->finish && choose(g, e)) || release(g, e))
        return -e->code;
    *text = buf_str(&g->text);
    *len = g->text.len;
    return 0;
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
    const size_t bytes = (size_t)g->m->weights.config.vocab * sizeof *g->logits;
    *out = (struct generate_result){
        .finish = g->finish,
        .n_prompt = g->n_prompt,
        .n_cached = g->n_cached,
        .n_generated = (int)g->ids.n,
        .prefill_s = any ? (double)(g->first_ns - g->start_ns) * 1e-9 : 0,
        .decode_s = any ? (double)(g->last_ns - g->first_ns) * 1e-9 : 0,
        .logits_hash = any ? XXH3_64bits(g->logits, bytes) : 0,
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
            g->finish = FINISH_INTERRUPTED;
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
    const int vocab = m->weights.config.vocab;
    int n_used = m->tokenizer ? tokenizer_count(m->tokenizer) : vocab;
    if (n_used > vocab)
        n_used = vocab;
    if (g->o.n_stop && !m->tokenizer)
        return ERR(e, E_ARG, "stop strings need a tokenizer, and the model was opened without");
    if (sampler_open(vocab, n_used, &g->o.sample, &g->sampler, e) ||
        stop_init(&g->stop, g->o.stop, g->o.n_stop, e))
        return -e->code;
    detok_init(&g->detok, m->tokenizer, !g->o.ignore_stop_ids);
    g->logits = mem_array((size_t)vocab, sizeof *g->logits);
    g->ids.ids = mem_array((size_t)g->n_max, sizeof *g->ids.ids);
    if (!g->logits || !g->ids.ids || !buf_reserve(&g->piece, 256) || !buf_reserve(&g->text, 256))
        return ERR(e, E_NOMEM, "no memory for an answer of %d tokens", g->n_max);
    g->ids.cap = (size_t)g->n_max;
    return 0;
}

/* Asks whether to go on; if not, the answer is over. */
static bool cancelled(struct generation *g)
{
    if (g->o.cancelled && g->o.cancelled(g->o.ctx))
        g->finish = FINISH_INTERRUPTED;
    return g->finish == FINISH_INTERRUPTED;
}

/* The prompt goes chunk by chunk; of the last one the logits are wanted. */
static int feed_prompt(struct generation *g, struct err *e)
{
    struct engine *engine = g->m->engine;
    const int32_t *ids = g->prompt->ids;
    g->start_ns = clock_ns();
    for (int i = 0; i < g->n_prompt; i++)
        sampler_accept(g->sampler, ids[i]);
    for (int at = g->n_cached; at < g->n_prompt && !cancelled(g);) {
        const int left = g->n_prompt - at, n = left < engine->chunk ? left : engine->chunk;
        if (engine->ops->prefill(engine, g->seq, ids + at, n, n == left ? g->logits : NULL, e))
            return -e->code;
        at += n;
    }
    g->prompt = NULL;
    return 0;
}

/* What has to be in the state before the next choice: at first the prompt, later the token
 * before. */
static int feed(struct generation *g, struct err *e)
{
    struct engine *engine = g->m->engine;
    if (g->prompt)
        return feed_prompt(g, e);
    if (cancelled(g))
        return 0;
    const struct row row = {g->seq, g->ids.ids[g->ids.n - 1]};
    if (engine->ops->step(engine, &row, 1, NULL, g->logits, e))
        return -e->code;
    return engine->ops->commit(engine, g->seq, 1, e);
}

static int choose(struct generation *g, struct err *e)
{
    int32_t id;
    const size_t position = (size_t)g->n_prompt + g->ids.n;
    if (sampler_choose(g->sampler, g->logits, position, &id, e) || tokens_push(&g->ids, id, e))
        return -e->code;
    g->last_ns = clock_ns();
    if (g->ids.n == 1)
        g->first_ns = g->last_ns;
    sampler_accept(g->sampler, id);
    buf_clear(&g->piece);
    if (!g->o.ignore_stop_ids && model_is_stop(g->m, id))
        g->finish = FINISH_STOP;
    else if (g->m->tokenizer)
        detok_push(&g->detok, id, &g->piece);
    if (stop_push(&g->stop, g->piece.data, g->piece.len, &g->text))
        g->finish = FINISH_STOP;
    if (!g->finish && g->ids.n == (size_t)g->n_max)
        g->finish = FINISH_LENGTH;
    return 0;
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
