/* What all endpoints share: see api.h. */
#include "server/server_inside.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/log.h"

struct status {
    int status;
    const char *openai, *code, *anthropic; /* OpenAI's type and code, Anthropic's type */
};

static const struct status statuses[] = {
    {400, "invalid_request_error", NULL, "invalid_request_error"},
    {401, "authentication_error", "invalid_api_key", "authentication_error"},
    {403, "permission_error", "forbidden", "permission_error"},
    {404, "not_found_error", "not_found", "not_found_error"},
    {405, "invalid_request_error", "method_not_allowed", "invalid_request_error"},
    {409, "conflict_error", "conflict", "invalid_request_error"},
    {413, "invalid_request_error", "request_too_large", "request_too_large"},
    {415, "invalid_request_error", "unsupported_media_type", "invalid_request_error"},
    {501, "invalid_request_error", "not_implemented", "invalid_request_error"},
    {503, "overloaded_error", "overloaded", "overloaded_error"},
    {500, "server_error", "server_error", "api_error"},
};

static const struct status *find(int status)
{
    const struct status *s = statuses;
    while (s->status != status && s->status != 500)
        s++;
    return s;
}

int api_status(int code)
{
    switch (code) {
    case E_ARG:
    case E_FORMAT:
    case E_LIMIT:
    case E_UNSUPPORTED:
        return 400;
    case E_NOTFOUND:
        return 404;
    case E_EXISTS:
        return 409;
    case E_BUSY:
    case E_NOMEM:
        return 503;
    default:
        return 500;
    }
}

static bool begins(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

/* Whether a field is about how long prompt and answer are together. */
static bool is_length(const char *param)
{
    static const char *const names[] = {
        "messages", "prompt", "input", "max_tokens", "max_completion_tokens", "max_output_tokens"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], param) == 0)
            return true;
    return false;
}

static const char *openai_code(const struct status *s, const struct wrong *w)
{
    if (s->status != 400)
        return s->code;
    return w->e.code == E_LIMIT && is_length(w->param) ? "context_length_exceeded"
           : w->e.code == E_UNSUPPORTED                ? "unsupported_value"
                                                       : "invalid_value";
}

json_t *api_error(const char *path, int status, const struct wrong *w)
{
    const struct status *s = find(status);
    if (begins(path, "/api/"))
        return json_pack("{s:s}", "error", w->e.msg);
    if (begins(path, "/v1/messages"))
        return json_pack("{s:s, s:{s:s, s:s}}", "type", "error", "error", "type", s->anthropic,
                         "message", w->e.msg);
    return json_pack("{s:{s:s, s:s, s:s?, s:s?}}", "error", "message", w->e.msg, "type", s->openai,
                     "param", *w->param ? w->param : NULL, "code", openai_code(s, w));
}

#define STARVED "there was no memory for this request: try again later"

const char *api_starved(const char *path)
{
    if (begins(path, "/api/"))
        return "{\"error\":\"" STARVED "\"}";
    if (begins(path, "/v1/messages"))
        return "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"" STARVED
               "\"}}";
    return "{\"error\":{\"message\":\"" STARVED "\",\"type\":\"overloaded_error\",\"param\":null,"
           "\"code\":\"overloaded\"}}";
}

void api_reply(struct exchange *x, int status, json_t *v)
{
    struct buf body = BUF_INIT;
    struct err e = {0};
    body.failed |= !v || json_print(v, JSON_COMPACT, &body, &e) != 0 || json_starved();
    json_decref(v);
    exchange_reply(x, status, TYPE_JSON, &body);
    buf_free(&body);
}

void api_refuse(struct exchange *x, int status, const struct wrong *w)
{
    if (status == 503)
        exchange_set_header(x, "Retry-After", "2");
    if (status >= 500)
        log_say(LOG_WARN, "%s: %d: %s", exchange_id(x), status, w->e.msg);
    api_reply(x, status, api_error(exchange_path(x), status, w));
}

void api_fail(struct exchange *x, const struct wrong *w)
{
    api_refuse(x, api_status(w->e.code), w);
}

/* JSON of a request may take so much memory, by the longest that a request may be: its own, and
 * texts of JSON within. */
static size_t json_max(const struct exchange *x)
{
    enum { FACTOR = 16, LEAST = 256 << 10 };
    const size_t most = exchange_body_max(x);
    return most < LEAST / FACTOR ? LEAST : most < SIZE_MAX / FACTOR ? most * FACTOR : SIZE_MAX;
}

json_t *api_body(struct exchange *x)
{
    struct wrong w = {0};
    json_t *v = NULL;
    const struct buf *body = exchange_body(x);
    char room[96];
    json_allow(json_max(x));
    (void)json_parse(buf_str(body), body->len, "the request's body", &v, &w.e);
    if (v && !json_is_object(v)) {
        (void)ERR(&w.e, E_FORMAT, "the request's body: want a JSON object, found %s",
                  json_describe(v, room, sizeof room));
        json_decref(v);
        v = NULL;
    }
    if (w.e.code == E_LIMIT)
        api_refuse(x, 413, &w);
    else if (!v)
        api_fail(x, &w);
    return v;
}

bool api_model(struct server *s, struct exchange *x, const char *name)
{
    struct wrong w = {0};
    static const char latest[] = ":latest"; /* Ollama's clients put it behind names */
    size_t n = name ? strlen(name) : 0;
    if (n > strlen(latest) && strcmp(name + n - strlen(latest), latest) == 0)
        n -= strlen(latest);
    for (int i = 0; i < s->o.n_names; i++)
        if (!name || (strlen(s->o.names[i]) == n && memcmp(s->o.names[i], name, n) == 0))
            return true;
    (void)WRONG(&w, E_NOTFOUND, "model",
                "model: there is no model '%.80s' here; this server has "
                "'%s'",
                name, s->o.names[0]);
    api_fail(x, &w);
    return false;
}

int api_name(struct exchange *x, const char *name, struct wrong *w)
{
    if (!name || exchange_rename(x, name))
        return 0;
    return WRONG(w, E_FORMAT, "request_id",
                 "request_id: want 1 to %d of [A-Za-z0-9_-], found '%.90s'", HTTP_ID_MAX, name);
}

json_t *api_date(int64_t unix_s)
{
    char text[40];
    struct tm tm;
    const time_t t = (time_t)unix_s;
    gmtime_r(&t, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    return json_string(text);
}
