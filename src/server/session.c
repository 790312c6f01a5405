/* Sessions: see session.h. A session is {"id", "created_at", "turns", "messages"}, and of its last
 * turn {"settings", "text", "ids"}: what the prompt was rendered with, and what was fed and
 * said. */
#include "server/session.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "server/messages.h"
#include "server/server_inside.h"

#define IM_END    "<|im_end|>"
#define USER_OPEN "<|im_start|>user\n"

struct fields_of_session {
    const json_t *messages;
};

static const struct field fields[] = {
    {"messages", FIELD_VALUE, offsetof(struct fields_of_session, messages), 0, 0, NULL, NULL},
    {NULL, FIELD_HINT, 0, 0, 0, NULL, NULL},
};

/* --- endpoints --- */

/* What clients see of one. */
static json_t *view(const json_t *v)
{
    return json_pack("{s:O, s:s, s:O, s:O, s:O}", "id", json_object_get(v, "id"), "object",
                     "session", "created_at", json_object_get(v, "created_at"), "turns",
                     json_object_get(v, "turns"), "messages", json_object_get(v, "messages"));
}

/* A new session with the messages of the body; for json_decref. */
static json_t *make(json_t *body, struct wrong *w)
{
    struct fields_of_session f = {0};
    struct ask a;
    char id[ID_ROOM];
    ask_init(&a, json_incref(body));
    int rc = fields_read(fields, body, "", &f, w);
    if (!rc && f.messages)
        rc = messages_read(&a, f.messages, "messages", w);
    json_t *v = rc ? NULL
                   : json_pack("{s:s, s:I, s:i, s:o}", "id", id_make("session-", ID_LONG, id),
                               "created_at", (json_int_t)clock_unix_s(), "turns", 0, "messages",
                               a.messages ? json_incref(a.messages) : json_array());
    if (!rc && !v)
        (void)WRONG(w, E_NOMEM, "", "no memory for a session");
    ask_free(&a);
    return v;
}

void session_create(struct server *s, struct exchange *x)
{
    struct wrong w = {0};
    json_t *body = exchange_body(x)->len ? api_body(x) : json_object();
    if (!body)
        return;
    json_t *v = make(body, &w);
    if (!v || kept_put(s->sessions, json_string_value(json_object_get(v, "id")), v, &w.e))
        api_fail(x, &w);
    else
        api_reply(x, 200, view(v));
    json_decref(v);
    json_decref(body);
}

static const char *id_of_path(const struct exchange *x)
{
    return exchange_path(x) + strlen("/v1/sessions/");
}

void session_get(struct server *s, struct exchange *x)
{
    struct wrong w = {0};
    json_t *v;
    if (kept_get(s->sessions, id_of_path(x), &v, &w.e)) {
        api_fail(x, &w);
        return;
    }
    api_reply(x, 200, view(v));
    json_decref(v);
}

void session_delete(struct server *s, struct exchange *x)
{
    struct wrong w = {0};
    const char *id = id_of_path(x);
    if (kept_drop(s->sessions, id)) {
        api_reply(x, 200,
                  json_pack("{s:s, s:s, s:b}", "id", id, "object", "session", "deleted", 1));
        return;
    }
    (void)ERR(&w.e, E_NOTFOUND, "there is no '%.80s' here, or not any more", id);
    api_fail(x, &w);
}

/* --- a turn's beginning --- */

static bool is_system(const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    return role && strcmp(role, "system") == 0;
}

int session_begin(struct reply *r, struct wrong *w)
{
    struct ask *a = &r->ask;
    struct err e = {0};
    if (kept_claim(r->server->sessions, a->session, &r->session, &r->session_claim, &e))
        return WRONG(w, e.code, "session_id", "session_id: %s", e.msg);
    json_t *history = json_object_get(r->session, "messages");
    if (json_array_size(history) && is_system(json_array_get(a->messages, 0)))
        return WRONG(w, E_FORMAT, "messages",
                     "messages: the system message of a session comes first, with POST "
                     "/v1/sessions or the first turn; this one has begun");
    json_t *all = json_copy(history);
    if (!all || json_array_extend(all, a->messages)) {
        json_decref(all);
        return WRONG(w, E_NOMEM, "", "no memory for the messages");
    }
    json_decref(a->messages);
    a->messages = all;
    return 0;
}

static json_t *settings_of(const json_t *tools, const json_t *variables)
{
    return json_pack("{s:O?, s:O?}", "tools", tools, "variables", variables);
}

/* The history as the template has it when nothing follows, or (asked) an empty message of the
 * user's. Fails where a template wants more. */
static int render_history(const struct reply *r, const json_t *tools, const json_t *variables,
                          bool asked, struct buf *out)
{
    struct err e = {0};
    json_t *v = json_copy((json_t *)variables);
    json_t *messages = json_copy(json_object_get(r->session, "messages"));
    int rc = !v || json_object_set_new(v, "add_generation_prompt", json_false()) || !messages;
    if (!rc && asked)
        rc =
            json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "user", "content", ""));
    if (!rc)
        rc = chat_render(r->server->model->chat, messages, tools, v, out, &e);
    json_decref(messages);
    json_decref(v);
    return rc;
}

static bool ends_with(const struct buf *text, const char *with)
{
    const size_t n = strlen(with);
    return text->len >= n && memcmp(text->data + text->len - n, with, n) == 0;
}

/* What of the rendered text is new: behind the first n bytes of the history. NULL: the text begins
 * in another way. */
static const char *behind(const struct buf *all, const struct buf *history, size_t n)
{
    return n < all->len && memcmp(all->data, history->data, n) == 0 ? all->data + n : NULL;
}

/* What of the rendered text is new. Templates may show the history in another way once a message of
 * the user's follows (the thinking of earlier turns goes): then it is what stands from that message
 * on. NULL: neither is so, and the text is to be fed as it is. */
static const char *new_text(const struct reply *r, const json_t *tools, const json_t *variables)
{
    static const char empty[] = USER_OPEN IM_END "\n";
    const struct buf *all = &r->ask.text;
    struct buf history = BUF_INIT;
    const char *fresh = NULL;
    if (render_history(r, tools, variables, false, &history) == 0 &&
        ends_with(&history, IM_END "\n"))
        fresh = behind(all, &history, history.len);
    buf_clear(&history);
    if (!fresh && render_history(r, tools, variables, true, &history) == 0 &&
        ends_with(&history, empty))
        fresh = behind(all, &history, history.len - strlen(empty));
    if (fresh && history.len && strncmp(fresh, USER_OPEN, strlen(USER_OPEN)) != 0)
        fresh = NULL;
    buf_free(&history);
    return fresh;
}

/* ids as they were, and those of what is new. */
static int continue_ids(struct reply *r, const char *more, size_t len, struct err *e)
{
    struct tokens *ids = &r->ask.ids;
    const json_t *list = json_object_get(r->session, "ids"), *id;
    size_t i;
    json_array_foreach(list, i, id)
        if (tokens_push(ids, (int32_t)json_integer_value(id), e))
            return -e->code;
    const struct model *m = r->server->model;
    return tokenizer_encode_most(m->tokenizer, more, len, (size_t)m->ctx, ids, e);
}

/* a->text becomes what was fed and said, and what is new; the last turn ended with IM_END. */
static int continue_text(struct reply *r, const char *fresh, struct err *e)
{
    struct ask *a = &r->ask;
    struct buf text = BUF_INIT;
    const json_t *said = json_object_get(r->session, "text");
    const size_t n = json_string_length(said);
    buf_add(&text, json_string_value(said), n);
    buf_putc(&text, '\n');
    buf_add(&text, fresh, (size_t)(a->text.data + a->text.len - fresh));
    if (buf_check(&text, e) || continue_ids(r, text.data + n, text.len - n, e)) {
        buf_free(&text);
        return -e->code;
    }
    buf_free(&a->text);
    a->text = text;
    return 0;
}

int session_prompt(struct reply *r, const json_t *tools, const json_t *variables, struct err *e)
{
    json_t *settings = settings_of(tools, variables);
    int rc = settings ? 0 : ERR(e, E_NOMEM, "no memory for the prompt");
    const bool same = json_equal(settings, json_object_get(r->session, "settings"));
    const char *fresh = NULL;
    if (!rc && same && json_object_get(r->session, "text"))
        fresh = new_text(r, tools, variables);
    if (fresh)
        rc = continue_text(r, fresh, e);
    if (!rc)
        rc = json_object_set(r->session, "settings", settings)
                 ? ERR(e, E_NOMEM, "no memory for the prompt")
                 : 0;
    json_decref(settings);
    return rc;
}

/* --- its end --- */

static json_t *answer(const struct choice *c)
{
    json_t *m =
        json_pack("{s:s, s:s%}", "role", "assistant", "content", buf_str(&c->text), c->text.len);
    json_t *calls = c->n_calls ? json_array() : NULL;
    for (int i = 0; i < c->n_calls; i++) {
        const struct reply_call *k = &c->calls[i];
        json_t *args = NULL;
        struct err e = {0};
        if (json_parse(buf_str(&k->arguments), k->arguments.len, "arguments", &args, &e))
            args = json_object();
        json_array_append_new(calls,
                              json_pack("{s:s, s:s, s:{s:s, s:o}}", "type", "function", "id", k->id,
                                        "function", "name", k->name, "arguments", args));
    }
    if (c->thinking.len)
        json_object_set_new(m, "reasoning_content",
                            json_stringn(c->thinking.data, c->thinking.len));
    if (calls)
        json_object_set_new(m, "tool_calls", calls);
    return m;
}

static json_t *ids_of(const struct tokens *prompt, const struct tokens *said)
{
    json_t *list = json_array();
    for (size_t i = 0; i < prompt->n; i++)
        json_array_append_new(list, json_integer(prompt->ids[i]));
    for (size_t i = 0; i < said->n; i++)
        json_array_append_new(list, json_integer(said->ids[i]));
    return list;
}

/* Text and ids for the next turn, if this one ended as messages do; else it begins anew. */
static int keep_said(struct reply *r, struct err *e)
{
    const struct choice *c = &r->choices[0];
    struct buf text = BUF_INIT;
    const size_t end = strlen(IM_END);
    buf_add(&text, r->ask.text.data, r->ask.text.len);
    int rc = tokenizer_decode(r->server->model->tokenizer, c->said.ids, c->said.n, false, &text, e);
    if (!rc)
        rc = buf_check(&text, e);
    json_object_del(r->session, "text");
    json_object_del(r->session, "ids");
    if (!rc && c->ending.finish == FINISH_STOP && c->ending.stop_string < 0 && text.len >= end &&
        memcmp(text.data + text.len - end, IM_END, end) == 0) {
        json_object_set_new(r->session, "text", json_stringn(text.data, text.len));
        json_object_set_new(r->session, "ids", ids_of(&r->ask.ids, &c->said));
    }
    buf_free(&text);
    return rc;
}

int session_commit(struct reply *r, struct err *e)
{
    const struct choice *c = &r->choices[0];
    const uint64_t claim = r->session_claim;
    if (!claim || atomic_load(&r->gone) || strcmp(c->finish, "cancelled") == 0)
        return 0;
    const json_int_t turns = json_integer_value(json_object_get(r->session, "turns"));
    if (keep_said(r, e))
        return -e->code;
    if (json_array_append_new(r->ask.messages, answer(c)) ||
        json_object_set(r->session, "messages", r->ask.messages) ||
        json_object_set_new(r->session, "turns", json_integer(turns + 1)))
        return ERR(e, E_NOMEM, "no memory for the session");
    r->session_claim = 0;
    if (kept_end(r->server->sessions, claim, r->session, e))
        return err_prefix(e, "this turn was not added to the session");
    return 0;
}

void session_release(struct reply *r)
{
    struct err ignored = {0};
    if (r->session_claim)
        (void)kept_end(r->server->sessions, r->session_claim, NULL, &ignored);
    r->session_claim = 0;
    json_decref(r->session);
    r->session = NULL;
}
