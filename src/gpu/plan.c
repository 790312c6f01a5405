/* Plans: see plan.h.
 *
 *      free --claim--> recording --recorded--> kept --claimed for another key--> recording
 *                          |                    |
 *                          +------ failed ------+--> free
 *
 * Of kept plans the one that was not run for longest goes first. */
#include "gpu/plan.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "gpu/blocks.h"

enum { RING = 8, STAMPS_MAX = 1024 };

/* Which phase begins at each stamp of a tape; the last stamp ends one. */
struct phases {
    int n;
    uint8_t of[STAMPS_MAX];
};

struct part {
    struct tape *tape;
    uint64_t value;        /* of its last run */
    struct stop stop;      /* behind it; of the last part none */
    struct phases *phases; /* NULL: not timed */
};

struct plan {
    struct plan_key key;
    uint64_t used; /* when it was run last */
    int n;         /* parts; 0: free */
    struct part *part;
};

/* Tapes of what is not kept, each with the value of its last run. */
struct passing {
    struct tape *tape;
    uint64_t value;
    bool ran; /* and its phases are not counted yet */
    struct phases *phases;
};

struct plans {
    struct plan *plan;
    int n, parts_max;
    struct plan *recording; /* NULL: what is recorded passes */
    struct passing ring[RING];
    int at;         /* of the ring, in use */
    bool open;      /* g->tape is being recorded */
    uint64_t clock; /* runs of plans */
    uint64_t value; /* of what was started last */
    uint64_t recorded;
    enum device_phase phase; /* that is being recorded */
    struct phases *phases;   /* of the tape that is being recorded */
};

static int open_part(struct gpu *g, struct tape **tape, struct phases **phases, struct err *e)
{
    const bool timed = g->options.phases;
    *phases = timed ? mem_zalloc(1, sizeof **phases) : NULL;
    if (timed && !*phases)
        return ERR(e, E_NOMEM, "no memory for plans");
    return tape_open(g->device, timed ? STAMPS_MAX : 0, tape, e);
}

int plans_open(struct gpu *g, int n, int parts, struct err *e)
{
    struct plans *p = g->plans = mem_zalloc(1, sizeof *p);
    if (p)
        p->plan = mem_zalloc((size_t)n, sizeof *p->plan);
    if (!p || !p->plan)
        return ERR(e, E_NOMEM, "no memory for plans");
    p->n = n;
    p->parts_max = parts;
    int rc = 0;
    for (int i = 0; !rc && i < RING; i++)
        rc = open_part(g, &p->ring[i].tape, &p->ring[i].phases, e);
    for (int i = 0; !rc && i < n; i++) {
        p->plan[i].part = mem_zalloc((size_t)parts, sizeof *p->plan[i].part);
        if (!p->plan[i].part)
            rc = ERR(e, E_NOMEM, "no memory for plans");
        for (int k = 0; !rc && k < parts; k++)
            rc = open_part(g, &p->plan[i].part[k].tape, &p->plan[i].part[k].phases, e);
    }
    return rc;
}

void plans_close(struct gpu *g)
{
    struct plans *p = g->plans;
    for (int i = 0; p && p->plan && i < p->n; i++) {
        for (int k = 0; p->plan[i].part && k < p->parts_max; k++) {
            tape_close(p->plan[i].part[k].tape);
            mem_free(p->plan[i].part[k].phases);
        }
        mem_free(p->plan[i].part);
    }
    for (int i = 0; p && i < RING; i++) {
        tape_close(p->ring[i].tape);
        mem_free(p->ring[i].phases);
    }
    if (p)
        mem_free(p->plan);
    mem_free(p);
    g->plans = NULL;
}

uint64_t plans_recorded(const struct gpu *g)
{
    return g->plans->recorded;
}

/* --- tapes --- */

static void stamp(struct gpu *g)
{
    struct phases *x = g->plans->phases;
    if (!x || x->n == STAMPS_MAX)
        return;
    x->of[x->n++] = (uint8_t)g->plans->phase;
    tape_stamp(g->tape);
}

void gpu_phase(struct gpu *g, enum device_phase p)
{
    g->plans->phase = p;
    stamp(g);
}

static void count_phases(struct gpu *g, const struct tape *t, const struct phases *x)
{
    for (int i = 0; x && i + 1 < x->n; i++)
        counters_add(&g->counters.phase_ns[x->of[i]], (uint64_t)tape_ns(t, i, i + 1));
}

static void open_tape(struct gpu *g, struct tape *t, struct phases *phases)
{
    g->tape = t;
    g->plans->open = true;
    g->plans->phases = phases;
    tape_begin(t);
    if (phases)
        phases->n = 0;
    stamp(g);
}

static void open_part_tape(struct gpu *g, const struct part *p)
{
    open_tape(g, p->tape, p->phases);
}

/* The next of the ring, when its last run is over. */
static void open_passing(struct gpu *g)
{
    struct plans *p = g->plans;
    struct err ignored = {0}; /* a device that is lost fails what is recorded too */
    p->at = (p->at + 1) % RING;
    if (!device_done(g->device, p->ring[p->at].value))
        (void)device_wait(g->device, p->ring[p->at].value, &ignored);
    open_tape(g, p->ring[p->at].tape, p->ring[p->at].phases);
}

static int close_tape(struct gpu *g, struct err *e)
{
    g->plans->open = false;
    stamp(g);
    return tape_end(g->tape, e);
}

static int start_passing(struct gpu *g, struct err *e)
{
    struct plans *p = g->plans;
    int rc = close_tape(g, e);
    rc = rc ? rc : device_submit(g->device, g->tape, &p->value, e);
    if (rc)
        return rc;
    p->ring[p->at].value = p->value;
    p->ring[p->at].ran = true;
    return 0;
}

/* What is being recorded is not wanted any more. */
static void give_up(struct gpu *g)
{
    struct err ignored = {0}; /* the first failure is the one reported */
    if (g->plans->open)
        (void)close_tape(g, &ignored);
}

uint64_t gpu_started(const struct gpu *g)
{
    return g->plans->value;
}

static int wait_for(struct gpu *g, uint64_t value, struct err *e)
{
    const uint64_t start = clock_ns();
    int rc = device_wait(g->device, value, e);
    counters_add(&g->counters.phase_ns[PHASE_WAIT], clock_ns() - start);
    return rc;
}

/* The same for what was started up to a value. */
static int wait_until(struct gpu *g, uint64_t value, struct err *e)
{
    struct plans *p = g->plans;
    int rc = p ? wait_for(g, value, e) : 0;
    gpu_visit_close(g);
    for (int i = 0; !rc && p && g->options.phases && i < RING; i++) {
        if (p->ring[i].ran)
            count_phases(g, p->ring[i].tape, p->ring[i].phases);
        p->ring[i].ran = false;
    }
    return rc;
}

int gpu_wait(struct gpu *g, struct err *e)
{
    return wait_until(g, g->plans ? g->plans->value : 0, e);
}

void gpu_aside_begin(struct gpu *g)
{
    open_passing(g);
}

int gpu_aside_end(struct gpu *g, int rc, struct err *e)
{
    if (!rc)
        return start_passing(g, e);
    give_up(g);
    return rc;
}

/* --- batches --- */

bool plan_passes(const struct gpu *g)
{
    return !g->plans->recording;
}

/* value: of the tape before it. */
static int run_stop(struct gpu *g, struct batch *b, const struct stop *s, uint64_t value,
                    struct err *e)
{
    int rc = s->early ? 0 : s->inside ? wait_for(g, value, e) : wait_until(g, value, e);
    b->il = s->il;
    return rc || !s->run ? rc : s->run(g, b, s, e);
}

int gpu_stop(struct gpu *g, struct batch *b, const struct stop *s, struct err *e)
{
    struct plan *r = g->plans->recording;
    struct stop here = *s;
    here.il = b->il;
    if (r) {
        assert(r->n < g->plans->parts_max - 1);
        r->part[r->n].stop = here;
        int rc = close_tape(g, e);
        if (!rc)
            open_part_tape(g, &r->part[++r->n]);
        return rc;
    }
    int rc = start_passing(g, e);
    rc = rc ? rc : run_stop(g, b, &here, g->plans->value, e);
    if (!rc)
        open_passing(g);
    return rc;
}

int gpu_start(struct gpu *g, struct batch *b, struct err *e)
{
    static const struct stop none = {.early = true};
    return plan_passes(g) ? gpu_stop(g, b, &none, e) : 0;
}

static struct plan *find(struct plans *p, const struct plan_key *key)
{
    for (int i = 0; i < p->n; i++)
        if (p->plan[i].n && memcmp(&p->plan[i].key, key, sizeof *key) == 0)
            return &p->plan[i];
    return NULL;
}

static struct plan *oldest(struct plans *p)
{
    struct plan *least = &p->plan[0];
    for (int i = 1; i < p->n; i++)
        if (!p->plan[i].n ? least->n : least->n && p->plan[i].used < least->used)
            least = &p->plan[i];
    return least;
}

static int plan_record(struct gpu *g, struct batch *b, struct plan *r, gpu_record *record,
                       struct err *e)
{
    r->n = 0;
    g->plans->recorded++;
    g->plans->recording = r;
    open_part_tape(g, &r->part[0]);
    int rc = record(g, b, e);
    rc = rc ? rc : close_tape(g, e);
    give_up(g);
    g->plans->recording = NULL;
    r->n = rc ? 0 : r->n + 1;
    return rc;
}

static int start_part(struct gpu *g, struct part *p, struct err *e)
{
    int rc = device_submit(g->device, p->tape, &p->value, e);
    if (!rc)
        g->plans->value = p->value;
    return rc;
}

static int plan_run(struct gpu *g, struct batch *b, struct plan *r, struct err *e)
{
    int rc = start_part(g, &r->part[0], e);
    r->used = ++g->plans->clock;
    for (int i = 0; !rc && i < r->n - 1; i++) {
        struct part *p = &r->part[i];
        if (p->stop.later)
            rc = start_part(g, &p[1], e);
        rc = rc ? rc : run_stop(g, b, &p->stop, p->value, e);
        if (!rc && !p->stop.later)
            rc = start_part(g, &p[1], e);
    }
    return rc;
}

static int run_kept(struct gpu *g, struct batch *b, const struct plan_key *key, gpu_record *record,
                    struct err *e)
{
    struct plan *r = find(g->plans, key);
    int rc = 0;
    if (!r) {
        r = oldest(g->plans);
        rc = plan_record(g, b, r, record, e);
        r->key = *key;
    }
    rc = rc ? rc : plan_run(g, b, r, e);
    rc = rc ? rc : gpu_wait(g, e);
    for (int i = 0; !rc && i < r->n; i++)
        count_phases(g, r->part[i].tape, r->part[i].phases);
    return rc;
}

static int run_passing(struct gpu *g, struct batch *b, gpu_record *record, struct err *e)
{
    open_passing(g);
    int rc = record(g, b, e);
    rc = rc ? rc : start_passing(g, e);
    give_up(g);
    return rc;
}

int gpu_batch_run(struct gpu *g, struct batch *b, const struct plan_key *key, gpu_record *record,
                  struct err *e)
{
    struct err ignored = {0};
    *(u32 *)gpu_back(g, g->scratch.bad) = UINT32_MAX;
    g->plans->phase = PHASE_EMBED;
    int rc = key ? run_kept(g, b, key, record, e) : run_passing(g, b, record, e);
    if (!rc)
        return gpu_wait(g, e);
    (void)gpu_wait(g, &ignored); /* what was started reads tables and records */
    return rc;
}

int gpu_batch_rehearse(struct gpu *g, struct batch *b, gpu_record *record, struct err *e)
{
    struct plan *r = oldest(g->plans);
    g->plans->phase = PHASE_EMBED;
    int rc = plan_record(g, b, r, record, e);
    g->plans->recorded--;
    r->n = 0;
    return rc;
}
