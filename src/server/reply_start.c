/* The beginning of an answer: prompt, tickets, hand-over to the pump; see reply.h. Runs on the
 * connection's thread. */
#include "server/reply_inside.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "server/session.h"

#define THINK_OPEN "<think>\n"
#define LOADING    "the model is being loaded; try again in a moment"

static void on_gone(void *ctx)
{
    struct reply *r = ctx;
    atomic_store(&r->gone, true);
    pump_wake(r->server->pump, r, true);
}

static void on_drop(void *ctx)
{
    reply_free(ctx);
}

static void on_wake(void *ctx, bool at_once)
{
    struct reply *r = ctx;
    pump_wake(r->server->pump, r, at_once);
}

static const struct exchange_owner owner = {on_gone, on_drop};

/* enable_thinking, reasoning_effort, and what the request sets besides. For json_decref. */
static json_t *variables(const struct ask *a, bool thinking)
{
    json_t *v = json_pack("{s:b}", "enable_thinking", (int)thinking);
    if (v && a->effort && thinking)
        json_object_set_new(v, "reasoning_effort", json_string(a->effort));
    if (v && a->variables)
        json_object_update(v, a->variables);
    return v;
}

/* The messages as text, in a->text. */
static int render(struct reply *r, const struct ask_defaults *d, struct wrong *w)
{
    struct err *e = &w->e;
    struct ask *a = &r->ask;
    const struct model *m = r->server->model;
    const bool thinking = a->thinking < 0 ? d->thinking : a->thinking;
    if (!m->chat)
        return ERR(e, E_UNSUPPORTED,
                   "this model has no chat template: only /v1/completions and "
                   "/api/generate with raw can be used");
    json_t *v = variables(a, thinking);
    const json_t *tools = a->tool_choice == ASK_TOOLS_NONE ? NULL : a->tools;
    int rc = v ? chat_render(m->chat, a->messages, tools, v, &a->text, e)
               : ERR(e, E_NOMEM, "no memory for the prompt");
    if (rc)
        rc = wrong_field(w, a->prompt_field);
    if (!rc && r->session)
        rc = session_prompt(r, tools, v, e);
    json_decref(v);
    const size_t n = strlen(THINK_OPEN);
    r->thinking =
        !rc && a->text.len >= n && memcmp(a->text.data + a->text.len - n, THINK_OPEN, n) == 0;
    return rc;
}

/* As generation_check does it, in words for who cannot change the server; and that there is room
 * for what is asked for: an answer is never shorter than it was asked to be without a word.
 * "prompt is too long: N tokens > N" and "exceed context limit: N + N > N" are the words that
 * clients look for: they then shorten the conversation, or ask for less. */
static int check_length(const struct reply *r, struct wrong *w)
{
    const struct ask *a = &r->ask;
    const size_t n = a->ids.n;
    const int ctx = r->server->model->ctx;
    const bool cut = n > (size_t)ctx && a->text.len; /* what came behind was not encoded */
    if (n >= (size_t)ctx)
        return WRONG(w, E_LIMIT, a->prompt_field,
                     "%s: prompt is too long: %s%zu tokens > %d, as this server's context holds "
                     "%d, answer included: shorten it",
                     a->prompt_field, cut ? "at least " : "", n, ctx - 1, ctx);
    if (a->max_tokens > ctx - (int64_t)n)
        return WRONG(w, E_LIMIT, a->max_field,
                     "%s: input length and `%s` exceed context limit: %zu + %lld > %d: ask for %zu "
                     "at most",
                     a->max_field, a->max_field, n, (long long)a->max_tokens, ctx, (size_t)ctx - n);
    return 0;
}

/* Ids that are none of the model's are found here, before anything is sent. */
static int check_ids(const struct reply *r, struct wrong *w)
{
    const struct ask *a = &r->ask;
    const struct model *m = r->server->model;
    const int n = model_tokens(m);
    for (int i = 0; i < a->n_bias; i++)
        if (a->bias[i].id >= n)
            return WRONG(w, E_ARG, "logit_bias",
                         "logit_bias: there is no token %d; the model's ids are 0 to %d",
                         (int)a->bias[i].id, n - 1);
    return generation_check(m, &a->ids, &w->e) ? wrong_field(w, a->prompt_field) : 0;
}

/* The prompt as ids; where it has more than `most`, more than `most` of them. */
static int encode(struct reply *r, const struct ask_defaults *d, size_t most, struct wrong *w)
{
    struct ask *a = &r->ask;
    if (a->messages && render(r, d, w))
        return -w->e.code;
    if (!a->ids.n &&
        schedule_encode(r->server->schedule, buf_str(&a->text), a->text.len, most, &a->ids, &w->e))
        return wrong_field(w, a->prompt_field);
    return 0;
}

static int make_prompt(struct reply *r, const struct ask_defaults *d, struct wrong *w)
{
    if (encode(r, d, (size_t)r->server->model->ctx, w) || check_length(r, w))
        return -w->e.code;
    return check_ids(r, w);
}

static int most_tokens(const struct ask *a, const struct ask_defaults *d)
{
    return a->max_tokens == ASK_TOKENS_ALL ? 0
                                           : (int)(a->max_tokens ? a->max_tokens : d->max_tokens);
}

/* Gives the request of each choice to the scheduler. */
static int submit(struct reply *r, const struct ask_defaults *d, struct err *e)
{
    const struct ask *a = &r->ask;
    struct request q = {
        .name = exchange_id(r->exchange),
        .answer = r->id,
        .prompt = a->ids.ids,
        .n_prompt = a->ids.n,
        .text = a->messages ? a->text.data : NULL,
        .text_len = a->messages ? a->text.len : 0,
        .shared = r->n_choices > 1,
        .fresh = a->no_cache,
        .max_tokens = most_tokens(a, d),
        .stop = a->stop,
        .n_stop = a->n_stop,
        .ignore_stop_ids = a->ignore_eos,
        .logprobs = a->logprobs,
        .top_logprobs = (int)a->top_logprobs,
        .drafts = -1,
        .wake = on_wake,
        .wake_ctx = r,
    };
    ask_sample(a, d, r->server->model, &q.sample);
    if (sample_options_check(&q.sample, e))
        return -e->code;
    for (int i = 0; i < r->n_choices; i++) {
        struct guide *guide = r->choices[i].guide;
        q.constraint = guide ? guide_constraint(guide) : NULL;
        if (schedule_submit(r->server->schedule, &q, &r->choices[i].ticket, e))
            return -e->code;
        q.sample.seed++;
    }
    return 0;
}

int reply_count(struct server *s, struct ask *a, int *n, struct wrong *w)
{
    const struct ask_defaults d = server_defaults(s);
    struct reply r = {.server = s, .ask = *a};
    if (!atomic_load(&s->ready))
        return ERR(&w->e, E_BUSY, "%s", LOADING);
    int rc = encode(&r, &d, INT32_MAX, w);
    if (!rc && json_starved())
        rc = ERR(&w->e, E_NOMEM, "no memory for this request");
    *a = r.ask;
    *n = (int)a->ids.n;
    return rc;
}

static int init_choice(struct reply *r, int index, struct err *e)
{
    struct choice *c = &r->choices[index];
    struct parts_events on = reply_events;
    on.ctx = c;
    c->reply = r;
    c->index = index;
    if (r->ask.logprobs)
        c->logprobs = json_array();
    if (!r->ask.messages)
        parts_init_raw(&c->parts, &on);
    else if (parts_init(&c->parts, &on, r->has_tools ? &r->tools : NULL, r->thinking, e))
        return -e->code;
    return guides_guide(r->server->guides, r->grammar, &r->ask, r->thinking, &c->guide, e);
}

static int init_choices(struct reply *r, struct err *e)
{
    const int n = (int)r->ask.n;
    r->choices = mem_zalloc((size_t)n, sizeof *r->choices);
    if (!r->choices)
        return ERR(e, E_NOMEM, "no memory for %d choices", n);
    while (r->n_choices < n)
        if (init_choice(r, r->n_choices++, e))
            return -e->code;
    return 0;
}

static int start(struct reply *r, struct wrong *w)
{
    const struct ask_defaults d = server_defaults(r->server);
    struct err *e = &w->e;
    if (!atomic_load(&r->server->ready))
        return ERR(e, E_BUSY, "%s", LOADING);
    if (r->ask.session && session_begin(r, w))
        return -e->code;
    if (r->ask.tools && r->ask.tool_choice != ASK_TOOLS_NONE) {
        if (toolset_init(&r->tools, r->ask.tools, e))
            return wrong_field(w, "tools");
        r->has_tools = true;
    }
    if (make_prompt(r, &d, w) ||
        guides_lend(r->server->guides, &r->ask, r->has_tools ? &r->tools : NULL, r->thinking,
                    &r->grammar, w) ||
        init_choices(r, e))
        return -e->code;
    if (json_starved()) /* something of it may have been left out */
        return ERR(e, E_NOMEM, "no memory for this request");
    return submit(r, &d, e);
}

static struct reply *make(struct server *s, struct exchange *x, struct ask *a,
                          const struct reply_form *f, const char *id_prefix)
{
    struct reply *r = mem_zalloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->server = s;
    r->exchange = x;
    r->form = f;
    r->ask = *a;
    r->created = (long)clock_unix_s();
    id_make(id_prefix, ID_LONG, r->id);
    return r;
}

static void close_tickets(struct reply *r)
{
    for (int i = 0; i < r->n_choices; i++)
        if (r->choices[i].ticket)
            ticket_close(r->choices[i].ticket);
}

void reply_start(struct server *s, struct exchange *x, struct ask *a, const struct reply_form *f,
                 const char *id_prefix)
{
    struct wrong w = {0};
    struct reply *r = make(s, x, a, f, id_prefix);
    if (!r) {
        (void)WRONG(&w, E_NOMEM, "", "no memory for this request");
        ask_free(a);
        api_fail(x, &w);
        return;
    }
    *a = (struct ask){0};
    if (start(r, &w)) {
        close_tickets(r);
        reply_free(r); /* a session is free before the client is told */
        api_fail(x, &w);
        return;
    }
    exchange_keep(x);
    if (r->ask.stream) {
        exchange_stream(x, f->type, f->idle);
        if (f->begin)
            f->begin(r);
    }
    exchange_attach(x, &owner, r);
    pump_begin(s->pump, r);
}
