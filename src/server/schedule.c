/* The scheduler's interface: see schedule.h. */
#include "server/schedule.h"

#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/schedule_inside.h"

enum {
    QUEUE_DEFAULT = 64,
    BACKLOG_DEFAULT = 4096,
    PREFIX_ENTRIES_DEFAULT = 16,
    PREFIX_TOKENS_MIN = 32,
};
#define PREFIX_BYTES_DEFAULT ((uint64_t)512 << 20)
#define PREFIX_IDLE_DEFAULT  900.0
#define SAVE_BYTES_DEFAULT   ((uint64_t)4 << 30)

static int open_parts(struct schedule *s, const struct schedule_options *o, struct err *e);
static void free_parts(struct schedule *s);

int schedule_open(struct model *m, const struct schedule_options *o, struct schedule **out,
                  struct err *e)
{
    if (o->sequences < 0 || o->sequences > BATCH_MAX)
        return ERR(e, E_ARG, "%d requests at once, want 1 to %d", o->sequences, BATCH_MAX);
    struct schedule *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return ERR(e, E_NOMEM, "no memory for a scheduler");
    *s = (struct schedule){.m = m, .draft = o->draft, .im_start = -1};
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->engine_lock, NULL);
    thread_cond_init(&s->work);
    thread_cond_init(&s->rested);
    if (open_parts(s, o, e) || thread_start(&s->worker, worker_main, s, e)) {
        free_parts(s);
        return -e->code;
    }
    *out = s;
    return 0;
}

void schedule_close(struct schedule *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = s->draining = true;
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    thread_join(&s->worker);
    free_parts(s);
}

static int make_slot(struct schedule *s, struct err *e)
{
    struct slot *x = &s->slots[s->n_slots];
    x->held.ids = mem_array((size_t)s->m->ctx, sizeof *x->held.ids);
    if (!x->held.ids)
        return ERR(e, E_NOMEM, "no memory for %d tokens of a sequence", s->m->ctx);
    x->held.cap = (size_t)s->m->ctx;
    s->n_slots++;
    return 0;
}

int slots_open(struct schedule *s, struct err *e)
{
    struct engine *g = s->m->engine;
    for (int i = 0; i < s->n_slots; i++)
        if (g->ops->sequence_open(g, s->m->ctx, &s->slots[i].seq, e)) {
            slots_close(s);
            return -e->code;
        }
    return 0;
}

void slots_close(struct schedule *s)
{
    for (int i = 0; i < s->n_slots; i++) {
        if (s->slots[i].seq)
            s->m->engine->ops->sequence_close(s->slots[i].seq);
        s->slots[i].seq = NULL;
        s->slots[i].held.n = 0;
    }
}

static int open_prefix(struct schedule *s, const struct schedule_options *o, struct err *e)
{
    const int entries = o->prefix_entries ? o->prefix_entries : PREFIX_ENTRIES_DEFAULT;
    const struct prefix_options p = {
        .bytes = o->prefix_bytes ? o->prefix_bytes : PREFIX_BYTES_DEFAULT,
        .entries = entries < 0 ? 0 : entries,
        .idle_s = o->prefix_idle_s > 0 ? o->prefix_idle_s : PREFIX_IDLE_DEFAULT,
        .tokens_min = PREFIX_TOKENS_MIN,
        .dir = o->save_dir,
        .file_bytes = o->save_bytes ? o->save_bytes : SAVE_BYTES_DEFAULT,
    };
    s->tokens_min = p.entries ? p.tokens_min : INT_MAX;
    s->saves = o->save_dir != NULL;
    return prefix_open(s->m, &p, &s->prefix, e);
}

static int open_parts(struct schedule *s, const struct schedule_options *o, struct err *e)
{
    const int n_slots = o->sequences ? o->sequences : 1;
    const struct tokenizer *t = s->m->tokenizer;
    s->backlog = o->backlog > 0 ? o->backlog : BACKLOG_DEFAULT;
    s->n_waiting_max = o->queue > 0 ? o->queue : o->queue < 0 ? 0 : QUEUE_DEFAULT;
    s->queue = mem_zalloc((size_t)s->n_waiting_max + (size_t)n_slots, sizeof(void *));
    if (!s->queue)
        return ERR(e, E_NOMEM, "no memory for a queue of %d requests", s->n_waiting_max);
    if (t)
        s->im_start = tokenizer_id(t, "<|im_start|>");
    if ((t && turns_open(t, &s->turns, e)) || open_prefix(s, o, e) ||
        batch_open(s->m, n_slots, s->draft.most, &s->batch, e))
        return -e->code;
    while (s->n_slots < n_slots)
        if (make_slot(s, e))
            return -e->code;
    s->sums.sequences = n_slots;
    return slots_open(s, e);
}

static void free_parts(struct schedule *s)
{
    slots_close(s);
    for (int i = 0; i < s->n_slots; i++)
        tokens_free(&s->slots[i].held);
    for (int i = 0; i < RECENT_MAX; i++)
        tokens_free(&s->recent[i]);
    batch_close(s->batch);
    prefix_close(s->prefix);
    turns_close(s->turns);
    mem_free(s->queue);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->engine_lock);
    pthread_cond_destroy(&s->work);
    pthread_cond_destroy(&s->rested);
    mem_free(s);
}

/* Ticket i of those that run, then of those that wait; NULL behind them. The lock is held. */
static struct ticket *ticket_at(const struct schedule *s, int i)
{
    for (int k = 0; k < s->n_slots; k++)
        if (s->slots[k].t && i-- == 0)
            return s->slots[k].t;
    return i < s->n_queued ? s->queue[i] : NULL;
}

/* Whether a request of another answer has this name. One that was cancelled has given it up. */
static bool name_is_taken(const struct schedule *s, const struct ticket *by)
{
    const struct ticket *t;
    for (int i = 0; *by->name && (t = ticket_at(s, i)); i++)
        if (strcmp(t->name, by->name) == 0 && !atomic_load(&t->cancel) &&
            t->r.wake_ctx != by->r.wake_ctx)
            return true;
    return false;
}

/* The lock is held. */
static int enqueue(struct schedule *s, struct ticket *t, struct err *e)
{
    int rc = 0;
    if (s->draining)
        rc = ERR(e, E_BUSY, "the server is about to stop and takes no more requests");
    else if (s->n_queued + s->n_running >= s->n_waiting_max + s->n_slots)
        rc = ERR(e, E_BUSY, "%d requests run and %d wait: no more are taken at the moment",
                 s->n_running, s->n_queued);
    else if (name_is_taken(s, t))
        rc = ERR(e, E_EXISTS,
                 "a request called '%s' runs or waits already: give this one another "
                 "name, or none",
                 t->name);
    s->sums.n_refused += rc == -E_BUSY;
    s->sums.n_submitted += rc == 0;
    if (!rc)
        s->queue[s->n_queued++] = t;
    pthread_cond_broadcast(&s->work);
    return rc;
}

int schedule_submit(struct schedule *s, const struct request *r, struct ticket **out, struct err *e)
{
    struct ticket *t;
    if (ticket_open(s->m, r, s->backlog, &t, e))
        return -e->code;
    t->schedule = s;
    pthread_mutex_lock(&s->lock);
    int rc = enqueue(s, t, e);
    pthread_mutex_unlock(&s->lock);
    if (rc)
        ticket_free(t);
    else
        *out = t;
    return rc;
}

void schedule_wake(struct schedule *s)
{
    pthread_mutex_lock(&s->lock);
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
}

int schedule_cancel(struct schedule *s, const char *name)
{
    int n = 0;
    struct ticket *t;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; (!name || *name) && (t = ticket_at(s, i)); i++)
        if (!name || strcmp(t->name, name) == 0 || strcmp(t->answer, name) == 0) {
            atomic_store(&t->cancel, true);
            n++;
        }
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    return n;
}

void schedule_drain(struct schedule *s)
{
    pthread_mutex_lock(&s->lock);
    s->draining = true;
    pthread_mutex_unlock(&s->lock);
}

bool schedule_idle(struct schedule *s, double seconds)
{
    const uint64_t until_ns = clock_ns() + (uint64_t)(seconds * 1e9);
    pthread_mutex_lock(&s->lock);
    while (s->n_queued + s->n_running && thread_wait_until(&s->rested, &s->lock, until_ns))
        ;
    const bool idle = s->n_queued + s->n_running == 0;
    pthread_mutex_unlock(&s->lock);
    return idle;
}

int schedule_encode(struct schedule *s, const char *text, size_t len, size_t most,
                    struct tokens *out, struct err *e)
{
    if (!s->turns)
        return ERR(e, E_UNSUPPORTED, "the model was opened without a tokenizer");
    return turns_encode(s->turns, text, len, most, out, e);
}

int schedule_list(struct schedule *s, struct request_view *out, int most)
{
    int n = 0;
    struct ticket *t;
    pthread_mutex_lock(&s->lock);
    for (; n < most && (t = ticket_at(s, n)); n++) {
        struct request_view *v = &out[n];
        *v = (struct request_view){.n_prompt = (int)t->prompt.n,
                                   .n_cached = atomic_load(&t->n_cached),
                                   .n_fed = atomic_load(&t->n_fed),
                                   .n_generated = atomic_load(&t->n_generated),
                                   .age_s = clock_seconds_since(t->submitted_ns)};
        memcpy(v->name, t->name, sizeof v->name);
        v->state = n >= s->n_running        ? REQUEST_QUEUED
                   : v->n_fed < v->n_prompt ? REQUEST_PREFILL
                                            : REQUEST_DECODE;
    }
    pthread_mutex_unlock(&s->lock);
    return n;
}

void schedule_stats(struct schedule *s, struct schedule_stats *out)
{
    struct prefix_stats p;
    prefix_stats(s->prefix, &p);
    pthread_mutex_lock(&s->lock);
    *out = s->sums;
    out->running = s->n_running;
    out->queued = s->n_queued;
    out->draining = s->draining;
    pthread_mutex_unlock(&s->lock);
    out->fed_tokens = atomic_load(&s->fed_tokens);
    out->made_tokens = atomic_load(&s->made_tokens);
    out->prefix_entries = p.entries;
    out->prefix_bytes = p.bytes;
    out->saved_entries = p.files;
    out->saved_bytes = p.file_bytes;
}

const struct counters *schedule_counters(struct schedule *s)
{
    if (pthread_mutex_trylock(&s->engine_lock))
        return NULL;
    const struct counters *c = s->m->engine ? engine_counters(s->m->engine) : NULL;
    if (!c)
        pthread_mutex_unlock(&s->engine_lock);
    return c;
}

void schedule_counters_done(struct schedule *s)
{
    pthread_mutex_unlock(&s->engine_lock);
}

void schedule_look(struct schedule *s, void (*fn)(void *ctx, struct model *m), void *ctx)
{
    struct look look = {.fn = fn, .ctx = ctx};
    pthread_mutex_lock(&s->lock);
    look.next = s->looks;
    s->looks = &look;
    pthread_cond_broadcast(&s->work);
    while (!look.done)
        pthread_cond_wait(&s->rested, &s->lock);
    pthread_mutex_unlock(&s->lock);
}
