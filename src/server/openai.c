/* What OpenAI's endpoints share: see openai.h. */
#include "server/openai.h"

#include <stdio.h>
#include <string.h>

#include "server/asks.h"
#include "server/server_inside.h"

json_t *openai_usage(const struct reply *r)
{
    const int prompt = reply_prompt_tokens(r), answer = reply_answer_tokens(r);
    return json_pack("{s:i, s:i, s:i, s:{s:i}, s:{s:i}}", "prompt_tokens", prompt,
                     "completion_tokens", answer, "total_tokens", prompt + answer,
                     "prompt_tokens_details", "cached_tokens", reply_cached_tokens(r),
                     "completion_tokens_details", "reasoning_tokens", reply_thinking_tokens(r));
}

/* {"id", "object", "created", "model", ...}: what every body begins with. choices is taken over. */
static json_t *body(const struct reply *r, const char *object, json_t *choices)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", r->id, "object", object, "created",
                     (json_int_t)r->created, "model", r->server->o.names[0], "system_fingerprint",
                     "cherenkov", "choices", choices);
}

static void add_usage(const struct reply *r, json_t *v)
{
    json_object_set_new(v, "usage", openai_usage(r));
    json_object_set_new(v, "timings", reply_timings(r));
}

void openai_stream_choice(struct choice *c, const char *object, json_t *choice)
{
    json_t *v = body(c->reply, object, json_pack("[o]", choice));
    if (c->reply->ask.stream_usage)
        json_object_set_new(v, "usage", json_null());
    reply_send(c->reply, NULL, v);
}

void openai_stream_end(struct reply *r, const char *object)
{
    static const char done[] = "data: [DONE]\n\n";
    if (r->ask.stream_usage) {
        json_t *v = body(r, object, json_array());
        add_usage(r, v);
        reply_send(r, NULL, v);
    }
    reply_write(r, done, strlen(done));
}

json_t *openai_whole(struct reply *r, const char *object, json_t *(*choice)(const struct choice *c))
{
    json_t *choices = json_array();
    for (int i = 0; i < r->n_choices; i++)
        json_array_append_new(choices, choice(&r->choices[i]));
    json_t *v = body(r, object, choices);
    add_usage(r, v);
    return v;
}

void openai_stream_error(struct reply *r, int status, const struct err *why)
{
    const struct wrong w = {.e = *why};
    reply_send(r, NULL, api_error(exchange_path(r->exchange), status, &w));
}

void openai_last_words(const struct reply *r, char *to, size_t n)
{
    snprintf(to, n, "data: %s\n\n", api_starved(exchange_path(r->exchange)));
}

void openai_answer(struct server *s, struct exchange *x,
                   int (*read)(struct ask *a, const char **id, struct wrong *w),
                   const struct reply_form *form, const char *id_prefix)
{
    struct wrong w = {0};
    struct ask a;
    const char *id = NULL;
    json_t *body = api_body(x);
    if (!body)
        return;
    ask_init(&a, body);
    if (read(&a, &id, &w) || api_name(x, id, &w)) {
        ask_free(&a);
        api_fail(x, &w);
    } else if (!api_model(s, x, a.model)) {
        ask_free(&a);
    } else {
        reply_start(s, x, &a, form, id_prefix);
    }
}

/* --- models --- */

/* OpenAI's fields, and Anthropic's behind them: both have this path. */
static json_t *model_object(const struct server *s, const char *name)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:s, s:o}", "id", name, "object", "model",
                     "created", (json_int_t)s->opened_unix_s, "owned_by", "cherenkov", "type",
                     "model", "display_name", name, "created_at", api_date(s->opened_unix_s));
}

void openai_models(struct server *s, struct exchange *x)
{
    json_t *list = json_array();
    for (int i = 0; i < s->o.n_names; i++)
        json_array_append_new(list, model_object(s, s->o.names[i]));
    api_reply(x, 200,
              json_pack("{s:s, s:o, s:b, s:s, s:s}", "object", "list", "data", list, "has_more", 0,
                        "first_id", s->o.names[0], "last_id", s->o.names[s->o.n_names - 1]));
}

void openai_model(struct server *s, struct exchange *x)
{
    const char *name = exchange_path(x) + strlen("/v1/models/");
    if (api_model(s, x, name))
        api_reply(x, 200, model_object(s, name));
}
