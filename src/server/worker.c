/* The worker: the one thread that steps the model. A round drops what was cancelled, admits what
 * waits, makes a step for all that decode, which short ends of prompts share, and feeds a chunk to
 * one of those that still have a prompt.
 *
 * Time is shared by halves: after a chunk, answers decode for as long as it took before the next
 * one. Chunks are as long as the engine takes when no one waits for them, else about CHUNK_DECODE_S
 * (answers decode) or CHUNK_TURN_S (other prompts wait). */
#include <string.h>

#include "base/clock.h"
#include "server/schedule_inside.h"

#define CHUNK_DECODE_S 0.5
#define CHUNK_TURN_S   2.0
#define TICK_NS        ((uint64_t)2000000000)

enum { CHUNK_MIN = 16, CHUNK_FIRST = 64 };

static bool wait_for_work(struct schedule *s);
static void drop_cancelled(struct schedule *s);
static void decode(struct schedule *s);
static void prefill(struct schedule *s);
static void rest(struct schedule *s);
static void end_all(struct schedule *s);

void worker_main(void *schedule)
{
    struct schedule *s = schedule;
    while (wait_for_work(s)) {
        drop_cancelled(s);
        if (!recover(s))
            continue;
        admit(s);
        decode(s);
        prefill(s);
    }
    end_all(s);
    rest(s);
}

/* The lock is held, but not while they look. */
static void serve_looks(struct schedule *s)
{
    while (s->looks) {
        struct look *look = s->looks;
        s->looks = look->next;
        pthread_mutex_unlock(&s->lock);
        look->fn(look->ctx, s->m->engine ? s->m : NULL);
        pthread_mutex_lock(&s->lock);
        look->done = true;
        pthread_cond_broadcast(&s->rested);
    }
}

/* False: stop. */
static bool wait_for_work(struct schedule *s)
{
    pthread_mutex_lock(&s->lock);
    for (;;) {
        serve_looks(s);
        if (s->stop || s->n_running + s->n_queued)
            break;
        pthread_cond_broadcast(&s->rested);
        if (thread_wait_until(&s->work, &s->lock, clock_ns() + TICK_NS))
            continue;
        pthread_mutex_unlock(&s->lock);
        rest(s);
        pthread_mutex_lock(&s->lock);
    }
    const bool go = !s->stop;
    pthread_mutex_unlock(&s->lock);
    return go;
}

/* Nothing to do: what sequences hold becomes files, should this be the end. */
static void rest(struct schedule *s)
{
    prefix_tidy(s->prefix);
    for (int i = 0; s->saves && i < s->n_slots; i++) {
        struct slot *x = &s->slots[i];
        if (!x->kept)
            prefix_keep(s->prefix, x->held.ids, (int)x->held.n, x->seq);
        x->kept = true;
    }
}

static struct ticket *take_cancelled(struct schedule *s)
{
    struct ticket *t = NULL;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; !t && i < s->n_queued; i++)
        if (atomic_load(&s->queue[i]->cancel)) {
            t = s->queue[i];
            memmove(s->queue + i, s->queue + i + 1, (size_t)(--s->n_queued - i) * sizeof(void *));
        }
    pthread_mutex_unlock(&s->lock);
    return t;
}

static void drop_cancelled(struct schedule *s)
{
    struct ticket *t;
    while ((t = take_cancelled(s)))
        ticket_drop(s, t, NULL);
    for (int i = 0; i < s->n_slots; i++)
        if (s->slots[i].t && atomic_load(&s->slots[i].t->cancel))
            slot_end(s, &s->slots[i], NULL);
}

static void end_all(struct schedule *s)
{
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->n_queued; i++)
        atomic_store(&s->queue[i]->cancel, true);
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < s->n_slots; i++)
        if (s->slots[i].t)
            atomic_store(&s->slots[i].t->cancel, true);
    drop_cancelled(s);
}

/* Tokens that were made go to the ticket; the request may end by it. */
static void deliver(struct schedule *s, struct slot *x)
{
    struct generation *g = x->g;
    struct err e = {0};
    const char *text;
    size_t len;
    int rc;
    do {
        struct given given;
        rc = generation_next(g, &text, &len, &e);
        if (!rc && generation_given(g, &given)) {
            atomic_fetch_add(&x->t->n_generated, 1);
            atomic_fetch_add(&s->made_tokens, 1);
            rc = ticket_put(x->t, &given, text, len, &e);
        }
    } while (!rc && text && (generation_waiting(g) || !generation_wants_step(g)));
    if (rc || !text)
        slot_end(s, x, rc ? &e : NULL);
}

/* No place where the state is kept lies between what was fed of the prompt and its end. */
static bool without_cut(const struct slot *x, int fed)
{
    for (int i = 0; i < CUTS_MAX; i++)
        if (x->cuts[i] > fed)
            return false;
    return true;
}

/* The slots whose answers decode, and those whose prompt fits into their step: who [BATCH_MAX]. */
static int share_step(const struct schedule *s, struct slot **who)
{
    struct generation *g[BATCH_MAX];
    bool shares[BATCH_MAX];
    int n = 0, n_step = 0;
    for (int i = 0; i < s->n_slots; i++) {
        struct slot *x = (struct slot *)&s->slots[i];
        if (x->decoding || (x->t && without_cut(x, atomic_load(&x->t->n_fed)))) {
            who[n] = x;
            g[n++] = x->g;
        }
    }
    batch_shares(s->batch, g, n, shares);
    for (int i = 0; i < n; i++)
        if (who[i]->decoding || shares[i])
            who[n_step++] = who[i];
    return n_step;
}

/* After the slot's prompt was fed, or more of it. */
static void prompt_fed(struct schedule *s, struct slot *x, int fed)
{
    const int before = atomic_exchange(&x->t->n_fed, fed);
    atomic_fetch_add(&s->fed_tokens, (uint_fast64_t)(fed - before));
    x->decoding = !generation_wants_prompt(x->g);
}

static void decode(struct schedule *s)
{
    const struct engine_ops *ops = s->m->engine->ops;
    struct generation *g[BATCH_MAX];
    struct slot *who[BATCH_MAX];
    const int n = share_step(s, who);
    const uint64_t start = clock_ns();
    for (int i = 0; i < n; i++)
        g[i] = who[i]->g;
    if (n)
        batch_run(s->batch, g, n);
    for (int i = 0; i < n; i++) {
        if (!who[i]->decoding)
            prompt_fed(s, who[i], ops->sequence_length(who[i]->seq));
        deliver(s, who[i]);
    }
    s->owed_s -= clock_seconds_since(start);
}

/* Of those that have a prompt, the one whose turn it is; how many have one, and how many decode. */
static struct slot *whose_turn(struct schedule *s, int *n_prompts, int *n_decode)
{
    struct slot *x = NULL;
    *n_prompts = *n_decode = 0;
    for (int k = 1; k <= s->n_slots; k++) {
        const int i = (s->turn + k) % s->n_slots;
        *n_decode += s->slots[i].decoding;
        if (!s->slots[i].t || s->slots[i].decoding)
            continue;
        if (!(*n_prompts)++)
            x = &s->slots[i];
    }
    if (x)
        s->turn = (int)(x - s->slots);
    return x;
}

/* How many tokens are fed at once. */
static int chunk_tokens(const struct schedule *s, int n_prompts, int n_decode)
{
    const int most = s->m->engine->chunk;
    if (n_prompts == 1 && !n_decode)
        return most;
    const double want_s = n_decode ? CHUNK_DECODE_S : CHUNK_TURN_S;
    const double n = s->token_s > 0 ? want_s / s->token_s : CHUNK_FIRST;
    return n >= most ? most : n <= CHUNK_MIN ? CHUNK_MIN : (int)n;
}

/* Up to the next place where the state is kept. */
static int up_to_cut(const struct slot *x, int fed, int n)
{
    for (int i = 0; i < CUTS_MAX; i++)
        if (x->cuts[i] > fed && x->cuts[i] - fed < n)
            n = x->cuts[i] - fed;
    return n;
}

static void keep_at_cut(struct schedule *s, const struct slot *x, int fed)
{
    for (int i = 0; i < CUTS_MAX; i++)
        if (x->cuts[i] == fed && fed) {
            prefix_keep(s->prefix, x->t->prompt.ids, fed, x->seq);
            return;
        }
}

static void prefill(struct schedule *s)
{
    int n_prompts, n_decode;
    struct slot *x = whose_turn(s, &n_prompts, &n_decode);
    if (!n_decode)
        s->owed_s = 0;
    if (!x || s->owed_s > 0)
        return;
    const struct engine_ops *ops = s->m->engine->ops;
    const int before = ops->sequence_length(x->seq);
    const int n = up_to_cut(x, before, chunk_tokens(s, n_prompts, n_decode));
    const uint64_t start = clock_ns();
    batch_feed(s->batch, x->g, n);
    const int fed = ops->sequence_length(x->seq);
    const double seconds = clock_seconds_since(start);
    if (fed - before >= CHUNK_MIN)
        s->token_s = seconds / (fed - before);
    s->owed_s = n_decode ? seconds : 0;
    prompt_fed(s, x, fed);
    keep_at_cut(s, x, fed);
    if (x->decoding)
        deliver(s, x);
}
