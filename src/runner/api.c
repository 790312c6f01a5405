/* The public interface: include/cherenkov.h over model, conversation and generation. Every call
 * checks what it is given; a misuse is an error like any other. See api.h. */
#include "runner/api.h"

#include <string.h>

#include "base/mem.h"

static int read_options(const cherenkov_options *from, struct model_options *out,
                        struct draft_options *draft, struct err *e);
static int open_sequence(cherenkov *m, const cherenkov_sampling *sampling, cherenkov_sequence *s);
static int feed_text(cherenkov_sequence *s, const char *text, struct err *e);
static int feed_chat(cherenkov_sequence *s, const char *role, const char *content, struct err *e);
static int next(cherenkov_sequence *s, const char **text, struct err *e);
static int next_many(cherenkov *m, cherenkov_sequence *const *s, int n, const char **texts);
static void leave(cherenkov *m);

const char *cherenkov_version(void)
{
    return CHERENKOV_VERSION;
}

int cherenkov_open(const char *path, const cherenkov_options *options, cherenkov **out)
{
    struct err *e = err_of_thread();
    struct model *model = NULL;
    struct model_options o;
    struct draft_options draft;
    err_clear(e);
    if (!path || !out)
        return ERR(e, E_ARG, "cherenkov_open: path and out must not be NULL");
    *out = NULL;
    if (read_options(options, &o, &draft, e) || model_open(path, &o, &model, e))
        return -e->code;
    cherenkov *m = mem_zalloc(1, sizeof *m);
    if (!m) {
        model_close(model);
        return ERR(e, E_NOMEM, "no memory to open %s", path);
    }
    m->model = model;
    m->draft = draft;
    m->n_users = 1;
    *out = m;
    return 0;
}

void cherenkov_close(cherenkov *m)
{
    if (m)
        leave(m);
}

const char *cherenkov_error(const cherenkov *m)
{
    return m ? m->err.msg : err_of_thread()->msg;
}

int cherenkov_sequence_open(cherenkov *m, const cherenkov_sampling *sampling,
                            cherenkov_sequence **out)
{
    struct err *e = m ? &m->err : err_of_thread();
    err_clear(e);
    if (!m || !out)
        return ERR(e, E_ARG, "cherenkov_sequence_open: m and out must not be NULL");
    *out = NULL;
    cherenkov_sequence *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return ERR(e, E_NOMEM, "no memory for a sequence");
    if (open_sequence(m, sampling, s)) {
        mem_free(s);
        return -e->code;
    }
    *out = s;
    return 0;
}

void cherenkov_sequence_close(cherenkov_sequence *s)
{
    if (!s)
        return;
    generation_close(s->answer);
    if (s->kind == KIND_CHAT)
        conversation_free(&s->chat);
    tokens_free(&s->ids);
    buf_free(&s->text);
    buf_free(&s->given);
    s->m->model->engine->ops->sequence_close(s->seq);
    leave(s->m);
    mem_free(s);
}

int cherenkov_feed(cherenkov_sequence *s, const char *text)
{
    struct err *e = s ? &s->m->err : err_of_thread();
    err_clear(e);
    if (!s || !text)
        return ERR(e, E_ARG, "cherenkov_feed: s and text must not be NULL");
    return feed_text(s, text, e);
}

int cherenkov_feed_chat(cherenkov_sequence *s, const char *role, const char *content)
{
    struct err *e = s ? &s->m->err : err_of_thread();
    err_clear(e);
    if (!s || !role || !content)
        return ERR(e, E_ARG, "cherenkov_feed_chat: s, role and content must not be NULL");
    return feed_chat(s, role, content, e);
}

int cherenkov_next(cherenkov_sequence *s, const char **text)
{
    struct err *e = s ? &s->m->err : err_of_thread();
    err_clear(e);
    if (!s || !text)
        return ERR(e, E_ARG, "cherenkov_next: s and text must not be NULL");
    *text = NULL;
    return next(s, text, e);
}

int cherenkov_next_many(cherenkov_sequence *const *s, int n, const char **texts)
{
    cherenkov *m = s && n > 0 && s[0] ? s[0]->m : NULL;
    struct err *e = m ? &m->err : err_of_thread();
    err_clear(e);
    if (!m || !texts || n > BATCH_MAX)
        return ERR(e, E_ARG, "cherenkov_next_many: want 1 to %d sequences, and room for texts",
                   BATCH_MAX);
    for (int i = 0; i < n; i++) {
        texts[i] = NULL;
        if (!s[i] || s[i]->m != m)
            return ERR(e, E_ARG, "cherenkov_next_many: sequence %d is not one of the same model",
                       i);
        for (int k = 0; k < i; k++)
            if (s[k] == s[i])
                return ERR(e, E_ARG, "cherenkov_next_many: sequences %d and %d are the same one", k,
                           i);
    }
    return next_many(m, s, n, texts);
}

/* The caller's struct may be older and shorter than ours: what it lacks is zero, which means the
 * default. A longer one has fields that this library does not know. */
static int read_struct(const char *name, const void *from, size_t size, void *to, size_t want,
                       struct err *e)
{
    if (size < sizeof(size_t) || size > want)
        return ERR(e, E_ARG,
                   "%s.size is %zu and this library knows %zu bytes: set it to the sizeof of the "
                   "struct, and use header and library of one version",
                   name, size, want);
    memcpy(to, from, size);
    return 0;
}

static int read_options(const cherenkov_options *from, struct model_options *out,
                        struct draft_options *draft, struct err *e)
{
    cherenkov_options o = {0};
    if (from && read_struct("cherenkov_options", from, from->size, &o, sizeof o, e))
        return -e->code;
    if (o.drafts < -1 || o.drafts > ENGINE_DRAFTS_MAX)
        return ERR(e, E_ARG, "cherenkov_options.drafts is %d, want -1 (none) to %d", o.drafts,
                   ENGINE_DRAFTS_MAX);
    *draft = (struct draft_options){.most = o.drafts ? o.drafts : DRAFTS_DEFAULT};
    draft->most = o.drafts < 0 ? 0 : draft->most;
    *out = MODEL_OPTIONS;
    out->engine = o.engine;
    out->ctx = o.max_ctx;
    out->engine_options = (struct engine_options){
        .mtp_norm = -1,
        .drafts = draft->most > 0,
        .n_sequences = o.sequences,
        .threads = o.threads,
        .memory = o.memory,
        .pool_bytes = o.pool_bytes,
        .pool_slots = o.pool_slots,
        .pool = o.pool_map ? ENGINE_POOL_MAP : ENGINE_POOL_COPY,
        .chunk = o.prefill_chunk,
        .expert_bits = o.expert_bits,
        .miss_bits = o.miss_bits,
        .cut_weak = o.cut_weak,
    };
    return 0;
}

static void leave(cherenkov *m)
{
    if (--m->n_users > 0)
        return;
    batch_close(m->batch);
    model_close(m->model);
    mem_free(m);
}

static int read_sampling(const struct model *m, const cherenkov_sampling *from,
                         struct sample_options *out, struct err *e)
{
    cherenkov_sampling o = {.temperature = -1};
    *out = m->sample;
    if (from && read_struct("cherenkov_sampling", from, from->size, &o, sizeof o, e))
        return -e->code;
    out->seed = o.seed;
    if (o.temperature < 0)
        return 0;
    out->temperature = o.temperature;
    out->top_k = o.top_k;
    out->top_p = o.top_p;
    out->min_p = o.min_p;
    return sample_options_check(out, e);
}

static int open_sequence(cherenkov *m, const cherenkov_sampling *sampling, cherenkov_sequence *s)
{
    struct engine *g = m->model->engine;
    if (read_sampling(m->model, sampling, &s->sample, &m->err) ||
        g->ops->sequence_open(g, m->model->ctx, &s->seq, &m->err))
        return -m->err.code;
    s->m = m;
    m->n_users++;
    return 0;
}

/* After a failure nobody is sure of what the sequence holds: it starts over, and the ids, which are
 * all there, are fed again. */
static int drop_answer(cherenkov_sequence *s, int rc)
{
    generation_close(s->answer);
    s->answer = NULL;
    buf_clear(&s->text);
    if (rc)
        s->m->model->engine->ops->sequence_reset(s->seq);
    return rc;
}

int api_end_answer(cherenkov_sequence *s, struct err *e)
{
    struct generate_result r = {0};
    if (!s->answer)
        return 0;
    int rc = generation_end(s->answer, e);
    if (!rc)
        rc = generation_result(s->answer, &r, e);
    if (!rc && s->kind == KIND_CHAT)
        rc = conversation_answer(&s->chat, &r.ids, buf_str(&s->text), s->text.len, e);
    for (size_t i = 0; !rc && s->kind == KIND_TEXT && i < r.ids.n; i++)
        rc = tokens_push(&s->ids, r.ids.ids[i], e);
    tokens_free(&r.ids);
    return drop_answer(s, rc);
}

static int feed_text(cherenkov_sequence *s, const char *text, struct err *e)
{
    if (s->kind == KIND_CHAT)
        return ERR(e, E_ARG, "cherenkov_feed: this sequence is a chat; open another one for text");
    if (api_end_answer(s, e))
        return -e->code;
    const size_t before = s->ids.n;
    if (tokenizer_encode(s->m->model->tokenizer, text, strlen(text), false, &s->ids, e)) {
        s->ids.n = before;
        return -e->code;
    }
    s->kind = KIND_TEXT;
    s->prompted = s->ids.n > 0;
    return 0;
}

static int say(cherenkov_sequence *s, const char *role, const char *content, struct err *e)
{
    if (conversation_say(&s->chat, role, content, strlen(content), e))
        return -e->code;
    s->prompted = strcmp(role, "user") == 0;
    if (!s->prompted)
        return 0;
    json_t *set = json_pack("{s:b}", "enable_thinking", 0);
    int rc = set ? conversation_prompt(&s->chat, set, e) : ERR(e, E_NOMEM, "no memory to chat");
    json_decref(set);
    if (rc) {
        conversation_unsay(&s->chat);
        s->prompted = false;
    }
    return rc;
}

static int feed_chat(cherenkov_sequence *s, const char *role, const char *content, struct err *e)
{
    const bool system = strcmp(role, "system") == 0;
    if (s->kind == KIND_TEXT)
        return ERR(e, E_ARG,
                   "cherenkov_feed_chat: this sequence is a text; open another one to chat");
    if (!system && strcmp(role, "user") != 0)
        return ERR(e, E_ARG, "cherenkov_feed_chat: the role is '%s', want user or system", role);
    if (s->kind == KIND_FRESH && conversation_init(&s->chat, s->m->model, s->seq, e))
        return -e->code;
    s->kind = KIND_CHAT;
    if (system && json_array_size(s->chat.messages))
        return ERR(e, E_ARG, "cherenkov_feed_chat: a system message must come first");
    return api_end_answer(s, e) ? -e->code : say(s, role, content, e);
}

/* There is an answer that a token can be asked of. */
static int begin_answer(cherenkov_sequence *s, struct err *e)
{
    const struct generate_options o = {.sample = s->sample, .draft = s->m->draft};
    if (!s->prompted)
        return ERR(e, E_ARG, "cherenkov_next: nothing was fed that an answer could follow");
    if (s->answer)
        return 0;
    return generation_open(s->m->model, s->seq, s->kind == KIND_CHAT ? &s->chat.ids : &s->ids, &o,
                           &s->answer, e);
}

static int next(cherenkov_sequence *s, const char **text, struct err *e)
{
    size_t len;
    if (begin_answer(s, e))
        return -e->code;
    if (generation_next(s->answer, text, &len, e))
        return drop_answer(s, -e->code);
    if (*text)
        buf_add(&s->text, *text, len);
    return buf_check(&s->text, e);
}

/* All tokens that a step made. */
static int take_all(cherenkov_sequence *s, const char **text, struct err *e)
{
    const char *piece = NULL;
    buf_clear(&s->given);
    do {
        if (next(s, &piece, e))
            return -e->code;
        if (piece)
            buf_puts(&s->given, piece);
    } while (piece && generation_waiting(s->answer));
    *text = piece || s->given.len ? buf_str(&s->given) : NULL;
    return buf_check(&s->given, e);
}

static int batch_for(cherenkov *m, int n, struct err *e)
{
    if (n <= m->n_batch)
        return 0;
    batch_close(m->batch);
    m->batch = NULL;
    m->n_batch = 0;
    if (batch_open(m->model, n, m->draft.most, &m->batch, e))
        return -e->code;
    m->n_batch = n;
    return 0;
}

/* One sequence's failure is no other's; the first is the one reported. */
static int next_many(cherenkov *m, cherenkov_sequence *const *s, int n, const char **texts)
{
    struct generation *g[BATCH_MAX];
    bool failed[BATCH_MAX] = {false};
    int n_g = 0;
    struct err *e = &m->err;
    if (batch_for(m, n, e))
        return -e->code;
    for (int i = 0; i < n; i++) {
        failed[i] = begin_answer(s[i], e) != 0;
        if (!failed[i])
            g[n_g++] = s[i]->answer;
    }
    batch_run(m->batch, g, n_g);
    for (int i = 0; i < n; i++) {
        struct err own = {0};
        if (!failed[i] && take_all(s[i], &texts[i], &own) && !e->code)
            *e = own;
    }
    return -e->code;
}
