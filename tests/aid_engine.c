/* The fake engine: see aid_engine.h. */
#include "tests/aid_engine.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/rng.h"

struct fake {
    struct engine base;
    int pending, used; /* rows of all sequences; places taken since none was pending */
    struct aid_fake *f;
    struct counters counters;
};

struct sequence {
    struct fake *engine;
    int ctx, len, pending;
    int32_t tokens[];
};

void aid_fake_logits(const int32_t *tokens, size_t n, int vocab, float *logits)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < n; i++)
        hash = rng_splitmix64(hash ^ (uint64_t)tokens[i]);
    for (int i = 0; i < vocab; i++)
        logits[i] = (float)rng_unit_at(hash, (uint64_t)i);
    logits[(tokens[n - 1] + 1) % vocab] = 4;
}

static void fake_close(struct engine *g)
{
    counters_close(&((struct fake *)g)->counters);
    mem_free(g);
}

static int fake_sequence_open(struct engine *g, int ctx, struct sequence **out, struct err *e)
{
    struct sequence *s = mem_zalloc(1, sizeof *s + (size_t)ctx * sizeof s->tokens[0]);
    if (!s)
        return ERR(e, E_NOMEM, "no memory for a sequence");
    s->engine = (struct fake *)g;
    s->ctx = ctx;
    *out = s;
    return 0;
}

static void fake_sequence_close(struct sequence *s)
{
    s->engine->pending -= s->pending;
    mem_free(s);
}

static void fake_sequence_reset(struct sequence *s)
{
    s->engine->f->n_resets++;
    s->engine->pending -= s->pending;
    s->len = s->pending = 0;
}

static int fake_sequence_length(const struct sequence *s)
{
    return s->len;
}

/* Three layers of eight values and two routes each. */
static void show(const struct aid_fake *f, const int32_t *tokens, int pos)
{
    const struct observer *o = f->observe;
    for (int il = 0; o && il < AID_FAKE_LAYERS; il++) {
        float x[8];
        int64_t routes[2] = {tokens[pos] % 7, il};
        bool odd = f->odd_layer - 1 == il && f->odd_pos == pos;
        aid_fake_logits(tokens, (size_t)pos + 1, 8, x);
        x[2] += odd ? f->odd_by : 0;
        routes[1] += odd && f->odd_routes;
        const float weights[2] = {0.6f, 0.4f + (odd ? f->odd_weight : 0)};
        o->ints(o->ctx, SEEN_ROUTE, il, pos, routes, 2);
        if (f->weights)
            o->floats(o->ctx, SEEN_ROUTE_WEIGHT, il, pos, weights, 2);
        o->floats(o->ctx, SEEN_RESIDUAL, il, pos, x, 8);
    }
}

/* Row r of a step or prefill; logits NULL when they are not wanted. */
static int row_apply(struct fake *g, struct sequence *s, int32_t token, float *logits,
                     struct err *e)
{
    struct aid_fake *f = g->f;
    const int vocab = g->base.weights->config.vocab, pos = s->len + s->pending;
    assert(s->engine == g && token >= 0 && token < vocab);
    if (pos >= s->ctx)
        return ERR(e, E_LIMIT, "fake engine: %d tokens do not fit %d", pos + 1, s->ctx);
    s->tokens[pos] = token;
    s->pending++;
    f->n_rows++;
    if (f->step_ns)
        nanosleep(&(struct timespec){.tv_nsec = f->step_ns}, NULL);
    show(f, s->tokens, pos);
    if (logits)
        aid_fake_logits(s->tokens, (size_t)pos + 1, vocab, logits);
    return 0;
}

static bool fake_lost(const struct engine *base)
{
    const struct aid_fake *f = ((const struct fake *)base)->f;
    return f->lost_step && f->n_steps >= f->lost_step;
}

static int count_step(struct aid_fake *f, struct err *e)
{
    if (f->lost_step && f->n_steps + 1 >= f->lost_step) {
        f->n_steps++;
        return ERR(e, E_IO, "fake engine: the device is lost");
    }
    if (++f->n_steps == f->fail_step)
        return ERR(e, E_IO, "fake engine: the disk is gone");
    return 0;
}

static int fake_step(struct engine *base, const struct row *rows, int R, const bool *want,
                     float *logits, struct err *e)
{
    struct fake *g = (struct fake *)base;
    const size_t vocab = (size_t)base->weights->config.vocab;
    assert(R >= 1 && R <= ENGINE_ROWS_MAX);
    g->used = g->pending ? g->used : 0;
    assert(g->used + R <= ENGINE_ROWS_MAX); /* more than that an engine need not hold */
    int rc = count_step(g->f, e);
    for (int r = 0; !rc && r < R; r++)
        if (rows[r].token == g->f->bad_token && rows[r].token > 0)
            rc = ERR(e, E_NONFINITE, "fake engine: token %d is bad", rows[r].token);
    for (int r = 0; !rc && r < R; r++)
        rc = row_apply(g, rows[r].seq, rows[r].token,
                       !want || want[r] ? logits + (size_t)r * vocab : NULL, e);
    for (int r = 0; rc && r < R; r++)
        rows[r].seq->pending = 0;
    g->pending += rc ? 0 : R;
    g->used += rc ? 0 : R;
    if (g->f->n_steps == g->f->nan_step)
        logits[0] = NAN;
    return rc;
}

static int fake_step_best(struct engine *base, const struct row *rows, int R,
                          const struct best_job *j, struct err *e)
{
    const int vocab = base->weights->config.vocab;
    float *all = mem_array((size_t)R * (size_t)vocab, sizeof *all);
    assert(all);
    int rc = fake_step(base, rows, R, NULL, all, e);
    for (int r = 0, n = 0; !rc && r < R; r++) {
        const float *row = all + (size_t)r * (size_t)vocab;
        if (j->pass && j->pass[r])
            continue;
        memcpy(j->logits + (size_t)n * (size_t)vocab, row, (size_t)vocab * sizeof *row);
        j->best[n++] = (struct best){engine_argmax(row, j->limit), engine_logits_hash(row, vocab)};
    }
    mem_free(all);
    return rc;
}

static int fake_prefill(struct engine *base, struct sequence *s, const int32_t *tokens, int n,
                        float *logits, struct err *e)
{
    struct fake *g = (struct fake *)base;
    assert(n >= 1 && n <= base->chunk && s->pending == 0);
    int rc = count_step(g->f, e);
    for (int i = 0; !rc && i < n; i++)
        rc = row_apply(g, s, tokens[i], i == n - 1 ? logits : NULL, e);
    if (logits && g->f->n_steps == g->f->nan_step)
        logits[0] = NAN;
    s->len += rc ? 0 : n;
    s->pending = 0;
    return rc;
}

static int fake_commit(struct engine *g, struct sequence *s, int n, struct err *e)
{
    (void)e;
    assert(n >= 0 && n <= s->pending);
    ((struct fake *)g)->pending -= s->pending;
    s->len += n;
    s->pending = 0;
    return 0;
}

/* What the trunk would say if the next token were fed. */
static int fake_draft(struct sequence *s, int32_t next, int depth, int32_t *tokens, float *logits,
                      struct err *e)
{
    static float room[1 << 16]; /* for those who want tokens alone */
    const int vocab = s->engine->base.weights->config.vocab;
    (void)e;
    assert(depth >= 1 && depth <= ENGINE_DRAFTS_MAX && s->pending == 0 && s->len > 0);
    assert(vocab <= 1 << 16);
    for (int d = 0; d < depth; d++) {
        float *made = logits ? logits + (size_t)d * (size_t)vocab : room;
        assert(s->len + d < s->ctx);
        s->tokens[s->len + d] = next;
        aid_fake_logits(s->tokens, (size_t)(s->len + d + 1), vocab, made);
        next = tokens[d] = engine_argmax(made, vocab);
    }
    return 0;
}

/* The tokens are all that there is to keep; a save of another vocabulary is refused. */
static int fake_save(struct engine *g, const struct sequence *s, struct buf *out, struct err *e)
{
    const int32_t head[2] = {g->weights->config.vocab, s->len};
    buf_add(out, head, sizeof head);
    buf_add(out, s->tokens, (size_t)s->len * sizeof s->tokens[0]);
    return buf_check(out, e);
}

static int fake_restore(struct engine *g, struct sequence *s, const void *data, size_t n,
                        struct err *e)
{
    int32_t head[2];
    if (n < sizeof head)
        return ERR(e, E_FORMAT, "fake engine: no save");
    memcpy(head, data, sizeof head);
    if (head[0] != g->weights->config.vocab || head[1] > s->ctx ||
        n != sizeof head + (size_t)head[1] * sizeof s->tokens[0])
        return ERR(e, E_FORMAT, "fake engine: a save of another model");
    ((struct fake *)g)->pending -= s->pending;
    s->pending = 0;
    s->len = head[1];
    memcpy(s->tokens, (const char *)data + sizeof head, n - sizeof head);
    return 0;
}

static int fake_open(const struct weights *w, const struct engine_options *o, struct engine **out,
                     struct err *e);

static const struct counters *fake_counters(const struct engine *g)
{
    const struct fake *f = (const struct fake *)g;
    return f->f->counts ? &f->counters : NULL;
}

#define FAKE_OPS                                                                                   \
    .name = "fake", .summary = "for tests", .open = fake_open, .close = fake_close,                \
    .sequence_open = fake_sequence_open, .sequence_close = fake_sequence_close,                    \
    .sequence_reset = fake_sequence_reset, .sequence_length = fake_sequence_length,                \
    .step = fake_step, .prefill = fake_prefill, .commit = fake_commit, .draft = fake_draft,        \
    .save = fake_save, .restore = fake_restore, .lost = fake_lost, .counters = fake_counters

static const struct engine_ops fake_ops = {FAKE_OPS};
static const struct engine_ops fake_best_ops = {FAKE_OPS, .step_best = fake_step_best};

static int fake_open(const struct weights *w, const struct engine_options *o, struct engine **out,
                     struct err *e)
{
    struct aid_fake *f = o->observe->ctx;
    if (f->n_refused > 0) {
        f->n_refused--;
        return ERR(e, E_IO, "fake engine: there is no device");
    }
    struct fake *g = mem_zalloc(1, sizeof *g);
    if (!g)
        return ERR(e, E_NOMEM, "no memory for a fake engine");
    g->base = (struct engine){.ops = f->prompt_rows ? &fake_best_ops : &fake_ops,
                              .weights = w,
                              .chunk = AID_FAKE_CHUNK,
                              .prompt_rows = f->prompt_rows};
    g->f = f;
    if (f->counts && counters_open(&g->counters, AID_FAKE_LAYERS, 4, e)) {
        mem_free(g);
        return -e->code;
    }
    f->lost_step = f->n_steps ? 0 : f->lost_step;
    *out = &g->base;
    return 0;
}

void aid_model_open(struct model *m, struct aid_fake *f, int vocab, int ctx)
{
    struct err e = {0};
    *m = (struct model){.ctx = ctx, .sample = SAMPLE_GREEDY};
    m->weights.config.vocab = vocab;
    m->drafts = true;
    pace_init(&m->pace);
    f->self.ctx = f;
    m->options.observe = &f->self;
    m->ops = &fake_ops;
    int rc = fake_open(&m->weights, &m->options, &m->engine, &e);
    assert(rc == 0);
}

void aid_model_close(struct model *m)
{
    if (m->engine)
        m->engine->ops->close(m->engine);
}
