/* The course of an answer, on the pump's thread: see reply.h. */
#include "server/reply_inside.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "server/session.h"

enum { CALLS_MAX = 256 };

void reply_free(struct reply *r)
{
    for (int i = 0; i < r->n_choices; i++) {
        struct choice *c = &r->choices[i];
        for (int k = 0; k < c->n_calls; k++) {
            mem_free(c->calls[k].name);
            buf_free(&c->calls[k].arguments);
        }
        mem_free(c->calls);
        guide_close(c->guide);
        parts_free(&c->parts);
        tokens_free(&c->said);
        buf_free(&c->text);
        buf_free(&c->thinking);
        json_decref(c->logprobs);
    }
    mem_free(r->choices);
    guides_return(r->server->guides, r->grammar);
    mem_free(r->state);
    session_release(r);
    if (r->has_tools)
        toolset_free(&r->tools);
    ask_free(&r->ask);
    mem_free(r);
}

/* --- pieces --- */

static bool shown(const struct reply *r)
{
    return r->ask.stream && !r->failed;
}

static void on_thinking(void *ctx, const char *text, size_t len)
{
    struct choice *c = ctx;
    buf_add(&c->thinking, text, len);
    if (shown(c->reply) && c->reply->form->thinking)
        c->reply->form->thinking(c, text, len);
}

static void begin_call(struct choice *c, const struct toolcall_event *event)
{
    struct reply_call *calls = mem_realloc(c->calls, sizeof *calls * ((size_t)c->n_calls + 1));
    if (!calls || c->n_calls == CALLS_MAX) {
        c->text.failed = true; /* found when the token is done */
        c->calls = calls ? calls : c->calls;
        return;
    }
    c->calls = calls;
    struct reply_call *call = &calls[c->n_calls];
    *call = (struct reply_call){.name = mem_strndup(event->text, event->len)};
    c->text.failed |= !call->name;
    id_make("call_", ID_SHORT, call->id);
    c->n_calls++;
    if (call->name && shown(c->reply) && c->reply->form->call_begin)
        c->reply->form->call_begin(c, call);
}

static void on_call(void *ctx, const struct toolcall_event *event)
{
    struct choice *c = ctx;
    const struct reply_form *f = c->reply->form;
    const bool show = shown(c->reply);
    struct reply_call *call = c->n_calls ? &c->calls[c->n_calls - 1] : NULL;
    if (c->text.failed || c->enough) /* behind the one call that was asked for nothing counts */
        return;
    switch (event->kind) {
    case TOOLCALL_TEXT:
        buf_add(&c->text, event->text, event->len);
        if (show && f->text)
            f->text(c, event->text, event->len);
        break;
    case TOOLCALL_BEGIN:
        begin_call(c, event);
        break;
    case TOOLCALL_ARGUMENTS:
        assert(call);
        buf_add(&call->arguments, event->text, event->len);
        if (show && f->call_arguments)
            f->call_arguments(c, call, event->text, event->len);
        break;
    case TOOLCALL_END:
        assert(call);
        call->ended = true;
        call->cut = event->cut;
        if (!c->reply->ask.parallel_tools && c->ticket) {
            c->enough = true;
            ticket_cancel(c->ticket);
        }
        if (show && f->call_end)
            f->call_end(c, call);
        break;
    }
}

const struct parts_events reply_events = {NULL, on_thinking, on_call};

/* --- logprobs --- */

/* {"token", "logprob", "bytes"}. */
static json_t *token_object(const struct model *m, const struct sample_logprob *p)
{
    size_t n;
    struct buf text = BUF_INIT;
    struct err e = {0};
    const char *bytes = tokenizer_bytes(m->tokenizer, p->id, &n);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer((unsigned char)bytes[i]));
    (void)tokenizer_decode(m->tokenizer, &p->id, 1, false, &text, &e);
    json_t *v = json_pack("{s:s%, s:f, s:o}", "token", buf_str(&text), text.len, "logprob",
                          p->logprob, "bytes", list);
    buf_free(&text);
    return v;
}

static void add_logprobs(struct choice *c, const struct sample_logprobs *p)
{
    const struct model *m = c->reply->server->model;
    json_t *v = token_object(m, &p->chosen), *top = json_array();
    for (int i = 0; i < p->n_top; i++)
        json_array_append_new(top, token_object(m, &p->top[i]));
    json_object_set_new(v, "top_logprobs", top);
    json_array_append_new(c->logprobs, v);
}

/* --- events --- */

/* Whether something else than the model ended the answer. */
static bool was_cut(const struct choice *c)
{
    return c->ending.finish != FINISH_STOP || c->ending.stop_string >= 0;
}

/* unfinished: a call was open when the answer was cut. */
static const char *finish_word(const struct choice *c, bool unfinished)
{
    switch (c->ending.finish) {
    case FINISH_LENGTH:
        return "length";
    case FINISH_INTERRUPTED:
        return c->enough ? "tool_calls" : "cancelled";
    default:
        return c->n_calls && !unfinished ? "tool_calls" : "stop";
    }
}

static int take_token(struct choice *c, const struct event *v, struct err *e)
{
    if (c->reply->failed)
        return 0;
    const bool thinking = parts_thinking(&c->parts);
    c->n_thinking += thinking;
    if (c->logprobs && v->logprobs && !v->is_stop && !thinking)
        add_logprobs(c, v->logprobs);
    if (c->reply->session && tokens_push(&c->said, v->id, e))
        return -e->code;
    if (v->len && parts_push(&c->parts, v->text, v->len, e))
        return -e->code;
    return buf_check(&c->text, e) ? -e->code : buf_check(&c->thinking, e);
}

static void close_ticket(struct choice *c)
{
    ticket_close(c->ticket);
    c->ticket = NULL;
    c->reply->n_ended++;
}

static int take_end(struct choice *c, const struct event *v, struct err *e)
{
    c->ending = *v->ending;
    close_ticket(c);
    if (c->reply->failed)
        return 0;
    if (c->ending.finish == FINISH_NONE) {
        *e = c->ending.err;
        return -e->code;
    }
    const bool cut = was_cut(c);
    const bool unfinished = cut && c->n_calls && !c->calls[c->n_calls - 1].ended;
    if (cut)
        parts_cut(&c->parts, ask_must_call(&c->reply->ask));
    if (parts_finish(&c->parts, e) || buf_check(&c->text, e))
        return -e->code;
    c->finish = finish_word(c, unfinished);
    if (shown(c->reply) && c->reply->form->choice_end)
        c->reply->form->choice_end(c);
    return 0;
}

static int advance_choice(struct choice *c, struct err *e)
{
    struct event v;
    while (c->ticket && ticket_take(c->ticket, &v)) {
        const int rc = v.kind == EVENT_TOKEN ? take_token(c, &v, e) : take_end(c, &v, e);
        if (rc)
            return rc;
    }
    return 0;
}

static void cancel(struct reply *r)
{
    r->cancelled = true;
    for (int i = 0; i < r->n_choices; i++)
        if (r->choices[i].ticket)
            ticket_cancel(r->choices[i].ticket);
}

/* Tells the client, once its session is free for the next turn, and gives up the other choices. */
static void fail(struct reply *r, const struct err *why)
{
    struct wrong w = {.e = *why};
    session_release(r);
    if (!r->failed && r->ask.stream && r->form->fail)
        r->form->fail(r, api_status(why->code), why);
    if (!r->failed && !r->ask.stream)
        api_fail(r->exchange, &w);
    r->failed = true;
    cancel(r);
}

/* The same where some of the answer could not be made. */
static void fail_starved(struct reply *r)
{
    struct err e = {0};
    if (r->ask.stream && r->starved) { /* its last words are in place */
        r->failed = true;
        cancel(r);
        return;
    }
    (void)ERR(&e, E_NOMEM, "there was no memory for the rest of this answer: try again later");
    fail(r, &e);
}

static void finish(struct reply *r)
{
    struct exchange *x = r->exchange;
    char note[HTTP_NOTE_MAX + 1];
    struct err e = {0};
    snprintf(note, sizeof note, "tokens %d in (%d cached), %d out", reply_prompt_tokens(r),
             reply_cached_tokens(r), reply_answer_tokens(r));
    exchange_set_note(x, note);
    if (!r->failed && session_commit(r, &e))
        fail(r, &e);
    session_release(r); /* of a turn that was cancelled: before the client is told */
    if (r->ask.stream) {
        if (!r->failed && r->form->end)
            r->form->end(r);
        exchange_end(x);
    } else if (!r->failed) {
        json_t *v = r->form->whole(r);
        if (r->starved) {
            json_decref(v);
            v = NULL;
        }
        api_reply(x, 200, v);
    }
    pump_end(r->server->pump, r);
    exchange_release(x); /* r may be gone */
}

void reply_advance(struct reply *r)
{
    struct err e = {0};
    (void)json_starved(); /* what was of another answer */
    if (atomic_load(&r->gone) && !r->cancelled)
        cancel(r);
    for (int i = 0; i < r->n_choices; i++)
        while (advance_choice(&r->choices[i], &e)) /* once failed, the rest is taken and dropped */
            fail(r, &e);
    if ((json_starved() || r->starved) && !r->failed)
        fail_starved(r);
    if (r->n_ended == r->n_choices)
        finish(r);
}

/* --- for forms --- */

/* From now on nothing is sent but the last words. */
static void starve(struct reply *r)
{
    char last[HTTP_LAST_MAX + 1];
    r->starved = true;
    r->form->last_words(r, last, sizeof last);
    exchange_starve(r->exchange, last);
}

void reply_write(struct reply *r, const void *data, size_t n)
{
    if (r->starved || json_starved())
        starve(r);
    else if (!exchange_write(r->exchange, data, n) && !exchange_is_gone(r->exchange))
        starve(r);
}

static void send_text(struct reply *r, struct buf *line)
{
    if (line->failed)
        starve(r);
    else
        reply_write(r, line->data, line->len);
    buf_free(line);
}

void reply_send(struct reply *r, const char *event, json_t *v)
{
    struct buf line = BUF_INIT;
    struct err e = {0};
    if (event)
        buf_printf(&line, "event: %s\n", event);
    buf_puts(&line, "data: ");
    line.failed |= json_print(v, JSON_COMPACT, &line, &e) != 0;
    buf_puts(&line, "\n\n");
    json_decref(v);
    send_text(r, &line);
}

void reply_send_line(struct reply *r, json_t *v)
{
    struct buf line = BUF_INIT;
    struct err e = {0};
    line.failed |= json_print(v, JSON_COMPACT, &line, &e) != 0;
    buf_putc(&line, '\n');
    json_decref(v);
    send_text(r, &line);
}

int reply_prompt_tokens(const struct reply *r)
{
    return (int)r->ask.ids.n;
}

int reply_cached_tokens(const struct reply *r)
{
    return r->choices[0].ending.n_cached;
}

int reply_answer_tokens(const struct reply *r)
{
    int n = 0;
    for (int i = 0; i < r->n_choices; i++)
        n += r->choices[i].ending.n_generated;
    return n;
}

int reply_thinking_tokens(const struct reply *r)
{
    int n = 0;
    for (int i = 0; i < r->n_choices; i++)
        n += r->choices[i].n_thinking;
    return n;
}

static double per_second(double n, double seconds)
{
    return seconds > 0 ? n / seconds : 0;
}

json_t *reply_timings(const struct reply *r)
{
    double queue = 0, prefill = 0, decode = 0;
    int drafted = 0, accepted = 0, steps = 0;
    for (int i = 0; i < r->n_choices; i++) {
        const struct ending *d = &r->choices[i].ending;
        queue = d->queue_s > queue ? d->queue_s : queue;
        prefill += d->prefill_s;
        decode = d->decode_s > decode ? d->decode_s : decode;
        drafted += d->n_drafted;
        accepted += d->n_accepted;
        steps += d->n_steps;
    }
    const int cached = reply_cached_tokens(r), fed = reply_prompt_tokens(r) - cached;
    const int made = reply_answer_tokens(r);
    return json_pack("{s:i, s:i, s:f, s:f, s:i, s:f, s:f, s:i, s:i, s:i, s:f}", "cache_n", cached,
                     "prompt_n", fed, "prompt_ms", prefill * 1e3, "prompt_per_second",
                     per_second(fed, prefill), "predicted_n", made, "predicted_ms", decode * 1e3,
                     "predicted_per_second", per_second(made, decode), "draft_n", drafted,
                     "draft_n_accepted", accepted, "steps", steps, "queue_ms", queue * 1e3);
}
