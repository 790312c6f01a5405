/* /v1/responses: see openai.h. An answer is a list of items: the thinking, the text, calls.
 * Streamed, every item is added, grows and is done; the text stays open to the end, since it may go
 * on behind a call. What was answered is kept in server.responses, with all items before it, so
 * that the next request can go on from there. */
#include "server/openai.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "server/asks.h"
#include "server/items.h"
#include "server/server_inside.h"

#define ID_PREFIX "resp_"

enum { OPEN_THINKING = 1, OPEN_TEXT = 2 }; /* bits of choice.part_open */

void openai_responses(struct server *s, struct exchange *x)
{
    struct wrong w = {0};
    struct ask a;
    const char *id = NULL;
    json_t *body = api_body(x);
    if (!body)
        return;
    ask_init(&a, body);
    if (openai_ask_responses(&a, s->responses, &id, &w) || api_name(x, id, &w)) {
        ask_free(&a);
        api_fail(x, &w);
    } else if (!api_model(s, x, a.model)) {
        ask_free(&a);
    } else {
        reply_start(s, x, &a, &openai_responses_form, ID_PREFIX);
    }
}

/* --- what is stored --- */

static const char *id_of_path(const struct exchange *x)
{
    return exchange_path(x) + strlen("/v1/responses/");
}

void openai_response_get(struct server *s, struct exchange *x)
{
    struct wrong w = {0};
    json_t *stored;
    if (kept_get(s->responses, id_of_path(x), &stored, &w.e)) {
        api_fail(x, &w);
        return;
    }
    api_reply(x, 200, json_incref(json_object_get(stored, "response")));
    json_decref(stored);
}

void openai_response_delete(struct server *s, struct exchange *x)
{
    struct wrong w = {0};
    const char *id = id_of_path(x);
    if (kept_drop(s->responses, id)) {
        api_reply(x, 200,
                  json_pack("{s:s, s:s, s:b}", "id", id, "object", "response", "deleted", 1));
        return;
    }
    (void)ERR(&w.e, E_NOTFOUND, "there is no '%.80s' here, or not any more", id);
    api_fail(x, &w);
}

/* Ends one that runs; of one that is stored says why not. */
void openai_response_cancel(struct server *s, struct exchange *x)
{
    struct wrong w = {0};
    char id[ID_ROOM];
    json_t *stored = NULL;
    const char *path = id_of_path(x);
    snprintf(id, sizeof id, "%.*s", (int)strcspn(path, "/"), path);
    if (strncmp(id, ID_PREFIX, strlen(ID_PREFIX)) == 0 && atomic_load(&s->ready) &&
        schedule_cancel(s->schedule, id)) {
        api_reply(x, 200,
                  json_pack("{s:s, s:s, s:s, s:s, s:b, s:[]}", "id", id, "object", "response",
                            "status", "cancelled", "model", s->o.names[0], "background", 0,
                            "output"));
        return;
    }
    if (kept_get(s->responses, id, &stored, &w.e) == 0)
        (void)ERR(
            &w.e, E_ARG, "'%s' is over, with status %s: only a response that runs can be cancelled",
            id, json_string_value(json_object_get(json_object_get(stored, "response"), "status")));
    json_decref(stored);
    api_fail(x, &w);
}

static bool asks_for(const struct reply *r, const char *what)
{
    return json_is_true(json_object_get(r->ask.keep, what));
}

static bool is_whole(const struct choice *c)
{
    return c->finish && strcmp(c->finish, "cancelled") != 0;
}

/* Keeps a response that is over, for previous_response_id and references. */
static void store(struct reply *r, const json_t *response)
{
    struct err e = {0};
    json_t *items = json_object_get(r->ask.keep, "items");
    r->starved |= json_starved(); /* of the response: then it is not told either */
    if (r->starved || !asks_for(r, "store") || !is_whole(&r->choices[0]))
        return;
    json_array_extend(items, json_object_get(response, "output"));
    json_t *v = json_pack("{s:O, s:O}", "response", response, "items", items);
    if (json_starved()) {
        json_decref(v);
        v = NULL;
    }
    if (!v || kept_put(r->server->responses, r->id, v, &e))
        log_say(LOG_WARN, "%s is not stored: %s", r->id, v ? e.msg : "no memory");
    json_decref(v);
}

/* --- items --- */

static json_t *text_part(const char *type, const struct buf *text)
{
    return json_pack("{s:s, s:s%}", "type", type, "text", buf_str(text), text->len);
}

static json_t *message_part(const struct choice *c, const struct buf *text)
{
    json_t *part = text_part("output_text", text);
    json_object_set_new(part, "annotations", json_array());
    json_object_set_new(part, "logprobs",
                        c->logprobs && text->len ? json_incref(c->logprobs) : json_array());
    return part;
}

static const char *item_status(const struct choice *c, bool done)
{
    const bool cut = !c->finish || strcmp(c->finish, "length") == 0 || !is_whole(c);
    return !done ? "in_progress" : cut ? "incomplete" : "completed";
}

/* done: with what it has come to; else as it begins. */
static json_t *thinking_item(const struct choice *c, bool done)
{
    char id[ITEM_ID_ROOM];
    const bool summary = asks_for(c->reply, "summary");
    json_t *parts = json_array(), *none = json_array();
    items_id("rs", c->reply->id, 0, id);
    if (done)
        json_array_append_new(parts,
                              text_part(summary ? "summary_text" : "reasoning_text", &c->thinking));
    return json_pack("{s:s, s:s, s:s, s:o, s:o}", "id", id, "type", "reasoning", "status",
                     parts_thinking(&c->parts) || !done ? item_status(c, done) : "completed",
                     "summary", summary ? parts : none, "content", summary ? none : parts);
}

static json_t *text_item(const struct choice *c, bool done)
{
    char id[ITEM_ID_ROOM];
    json_t *content = json_array();
    items_id("msg", c->reply->id, c->text_item, id);
    if (done)
        json_array_append_new(content, message_part(c, &c->text));
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "id", id, "type", "message", "status",
                     item_status(c, done), "role", "assistant", "content", content);
}

/* A call's namespace, or NULL. */
static json_t *space_of(const struct choice *c, const struct reply_call *call)
{
    return json_object_get(json_object_get(c->reply->ask.keep, "spaces"), call->name);
}

/* Its name as the client has it: without the namespace. */
static const char *name_of(const struct choice *c, const struct reply_call *call)
{
    const json_t *space = space_of(c, call);
    return call->name + (space ? json_string_length(space) + strlen(ITEM_SPACE_END) : 0);
}

static json_t *call_item(const struct choice *c, const struct reply_call *call, bool done)
{
    char id[ITEM_ID_ROOM];
    items_id("fc", c->reply->id, call->item, id);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:O*, s:s%}", "id", id, "type", "function_call",
                     "status",
                     !done       ? "in_progress"
                     : call->cut ? "incomplete"
                                 : "completed",
                     "call_id", call->id, "name", name_of(c, call), "namespace", space_of(c, call),
                     "arguments", buf_str(&call->arguments), done ? call->arguments.len : 0);
}

/* An answer that said nothing at all has an empty text. */
static bool has_text(const struct choice *c)
{
    return c->text.len || (!c->n_calls && !c->thinking.len);
}

/* Where the items of an answer at once stand; streamed ones were numbered as they came. */
static void number_items(struct choice *c)
{
    c->n_parts = c->thinking.len > 0;
    c->text_item = has_text(c) ? c->n_parts++ : -1;
    for (int i = 0; i < c->n_calls; i++)
        c->calls[i].item = c->n_parts++;
}

static json_t *output(const struct choice *c)
{
    json_t *list = json_array();
    if (c->thinking.len)
        json_array_append_new(list, thinking_item(c, true));
    for (int i = 0; i < c->n_calls; i++)
        json_array_append_new(list, call_item(c, &c->calls[i], true));
    if (has_text(c) && c->text_item >= 0)
        json_array_insert_new(list, (size_t)c->text_item, text_item(c, true));
    return list;
}

/* --- the response --- */

static json_t *usage(const struct reply *r)
{
    const int prompt = reply_prompt_tokens(r), answer = reply_answer_tokens(r);
    return json_pack("{s:i, s:{s:i}, s:i, s:{s:i}, s:i}", "input_tokens", prompt,
                     "input_tokens_details", "cached_tokens", reply_cached_tokens(r),
                     "output_tokens", answer, "output_tokens_details", "reasoning_tokens",
                     reply_thinking_tokens(r), "total_tokens", prompt + answer);
}

static const char *response_status(const struct reply *r)
{
    const struct choice *c = &r->choices[0];
    if (r->failed)
        return "failed";
    if (!c->finish)
        return "in_progress";
    return !is_whole(c)                       ? "cancelled"
           : strcmp(c->finish, "length") == 0 ? "incomplete"
                                              : "completed";
}

/* What was asked for comes back as it was, or as it is when nothing was said. */
static void add_asked(const struct reply *r, json_t *v)
{
    static const struct {
        const char *name, *by_default;
    } fields[] = {
        {"instructions", "null"},
        {"max_output_tokens", "null"},
        {"metadata", "{}"},
        {"parallel_tool_calls", "true"},
        {"previous_response_id", "null"},
        {"reasoning", "{\"effort\": null, \"summary\": null}"},
        {"store", "true"},
        {"temperature", "null"},
        {"text", "{\"format\": {\"type\": \"text\"}}"},
        {"tool_choice", "\"auto\""},
        {"tools", "[]"},
        {"top_logprobs", "0"},
        {"top_p", "null"},
        {"user", "null"},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        json_t *asked = json_object_get(r->ask.body, fields[i].name);
        json_object_set_new(v, fields[i].name,
                            asked && !json_is_null(asked)
                                ? json_incref(asked)
                                : json_loads(fields[i].by_default, JSON_DECODE_ANY, NULL));
    }
}

/* items is taken over. */
static json_t *response(const struct reply *r, json_t *items)
{
    const char *status = response_status(r);
    json_t *v = json_pack("{s:s, s:s, s:I, s:s, s:s, s:b, s:n, s:n, s:n, s:o, s:s, s:s, s:n}", "id",
                          r->id, "object", "response", "created_at", (json_int_t)r->created,
                          "status", status, "model", r->server->o.names[0], "background", 0,
                          "error", "incomplete_details", "max_tool_calls", "output", items,
                          "truncation", "disabled", "service_tier", "default", "usage");
    add_asked(r, v);
    if (strcmp(status, "incomplete") == 0)
        json_object_set_new(v, "incomplete_details",
                            json_pack("{s:s}", "reason", "max_output_tokens"));
    if (r->choices[0].finish) {
        json_object_set_new(v, "completed_at", json_integer((json_int_t)clock_unix_s()));
        json_object_set_new(v, "usage", usage(r));
        json_object_set_new(v, "timings", reply_timings(r));
    }
    return v;
}

static json_t *whole(struct reply *r)
{
    number_items(&r->choices[0]);
    json_t *v = response(r, output(&r->choices[0]));
    store(r, v);
    return v;
}

/* --- streamed --- */

/* v is taken over. */
static void send(struct reply *r, const char *type, json_t *v)
{
    json_object_set_new(v, "type", json_string(type));
    json_object_set_new(v, "sequence_number", json_integer(r->n_events));
    reply_send(r, type, v);
    r->n_events += !r->starved;
}

static void send_response(struct reply *r, const char *type, json_t *items)
{
    send(r, type, json_pack("{s:o}", "response", response(r, items)));
}

static void send_item(struct choice *c, const char *type, int place, json_t *item)
{
    send(c->reply, type, json_pack("{s:i, s:o}", "output_index", place, "item", item));
}

/* An event of an item, of its only part if `part` names the index's field; more is taken over. */
static void send_piece(struct choice *c, const char *type, const char *prefix, int place,
                       const char *part, json_t *more)
{
    char id[ITEM_ID_ROOM];
    items_id(prefix, c->reply->id, place, id);
    json_object_set_new(more, "item_id", json_string(id));
    json_object_set_new(more, "output_index", json_integer(place));
    if (part)
        json_object_set_new(more, part, json_integer(0));
    send(c->reply, type, more);
}

static void begin(struct reply *r)
{
    r->choices[0].text_item = -1;
    send_response(r, "response.created", json_array());
    send_response(r, "response.in_progress", json_array());
}

/* The events of the thinking, as what was asked for. */
struct thinking_words {
    const char *type, *index, *added, *delta, *text_done, *part_done;
};

static const struct thinking_words *thinking_words(const struct choice *c)
{
    static const struct thinking_words plain = {
        "reasoning_text",
        "content_index",
        "response.content_part.added",
        "response.reasoning_text.delta",
        "response.reasoning_text.done",
        "response.content_part.done",
    };
    static const struct thinking_words summary = {
        "summary_text",
        "summary_index",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
    };
    return asks_for(c->reply, "summary") ? &summary : &plain;
}

static void thinking(struct choice *c, const char *text, size_t len)
{
    static const struct buf empty = BUF_INIT;
    const struct thinking_words *words = thinking_words(c);
    if (!(c->part_open & OPEN_THINKING)) {
        c->part_open |= OPEN_THINKING;
        c->n_parts++;
        send_item(c, "response.output_item.added", 0, thinking_item(c, false));
        send_piece(c, words->added, "rs", 0, words->index,
                   json_pack("{s:o}", "part", text_part(words->type, &empty)));
    }
    send_piece(c, words->delta, "rs", 0, words->index, json_pack("{s:s%}", "delta", text, len));
}

static void close_thinking(struct choice *c)
{
    const struct thinking_words *words = thinking_words(c);
    if (!(c->part_open & OPEN_THINKING))
        return;
    c->part_open &= ~OPEN_THINKING;
    send_piece(c, words->text_done, "rs", 0, words->index,
               json_pack("{s:s%}", "text", buf_str(&c->thinking), c->thinking.len));
    send_piece(c, words->part_done, "rs", 0, words->index,
               json_pack("{s:o}", "part", text_part(words->type, &c->thinking)));
    send_item(c, "response.output_item.done", 0, thinking_item(c, true));
}

static void open_text(struct choice *c)
{
    static const struct buf empty = BUF_INIT;
    if (c->part_open & OPEN_TEXT)
        return;
    close_thinking(c);
    c->part_open |= OPEN_TEXT;
    c->text_item = c->n_parts++;
    send_item(c, "response.output_item.added", c->text_item, text_item(c, false));
    send_piece(c, "response.content_part.added", "msg", c->text_item, "content_index",
               json_pack("{s:o}", "part", message_part(c, &empty)));
}

/* The logprobs that no event has had yet. */
static json_t *new_logprobs(struct choice *c)
{
    json_t *list = json_array();
    for (; c->n_logprobs_sent < json_array_size(c->logprobs); c->n_logprobs_sent++)
        json_array_append(list, json_array_get(c->logprobs, c->n_logprobs_sent));
    return list;
}

static void text(struct choice *c, const char *piece, size_t len)
{
    open_text(c);
    send_piece(c, "response.output_text.delta", "msg", c->text_item, "content_index",
               json_pack("{s:s%, s:o}", "delta", piece, len, "logprobs", new_logprobs(c)));
}

static void close_text(struct choice *c)
{
    if (!(c->part_open & OPEN_TEXT))
        return;
    c->part_open &= ~OPEN_TEXT;
    send_piece(c, "response.output_text.done", "msg", c->text_item, "content_index",
               json_pack("{s:s%, s:o}", "text", buf_str(&c->text), c->text.len, "logprobs",
                         c->logprobs ? json_incref(c->logprobs) : json_array()));
    send_piece(c, "response.content_part.done", "msg", c->text_item, "content_index",
               json_pack("{s:o}", "part", message_part(c, &c->text)));
    send_item(c, "response.output_item.done", c->text_item, text_item(c, true));
}

static void call_begin(struct choice *c, const struct reply_call *call)
{
    close_thinking(c);
    c->calls[call - c->calls].item = c->n_parts++;
    send_item(c, "response.output_item.added", call->item, call_item(c, call, false));
}

static void call_arguments(struct choice *c, const struct reply_call *call, const char *piece,
                           size_t len)
{
    send_piece(c, "response.function_call_arguments.delta", "fc", call->item, NULL,
               json_pack("{s:s%}", "delta", piece, len));
}

static void call_end(struct choice *c, const struct reply_call *call)
{
    send_piece(c, "response.function_call_arguments.done", "fc", call->item, NULL,
               json_pack("{s:s, s:s%}", "name", name_of(c, call), "arguments",
                         buf_str(&call->arguments), call->arguments.len));
    send_item(c, "response.output_item.done", call->item, call_item(c, call, true));
}

static void choice_end(struct choice *c)
{
    if (has_text(c))
        open_text(c);
    close_thinking(c);
    close_text(c);
}

static void end(struct reply *r)
{
    json_t *v = response(r, output(&r->choices[0]));
    store(r, v);
    send(r,
         strcmp(response_status(r), "completed") == 0 ? "response.completed"
                                                      : "response.incomplete",
         json_pack("{s:o}", "response", v));
}

static void fail(struct reply *r, int status, const struct err *why)
{
    json_t *v = response(r, output(&r->choices[0]));
    json_object_set_new(v, "status", json_string("failed"));
    json_object_set_new(v, "error",
                        json_pack("{s:s, s:s}", "code",
                                  status == 503 ? "rate_limit_exceeded" : "server_error", "message",
                                  why->msg));
    send(r, "response.failed", json_pack("{s:o}", "response", v));
}

static void last_words(const struct reply *r, char *to, size_t n)
{
    snprintf(
        to, n,
        "event: response.failed\ndata: {\"type\":\"response.failed\",\"sequence_number\":%d,"
        "\"response\":{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%ld,"
        "\"status\":\"failed\",\"error\":{\"code\":\"server_error\",\"message\":\"there was no "
        "memory for the rest of this answer: try again later\"},\"incomplete_details\":null,"
        "\"output\":[],\"usage\":null}}\n\n",
        r->n_events, r->id, r->created);
}

const struct reply_form openai_responses_form = {
    .type = TYPE_EVENTS,
    .idle = ": working\n\n",
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
