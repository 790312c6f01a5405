/* Answers in Ollama's form: see ollama.h. A stream is a line of JSON for each piece. */
#include "server/ollama.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "server/asks.h"
#include "server/server_inside.h"

#define LATEST ":latest"

/* The release of Ollama whose API this is like. Clients ask for it and refuse older ones. */
#define OLLAMA_VERSION "0.13.4"

static const struct reply_form chat_form, generate_form;

/* --- shared --- */

static json_t *head(const struct server *s)
{
    return json_pack("{s:s, s:o}", "model", s->o.names[0], "created_at", api_date(clock_unix_s()));
}

/* What the last line says besides. */
static void add_end(json_t *v, const struct reply *r)
{
    const struct choice *c = &r->choices[0];
    const struct ending *d = &c->ending;
    const double total = d->queue_s + d->prefill_s + d->decode_s;
    json_object_set_new(v, "done", json_true());
    json_object_set_new(v, "done_reason",
                        json_string(strcmp(c->finish, "tool_calls") == 0 ? "stop" : c->finish));
    json_object_set_new(v, "total_duration", json_integer((json_int_t)(total * 1e9)));
    json_object_set_new(v, "load_duration", json_integer(0));
    json_object_set_new(v, "prompt_eval_count", json_integer(reply_prompt_tokens(r)));
    json_object_set_new(v, "prompt_eval_duration", json_integer((json_int_t)(d->prefill_s * 1e9)));
    json_object_set_new(v, "eval_count", json_integer(reply_answer_tokens(r)));
    json_object_set_new(v, "eval_duration", json_integer((json_int_t)(d->decode_s * 1e9)));
}

static json_t *call_object(const struct reply_call *call)
{
    json_t *args = NULL;
    struct err e = {0};
    if (json_parse(buf_str(&call->arguments), call->arguments.len, "arguments", &args, &e))
        args = json_object();
    return json_pack("{s:s, s:{s:s, s:o}}", "id", call->id, "function", "name", call->name,
                     "arguments", args);
}

static void fail(struct reply *r, int status, const struct err *why)
{
    (void)status;
    reply_send_line(r, json_pack("{s:s}", "error", why->msg));
}

static void last_words(const struct reply *r, char *to, size_t n)
{
    snprintf(to, n, "%s\n", api_starved(exchange_path(r->exchange)));
}

/* A request without anything to answer: the model is there. */
static void answer_empty(struct server *s, struct exchange *x, bool chat)
{
    json_t *v = head(s);
    if (chat)
        json_object_set_new(v, "message",
                            json_pack("{s:s, s:s}", "role", "assistant", "content", ""));
    else
        json_object_set_new(v, "response", json_string(""));
    json_object_set_new(v, "done", json_true());
    json_object_set_new(v, "done_reason", json_string("load"));
    api_reply(x, 200, v);
}

static void answer(struct server *s, struct exchange *x, bool chat)
{
    struct wrong w = {0};
    struct ask a;
    bool empty;
    json_t *body = api_body(x);
    if (!body)
        return;
    ask_init(&a, body);
    const int rc = chat ? ollama_ask_chat(&a, &empty, &w) : ollama_ask_generate(&a, &empty, &w);
    if (rc)
        api_fail(x, &w);
    else if (api_model(s, x, a.model)) {
        if (!empty) {
            reply_start(s, x, &a, chat ? &chat_form : &generate_form, "");
            return;
        }
        answer_empty(s, x, chat);
    }
    ask_free(&a);
}

void ollama_chat(struct server *s, struct exchange *x)
{
    answer(s, x, true);
}

void ollama_generate(struct server *s, struct exchange *x)
{
    answer(s, x, false);
}

/* --- chat --- */

/* A line with this message, which is taken over. */
static void send_message(struct reply *r, json_t *message)
{
    json_t *v = head(r->server);
    json_object_set_new(v, "message", message);
    json_object_set_new(v, "done", json_false());
    reply_send_line(r, v);
}

static void chat_thinking(struct choice *c, const char *text, size_t len)
{
    send_message(c->reply, json_pack("{s:s, s:s, s:s%}", "role", "assistant", "content", "",
                                     "thinking", text, len));
}

static void chat_text(struct choice *c, const char *text, size_t len)
{
    send_message(c->reply, json_pack("{s:s, s:s%}", "role", "assistant", "content", text, len));
}

/* Calls come whole. */
static void chat_call_end(struct choice *c, const struct reply_call *call)
{
    send_message(c->reply, json_pack("{s:s, s:s, s:[o]}", "role", "assistant", "content", "",
                                     "tool_calls", call_object(call)));
}

static void chat_end(struct reply *r)
{
    json_t *v = head(r->server);
    json_object_set_new(v, "message", json_pack("{s:s, s:s}", "role", "assistant", "content", ""));
    add_end(v, r);
    reply_send_line(r, v);
}

static json_t *chat_whole(struct reply *r)
{
    const struct choice *c = &r->choices[0];
    json_t *v = head(r->server), *calls = json_array();
    json_t *m =
        json_pack("{s:s, s:s%}", "role", "assistant", "content", buf_str(&c->text), c->text.len);
    if (c->thinking.len)
        json_object_set_new(m, "thinking", json_stringn(c->thinking.data, c->thinking.len));
    for (int i = 0; i < c->n_calls; i++)
        json_array_append_new(calls, call_object(&c->calls[i]));
    if (c->n_calls)
        json_object_set(m, "tool_calls", calls);
    json_decref(calls);
    json_object_set_new(v, "message", m);
    add_end(v, r);
    return v;
}

static const struct reply_form chat_form = {
    .type = TYPE_LINES,
    .thinking = chat_thinking,
    .text = chat_text,
    .call_end = chat_call_end,
    .end = chat_end,
    .fail = fail,
    .last_words = last_words,
    .whole = chat_whole,
};

/* --- generate --- */

static void send_piece(struct reply *r, const char *key, const char *text, size_t len)
{
    json_t *v = head(r->server);
    json_object_set_new(v, "response", json_string(""));
    json_object_set_new(v, key, json_stringn(text, len));
    json_object_set_new(v, "done", json_false());
    reply_send_line(r, v);
}

static void generate_thinking(struct choice *c, const char *text, size_t len)
{
    send_piece(c->reply, "thinking", text, len);
}

static void generate_text(struct choice *c, const char *text, size_t len)
{
    send_piece(c->reply, "response", text, len);
}

static void generate_end(struct reply *r)
{
    json_t *v = head(r->server);
    json_object_set_new(v, "response", json_string(""));
    add_end(v, r);
    reply_send_line(r, v);
}

static json_t *generate_whole(struct reply *r)
{
    const struct choice *c = &r->choices[0];
    json_t *v = head(r->server);
    json_object_set_new(v, "response", json_stringn(buf_str(&c->text), c->text.len));
    if (c->thinking.len)
        json_object_set_new(v, "thinking", json_stringn(c->thinking.data, c->thinking.len));
    add_end(v, r);
    return v;
}

static const struct reply_form generate_form = {
    .type = TYPE_LINES,
    .thinking = generate_thinking,
    .text = generate_text,
    .end = generate_end,
    .fail = fail,
    .last_words = last_words,
    .whole = generate_whole,
};

/* --- about the model --- */

static json_t *details(void)
{
    return json_pack("{s:s, s:s, s:[s], s:s, s:s, s:s}", "parent_model", "", "family", "qwen4exp",
                     "families", "qwen4exp", "format", "cherenkov", "parameter_size", "",
                     "quantization_level", "Q4");
}

void ollama_tags(struct server *s, struct exchange *x)
{
    json_t *list = json_array();
    for (int i = 0; i < s->o.n_names; i++) {
        char name[256];
        snprintf(name, sizeof name, "%.200s" LATEST, s->o.names[i]);
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:o, s:i, s:s, s:o}", "name", name, "model",
                                        name, "modified_at", api_date(s->opened_unix_s), "size", 0,
                                        "digest", "", "details", details()));
    }
    api_reply(x, 200, json_pack("{s:o}", "models", list));
}

struct show_request {
    const char *model;
    bool verbose;
};

static const struct field show_fields[] = {
    {"model", FIELD_STRING, offsetof(struct show_request, model), 0, 0, NULL, NULL},
    {"name", FIELD_STRING, offsetof(struct show_request, model), 0, 0, NULL, NULL},
    {"verbose", FIELD_BOOL, offsetof(struct show_request, verbose), 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};

/* What the model's template can show. */
static json_t *capabilities(const struct server *s)
{
    const bool ready = atomic_load(&s->ready);
    json_t *list = json_pack("[s]", "completion");
    if (ready && s->can.tools)
        json_array_append_new(list, json_string("tools"));
    if (ready && s->can.thinking)
        json_array_append_new(list, json_string("thinking"));
    return list;
}

void ollama_show(struct server *s, struct exchange *x)
{
    struct wrong w = {0};
    struct show_request q = {0};
    json_t *body = api_body(x);
    if (!body)
        return;
    if (fields_read(show_fields, body, "", &q, &w)) {
        api_fail(x, &w);
    } else if (api_model(s, x, q.model)) {
        const int ctx = atomic_load(&s->ready) ? s->model->ctx : 0;
        api_reply(x, 200,
                  json_pack("{s:s, s:s, s:s, s:o, s:{s:s, s:i}, s:o, s:o}", "modelfile", "",
                            "parameters", "", "template", "", "details", details(), "model_info",
                            "general.architecture", "qwen4exp", "qwen4exp.context_length", ctx,
                            "capabilities", capabilities(s), "modified_at",
                            api_date(s->opened_unix_s)));
    }
    json_decref(body);
}

static const struct field pull_fields[] = {
    {"model", FIELD_STRING, offsetof(struct show_request, model), 0, 0, NULL, NULL},
    {"name", FIELD_STRING, offsetof(struct show_request, model), 0, 0, NULL, NULL},
    {"stream", FIELD_HINT, 0, 0, 0, NULL, NULL},   /* one line either way */
    {"insecure", FIELD_HINT, 0, 0, 0, NULL, NULL}, /* nothing is fetched */
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};

/* Clients pull what they are about to use: that is done where the model is here. */
void ollama_pull(struct server *s, struct exchange *x)
{
    struct wrong w = {0};
    struct show_request q = {0};
    struct buf line = BUF_INIT;
    json_t *body = api_body(x);
    if (!body)
        return;
    if (fields_read(pull_fields, body, "", &q, &w)) {
        api_fail(x, &w);
    } else if (api_model(s, x, q.model)) {
        buf_puts(&line, "{\"status\":\"success\"}\n");
        exchange_reply(x, 200, TYPE_LINES, &line);
    }
    buf_free(&line);
    json_decref(body);
}

void ollama_version(struct server *s, struct exchange *x)
{
    (void)s;
    api_reply(x, 200, json_pack("{s:s}", "version", OLLAMA_VERSION));
}
