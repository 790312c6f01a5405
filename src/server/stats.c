/* Figures as JSON: see stats.h. A real number that nobody knows is null. */
#include "server/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/os.h"
#include "cherenkov.h"
#include "server/meter.h"
#include "server/server_inside.h"
#include "server/status.h"

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

/* A name and a count; tables of them end with a NULL name. */
struct count {
    const char *name;
    uint64_t n;
};

static json_t *counts(const struct count *c)
{
    json_t *o = json_object();
    for (; c->name; c++)
        json_object_set_new(o, c->name, json_integer((json_int_t)c->n));
    return o;
}

/* --- the model's part --- */

static json_t *rates(const struct meter_rates *r)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "decode_tokens_per_second", number(r->decode),
                     "prefill_tokens_per_second", number(r->prefill), "hit_rate",
                     number(r->hit_rate), "read_bytes_per_second", number(r->read_bytes),
                     "wait_fraction", number(r->wait));
}

static json_t *layer_counts(const struct layer_counters *c)
{
    json_t *o = counts((const struct count[]){{"selected", c->selected},
                                              {"hits", c->hits},
                                              {"misses", c->misses},
                                              {"predicted", c->predicted},
                                              {"prefetched", c->prefetched},
                                              {"prefetch_used", c->prefetch_used},
                                              {"prefetch_late", c->prefetch_late},
                                              {"prefetch_wasted", c->prefetch_wasted},
                                              {"cut", c->cut},
                                              {"reads", c->reads},
                                              {"read_bytes", c->read_bytes},
                                              {NULL, 0}});
    json_object_set_new(o, "hit_rate", number(counters_hit_rate(c->hits, c->misses)));
    return o;
}

static json_t *layers(const struct meter_view *v)
{
    json_t *list = json_array();
    for (int il = 0; il < v->counters.n_layers; il++) {
        json_t *o = layer_counts(&v->counters.layer[il]);
        json_object_set_new(o, "layer", json_integer(il));
        json_object_set_new(o, "hit_rate_now", number(v->layer_hit_rate[il]));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *reads(const struct counters *c)
{
    json_t *o = json_object();
    for (enum cause i = 0; i < CAUSE_COUNT; i++) {
        uint64_t n = 0;
        for (int bits = 0; bits < COUNTER_BITS_MAX; bits++)
            n += c->reads[i][bits];
        json_object_set_new(o, cause_name(i),
                            json_pack("{s:I, s:I, s:f}", "records", (json_int_t)n, "bytes",
                                      (json_int_t)c->bytes[i], "wait_seconds",
                                      (double)c->wait_ns[i] * 1e-9));
    }
    return o;
}

static json_t *memory(const struct counters *c, const struct schedule_stats *t)
{
    const uint64_t now = os_rss_bytes(), peak = os_rss_peak_bytes(); /* by two clocks */
    return counts((const struct count[]){{"rss_bytes", now},
                                         {"rss_peak_bytes", peak > now ? peak : now},
                                         {"budget_bytes", c->budget_bytes},
                                         {"pool_bytes", c->pool_bytes},
                                         {"pool_slots", c->pool_slots},
                                         {"table_bytes", c->table_bytes},
                                         {"dense_bytes", c->dense_bytes},
                                         {"sequence_bytes", c->sequence_bytes},
                                         {"scratch_bytes", c->scratch_bytes},
                                         {"prefix_bytes", t->prefix_bytes},
                                         {"prefix_entries", (uint64_t)t->prefix_entries},
                                         {"saved_bytes", t->saved_bytes},
                                         {"saved_entries", (uint64_t)t->saved_entries},
                                         {NULL, 0}});
}

static void add_view(const struct meter_view *v, const struct schedule_stats *t, json_t *o)
{
    const struct layer_counters all = counters_layers(&v->counters);
    json_object_set_new(o, "window_seconds", json_real(v->rates.window_s));
    json_object_set_new(o, "rates", rates(&v->rates));
    json_object_set_new(o, "memory", memory(&v->counters, t));
    json_object_set_new(o, "experts", layer_counts(&all));
    json_object_set_new(o, "reads", reads(&v->counters));
    json_object_set_new(o, "layers", layers(v));
}

/* --- the scheduler's --- */

static void add_schedule(const struct schedule_stats *t, json_t *o)
{
    json_object_set_new(o, "requests",
                        counts((const struct count[]){{"running", (uint64_t)t->running},
                                                      {"queued", (uint64_t)t->queued},
                                                      {"sequences", (uint64_t)t->sequences},
                                                      {"submitted", t->n_submitted},
                                                      {"refused", t->n_refused},
                                                      {"done", t->n_done},
                                                      {"cancelled", t->n_cancelled},
                                                      {"failed", t->n_failed},
                                                      {NULL, 0}}));
    json_object_set_new(o, "tokens",
                        counts((const struct count[]){{"prompt", t->fed_tokens},
                                                      {"cached", t->cached_tokens},
                                                      {"generated", t->made_tokens},
                                                      {"drafted", t->drafted_tokens},
                                                      {"accepted", t->accepted_tokens},
                                                      {NULL, 0}}));
}

void stats_all(struct server *s, struct exchange *x)
{
    const bool ready = atomic_load(&s->ready);
    struct meter_view v = {.rates = {0, NAN, NAN, NAN, NAN, NAN}};
    struct schedule_stats t = {0};
    struct wrong w = {0};
    if (ready)
        schedule_stats(s->schedule, &t);
    if (ready && meter_look(s->meter, &v, &w.e)) {
        api_fail(x, &w);
        return;
    }
    json_t *o =
        json_pack("{s:s, s:s, s:i, s:s, s:s, s:s, s:s?, s:i, s:f}", "object", "stats", "state",
                  status_word(s), "pid", (int)getpid(), "version", CHERENKOV_VERSION, "address",
                  buf_str(&s->address), "model", s->o.names[0], "engine",
                  ready ? s->model->ops->name : NULL, "context_tokens", ready ? s->model->ctx : 0,
                  "uptime_seconds", clock_seconds_since(s->opened_ns));
    add_schedule(&t, o);
    add_view(&v, &t, o);
    meter_view_free(&v);
    api_reply(x, 200, o);
}

/* --- experts of a layer --- */

static json_t *expert_list(const struct expert_counters *c, int n)
{
    json_t *list = json_array();
    for (int ie = 0; ie < n; ie++)
        json_array_append_new(list, counts((const struct count[]){{"expert", (uint64_t)ie},
                                                                  {"selected", c[ie].selected},
                                                                  {"hits", c[ie].hits},
                                                                  {"misses", c[ie].misses},
                                                                  {"prefetched", c[ie].prefetched},
                                                                  {"reads", c[ie].reads},
                                                                  {"read_bytes", c[ie].read_bytes},
                                                                  {NULL, 0}}));
    return list;
}

/* NULL, and w says why. */
static json_t *layer_experts(const struct counters *c, int il, struct wrong *w)
{
    if (il < 0 || il >= c->n_layers) {
        (void)ERR(&w->e, E_NOTFOUND, "there is no such layer of experts: want 0 to %d",
                  c->n_layers - 1);
        return NULL;
    }
    struct expert_counters *all = mem_array((size_t)c->n_experts, sizeof *all);
    if (!all) {
        (void)ERR(&w->e, E_NOMEM, "no memory for statistics of %d experts", c->n_experts);
        return NULL;
    }
    counters_experts(c, il, all);
    json_t *v = json_pack("{s:s, s:i, s:o}", "object", "stats.experts", "layer", il, "experts",
                          expert_list(all, c->n_experts));
    mem_free(all);
    return v;
}

/* The number at the end of the path, or -1. */
static int path_number(const struct exchange *x)
{
    const char *at = strrchr(exchange_path(x), '/') + 1;
    const size_t n = strspn(at, "0123456789");
    return n && n <= 6 && !at[n] ? (int)strtol(at, NULL, 10) : -1;
}

void stats_experts(struct server *s, struct exchange *x)
{
    struct wrong w = {0};
    json_t *v = NULL;
    const bool ready = atomic_load(&s->ready);
    const struct counters *c = ready ? schedule_counters(s->schedule) : NULL;
    if (c) {
        v = layer_experts(c, path_number(x), &w);
        schedule_counters_done(s->schedule);
    } else if (!ready) {
        (void)ERR(&w.e, E_BUSY, "the model is still being loaded");
    } else {
        (void)ERR(&w.e, E_NOTFOUND, "the engine '%s' counts no experts, or not at the moment",
                  s->model->ops->name);
    }
    if (v)
        api_reply(x, 200, v);
    else
        api_fail(x, &w);
}
