/* POST /v1/completions: a text that is continued as it is; see openai.h. */
#include "server/openai.h"

#include "server/asks.h"
#include "server/server_inside.h"

static const struct reply_form form;

void openai_text(struct server *s, struct exchange *x)
{
    openai_answer(s, x, openai_ask_text, &form, "cmpl-");
}

/* The older form: parallel arrays. Starts at entry `from`. */
static json_t *logprobs_of(const struct choice *c, size_t from)
{
    if (!c->logprobs)
        return json_null();
    json_t *tokens = json_array(), *values = json_array(), *tops = json_array();
    for (size_t i = from; i < json_array_size(c->logprobs); i++) {
        const json_t *p = json_array_get(c->logprobs, i),
                     *list = json_object_get(p, "top_logprobs");
        json_t *top = json_object();
        for (size_t k = 0; k < json_array_size(list); k++) {
            const json_t *q = json_array_get(list, k);
            json_object_set(top, json_string_value(json_object_get(q, "token")),
                            json_object_get(q, "logprob"));
        }
        json_array_append(tokens, json_object_get(p, "token"));
        json_array_append(values, json_object_get(p, "logprob"));
        json_array_append_new(tops, top);
    }
    return json_pack("{s:o, s:o, s:o, s:n}", "tokens", tokens, "token_logprobs", values,
                     "top_logprobs", tops, "text_offset");
}

static void send_chunk(struct choice *c, const char *piece, size_t len, const char *finish)
{
    json_t *choice =
        json_pack("{s:i, s:s%, s:o, s:s?}", "index", c->index, "text", piece, len, "logprobs",
                  logprobs_of(c, c->n_logprobs_sent), "finish_reason", finish);
    c->n_logprobs_sent = json_array_size(c->logprobs);
    openai_stream_choice(c, "text_completion", choice);
}

static void begin(struct reply *r)
{
    for (int i = 0; r->ask.echo && i < r->n_choices; i++)
        send_chunk(&r->choices[i], r->ask.text.data, r->ask.text.len, NULL);
}

static void text(struct choice *c, const char *piece, size_t len)
{
    send_chunk(c, piece, len, NULL);
}

static void choice_end(struct choice *c)
{
    send_chunk(c, "", 0, c->finish);
}

static void end(struct reply *r)
{
    openai_stream_end(r, "text_completion");
}

static json_t *whole_choice(const struct choice *c)
{
    const struct ask *a = &c->reply->ask;
    struct buf all = BUF_INIT;
    if (a->echo)
        buf_add(&all, a->text.data, a->text.len);
    buf_add(&all, buf_str(&c->text), c->text.len);
    json_t *v = json_pack("{s:i, s:s%, s:o, s:s}", "index", c->index, "text", buf_str(&all),
                          all.len, "logprobs", logprobs_of(c, 0), "finish_reason", c->finish);
    buf_free(&all);
    return v;
}

static json_t *whole(struct reply *r)
{
    return openai_whole(r, "text_completion", whole_choice);
}

static const struct reply_form form = {
    .type = TYPE_EVENTS,
    .idle = ": working\n\n",
    .begin = begin,
    .text = text,
    .choice_end = choice_end,
    .end = end,
    .fail = openai_stream_error,
    .last_words = openai_last_words,
    .whole = whole,
};
