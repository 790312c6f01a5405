/* The server: its state, its routes, who may come in; see server.h. */
#include "server/server_inside.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"
#include "server/anthropic.h"
#include "server/browser.h"
#include "server/control.h"
#include "server/listen.h"
#include "server/ollama.h"
#include "server/openai.h"
#include "server/page.h"
#include "server/session.h"
#include "server/stats.h"
#include "server/status.h"

enum {
    BODIES_FACTOR = 8, /* bodies held at once, in largest ones */
    CONTROL_CONNECTIONS = 32,
    CONTROL_IDLE_S = 30,
    CONTROL_REQUEST_S = 10,
    OTHER_DESCRIPTORS = 192, /* of the store, surplus connections, the system's libraries */
    CONTROL_BODY_MAX = 64 << 10,
    LAST_WORDS_MS = 5000, /* for answers that were cancelled to end */
};

static const struct kept_options responses_kept = {
    .entries = 256, .bytes = 32 << 20, .idle_s = 3600};

static const struct kept_options sessions_kept = {.entries = 16, .bytes = 16 << 20, .idle_s = 900};

struct route {
    const char *method, *path; /* a path's * is one word */
    bool open;                 /* without a key */
    void (*answer)(struct server *s, struct exchange *x);
};

static const struct route routes[] = {
    {"GET", "/", true, page_index},
    {"GET", "/page/*", true, page_part},
    {"GET", "/health", true, status_health},
    {"GET", "/metrics", false, status_metrics},
    {"GET", "/v1/models", false, openai_models},
    {"GET", "/v1/models/*", false, openai_model},
    {"POST", "/v1/chat/completions", false, openai_chat},
    {"POST", "/v1/completions", false, openai_text},
    {"POST", "/v1/responses", false, openai_responses},
    {"GET", "/v1/responses/*", false, openai_response_get},
    {"GET", "/v1/responses/*/input_items", false, openai_response_items},
    {"DELETE", "/v1/responses/*", false, openai_response_delete},
    {"POST", "/v1/responses/*/cancel", false, openai_response_cancel},
    {"POST", "/v1/sessions", false, session_create},
    {"GET", "/v1/sessions/*", false, session_get},
    {"DELETE", "/v1/sessions/*", false, session_delete},
    {"POST", "/v1/messages", false, anthropic_messages},
    {"POST", "/v1/messages/count_tokens", false, anthropic_count},
    {"POST", "/api/chat", false, ollama_chat},
    {"POST", "/api/generate", false, ollama_generate},
    {"GET", "/api/tags", false, ollama_tags},
    {"GET", "/api/ps", false, ollama_tags},
    {"POST", "/api/show", false, ollama_show},
    {"POST", "/api/pull", false, ollama_pull},
    {"GET", "/api/version", false, ollama_version},
    {"GET", "/v1/stats", false, stats_all},
    {"GET", "/v1/stats/experts/*", false, stats_experts},
    {"GET", "/v1/requests", false, status_requests},
    {"POST", "/v1/requests/*/cancel", false, status_cancel},
};

/* What the control socket offers. */
static const char *const control_paths[] = {
    "/health", "/v1/stats", "/v1/stats/experts/*", "/v1/requests", "/v1/requests/*/cancel",
};

static void handle(void *ctx, struct exchange *x);
static void handle_control(void *ctx, struct exchange *x);
static const char *refuse(void *ctx, const struct exchange *x, int status, const char *why,
                          struct buf *out);
static void log_request(void *ctx, const struct exchange *x);

static struct server *make(const struct server_options *o)
{
    struct server *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->o = *o;
    s->opened_ns = clock_ns();
    s->opened_unix_s = clock_unix_s();
    pthread_rwlock_init(&s->lock, NULL);
    return s;
}

static int start_control(struct server *s, struct err *e)
{
    int fd;
    if (control_listen(s->o.control, &s->control_path, &fd, e))
        return -e->code;
    return http_start(&(struct http_options){.listen_fd = fd,
                                             .connections = CONTROL_CONNECTIONS,
                                             .idle_s = CONTROL_IDLE_S,
                                             .request_s = CONTROL_REQUEST_S,
                                             .body_max = CONTROL_BODY_MAX,
                                             .bodies_max = (size_t)CONTROL_BODY_MAX * BODIES_FACTOR,
                                             .waiting_max = CONTROL_BODY_MAX,
                                             .handle = handle_control,
                                             .refuse = refuse,
                                             .starved = api_starved,
                                             .ctx = s},
                      &s->control, e);
}

/* A server that nobody asked for a control socket runs without one where there is no place. */
static int open_control(struct server *s, struct err *e)
{
    struct err why = {0};
    if (s->o.control && strcmp(s->o.control, "none") == 0)
        return 0;
    if (!start_control(s, &why))
        return 0;
    buf_clear(&s->control_path);
    if (s->o.control)
        return ERR(e, why.code, "%s", why.msg);
    log_say(LOG_WARN, "no control socket: %s", why.msg);
    return 0;
}

/* So many connections, or those for which there are descriptors. */
static int possible(int connections)
{
    const int most = os_raise_descriptors() - OTHER_DESCRIPTORS;
    if (connections <= most || connections == 1)
        return connections;
    log_say(LOG_WARN, "at most %d connections instead of %d: raise the limit on open files",
            most > 1 ? most : 1, connections);
    return most > 1 ? most : 1;
}

int server_open(const struct server_options *o, const struct server_settings *set,
                struct server **out, struct err *e)
{
    struct server *s = make(o);
    int fd = -1;
    *out = NULL;
    if (!s)
        return ERR(e, E_NOMEM, "no memory for the server");
    int rc = server_change(s, set, e);
    if (!rc)
        rc = kept_open(&responses_kept, &s->responses, e);
    if (!rc)
        rc = kept_open(&sessions_kept, &s->sessions, e);
    if (!rc)
        rc = pump_open(&s->pump, e);
    if (!rc)
        rc = preparer_open(s, &s->preparer, e);
    if (!rc)
        rc = listen_open(o->listen, &fd, &s->address, e);
    s->listening = !rc;
    if (!rc)
        rc = http_start(&(struct http_options){.listen_fd = fd,
                                               .connections = possible(o->connections),
                                               .idle_s = o->idle_s,
                                               .request_s = o->request_s,
                                               .body_max = o->body_max,
                                               .bodies_max = o->body_max * BODIES_FACTOR,
                                               .waiting_max = o->waiting_max,
                                               .cors = o->cors,
                                               .handle = handle,
                                               .refuse = refuse,
                                               .starved = api_starved,
                                               .over = log_request,
                                               .ctx = s},
                        &s->http, e);
    if (!rc)
        rc = open_control(s, e);
    if (rc)
        server_close(s);
    else
        *out = s;
    return rc;
}

const char *server_address(const struct server *s)
{
    return buf_str(&s->address);
}

int server_change(struct server *s, const struct server_settings *set, struct err *e)
{
    struct keys keys = {0};
    if (keys_read(set->key_file, set->key, &keys, e))
        return -e->code;
    pthread_rwlock_wrlock(&s->lock);
    struct keys old = s->keys;
    s->keys = keys;
    s->defaults = set->defaults;
    s->log_requests = set->log_requests;
    pthread_rwlock_unlock(&s->lock);
    keys_free(&old);
    return 0;
}

struct ask_defaults server_defaults(struct server *s)
{
    pthread_rwlock_rdlock(&s->lock);
    const struct ask_defaults d = s->defaults;
    pthread_rwlock_unlock(&s->lock);
    return d;
}

int server_ready(struct server *s, struct model *m, struct err *e)
{
    s->model = m;
    if (m->chat)
        chat_can(m->chat, &s->can);
    if (guides_open(m, &s->guides, e) || schedule_open(m, &s->o.schedule, &s->schedule, e) ||
        meter_open(s->schedule, &s->meter, e))
        return -e->code;
    atomic_store(&s->ready, true);
    return 0;
}

/* A unix socket's file goes first, while nobody else can have put another in its place. */
static void stop_listening(struct server *s)
{
    struct err e = {0};
    if (s->listening && listen_remove(s->o.listen, &e))
        log_say(LOG_WARN, "%s", e.msg);
    s->listening = false;
    if (s->http)
        http_quiesce(s->http);
}

void server_drain(struct server *s, double seconds)
{
    atomic_store(&s->draining, true);
    http_drain(s->http);
    if (s->schedule) {
        schedule_drain(s->schedule);
        (void)schedule_idle(s->schedule, seconds);
    }
    stop_listening(s);
    if (s->schedule)
        (void)schedule_cancel(s->schedule, NULL);
    for (int ms = 0; http_exchanges(s->http) && ms < LAST_WORDS_MS; ms++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void close_control(struct server *s)
{
    struct err e = {0};
    if (s->control_path.len && file_remove(buf_str(&s->control_path), &e))
        log_say(LOG_WARN, "%s", e.msg);
    if (s->control)
        http_stop(s->control);
}

/* http_stop loses every exchange, so that every reply cancels its tickets and ends. */
void server_close(struct server *s)
{
    if (!s)
        return;
    atomic_store(&s->draining, true);
    stop_listening(s);
    if (s->http)
        http_stop(s->http);
    close_control(s);
    preparer_close(s->preparer);
    while (s->pump && pump_replies(s->pump))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    meter_close(s->meter);
    if (s->schedule)
        schedule_close(s->schedule);
    guides_close(s->guides);
    pump_close(s->pump);
    http_free(s->http);
    kept_close(s->responses);
    kept_close(s->sessions);
    http_free(s->control);
    buf_free(&s->control_path);
    keys_free(&s->keys);
    buf_free(&s->address);
    pthread_rwlock_destroy(&s->lock);
    mem_free(s);
}

/* --- requests --- */

static bool matches(const char *pattern, const char *path)
{
    while (*pattern && *pattern != '*' && *pattern == *path)
        pattern++, path++;
    if (*pattern != '*')
        return *pattern == *path;
    const size_t word = strcspn(path, "/");
    return word && matches(pattern + 1, path + word);
}

/* The route, or NULL; *known: the path is there with another method. */
static const struct route *find(const struct exchange *x, bool *known)
{
    const char *method = exchange_method(x);
    *known = false;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        if (!matches(routes[i].path, exchange_path(x)))
            continue;
        *known = true;
        if (strcmp(routes[i].method, method) == 0 ||
            (strcmp(method, "HEAD") == 0 && strcmp(routes[i].method, "GET") == 0))
            return &routes[i];
    }
    return NULL;
}

static void refuse_with(struct exchange *x, int status, const char *why)
{
    struct wrong w = {0};
    (void)ERR(&w.e, E_ARG, "%s", why);
    api_refuse(x, status, &w);
}

/* Names in Allow what the path takes. */
static void refuse_method(struct exchange *x)
{
    struct buf allow = BUF_INIT;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++)
        if (matches(routes[i].path, exchange_path(x)))
            buf_printf(&allow, "%s%s%s", allow.len ? ", " : "", routes[i].method,
                       strcmp(routes[i].method, "GET") == 0 ? ", HEAD" : "");
    char why[128];
    exchange_set_header(x, "Allow", buf_str(&allow));
    snprintf(why, sizeof why, "this path takes %.80s, found %.8s", buf_str(&allow),
             exchange_method(x));
    buf_free(&allow);
    refuse_with(x, 405, why);
}

/* The key a client shows: "Authorization: Bearer KEY" or "x-api-key: KEY"; or NULL. */
static const char *key_of(const struct exchange *x)
{
    static const char bearer[] = "Bearer "; /* in any case, as every scheme */
    const char *key = exchange_header(x, "Authorization");
    if (key && strncasecmp(key, bearer, strlen(bearer)) == 0)
        return key + strlen(bearer) + strspn(key + strlen(bearer), " ");
    return exchange_header(x, "x-api-key");
}

/* A page of another origin. A name is looked at where only this machine can be the client; others
 * may call the server as they like. */
static bool is_foreign(const struct server *s, const struct exchange *x)
{
    static const char loopback[] = "http://127.";
    const char *host = exchange_header(x, "Host");
    const bool here = strncmp(buf_str(&s->address), loopback, strlen(loopback)) == 0;
    return !browser_may_ask(exchange_header(x, "Origin"), host, s->o.cors) ||
           (here && !s->o.cors && !browser_host_is_local(host));
}

/* 0: comes in. 401: shows none of the keys. 403: there are no keys, and it is foreign. */
static int access_status(struct server *s, const struct exchange *x)
{
    pthread_rwlock_rdlock(&s->lock);
    const bool keyless = s->keys.n == 0, match = keys_match(&s->keys, key_of(x));
    pthread_rwlock_unlock(&s->lock);
    if (keyless)
        return is_foreign(s, x) ? 403 : 0;
    return match ? 0 : 401;
}

/* A browser asks whether a page of another origin may send its request. */
static void preflight(struct exchange *x)
{
    struct buf nothing = BUF_INIT;
    exchange_set_header(x, "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
    exchange_set_header(x, "Access-Control-Allow-Headers",
                        "Authorization, Content-Type, X-API-Key, X-Request-ID, "
                        "Anthropic-Version, Anthropic-Beta, "
                        "Anthropic-Dangerous-Direct-Browser-Access, X-Stainless-Arch, "
                        "X-Stainless-Lang, X-Stainless-OS, X-Stainless-Package-Version, "
                        "X-Stainless-Retry-Count, X-Stainless-Runtime, "
                        "X-Stainless-Runtime-Version, X-Stainless-Timeout, "
                        "X-Stainless-Helper-Method");
    exchange_set_header(x, "Access-Control-Max-Age", "600");
    exchange_reply(x, 204, NULL, &nothing);
}

/* A request for work; what only looks, or cancels, is answered as long as somebody can ask. */
static bool is_work(const struct route *r)
{
    return strcmp(r->method, "POST") == 0 && r->answer != status_cancel &&
           r->answer != openai_response_cancel;
}

/* What is large must not keep an HTTP thread. */
static void answer(struct server *s, struct exchange *x, const struct route *r)
{
    if (exchange_body(x)->len < PREPARER_BODY_MIN)
        r->answer(s, x);
    else if (!preparer_give(s->preparer, x, r->answer))
        refuse_with(x, 503, "many large requests wait to be read: try again later");
}

static void handle(void *ctx, struct exchange *x)
{
    struct server *s = ctx;
    bool known;
    int denied;
    const struct route *r = find(x, &known);
    (void)json_starved(); /* what was of another request, and its limit */
    json_allow(SIZE_MAX);
    if (s->o.cors && strcmp(exchange_method(x), "OPTIONS") == 0)
        preflight(x);
    else if (!r && known)
        refuse_method(x);
    else if (!r)
        refuse_with(x, 404, "there is nothing at this path; docs/api.md lists what there is");
    else if (!r->open && (denied = access_status(s, x)) != 0)
        refuse_with(x, denied,
                    denied == 401
                        ? "this server wants an API key: Authorization: Bearer KEY"
                        : "a page of another origin, or another name for this machine: who runs "
                          "the server lets it in with --cors-origin ORIGIN or --api-key-file FILE, "
                          "in a file of settings cors_origin or api_key_file");
    else if (atomic_load(&s->draining) && is_work(r))
        refuse_with(x, 503, "the server is about to stop and takes no more requests");
    else
        answer(s, x, r);
}

static bool is_for_control(const struct exchange *x)
{
    size_t i = 0;
    const size_t n = sizeof control_paths / sizeof control_paths[0];
    while (i < n && !matches(control_paths[i], exchange_path(x)))
        i++;
    return i < n;
}

/* Over the control socket: who may enter its folder needs no key, but is looked at once more. */
static void handle_control(void *ctx, struct exchange *x)
{
    struct server *s = ctx;
    bool known;
    unsigned uid;
    const struct route *r = find(x, &known);
    (void)json_starved();
    json_allow(SIZE_MAX);
    if (!exchange_peer(x, &uid) || (uid != geteuid() && uid != 0))
        refuse_with(x, 403, "the control socket is for the user who runs the server");
    else if (!r || !is_for_control(x))
        refuse_with(x, 404, "there is nothing at this path of the control socket");
    else
        r->answer(s, x);
}

static const char *refuse(void *ctx, const struct exchange *x, int status, const char *why,
                          struct buf *out)
{
    struct wrong w = {0};
    struct err e = {0};
    (void)ctx;
    (void)ERR(&w.e, E_ARG, "%s", why);
    json_t *v = api_error(exchange_path(x), status, &w);
    out->failed |= json_print(v, JSON_COMPACT, out, &e) != 0;
    json_decref(v);
    return TYPE_JSON;
}

/* A line for each request: nothing of what was asked or said, and no keys. */
static void log_request(void *ctx, const struct exchange *x)
{
    struct server *s = ctx;
    const char *note = exchange_note(x);
    pthread_rwlock_rdlock(&s->lock);
    const bool wanted = s->log_requests;
    pthread_rwlock_unlock(&s->lock);
    if (wanted)
        log_say(LOG_INFO, "request %s: %s %.200s %d in %.1f ms%s%s", exchange_id(x),
                exchange_method(x), exchange_path(x), exchange_status(x), exchange_seconds(x) * 1e3,
                *note ? ", " : "", note);
}
