/* A reader that spoils another one's work, for tests: see reader.h. Requests are delayed, split in
 * two (as after a short read), done twice (as after a signal), failed, and completed in random
 * order. What happens to the nth request depends on the seed and n alone; when, on the clock. */
#include <assert.h>
#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "stream/reader.h"

enum { DELAY_NS_MAX = 400 * 1000, NAP_NS = 20 * 1000 };

/* IDLE -> INNER -> (again, or the other half) INNER -> HELD -> IDLE; failed ones go to HELD at
 * once. */
enum phase { IDLE, INNER, HELD };

struct spoiled {
    enum phase phase;
    struct read_request q;
    size_t first; /* bytes of the first half; 0: not split, or done with it */
    bool again;   /* the first completion does not count */
    uint64_t start_ns, due_ns;
    int error;
};

struct fault_reader {
    struct reader base;
    struct reader *inner;
    struct reader_faults faults;
    struct spoiled request[READER_DEPTH_MAX];
    long n_requests; /* so far */
    int n_inner, n_flight;
    uint64_t draws;
};

static const struct reader_ops ops;

int reader_fault_open(struct reader *inner, const struct reader_faults *f, struct reader **out,
                      struct reader_faults **live, struct err *e)
{
    struct fault_reader *r = mem_zalloc(1, sizeof *r);
    *out = NULL;
    if (!r)
        return ERR(e, E_NOMEM, "out of memory for faults");
    r->base = (struct reader){.ops = &ops, .depth = inner->depth};
    r->inner = inner;
    r->faults = *f;
    *out = &r->base;
    if (live)
        *live = &r->faults;
    return 0;
}

static int fault_add(struct reader *reader, const char *path, int *file, struct err *e)
{
    struct reader *inner = ((struct fault_reader *)reader)->inner;
    return inner->ops->add(inner, path, file, e);
}

static uint64_t draw(struct fault_reader *r)
{
    return rng_at(r->faults.seed, r->draws++);
}

static bool one_in(struct fault_reader *r, int n)
{
    uint64_t x = draw(r);
    return n > 0 && x % (uint64_t)n == 0;
}

static void pass_on(struct fault_reader *r, struct spoiled *x)
{
    struct read_request q = x->q;
    q.user = x;
    if (x->first) {
        q.len = x->first;
        q.want = q.want < q.len ? q.want : q.len;
    }
    r->n_inner++;
    r->inner->ops->submit(r->inner, &q);
}

static void fault_submit(struct reader *reader, const struct read_request *q)
{
    struct fault_reader *r = (struct fault_reader *)reader;
    const struct reader_faults *f = &r->faults;
    struct spoiled *x = r->request;
    assert(r->n_flight < r->base.depth);
    while (x->phase != IDLE)
        x++;
    *x = (struct spoiled){.phase = INNER, .q = *q, .start_ns = clock_ns()};
    x->due_ns = one_in(r, f->delay) ? x->start_ns + draw(r) % DELAY_NS_MAX : 0;
    if (one_in(r, f->shorten) && q->len > READER_ALIGN)
        x->first = (1 + (size_t)(draw(r) % (q->len / READER_ALIGN - 1))) * READER_ALIGN;
    x->again = one_in(r, f->interrupt);
    bool fails = one_in(r, f->fail) || ++r->n_requests == f->fail_at;
    r->n_flight++;
    if (!fails) {
        pass_on(r, x);
        return;
    }
    x->phase = HELD;
    x->error = EIO;
}

/* A completion of the inner reader: goes on with what is left, or is held until it may be seen. */
static void inner_ended(struct fault_reader *r, const struct read_result *got)
{
    struct spoiled *x = got->user;
    r->n_inner--;
    x->error = got->error;
    if (!x->error && x->again) {
        x->again = false;
        pass_on(r, x);
        return;
    }
    if (!x->error && x->first && x->first < x->q.want) {
        struct spoiled rest = *x;
        rest.q.off += x->first;
        rest.q.to = (uint8_t *)x->q.to + x->first;
        rest.q.len -= x->first;
        rest.q.want -= x->first;
        rest.first = 0;
        *x = rest;
        pass_on(r, x);
        return;
    }
    x->phase = HELD;
}

/* The next one to be seen: the first, or any when the order is random; NULL when none is due. */
static struct spoiled *pick(struct fault_reader *r)
{
    uint64_t now = clock_ns(), from = r->faults.reorder ? draw(r) : 0;
    for (int i = 0; i < r->base.depth; i++) {
        struct spoiled *x = &r->request[(from + (uint64_t)i) % (uint64_t)r->base.depth];
        if (x->phase == HELD && x->due_ns <= now && x->q.file != r->faults.hold - 1)
            return x;
    }
    return NULL;
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

static int fault_collect(struct reader *reader, bool wait, struct read_result *out, int max)
{
    struct fault_reader *r = (struct fault_reader *)reader;
    struct read_result got[READER_DEPTH_MAX];
    int n = 0;
    for (;;) {
        int n_got = r->n_inner ? r->inner->ops->collect(r->inner, false, got, READER_DEPTH_MAX) : 0;
        for (int i = 0; i < n_got; i++)
            inner_ended(r, &got[i]);
        for (struct spoiled *x; n < max && (x = pick(r)); n++) {
            out[n] = (struct read_result){
                .user = x->q.user, .error = x->error, .ns = clock_ns() - x->start_ns};
            x->phase = IDLE;
            r->n_flight--;
        }
        if (n || !wait || !r->n_flight)
            return n;
        nap();
    }
}

static void fault_close(struct reader *reader)
{
    struct fault_reader *r = (struct fault_reader *)reader;
    r->inner->ops->close(r->inner);
    mem_free(r);
}

static const struct reader_ops ops = {.name = "faults",
                                      .add = fault_add,
                                      .submit = fault_submit,
                                      .collect = fault_collect,
                                      .close = fault_close};
