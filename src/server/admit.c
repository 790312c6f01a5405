/* Who goes where: a queued request is given to the free sequence that has most of its prompt, or
 * else the state is restored that has, or else it begins at nothing; and what becomes of a slot
 * when its request is over.
 *
 * States are kept where a later prompt is likely to part from this one: before the last message
 * that opens (the answer's); before the message from which on it differs from another prompt of
 * late (so a system prompt is kept once a second request has it); and at the end of a prompt that
 * several requests share. A request whose beginning another one is about to keep waits for it. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/schedule_inside.h"

/* Where the beginning of a prompt is. */
struct found {
    struct slot *slot; /* the free one to use */
    int n;             /* tokens that need not be fed */
    bool live;         /* they are in the slot; else they are kept */
};

static struct ticket *next_ticket(struct schedule *s, struct found *where);
static void slot_admit(struct schedule *s, struct ticket *t, const struct found *where);

void admit(struct schedule *s)
{
    struct found where;
    struct ticket *t;
    while ((t = next_ticket(s, &where)))
        slot_admit(s, t, &where);
}

static int common(const int32_t *a, size_t na, const int32_t *b, size_t nb)
{
    const size_t n = na < nb ? na : nb;
    size_t i = 0;
    while (i < n && a[i] == b[i])
        i++;
    return (int)i;
}

static int common_of(const struct ticket *t, const struct tokens *with)
{
    return common(t->prompt.ids, t->prompt.n, with->ids, with->n);
}

/* The best of the free slots, if there is one. */
static bool find(const struct schedule *s, const struct ticket *t, struct found *out)
{
    *out = (struct found){0};
    for (int i = 0; i < s->n_slots; i++) {
        struct slot *x = (struct slot *)&s->slots[i];
        const int held = (int)x->held.n;
        if (x->t)
            continue;
        const bool live =
            !t->r.fresh && held && (size_t)held < t->prompt.n && common_of(t, &x->held) == held;
        if (live && held > out->n)
            *out = (struct found){x, held, true};
        else if (!out->slot || (!out->live && x->used < out->slot->used))
            out->slot = x;
    }
    const int kept = t->r.fresh ? 0 : prefix_longest(s->prefix, t->prompt.ids, (int)t->prompt.n);
    if (out->slot && kept > out->n) {
        out->n = kept;
        out->live = false;
    }
    return out->slot != NULL;
}

/* Another request is about to keep more of this prompt than there is. */
static bool should_wait(const struct schedule *s, const struct ticket *t, int n)
{
    for (int i = 0; i < s->n_slots && !t->r.fresh; i++) {
        const struct slot *x = &s->slots[i];
        if (!x->t || x->decoding)
            continue;
        const int fed = atomic_load(&x->t->n_fed), same = common_of(t, &x->t->prompt);
        for (int c = 0; c < CUTS_MAX; c++)
            if (x->cuts[c] > fed && x->cuts[c] > n && x->cuts[c] <= same &&
                (size_t)x->cuts[c] < t->prompt.n)
                return true;
    }
    return false;
}

/* Takes the first one that need not wait out of the queue. Only the worker takes from it, so what
 * was looked at without the lock is still there. */
static struct ticket *next_ticket(struct schedule *s, struct found *where)
{
    pthread_mutex_lock(&s->lock);
    const int n_queued = s->n_queued;
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < n_queued; i++) {
        struct ticket *t = s->queue[i];
        if (!find(s, t, where))
            return NULL;
        if (should_wait(s, t, where->n))
            continue;
        pthread_mutex_lock(&s->lock);
        memmove(s->queue + i, s->queue + i + 1, (size_t)(--s->n_queued - i) * sizeof(void *));
        where->slot->t = t;
        s->n_running++;
        s->sums.prefix_hits += where->n > 0;
        s->sums.prefix_misses += where->n == 0;
        pthread_mutex_unlock(&s->lock);
        return t;
    }
    return NULL;
}

/* --- where states are kept --- */

/* The last border of a prompt that is not behind token n, or 0. */
static int border_before(const struct schedule *s, const struct ticket *t, int n)
{
    if (t->r.borders) {
        size_t i = t->r.n_borders;
        while (i && t->r.borders[i - 1] > n)
            i--;
        return i ? t->r.borders[i - 1] : 0;
    }
    while (n > 0 && ((size_t)n >= t->prompt.n || t->prompt.ids[n] != s->im_start))
        n--;
    return n;
}

/* The border behind the first message, or 0: system and tools, with which an agent's next
 * conversation begins too. Only where feeding that much again takes a chunk or more, since keeping
 * it can cost one. */
static int opening_border(const struct schedule *s, const struct ticket *t, int last)
{
    int n = 1;
    if (t->r.borders)
        n = t->r.n_borders ? t->r.borders[0] : 0;
    else
        while (n <= last && t->prompt.ids[n] != s->im_start)
            n++;
    return n <= last && n >= s->m->engine->chunk ? n : 0;
}

/* How much of it another prompt of late, or one that waits, begins with too. */
static int shared_with_others(struct schedule *s, const struct ticket *t)
{
    int most = 0;
    for (int i = 0; i < RECENT_MAX; i++) {
        const int n = common_of(t, &s->recent[i]);
        most = n > most ? n : most;
    }
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->n_queued; i++) {
        const int n = common_of(t, &s->queue[i]->prompt);
        most = n > most ? n : most;
    }
    pthread_mutex_unlock(&s->lock);
    return most;
}

static void plan_cuts(struct schedule *s, struct slot *x, int n_cached)
{
    const struct ticket *t = x->t;
    const int last = (int)t->prompt.n - 1, answer = border_before(s, t, last);
    int other = shared_with_others(s, t);
    if (other > last)
        other = last;
    if (answer) /* there are borders */
        other = border_before(s, t, other);
    const int cuts[CUTS_MAX] = {answer, other, t->r.shared ? last : 0, opening_border(s, t, last)};
    for (int i = 0; i < CUTS_MAX; i++)
        x->cuts[i] = cuts[i] > n_cached && cuts[i] >= s->tokens_min ? cuts[i] : 0;
}

static void note_recent(struct schedule *s, const struct ticket *t)
{
    struct tokens *r = &s->recent[s->n_admitted % RECENT_MAX];
    tokens_free(r);
    *r = (struct tokens){.ids = mem_array(t->prompt.n, sizeof *r->ids)};
    if (!r->ids)
        return; /* it is only a hint */
    memcpy(r->ids, t->prompt.ids, t->prompt.n * sizeof *r->ids);
    r->n = r->cap = t->prompt.n;
}

/* --- slots --- */

/* The slot's sequence comes to hold a beginning of the prompt, or nothing. Returns how many tokens.
 * What it held before is kept first, and that may have taken the room of what was found. */
static int prepare(struct schedule *s, struct slot *x, const struct found *where)
{
    const struct ticket *t = x->t;
    if (where->live)
        return where->n;
    if (x->held.n && !x->kept)
        prefix_keep(s->prefix, x->held.ids, (int)x->held.n, x->seq);
    const int n = where->n ? prefix_longest(s->prefix, t->prompt.ids, (int)t->prompt.n) : 0;
    if (n && prefix_restore(s->prefix, t->prompt.ids, n, x->seq) == 0)
        return n;
    s->m->engine->ops->sequence_reset(x->seq);
    return 0;
}

static int open_generation(struct schedule *s, struct slot *x, struct err *e)
{
    const struct request *r = &x->t->r;
    struct generate_options o = {
        .sample = r->sample,
        .draft = s->draft,
        .batch = s->batch,
        .max_tokens = r->max_tokens,
        .stop = r->stop,
        .n_stop = r->n_stop,
        .ignore_stop_ids = r->ignore_stop_ids,
        .constraint = r->constraint,
        .logprobs = r->logprobs,
        .top_logprobs = r->top_logprobs,
    };
    if (r->drafts >= 0 && r->drafts < o.draft.most)
        o.draft.most = r->drafts;
    return generation_open(s->m, x->seq, &x->t->prompt, &o, &x->g, e);
}

static void slot_admit(struct schedule *s, struct ticket *t, const struct found *where)
{
    struct slot *x = where->slot;
    struct err e = {0};
    x->admitted_ns = clock_ns();
    x->decoding = false;
    const int n = prepare(s, x, where);
    x->held.n = 0;
    x->used = ++s->n_admitted;
    atomic_store(&t->n_cached, n);
    atomic_store(&t->n_fed, n);
    plan_cuts(s, x, n);
    note_recent(s, t);
    if (open_generation(s, x, &e))
        slot_end(s, x, &e);
}

/* What the sequence holds: a beginning of prompt and answer. */
static void hold(struct schedule *s, struct slot *x, const struct tokens *said)
{
    const struct tokens *prompt = &x->t->prompt;
    const size_t n = (size_t)s->m->engine->ops->sequence_length(x->seq);
    const size_t from_prompt = n < prompt->n ? n : prompt->n;
    memcpy(x->held.ids, prompt->ids, from_prompt * sizeof *prompt->ids);
    if (n > from_prompt)
        memcpy(x->held.ids + from_prompt, said->ids, (n - from_prompt) * sizeof *said->ids);
    x->held.n = n;
    x->kept = false;
}

/* Ends the generation, and fills in what it came to. */
static void close_generation(struct schedule *s, struct slot *x, struct ending *end)
{
    const struct request *r = &x->t->r;
    struct generate_result result = {0};
    struct err e = {0};
    if (generation_end(x->g, &e) == 0 && generation_result(x->g, &result, &e) == 0) {
        end->finish = result.finish;
        end->stop_string = result.stop_string;
        end->n_generated = result.n_generated;
        end->n_drafted = result.n_drafted;
        end->n_accepted = result.n_accepted;
        end->n_steps = result.n_steps;
        end->decode_s = result.decode_s;
        end->prefill_s = clock_seconds_since(x->admitted_ns) - result.decode_s;
        hold(s, x, &result.ids);
        if (s->turns && r->text && !end->err.code && result.finish != FINISH_INTERRUPTED)
            turns_keep(s->turns, r->text, x->t->text.len, &x->t->prompt, &result.ids);
    } else if (!end->err.code) {
        end->err = e;
    }
    tokens_free(&result.ids);
    generation_close(x->g);
    x->g = NULL;
}

/* The lock is held. */
static void count(struct schedule *s, const struct ending *end)
{
    struct schedule_stats *sums = &s->sums;
    sums->n_failed += end->err.code != 0;
    sums->n_cancelled += !end->err.code && end->finish == FINISH_INTERRUPTED;
    sums->n_done += !end->err.code && end->finish != FINISH_INTERRUPTED;
    sums->prompt_tokens += (uint64_t)end->n_prompt;
    sums->cached_tokens += (uint64_t)end->n_cached;
    sums->generated_tokens += (uint64_t)end->n_generated;
    sums->drafted_tokens += (uint64_t)end->n_drafted;
    sums->accepted_tokens += (uint64_t)end->n_accepted;
    sums->queue_s += end->queue_s;
    sums->prefill_s += end->prefill_s;
    sums->decode_s += end->decode_s;
}

static struct ending ending_of(const struct ticket *t, const struct err *why, uint64_t until_ns)
{
    struct ending end = {.finish = FINISH_INTERRUPTED,
                         .stop_string = -1,
                         .n_prompt = (int)t->prompt.n,
                         .n_cached = atomic_load(&t->n_cached),
                         .queue_s = (double)(until_ns - t->submitted_ns) * 1e-9};
    if (why)
        end.err = *why;
    return end;
}

void slot_end(struct schedule *s, struct slot *x, const struct err *why)
{
    struct ticket *t = x->t;
    struct ending end = ending_of(t, why, x->admitted_ns);
    if (x->g)
        close_generation(s, x, &end);
    if (end.err.code) {
        end.finish = FINISH_NONE;
        s->m->engine->ops->sequence_reset(x->seq);
        x->held.n = 0;
    }
    x->decoding = false;
    pthread_mutex_lock(&s->lock);
    x->t = NULL;
    s->n_running--;
    count(s, &end);
    pthread_mutex_unlock(&s->lock);
    ticket_end(t, &end);
}

void ticket_drop(struct schedule *s, struct ticket *t, const struct err *why)
{
    struct ending end = ending_of(t, why, clock_ns());
    if (why)
        end.finish = FINISH_NONE;
    pthread_mutex_lock(&s->lock);
    count(s, &end);
    pthread_mutex_unlock(&s->lock);
    ticket_end(t, &end);
}
