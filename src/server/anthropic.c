/* Answers in Anthropic's form: see anthropic.h. A message is a list of blocks, each of one kind;
 * streamed, every block begins, grows and ends. */
#include "server/anthropic.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "server/asks.h"
#include "server/server_inside.h"

enum { BLOCK_NONE, BLOCK_THINKING, BLOCK_TEXT, BLOCK_CALL };

static const struct reply_form form;

void anthropic_messages(struct server *s, struct exchange *x)
{
    struct wrong w = {0};
    struct ask a;
    json_t *body = api_body(x);
    if (!body)
        return;
    ask_init(&a, body);
    if (anthropic_ask(&a, false, &w)) {
        ask_free(&a);
        api_fail(x, &w);
    } else if (!api_model(s, x, a.model)) {
        ask_free(&a);
    } else {
        reply_start(s, x, &a, &form, "msg_");
    }
}

void anthropic_count(struct server *s, struct exchange *x)
{
    struct wrong w = {0};
    struct ask a;
    int n;
    json_t *body = api_body(x);
    if (!body)
        return;
    ask_init(&a, body);
    if (anthropic_ask(&a, true, &w) || reply_count(s, &a, &n, &w))
        api_fail(x, &w);
    else if (api_model(s, x, a.model))
        api_reply(x, 200, json_pack("{s:i}", "input_tokens", n));
    ask_free(&a);
}

/* --- shared --- */

static json_t *usage(const struct reply *r)
{
    const int cached = reply_cached_tokens(r);
    return json_pack("{s:i, s:i, s:i, s:i}", "input_tokens", reply_prompt_tokens(r) - cached,
                     "cache_creation_input_tokens", 0, "cache_read_input_tokens", cached,
                     "output_tokens", reply_answer_tokens(r));
}

static const char *stop_reason(const struct choice *c)
{
    static const char *const words[][2] = {
        {"stop", "end_turn"}, {"length", "max_tokens"}, {"tool_calls", "tool_use"}};
    if (c->ending.finish == FINISH_STOP && c->ending.stop_string >= 0)
        return "stop_sequence";
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i][0], c->finish) == 0)
            return words[i][1];
    return c->finish;
}

static const char *stop_sequence(const struct choice *c)
{
    const int i = c->ending.stop_string;
    return c->ending.finish == FINISH_STOP && i >= 0 ? c->reply->ask.stop[i] : NULL;
}

static json_t *message(const struct reply *r, json_t *content)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:n, s:n, s:o}", "id", r->id, "type", "message",
                     "role", "assistant", "model", r->server->o.names[0], "content", content,
                     "stop_reason", "stop_sequence", "usage", usage(r));
}

/* --- streamed --- */

static void begin(struct reply *r)
{
    reply_send(
        r, "message_start",
        json_pack("{s:s, s:o}", "type", "message_start", "message", message(r, json_array())));
}

static void close_block(struct choice *c)
{
    if (c->part_open == BLOCK_NONE)
        return;
    if (c->part_open == BLOCK_THINKING)
        reply_send(c->reply, "content_block_delta",
                   json_pack("{s:s, s:i, s:{s:s, s:s}}", "type", "content_block_delta", "index",
                             c->n_parts - 1, "delta", "type", "signature_delta", "signature", ""));
    reply_send(c->reply, "content_block_stop",
               json_pack("{s:s, s:i}", "type", "content_block_stop", "index", c->n_parts - 1));
    c->part_open = BLOCK_NONE;
}

/* block is taken over. */
static void open_block(struct choice *c, int kind, json_t *block)
{
    close_block(c);
    reply_send(c->reply, "content_block_start",
               json_pack("{s:s, s:i, s:o}", "type", "content_block_start", "index", c->n_parts,
                         "content_block", block));
    c->part_open = kind;
    c->n_parts++;
}

static void send_delta(struct choice *c, const char *type, const char *key, const char *text,
                       size_t len)
{
    reply_send(c->reply, "content_block_delta",
               json_pack("{s:s, s:i, s:{s:s, s:s%}}", "type", "content_block_delta", "index",
                         c->n_parts - 1, "delta", "type", type, key, text, len));
}

static void thinking(struct choice *c, const char *text, size_t len)
{
    if (c->part_open != BLOCK_THINKING)
        open_block(
            c, BLOCK_THINKING,
            json_pack("{s:s, s:s, s:s}", "type", "thinking", "thinking", "", "signature", ""));
    send_delta(c, "thinking_delta", "thinking", text, len);
}

static void text(struct choice *c, const char *piece, size_t len)
{
    if (c->part_open != BLOCK_TEXT)
        open_block(c, BLOCK_TEXT, json_pack("{s:s, s:s}", "type", "text", "text", ""));
    send_delta(c, "text_delta", "text", piece, len);
}

static void call_begin(struct choice *c, const struct reply_call *call)
{
    open_block(c, BLOCK_CALL,
               json_pack("{s:s, s:s, s:s, s:{}}", "type", "tool_use", "id", call->id, "name",
                         call->name, "input"));
}

static void call_arguments(struct choice *c, const struct reply_call *call, const char *piece,
                           size_t len)
{
    (void)call;
    send_delta(c, "input_json_delta", "partial_json", piece, len);
}

static void call_end(struct choice *c, const struct reply_call *call)
{
    (void)call;
    close_block(c);
}

/* An answer that said nothing at all has an empty text: clients look for one. */
static bool says_nothing(const struct choice *c)
{
    return !c->text.len && !c->n_calls && !c->thinking.len;
}

static void choice_end(struct choice *c)
{
    if (says_nothing(c))
        open_block(c, BLOCK_TEXT, json_pack("{s:s, s:s}", "type", "text", "text", ""));
    close_block(c);
    reply_send(c->reply, "message_delta",
               json_pack("{s:s, s:{s:s, s:s?}, s:o}", "type", "message_delta", "delta",
                         "stop_reason", stop_reason(c), "stop_sequence", stop_sequence(c), "usage",
                         usage(c->reply)));
}

static void end(struct reply *r)
{
    reply_send(r, "message_stop", json_pack("{s:s}", "type", "message_stop"));
}

static void fail(struct reply *r, int status, const struct err *why)
{
    const struct wrong w = {.e = *why};
    reply_send(r, "error", api_error(exchange_path(r->exchange), status, &w));
}

static void last_words(const struct reply *r, char *to, size_t n)
{
    snprintf(to, n, "event: error\ndata: %s\n\n", api_starved(exchange_path(r->exchange)));
}

/* --- at once --- */

static json_t *call_block(const struct reply_call *call)
{
    json_t *input = NULL;
    struct err e = {0};
    if (json_parse(buf_str(&call->arguments), call->arguments.len, "arguments", &input, &e))
        input = json_object();
    return json_pack("{s:s, s:s, s:s, s:o}", "type", "tool_use", "id", call->id, "name", call->name,
                     "input", input);
}

static json_t *whole(struct reply *r)
{
    const struct choice *c = &r->choices[0];
    json_t *content = json_array();
    if (c->thinking.len)
        json_array_append_new(content,
                              json_pack("{s:s, s:s%, s:s}", "type", "thinking", "thinking",
                                        c->thinking.data, c->thinking.len, "signature", ""));
    if (c->text.len || says_nothing(c))
        json_array_append_new(content, json_pack("{s:s, s:s%}", "type", "text", "text",
                                                 buf_str(&c->text), c->text.len));
    for (int i = 0; i < c->n_calls; i++)
        json_array_append_new(content, call_block(&c->calls[i]));
    json_t *v = message(r, content);
    json_object_set_new(v, "stop_reason", json_string(stop_reason(c)));
    if (stop_sequence(c))
        json_object_set_new(v, "stop_sequence", json_string(stop_sequence(c)));
    return v;
}

static const struct reply_form form = {
    .type = TYPE_EVENTS,
    .idle = "event: ping\ndata: {\"type\": \"ping\"}\n\n",
    .begin = begin,
    .thinking = thinking,
    .text = text,
    .call_begin = call_begin,
    .call_arguments = call_arguments,
    .call_end = call_end,
    .choice_end = choice_end,
    .end = end,
    .fail = fail,
    .last_words = last_words,
    .whole = whole,
};
