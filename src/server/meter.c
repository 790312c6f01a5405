/* Samples and rates: see meter.h. */
#include "server/meter.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"

enum { SAMPLES = METER_WINDOW_S + 1 };
#define SAMPLE_NS    ((uint64_t)1000000000)
#define WINDOW_S_MIN 0.1

struct layer_sample {
    uint64_t hits, misses;
};

struct meter {
    struct schedule *schedule;
    struct thread thread;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t stopped;
    bool stop;
    struct counters now; /* what the latest sample was made from */
    struct meter_sample sample[SAMPLES];
    struct layer_sample *layer; /* [SAMPLES][now.n_layers] */
    unsigned n;                 /* samples so far; sample n is at n % SAMPLES */
};

static void run(void *meter);
static void release(struct meter *m);
static void take(struct meter *m, struct meter_sample *out);

int meter_open(struct schedule *s, struct meter **out, struct err *e)
{
    const struct counters *c = schedule_counters(s);
    const int n_layers = c ? c->n_layers : 0;
    if (c)
        schedule_counters_done(s);
    struct meter *m = mem_zalloc(1, sizeof *m);
    if (!m)
        return ERR(e, E_NOMEM, "no memory for statistics");
    m->schedule = s;
    pthread_mutex_init(&m->lock, NULL);
    thread_cond_init(&m->stopped);
    int rc = counters_open(&m->now, n_layers, 0, e);
    m->layer = mem_zalloc((size_t)m->now.n_layers * SAMPLES, sizeof *m->layer);
    if (!rc && !m->layer)
        rc = ERR(e, E_NOMEM, "no memory for statistics");
    if (!rc)
        rc = thread_start(&m->thread, run, m, e);
    if (!rc) {
        *out = m;
        return 0;
    }
    release(m);
    return rc;
}

/* Without its thread. */
static void release(struct meter *m)
{
    pthread_cond_destroy(&m->stopped);
    pthread_mutex_destroy(&m->lock);
    counters_close(&m->now);
    mem_free(m->layer);
    mem_free(m);
}

void meter_close(struct meter *m)
{
    if (!m)
        return;
    pthread_mutex_lock(&m->lock);
    m->stop = true;
    pthread_cond_signal(&m->stopped);
    pthread_mutex_unlock(&m->lock);
    thread_join(&m->thread);
    release(m);
}

/* The lock is held. */
static void keep_sample(struct meter *m)
{
    const unsigned at = m->n++ % SAMPLES;
    take(m, &m->sample[at]);
    for (int il = 0; il < m->now.n_layers; il++)
        m->layer[at * (unsigned)m->now.n_layers + (unsigned)il] =
            (struct layer_sample){m->now.layer[il].hits, m->now.layer[il].misses};
}

static void run(void *meter)
{
    struct meter *m = meter;
    pthread_mutex_lock(&m->lock);
    while (!m->stop) {
        keep_sample(m);
        const uint64_t next = clock_ns() + SAMPLE_NS;
        while (!m->stop && thread_wait_until(&m->stopped, &m->lock, next))
            ;
    }
    pthread_mutex_unlock(&m->lock);
}

/* The lock is held; leaves the counters in m->now. */
static void take(struct meter *m, struct meter_sample *out)
{
    struct schedule_stats t;
    schedule_stats(m->schedule, &t);
    const struct counters *c = m->now.n_layers ? schedule_counters(m->schedule) : NULL;
    if (c) {
        counters_read(c, &m->now);
        schedule_counters_done(m->schedule);
    }
    const struct counters_sum sum = counters_sum(&m->now);
    *out = (struct meter_sample){.ns = clock_ns(),
                                 .made = t.made_tokens,
                                 .fed = t.fed_tokens,
                                 .hits = sum.hits,
                                 .misses = sum.misses,
                                 .read_bytes = sum.read_bytes};
    for (int i = 0; i < CAUSE_COUNT; i++)
        out->wait_ns += m->now.wait_ns[i];
}

/* An engine that was opened again counts from 0. */
static uint64_t since(uint64_t from, uint64_t to)
{
    return to >= from ? to - from : to;
}

struct meter_rates meter_rates(const struct meter_sample *from, const struct meter_sample *to)
{
    const double s = to->ns > from->ns ? (double)(to->ns - from->ns) * 1e-9 : 0;
    if (s < WINDOW_S_MIN)
        return (struct meter_rates){0, NAN, NAN, NAN, NAN, NAN};
    const double wait = (double)since(from->wait_ns, to->wait_ns) * 1e-9 / s;
    return (struct meter_rates){
        .window_s = s,
        .decode = (double)(to->made - from->made) / s,
        .prefill = (double)(to->fed - from->fed) / s,
        .hit_rate = counters_hit_rate(since(from->hits, to->hits), since(from->misses, to->misses)),
        .read_bytes = (double)since(from->read_bytes, to->read_bytes) / s,
        .wait = wait < 1 ? wait : 1,
    };
}

/* The lock is held. */
static void view(struct meter *m, struct meter_view *out)
{
    struct meter_sample now;
    const unsigned oldest = m->n < SAMPLES ? 0 : m->n % SAMPLES;
    const int n = m->now.n_layers;
    take(m, &now);
    out->rates = meter_rates(m->n ? &m->sample[oldest] : &now, &now);
    counters_read(&m->now, &out->counters);
    for (int il = 0; il < n; il++) {
        const struct layer_sample *from = &m->layer[oldest * (unsigned)n + (unsigned)il];
        const struct layer_counters *to = &m->now.layer[il];
        out->layer_hit_rate[il] =
            counters_hit_rate(since(from->hits, to->hits), since(from->misses, to->misses));
    }
}

int meter_look(struct meter *m, struct meter_view *out, struct err *e)
{
    *out = (struct meter_view){0};
    int rc = counters_open(&out->counters, m->now.n_layers, 0, e);
    out->layer_hit_rate = mem_array((size_t)m->now.n_layers, sizeof *out->layer_hit_rate);
    if (!rc && !out->layer_hit_rate)
        rc = ERR(e, E_NOMEM, "no memory for statistics");
    if (rc) {
        meter_view_free(out);
        return rc;
    }
    pthread_mutex_lock(&m->lock);
    view(m, out);
    pthread_mutex_unlock(&m->lock);
    return 0;
}

void meter_view_free(struct meter_view *v)
{
    counters_close(&v->counters);
    mem_free(v->layer_hit_rate);
    *v = (struct meter_view){0};
}
