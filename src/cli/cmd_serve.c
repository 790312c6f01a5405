/* cherenkov serve: a model over HTTP. Settings come from the command line and from --config, and
 * are read again on SIGHUP. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/flags_file.h"
#include "cli/model_flags.h"
#include "server/server.h"

/* Every setting; one that is not given has the value said in its row's help. */
struct settings {
    struct model_flags model;
    const char *config, *listen, *control, *cors, *key_file, *save_dir;
    struct flag_list names;
    bool print_config, log_requests, thinking, no_ranking;
    int64_t ctx, connections, idle, request, sequences, queue, drafts, prefix_entries;
    int64_t max_tokens, top_k;
    int draft_source;
    uint64_t request_bytes, stream_bytes, prefix_bytes, save_bytes;
    double prefix_idle, drain;
    double temperature, top_p, min_p, presence, frequency, repetition;
};

enum { NAME_BYTES_MAX = 200 };
enum { SERVE_FLAGS = 34, FLAGS = SERVE_FLAGS + MODEL_FLAGS };

/* One reading of command line and file. */
struct reading {
    struct settings set;
    struct flag flag[FLAGS + 1];
    struct flags flags;
    struct flags_file file;
};

static const char *const not_settings[] = {"config", "print-config", NULL};

/* What a reload may change. */
static const char *const reloadable[] = {
    "api-key-file",
    "log-requests",
    "max-tokens",
    "thinking",
    "temperature",
    "top-p",
    "top-k",
    "min-p",
    "presence-penalty",
    "frequency-penalty",
    "repetition-penalty",
    NULL,
};

static void init_rows(struct settings *s, struct flag *rows)
{
    const double many = INT32_MAX, size = 0x1p60;
    const struct flag table[SERVE_FLAGS] = {
        {"config", FLAG_STRING, &s->config, "FILE", "settings; flags have the last word", 0, 0},
        {"print-config", FLAG_BOOL, &s->print_config, NULL, "print the settings as a file", 0, 0},
        {"listen", FLAG_STRING, &s->listen, "ADDRESS", "HOST:PORT, or unix:PATH (127.0.0.1:8080)",
         0, 0},
        {"control", FLAG_STRING, &s->control, "PATH|none",
         "socket for status, stats and dash (in $XDG_RUNTIME_DIR/cherenkov)", 0, 0},
        {"api-key-file", FLAG_STRING, &s->key_file, "FILE",
         "keys, one a line, of which clients must show one", 0, 0},
        {"cors-origin", FLAG_STRING, &s->cors, "ORIGIN",
         "let pages of this origin use the server; * for all (none)", 0, 0},
        {"model-name", FLAG_LIST, &s->names, "NAME", "what clients call the model (cherenkov)", 0,
         0},
        {"max-ctx", FLAG_INT, &s->ctx, "N",
         "tokens of prompt and answer together (8192, or what the model was made for)", 1, many},
        {"sequences", FLAG_INT, &s->sequences, "N", "requests answered at once (4)", 1, BATCH_MAX},
        {"queue", FLAG_INT, &s->queue, "N", "requests that may wait besides (64)", 0, 100000},
        {"drafts", FLAG_INT, &s->drafts, "N", "tokens guessed ahead in a step, at most (2)", 0,
         ENGINE_DRAFTS_MAX},
        {"draft-source", FLAG_WORD, &s->draft_source, "auto|head|lookup",
         "where guesses come from (auto)", 0, 0},
        {"no-ranking", FLAG_BOOL, &s->no_ranking, NULL,
         "do not keep which experts were used in the store's folder", 0, 0},
        {"prefix-memory", FLAG_SIZE, &s->prefix_bytes, "SIZE",
         "of the memory, for states of earlier prompts; 0 keeps none (512Mi)", 0, size},
        {"prefix-entries", FLAG_INT, &s->prefix_entries, "N", "how many of them; 0 keeps none (16)",
         0, 100000},
        {"prefix-idle", FLAG_REAL, &s->prefix_idle, "SECONDS",
         "those nobody used for so long go (900)", 1, 1e9},
        {"save-dir", FLAG_STRING, &s->save_dir, "DIR",
         "keep states there too, over a restart (none)", 0, 0},
        {"save-size", FLAG_SIZE, &s->save_bytes, "SIZE", "at most so many bytes there (4Gi)", 1,
         size},
        {"connections", FLAG_INT, &s->connections, "N", "open at once (1024)", 1, 100000},
        {"idle-timeout", FLAG_INT, &s->idle, "SECONDS",
         "a connection on which nothing moves is closed (75)", 1, 86400},
        {"request-timeout", FLAG_INT, &s->request, "SECONDS",
         "a request must be there whole, and 1 s more for each 64 KiB (30)", 1, 86400},
        {"request-size", FLAG_SIZE, &s->request_bytes, "SIZE", "the longest request (16Mi)", 1024,
         size},
        {"stream-buffer", FLAG_SIZE, &s->stream_bytes, "SIZE",
         "a client that leaves more than this unread is dropped (256Ki)", 1024, size},
        {"drain-time", FLAG_REAL, &s->drain, "SECONDS",
         "requests may run on for so long after SIGTERM (30)", 0, 86400},
        {"log-requests", FLAG_BOOL, &s->log_requests, NULL,
         "a line on stderr for each: id, status, time, tokens", 0, 0},
        {"max-tokens", FLAG_INT, &s->max_tokens, "N",
         "of an answer, where the request does not say (to the end of the context)", 1, many},
        {"thinking", FLAG_BOOL, &s->thinking, NULL, "think where the request does not say", 0, 0},
        {"temperature", FLAG_REAL, &s->temperature, "T", "as the model says", 0, 2},
        {"top-p", FLAG_REAL, &s->top_p, "P", "as the model says", 0, 1},
        {"top-k", FLAG_INT, &s->top_k, "K", "as the model says", 0, many},
        {"min-p", FLAG_REAL, &s->min_p, "P", "as the model says", 0, 1},
        {"presence-penalty", FLAG_REAL, &s->presence, "X", "as the model says", -2, 2},
        {"frequency-penalty", FLAG_REAL, &s->frequency, "X", "as the model says", -2, 2},
        {"repetition-penalty", FLAG_REAL, &s->repetition, "X", "as the model says", 0.01, 10},
    };
    memcpy(rows, table, sizeof table);
}

static void init(struct reading *r)
{
    struct settings *s = &r->set;
    memset(r, 0, sizeof *r);
    init_rows(s, r->flag);
    model_flags_init(&s->model, r->flag + SERVE_FLAGS);
    s->listen = "127.0.0.1:8080";
    s->connections = 1024;
    s->idle = 75;
    s->request = 30;
    s->sequences = 4;
    s->queue = 64;
    s->drafts = DRAFTS_DEFAULT;
    s->prefix_entries = 16;
    s->prefix_bytes = (uint64_t)512 << 20;
    s->prefix_idle = 900;
    s->save_bytes = (uint64_t)4 << 30;
    s->request_bytes = 16 << 20;
    s->stream_bytes = 256 << 10;
    s->drain = 30;
    s->top_k = -1;
    s->temperature = s->top_p = s->min_p = s->presence = s->frequency = s->repetition = NAN;
    r->flags = (struct flags){.command = &cmd_serve, .flag = r->flag, .min_args = 0, .max_args = 1};
}

static void drop(struct reading *r)
{
    flags_file_free(&r->file);
    mem_free(r);
}

/* Command line for --config, then the file, then the command line again: it has the last word. */
static int read_settings(int argc, char **argv, struct reading **out, struct err *e)
{
    struct reading *r = mem_alloc(sizeof *r);
    *out = NULL;
    if (!r)
        return ERR(e, E_NOMEM, "no memory for settings");
    init(r);
    int rc = flags_parse(&r->flags, argc, argv, e);
    const char *config = r->set.config;
    if (!rc && config && !r->flags.help) {
        init(r);
        rc = flags_file_read(&r->flags, config, &r->file, e);
        if (!rc)
            rc = flags_parse(&r->flags, argc, argv, e);
    }
    if (rc)
        drop(r);
    else
        *out = r;
    return rc;
}

static struct server_settings server_settings(const struct settings *s)
{
    return (struct server_settings){
        .defaults = {.max_tokens = s->max_tokens,
                     .temperature = s->temperature,
                     .top_p = s->top_p,
                     .min_p = s->min_p,
                     .presence = s->presence,
                     .frequency = s->frequency,
                     .repetition = s->repetition,
                     .top_k = s->top_k,
                     .thinking = s->thinking},
        .key_file = s->key_file,
        .key = env_get(ENV_API_KEY),
        .log_requests = s->log_requests,
    };
}

static bool keeps_states(const struct settings *s)
{
    return s->prefix_entries && s->prefix_bytes;
}

/* Whether it may stand in a header, or be said by a client: something, on one line. */
static bool is_plain(const char *s)
{
    const char *c = s;
    while ((unsigned char)*c > ' ' && *c != 0x7f)
        c++;
    return *s && !*c;
}

/* SCHEME://HOST, as browsers send it, of a page from a file "null"; or * for all. */
static bool is_origin(const char *s)
{
    const char *mark = strstr(s, "://");
    const size_t scheme = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789+-.");
    return strcmp(s, "*") == 0 || strcmp(s, "null") == 0 ||
           (is_plain(s) && scheme && s + scheme == mark && mark[3] && !strchr(mark + 3, '/') &&
            !strchr(mark + 3, ','));
}

static int check_words(const struct settings *s, struct err *e)
{
    if (s->cors && !is_origin(s->cors))
        return ERR(e, E_ARG,
                   "serve: --cors-origin '%s': want an origin, https://example.com without a path, "
                   "or *",
                   s->cors);
    if (s->names.n > SERVER_NAMES_MAX)
        return ERR(e, E_ARG, "serve: --model-name given more than %d times", SERVER_NAMES_MAX);
    for (size_t i = 0; i < s->names.n; i++)
        if (!is_plain(s->names.at[i]) || strlen(s->names.at[i]) > NAME_BYTES_MAX)
            return ERR(e, E_ARG, "serve: --model-name '%.80s': want 1 to %d bytes without blanks",
                       s->names.at[i], NAME_BYTES_MAX);
    return 0;
}

static int server_options(const struct settings *s, struct server_options *out, struct err *e)
{
    static const char name[] = "cherenkov";
    *out = (struct server_options){
        .listen = s->listen,
        .control = s->control,
        .cors = s->cors,
        .connections = (int)s->connections,
        .idle_s = (int)s->idle,
        .request_s = (int)s->request,
        .body_max = s->request_bytes,
        .waiting_max = s->stream_bytes,
        .names = {name},
        .n_names = 1,
        .schedule = {.sequences = (int)s->sequences,
                     .queue = s->queue ? (int)s->queue : -1,
                     .draft = {.most = (int)s->drafts,
                               .source = (enum draft_source)s->draft_source},
                     .prefix_bytes = s->prefix_bytes,
                     .prefix_entries = keeps_states(s) ? (int)s->prefix_entries : -1,
                     .prefix_idle_s = s->prefix_idle,
                     .save_dir = s->save_dir,
                     .save_bytes = s->save_bytes},
    };
    if (check_words(s, e))
        return -e->code;
    for (size_t i = 0; i < s->names.n; i++)
        out->names[i] = s->names.at[i];
    out->n_names = s->names.n ? (int)s->names.n : 1;
    return 0;
}

static int model_options(const struct settings *s, struct model_options *out, struct err *e)
{
    if (model_flags_options(&s->model, "serve", out, e))
        return -e->code;
    out->ctx = (int)s->ctx;
    out->engine_options.n_sequences = (int)s->sequences;
    out->engine_options.beside = keeps_states(s) ? s->prefix_bytes : 0;
    out->engine_options.no_ranking = s->no_ranking;
    out->engine_options.drafts = s->drafts > 0 && s->draft_source != DRAFTS_LOOKUP;
    return 0;
}

static bool may_change(const char *name)
{
    const char *const *r = reloadable;
    while (*r && strcmp(*r, name) != 0)
        r++;
    return *r != NULL;
}

/* A setting that needs a restart and is another now. */
static int check_reload(const struct reading *old, const struct reading *new, struct err *e)
{
    for (int i = 0; i < FLAGS; i++) {
        struct buf a = BUF_INIT, b = BUF_INIT;
        flags_file_value(&old->flag[i], &a);
        flags_file_value(&new->flag[i], &b);
        const bool differs = strcmp(buf_str(&a), buf_str(&b)) != 0;
        buf_free(&a);
        buf_free(&b);
        if (!differs || may_change(new->flag[i].name))
            continue;
        if (!new->file.lines[i])
            return ERR(e, E_ARG, "%s: %s is not there any more, and changes at a restart only",
                       new->set.config, new->flag[i].name);
        return ERR(e, E_ARG, "%s: line %d: %s changes at a restart only", new->set.config,
                   new->file.lines[i], new->flag[i].name);
    }
    return 0;
}

/* All of the new settings hold, or none. */
static void reload(struct server *server, struct reading **now, int argc, char **argv)
{
    struct err e = {0};
    struct reading *new = NULL;
    int rc = read_settings(argc, argv, &new, &e);
    assert(rc || new);
    if (!rc)
        rc = check_reload(*now, new, &e);
    if (!rc) {
        const struct server_settings set = server_settings(&new->set);
        rc = server_change(server, &set, &e);
    }
    if (rc) {
        log_say(LOG_ERROR, "nothing was reloaded: %s", e.msg);
        if (new)
            drop(new);
        return;
    }
    drop(*now);
    *now = new;
    log_say(LOG_INFO, "settings were reloaded");
}

static void wait_for_signals(struct server *server, struct reading **now, int argc, char **argv)
{
    while (interrupt_wait() == INTERRUPT_RELOAD)
        reload(server, now, argc, argv);
    log_say(LOG_INFO, "stopping; requests that run have %g s", (*now)->set.drain);
    server_drain(server, (*now)->set.drain);
}

static int serve(struct reading **now, int argc, char **argv, struct err *e)
{
    const struct settings *s = &(*now)->set;
    struct server_options o;
    struct model_options mo;
    struct server *server;
    struct model *m = NULL;
    const struct server_settings set = server_settings(s);
    if (server_options(s, &o, e) || model_options(s, &mo, e))
        return -e->code;
    interrupt_catch_service();
    if (server_open(&o, &set, &server, e))
        return -e->code;
    log_say(LOG_INFO, "listening on %s; loading %s", server_address(server), (*now)->flags.args[0]);
    int rc = model_open((*now)->flags.args[0], &mo, &m, e);
    if (!rc) {
        model_flags_say_opening(m);
        rc = server_ready(server, m, e);
    }
    if (!rc) {
        log_say(LOG_INFO, "ready");
        wait_for_signals(server, now, argc, argv);
    } else if (e->code == E_INTERRUPTED) { /* what ends a server is no failure */
        log_say(LOG_INFO, "stopped before it was ready");
        err_clear(e);
        rc = 0;
    }
    server_close(server);
    if (m)
        model_close(m);
    return rc;
}

static int print_config(const struct reading *r, struct err *e)
{
    struct buf out = BUF_INIT;
    flags_file_print(&r->flags, not_settings, &out);
    fputs(buf_str(&out), stdout);
    const int rc = buf_check(&out, e);
    buf_free(&out);
    return rc;
}

static int run(int argc, char **argv, struct err *e)
{
    struct reading *now;
    int rc = read_settings(argc, argv, &now, e);
    if (rc)
        return rc;
    if (now->flags.help)
        rc = 0;
    else if (now->set.print_config)
        rc = print_config(now, e);
    else if (now->flags.n_args == 0)
        rc = ERR(e, E_ARG, "serve: wants a store; usage: cherenkov serve STORE");
    else
        rc = serve(&now, argc, argv, e);
    drop(now);
    return rc;
}

const struct command cmd_serve = {"serve", "STORE", "offer a model over HTTP", run};
