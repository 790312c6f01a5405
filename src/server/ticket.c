/* Tickets: see ticket.h. */
#include "server/ticket_inside.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "server/schedule_inside.h"
#include "text/stop.h"

struct event_node {
    struct event_node *next;
    struct event event;
    struct sample_logprobs logprobs;
    char text[];
};

static int check(struct model *m, const struct request *r, struct err *e);
static int copy(struct ticket *t, const struct request *r, struct err *e);
static struct event_node *node_new(size_t text);

int ticket_open(struct model *m, const struct request *r, int backlog, struct ticket **out,
                struct err *e)
{
    if (check(m, r, e))
        return -e->code;
    struct ticket *t = mem_zalloc(1, sizeof *t);
    if (!t)
        return ERR(e, E_NOMEM, "no memory for a request");
    t->r = *r;
    t->backlog = backlog;
    t->submitted_ns = clock_ns();
    pthread_mutex_init(&t->lock, NULL);
    thread_cond_init(&t->changed);
    if (copy(t, r, e)) {
        ticket_free(t);
        return -e->code;
    }
    *out = t;
    return 0;
}

static void free_events(struct event_node *n)
{
    while (n) {
        struct event_node *next = n->next;
        mem_free(n);
        n = next;
    }
}

void ticket_free(struct ticket *t)
{
    free_events(t->first);
    free_events(t->taken);
    free_events(t->end);
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->changed);
    tokens_free(&t->prompt);
    buf_free(&t->text);
    mem_free(t->borders);
    for (size_t i = 0; t->stop && i < t->r.n_stop; i++)
        mem_free(t->stop[i]);
    mem_free(t->stop);
    mem_free(t->bias);
    mem_free(t);
}

/* Everything that would make the answer fail at its beginning. */
static int check(struct model *m, const struct request *r, struct err *e)
{
    const struct tokens prompt = {.ids = (int32_t *)r->prompt, .n = r->n_prompt};
    struct stop stop;
    if (generation_check(m, &prompt, e) || sample_options_check(&r->sample, e) ||
        stop_init(&stop, r->stop, r->n_stop, e))
        return -e->code;
    stop_free(&stop);
    if (r->name && strlen(r->name) > TICKET_NAME_MAX)
        return ERR(e, E_ARG, "the request's name has %zu bytes, want at most %d", strlen(r->name),
                   TICKET_NAME_MAX);
    assert(!r->answer || strlen(r->answer) <= TICKET_NAME_MAX);
    if (r->n_stop && !m->tokenizer)
        return ERR(e, E_ARG, "stop strings need a tokenizer, and the model was opened without");
    if (r->top_logprobs < 0 || r->top_logprobs > SAMPLE_TOP_MAX)
        return ERR(e, E_ARG, "logprobs of the %d likeliest tokens, want 0 to %d", r->top_logprobs,
                   SAMPLE_TOP_MAX);
    if (r->max_tokens < 0)
        return ERR(e, E_ARG, "at most %d tokens, want 0 (no limit) or more", r->max_tokens);
    if (r->n_borders > TICKET_BORDERS_MAX)
        return ERR(e, E_LIMIT, "%zu borders in a prompt, want at most %d", r->n_borders,
                   TICKET_BORDERS_MAX);
    return 0;
}

static void *copy_array(const void *from, size_t n, size_t bytes)
{
    void *to = mem_array(n, bytes);
    if (to && n)
        memcpy(to, from, n * bytes);
    return to;
}

static int copy(struct ticket *t, const struct request *r, struct err *e)
{
    if (r->name)
        memcpy(t->name, r->name, strlen(r->name) + 1); /* check: it fits */
    if (r->answer)
        memcpy(t->answer, r->answer, strlen(r->answer) + 1);
    t->r.n_stop = 0; /* as many as are copied */
    t->prompt.ids = copy_array(r->prompt, r->n_prompt, sizeof *r->prompt);
    t->prompt.n = t->prompt.cap = r->n_prompt;
    t->borders = copy_array(r->borders, r->n_borders, sizeof *r->borders);
    t->bias = copy_array(r->sample.bias, (size_t)r->sample.n_bias, sizeof *r->sample.bias);
    t->stop = mem_zalloc(r->n_stop, sizeof *t->stop);
    t->end = node_new(0);
    if (r->text)
        buf_add(&t->text, r->text, r->text_len);
    for (; t->stop && t->r.n_stop < r->n_stop; t->r.n_stop++)
        if (!(t->stop[t->r.n_stop] = mem_strdup(r->stop[t->r.n_stop])))
            break;
    if (!t->prompt.ids || !t->borders || !t->bias || !t->stop || !t->end ||
        t->r.n_stop < r->n_stop || t->text.failed)
        return ERR(e, E_NOMEM, "no memory for a request of %zu tokens", r->n_prompt);
    t->r.name = t->name;
    t->r.answer = t->answer;
    t->r.prompt = t->prompt.ids;
    t->r.text = r->text ? buf_str(&t->text) : NULL;
    t->r.borders = r->borders ? t->borders : NULL;
    t->r.stop = (const char *const *)t->stop;
    t->r.sample.bias = t->bias;
    return 0;
}

/* --- the queue of events; its lock is held --- */

enum waking { WAKE_NOT, WAKE, WAKE_AT_ONCE };

/* How whoever asked for it is to be woken. */
static enum waking append(struct ticket *t, struct event_node *n)
{
    const bool at_once = !t->begun || t->over;
    if (t->last)
        t->last->next = n;
    else
        t->first = n;
    t->last = n;
    t->n_events++;
    t->begun = true;
    pthread_cond_broadcast(&t->changed);
    return at_once ? WAKE_AT_ONCE : t->n_events == 1 ? WAKE : WAKE_NOT;
}

static void wake(const struct ticket *t, enum waking waking)
{
    if (waking != WAKE_NOT && t->r.wake)
        t->r.wake(t->r.wake_ctx, waking == WAKE_AT_ONCE);
}

static bool take(struct ticket *t, struct event *out)
{
    free_events(t->taken);
    t->taken = t->first;
    if (!t->taken)
        return false;
    t->first = t->taken->next;
    t->taken->next = NULL;
    if (!t->first)
        t->last = NULL;
    t->n_events--;
    *out = t->taken->event;
    return true;
}

static struct event_node *node_new(size_t text)
{
    return mem_zalloc(1, sizeof(struct event_node) + text + 1);
}

int ticket_put(struct ticket *t, const struct given *given, const char *text, size_t len,
               struct err *e)
{
    struct event_node *n = node_new(len);
    if (!n)
        return ERR(e, E_NOMEM, "no memory for a token of an answer");
    memcpy(n->text, text, len);
    n->event = (struct event){.kind = EVENT_TOKEN,
                              .id = given->id,
                              .is_stop = given->is_stop,
                              .text = n->text,
                              .len = len};
    if (given->logprobs) {
        n->logprobs = *given->logprobs;
        n->event.logprobs = &n->logprobs;
    }
    pthread_mutex_lock(&t->lock);
    const bool full = t->n_events >= t->backlog;
    const enum waking waking = full ? WAKE_NOT : append(t, n);
    pthread_mutex_unlock(&t->lock);
    wake(t, waking); /* who wakes asks for the lock; the ticket is there until ticket_end */
    if (!full)
        return 0;
    mem_free(n);
    return ERR(e, E_LIMIT, "%d tokens wait to be read: the reader is too slow", t->backlog);
}

void ticket_end(struct ticket *t, const struct ending *ending)
{
    pthread_mutex_lock(&t->lock);
    t->ending = *ending;
    t->over = true;
    t->end->event = (struct event){.kind = EVENT_END, .ending = &t->ending};
    const enum waking waking = append(t, t->end);
    t->end = NULL;
    wake(t, waking); /* behind the lock it may be closed */
    pthread_mutex_unlock(&t->lock);
}

bool ticket_take(struct ticket *t, struct event *out)
{
    pthread_mutex_lock(&t->lock);
    const bool any = take(t, out);
    pthread_mutex_unlock(&t->lock);
    return any;
}

bool ticket_wait(struct ticket *t, double seconds, struct event *out)
{
    const uint64_t until_ns = clock_ns() + (uint64_t)(seconds * 1e9);
    pthread_mutex_lock(&t->lock);
    while (!t->first && thread_wait_until(&t->changed, &t->lock, until_ns))
        ;
    const bool any = take(t, out);
    pthread_mutex_unlock(&t->lock);
    return any;
}

void ticket_cancel(struct ticket *t)
{
    pthread_mutex_lock(&t->lock);
    const bool over = t->over;
    pthread_mutex_unlock(&t->lock);
    atomic_store(&t->cancel, true);
    if (!over)
        schedule_wake(t->schedule);
}

void ticket_close(struct ticket *t)
{
    if (!t)
        return;
    ticket_cancel(t);
    pthread_mutex_lock(&t->lock);
    while (!t->over)
        pthread_cond_wait(&t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
    ticket_free(t);
}
