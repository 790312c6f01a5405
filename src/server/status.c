/* Health, metrics, requests: see status.h. */
#include "server/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/os.h"
#include "base/units.h"
#include "server/server_inside.h"

enum { LIST_MAX = 256 };

const char *status_word(struct server *s)
{
    return atomic_load(&s->draining) ? "draining" : atomic_load(&s->ready) ? "ok" : "loading";
}

void status_health(struct server *s, struct exchange *x)
{
    const char *word = status_word(s);
    const int status = strcmp(word, "ok") == 0 ? 200 : 503;
    if (status == 503)
        exchange_set_header(x, "Retry-After", "2");
    api_reply(x, status, json_pack("{s:s, s:s}", "status", word, "model", s->o.names[0]));
}

/* --- metrics --- */

struct metric {
    const char *name, *type, *help;
    double value;
};

static void print(const struct metric *m, size_t n, struct buf *out)
{
    char room[UNITS_ROOM];
    for (size_t i = 0; i < n; i++)
        buf_printf(out, "# HELP cherenkov_%s %s\n# TYPE cherenkov_%s %s\ncherenkov_%s %s\n",
                   m[i].name, m[i].help, m[i].name, m[i].type, m[i].name,
                   units_real(room, m[i].value));
}

static void print_schedule(struct schedule *schedule, struct buf *out)
{
    struct schedule_stats t;
    schedule_stats(schedule, &t);
    const struct metric rows[] = {
        {"sequences", "gauge", "Requests that can run at once.", t.sequences},
        {"requests_running", "gauge", "Requests that run.", t.running},
        {"requests_queued", "gauge", "Requests that wait.", t.queued},
        {"requests_submitted_total", "counter", "Requests accepted.", (double)t.n_submitted},
        {"requests_refused_total", "counter", "Requests refused as busy.", (double)t.n_refused},
        {"requests_done_total", "counter", "Requests that ended.", (double)t.n_done},
        {"requests_cancelled_total", "counter", "Requests cancelled.", (double)t.n_cancelled},
        {"requests_failed_total", "counter", "Requests that failed.", (double)t.n_failed},
        {"prompt_tokens_total", "counter", "Tokens of prompts.", (double)t.prompt_tokens},
        {"cached_tokens_total", "counter", "Tokens of prompts whose state was kept.",
         (double)t.cached_tokens},
        {"generated_tokens_total", "counter", "Tokens of answers.", (double)t.generated_tokens},
        {"drafted_tokens_total", "counter", "Tokens guessed ahead.", (double)t.drafted_tokens},
        {"accepted_tokens_total", "counter", "Guesses that were right.", (double)t.accepted_tokens},
        {"queue_seconds_total", "counter", "Time in the queue.", t.queue_s},
        {"prefill_seconds_total", "counter", "Time until the first token.", t.prefill_s},
        {"decode_seconds_total", "counter", "Time behind the first token.", t.decode_s},
        {"prefix_hits_total", "counter", "Requests that began with a kept state.",
         (double)t.prefix_hits},
        {"prefix_misses_total", "counter", "Requests that began with none.",
         (double)t.prefix_misses},
        {"prefix_entries", "gauge", "States kept in memory.", t.prefix_entries},
        {"prefix_bytes", "gauge", "Memory of kept states.", (double)t.prefix_bytes},
        {"saved_entries", "gauge", "States kept on disk.", t.saved_entries},
        {"saved_bytes", "gauge", "Disk used by kept states.", (double)t.saved_bytes},
    };
    print(rows, sizeof rows / sizeof rows[0], out);
}

static void print_guides(struct guides *guides, struct buf *out)
{
    struct guides_stats t;
    guides_stats(guides, &t);
    const struct metric rows[] = {
        {"grammars", "gauge", "Grammars in memory.", t.grammars},
        {"grammars_in_use", "gauge", "Grammars of requests that run.", t.on_loan},
        {"grammar_bytes", "gauge", "Memory of what is known of their tokens.", (double)t.bytes},
        {"grammars_made_total", "counter", "Requests whose grammar was new.", (double)t.n_made},
        {"grammars_found_total", "counter", "Requests whose grammar was there.", (double)t.n_found},
    };
    print(rows, sizeof rows / sizeof rows[0], out);
}

static void print_answers(struct server *s, struct buf *out)
{
    buf_puts(out, "# HELP cherenkov_http_answers_total Answers by status.\n"
                  "# TYPE cherenkov_http_answers_total counter\n");
    for (int i = 2; i < HTTP_CLASSES; i++)
        buf_printf(out, "cherenkov_http_answers_total{status=\"%dxx\"} %lu\n", i,
                   http_answers(s->http, i));
}

void status_metrics(struct server *s, struct exchange *x)
{
    struct buf out = BUF_INIT;
    const struct metric rows[] = {
        {"ready", "gauge", "1 when requests are served.",
         atomic_load(&s->ready) && !atomic_load(&s->draining)},
        {"uptime_seconds", "gauge", "Since the server was started.",
         clock_seconds_since(s->opened_ns)},
        {"resident_bytes", "gauge", "Memory of the process.", (double)os_rss_bytes()},
        {"exchanges", "gauge", "HTTP requests that are not answered yet.", http_exchanges(s->http)},
    };
    print(rows, sizeof rows / sizeof rows[0], &out);
    print_answers(s, &out);
    if (atomic_load(&s->ready)) {
        print_schedule(s->schedule, &out);
        print_guides(s->guides, &out);
    }
    exchange_reply(x, 200, "text/plain; version=0.0.4; charset=utf-8", &out);
}

/* --- requests --- */

void status_requests(struct server *s, struct exchange *x)
{
    static const char *const states[] = {"queued", "prefill", "decode"};
    struct request_view views[LIST_MAX];
    const int n = atomic_load(&s->ready) ? schedule_list(s->schedule, views, LIST_MAX) : 0;
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        const struct request_view *v = &views[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:f}", "id", v->name,
                                              "state", states[v->state], "prompt_tokens",
                                              v->n_prompt, "cached_tokens", v->n_cached,
                                              "fed_tokens", v->n_fed, "completion_tokens",
                                              v->n_generated, "age_seconds", v->age_s));
    }
    api_reply(x, 200, json_pack("{s:s, s:o}", "object", "list", "data", list));
}

void status_cancel(struct server *s, struct exchange *x)
{
    struct wrong w = {0};
    char id[HTTP_ID_MAX + 1] = "";
    const char *at = exchange_path(x) + strlen("/v1/requests/");
    const size_t n = strcspn(at, "/");
    if (n <= HTTP_ID_MAX)
        snprintf(id, sizeof id, "%.*s", (int)n, at);
    const int found = atomic_load(&s->ready) && *id ? schedule_cancel(s->schedule, id) : 0;
    if (found) {
        api_reply(x, 200,
                  json_pack("{s:s, s:s, s:b}", "id", id, "object", "request", "cancelled", 1));
        return;
    }
    (void)WRONG(&w, E_NOTFOUND, "id", "there is no request '%s' that runs or waits", id);
    api_fail(x, &w);
}
