/* POST /v1/chat/completions: see openai.h. */
#include "server/openai.h"

#include "server/asks.h"
#include "server/server_inside.h"

static const struct reply_form form;

void openai_chat(struct server *s, struct exchange *x)
{
    openai_answer(s, x, openai_ask_chat, &form, "chatcmpl-");
}

/* --- streamed --- */

/* A chunk with one choice; delta is taken over, finish may be NULL. */
static void send_chunk(struct choice *c, json_t *delta, const char *finish)
{
    json_t *choice =
        json_pack("{s:i, s:o, s:s?}", "index", c->index, "delta", delta, "finish_reason", finish);
    if (c->logprobs && json_array_size(c->logprobs) > 0) {
        json_object_set_new(choice, "logprobs",
                            json_pack("{s:O, s:n}", "content", c->logprobs, "refusal"));
        json_decref(c->logprobs);
        c->logprobs = json_array();
    }
    openai_stream_choice(c, "chat.completion.chunk", choice);
}

static void begin(struct reply *r)
{
    for (int i = 0; i < r->n_choices; i++)
        send_chunk(&r->choices[i], json_pack("{s:s, s:s}", "role", "assistant", "content", ""),
                   NULL);
}

static void thinking(struct choice *c, const char *text, size_t len)
{
    send_chunk(c, json_pack("{s:s%}", "reasoning_content", text, len), NULL);
}

static void text(struct choice *c, const char *piece, size_t len)
{
    send_chunk(c, json_pack("{s:s%}", "content", piece, len), NULL);
}

static void call_begin(struct choice *c, const struct reply_call *call)
{
    send_chunk(c,
               json_pack("{s:[{s:i, s:s, s:s, s:{s:s, s:s}}]}", "tool_calls", "index",
                         (int)(call - c->calls), "id", call->id, "type", "function", "function",
                         "name", call->name, "arguments", ""),
               NULL);
}

static void call_arguments(struct choice *c, const struct reply_call *call, const char *piece,
                           size_t len)
{
    send_chunk(c,
               json_pack("{s:[{s:i, s:{s:s%}}]}", "tool_calls", "index", (int)(call - c->calls),
                         "function", "arguments", piece, len),
               NULL);
}

static void choice_end(struct choice *c)
{
    send_chunk(c, json_object(), c->finish);
}

static void end(struct reply *r)
{
    openai_stream_end(r, "chat.completion.chunk");
}

/* --- at once --- */

static json_t *calls_of(const struct choice *c)
{
    json_t *calls = json_array();
    for (int i = 0; i < c->n_calls; i++) {
        const struct reply_call *k = &c->calls[i];
        json_array_append_new(calls, json_pack("{s:s, s:s, s:{s:s, s:s%}}", "id", k->id, "type",
                                               "function", "function", "name", k->name, "arguments",
                                               buf_str(&k->arguments), k->arguments.len));
    }
    return calls;
}

static json_t *message(const struct choice *c)
{
    json_t *m = json_pack("{s:s, s:n}", "role", "assistant", "refusal");
    json_object_set_new(m, "content",
                        c->text.len || !c->n_calls ? json_stringn(buf_str(&c->text), c->text.len)
                                                   : json_null());
    if (c->thinking.len)
        json_object_set_new(m, "reasoning_content",
                            json_stringn(c->thinking.data, c->thinking.len));
    if (c->n_calls)
        json_object_set_new(m, "tool_calls", calls_of(c));
    return m;
}

static json_t *whole_choice(const struct choice *c)
{
    json_t *logprobs =
        c->logprobs ? json_pack("{s:O, s:n}", "content", c->logprobs, "refusal") : json_null();
    return json_pack("{s:i, s:o, s:o, s:s}", "index", c->index, "message", message(c), "logprobs",
                     logprobs, "finish_reason", c->finish);
}

static json_t *whole(struct reply *r)
{
    return openai_whole(r, "chat.completion", whole_choice);
}

static const struct reply_form form = {
    .type = TYPE_EVENTS,
    .idle = ": working\n\n",
    .begin = begin,
    .thinking = thinking,
    .text = text,
    .call_begin = call_begin,
    .call_arguments = call_arguments,
    .choice_end = choice_end,
    .end = end,
    .fail = openai_stream_error,
    .last_words = openai_last_words,
    .whole = whole,
};
