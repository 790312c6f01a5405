/* An engine that was lost, as a device can be: what ran on it fails by that name, it is closed and
 * opened again with its sequences, and the next request is served as if nothing had been. States
 * kept in memory and on disk are still good. While it cannot be opened, every request fails, and
 * each is one more try. */
#include "base/log.h"
#include "server/schedule_inside.h"

static bool is_lost(const struct engine *g)
{
    return g->ops->lost && g->ops->lost(g);
}

static void end_running(struct schedule *s)
{
    struct err why = {0};
    (void)ERR(&why, E_IO, "engine %s was lost while it computed this; ask again",
              s->m->engine->ops->name);
    for (int i = 0; i < s->n_slots; i++)
        if (s->slots[i].t)
            slot_end(s, &s->slots[i], &why);
}

static struct ticket *take_first(struct schedule *s)
{
    pthread_mutex_lock(&s->lock);
    struct ticket *t = s->queue[0];
    s->n_queued--;
    for (int i = 0; i < s->n_queued; i++)
        s->queue[i] = s->queue[i + 1];
    pthread_mutex_unlock(&s->lock);
    return t;
}

/* Those that wait now; who comes meanwhile is the next try. */
static void drop_queued(struct schedule *s, const struct err *why)
{
    pthread_mutex_lock(&s->lock);
    int n = s->n_queued;
    pthread_mutex_unlock(&s->lock);
    while (n--)
        ticket_drop(s, take_first(s), why);
}

bool recover(struct schedule *s)
{
    struct err e = {0};
    if (s->m->engine && s->slots[0].seq && !is_lost(s->m->engine))
        return true;
    if (s->m->engine) {
        end_running(s);
        slots_close(s);
    }
    pthread_mutex_lock(&s->engine_lock);
    const int rc = model_reopen(s->m, &e);
    pthread_mutex_unlock(&s->engine_lock);
    if (rc == 0 && slots_open(s, &e) == 0) {
        log_say(LOG_WARN, "engine %s was lost, and was opened again", s->m->engine->ops->name);
        return true;
    }
    err_prefix(&e, "the engine was lost, and cannot be opened again");
    log_say(LOG_ERROR, "%s", e.msg);
    drop_queued(s, &e);
    return false;
}
