/* States of a grammar: see automaton.h. Frames and states are found by hash, in open tables that
 * double; number 0 of a table means free. */
#include "text/automaton.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

/* Stacks are numbers of frames; EMPTY is that of the root. */
enum { STACK_EMPTY, STACK_FIRST };

struct spot {
    int32_t place, stack;
};

struct frame {
    int32_t place, parent; /* where to go on, and the stack below */
};

struct state {
    int32_t first, n; /* in spots */
    unsigned flags;
    int32_t *row; /* [256], -1: not known; NULL: none known. Owned */
};

struct automaton {
    const struct rules *r;
    struct frame *frames;
    int32_t n_frames, cap_frames;
    int32_t *frame_table; /* [2 * cap_frames] */
    struct state *states;
    int32_t n_states, cap_states;
    int32_t *state_table; /* [2 * cap_states] */
    struct spot *spots;
    int32_t n_spots, cap_spots;
    struct spot set[AUTOMATON_SET_MAX]; /* the state in the making: all that was met */
    int32_t n_set;
    struct err failure;
};

static bool grow_table(int32_t **table, int32_t *cap, void **items, size_t bytes)
{
    int32_t want = *cap ? 2 * *cap : 256;
    void *more = mem_realloc(*items, (size_t)want * bytes);
    if (!more)
        return false;
    *items = more;
    int32_t *fresh = mem_zalloc(2 * (size_t)want, sizeof *fresh);
    if (!fresh)
        return false;
    mem_free(*table);
    *table = fresh;
    *cap = want;
    return true;
}

static uint64_t hash_frame(struct frame f)
{
    return rng_splitmix64((uint64_t)(uint32_t)f.place << 32 | (uint32_t)f.parent);
}

static void put(int32_t *table, int32_t cap, uint64_t hash, int32_t number)
{
    uint64_t mask = 2 * (uint64_t)cap - 1, at = hash & mask;
    while (table[at])
        at = (at + 1) & mask;
    table[at] = number;
}

static int32_t fail(struct automaton *a, int code, const char *what)
{
    if (code == E_NOMEM)
        ERR(&a->failure, E_NOMEM, "no memory for %s of a grammar", what);
    else
        ERR(&a->failure, E_LIMIT, "the grammar has too many %s here: it is too ambiguous", what);
    return 0;
}

static int32_t find_frame(struct automaton *a, struct frame f)
{
    uint64_t hash = hash_frame(f), mask = 2 * (uint64_t)a->cap_frames - 1, at = hash & mask;
    for (; a->frame_table[at]; at = (at + 1) & mask) {
        const struct frame *g = &a->frames[a->frame_table[at]];
        if (g->place == f.place && g->parent == f.parent)
            return a->frame_table[at];
    }
    if (a->n_frames >= AUTOMATON_FRAMES_MAX)
        return fail(a, E_LIMIT, "nested rules");
    if (a->n_frames == a->cap_frames) {
        if (!grow_table(&a->frame_table, &a->cap_frames, (void **)&a->frames, sizeof f))
            return fail(a, E_NOMEM, "frames");
        for (int32_t i = STACK_FIRST; i < a->n_frames; i++)
            put(a->frame_table, a->cap_frames, hash_frame(a->frames[i]), i);
    }
    a->frames[a->n_frames] = f;
    put(a->frame_table, a->cap_frames, hash, a->n_frames);
    return a->n_frames++;
}

static bool open_tables(struct automaton *a)
{
    if (!grow_table(&a->frame_table, &a->cap_frames, (void **)&a->frames, sizeof *a->frames) ||
        !grow_table(&a->state_table, &a->cap_states, (void **)&a->states, sizeof *a->states))
        return false;
    a->n_frames = STACK_FIRST;
    a->states[STATE_DEAD] = (struct state){0};
    a->n_states = 1;
    return true;
}

static void free_states(struct state *states, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        mem_free(states[i].row);
    mem_free(states);
}

int automaton_open(const struct rules *r, struct automaton **out, struct err *e)
{
    struct automaton *a = mem_zalloc(1, sizeof *a);
    *out = NULL;
    if (!a)
        return ERR(e, E_NOMEM, "no memory for a grammar");
    a->r = r;
    if (!open_tables(a)) {
        automaton_close(a);
        return ERR(e, E_NOMEM, "no memory for a grammar");
    }
    *out = a;
    return 0;
}

void automaton_close(struct automaton *a)
{
    if (!a)
        return;
    free_states(a->states, a->n_states);
    mem_free(a->frames);
    mem_free(a->frame_table);
    mem_free(a->state_table);
    mem_free(a->spots);
    mem_free(a);
}

static void meet(struct automaton *a, int32_t place, int32_t stack)
{
    for (int32_t i = 0; i < a->n_set; i++)
        if (a->set[i].place == place && a->set[i].stack == stack)
            return;
    if (a->n_set == AUTOMATON_SET_MAX)
        fail(a, E_LIMIT, "ways");
    else
        a->set[a->n_set++] = (struct spot){place, stack};
}

/* Goes on through all that eats nothing; what is met is put behind. Returns the flags. */
static unsigned close_set(struct automaton *a)
{
    unsigned flags = 0;
    for (int32_t i = 0; i < a->n_set && !a->failure.code; i++) {
        const struct spot s = a->set[i];
        const struct place *p = &a->r->places[s.place];
        if (p->kind == PLACE_FORK) {
            meet(a, p->next, s.stack);
            meet(a, p->other, s.stack);
        } else if (p->kind == PLACE_CALL) {
            bool last = a->r->places[p->next].kind == PLACE_END;
            int32_t stack = last ? s.stack : find_frame(a, (struct frame){p->next, s.stack});
            meet(a, a->r->rules[p->other].start, stack);
        } else if (p->kind == PLACE_END && s.stack == STACK_EMPTY) {
            flags |= STATE_DONE;
        } else if (p->kind == PLACE_END) {
            meet(a, a->frames[s.stack].place, a->frames[s.stack].parent);
        }
    }
    return flags;
}

/* The set, without what eats nothing, in an order of its own. */
static void tidy_set(struct automaton *a)
{
    int32_t n = 0;
    for (int32_t i = 0; i < a->n_set; i++)
        if (a->r->places[a->set[i].place].kind == PLACE_BYTES)
            a->set[n++] = a->set[i];
    a->n_set = n;
}

static uint64_t hash_set(const struct spot *s, int32_t n, unsigned flags)
{
    uint64_t sum = flags;
    for (int32_t i = 0; i < n; i++) /* order does not count */
        sum += rng_splitmix64((uint64_t)(uint32_t)s[i].place << 32 | (uint32_t)s[i].stack);
    return rng_splitmix64(sum);
}

static int order(const struct spot *x, const struct spot *y)
{
    return x->place != y->place ? (x->place > y->place) - (x->place < y->place)
                                : (x->stack > y->stack) - (x->stack < y->stack);
}

/* By insertion: sets are short, and nearly in order. */
static void sort_set(struct automaton *a)
{
    for (int32_t i = 1; i < a->n_set; i++) {
        struct spot s = a->set[i];
        int32_t k = i;
        for (; k && order(&a->set[k - 1], &s) > 0; k--)
            a->set[k] = a->set[k - 1];
        a->set[k] = s;
    }
}

static bool add_spots(struct automaton *a)
{
    if (a->n_spots + a->n_set > a->cap_spots) {
        int32_t want = 2 * (a->n_spots + a->n_set);
        void *more = mem_realloc(a->spots, (size_t)want * sizeof *a->spots);
        if (!more)
            return false;
        a->spots = more;
        a->cap_spots = want;
    }
    if (a->n_set)
        memcpy(a->spots + a->n_spots, a->set, (size_t)a->n_set * sizeof *a->spots);
    a->n_spots += a->n_set;
    return true;
}

static int32_t make_state(struct automaton *a, unsigned flags)
{
    tidy_set(a);
    if (a->failure.code || (!a->n_set && !flags))
        return STATE_DEAD;
    sort_set(a);
    uint64_t hash = hash_set(a->set, a->n_set, flags);
    uint64_t mask = 2 * (uint64_t)a->cap_states - 1, at = hash & mask;
    for (; a->state_table[at]; at = (at + 1) & mask) {
        const struct state *s = &a->states[a->state_table[at]];
        assert(!s->n || a->spots);
        if (s->n == a->n_set && s->flags == flags &&
            (!s->n || memcmp(a->spots + s->first, a->set, (size_t)s->n * sizeof *a->spots) == 0))
            return a->state_table[at];
    }
    if (a->n_states == a->cap_states) {
        if (!grow_table(&a->state_table, &a->cap_states, (void **)&a->states, sizeof *a->states))
            return fail(a, E_NOMEM, "states");
        for (int32_t i = 1; i < a->n_states; i++) {
            const struct state *s = &a->states[i];
            put(a->state_table, a->cap_states, hash_set(a->spots + s->first, s->n, s->flags), i);
        }
    }
    if (!add_spots(a))
        return fail(a, E_NOMEM, "states");
    a->states[a->n_states] =
        (struct state){.first = a->n_spots - a->n_set, .n = a->n_set, .flags = flags};
    put(a->state_table, a->cap_states, hash, a->n_states);
    return a->n_states++;
}

int32_t automaton_root(struct automaton *a)
{
    a->n_set = 0;
    meet(a, a->r->rules[a->r->root].start, STACK_EMPTY);
    unsigned flags = close_set(a);
    return make_state(a, flags);
}

int32_t automaton_next(struct automaton *a, int32_t state, uint8_t byte)
{
    if (state == STATE_DEAD)
        return STATE_DEAD;
    if (a->states[state].row && a->states[state].row[byte] >= 0)
        return a->states[state].row[byte];
    const struct state s = a->states[state];
    a->n_set = 0;
    for (int32_t i = 0; i < s.n; i++) {
        const struct spot spot = a->spots[s.first + i];
        const struct place *p = &a->r->places[spot.place];
        if (byte >= p->low && byte <= p->high)
            meet(a, p->next, spot.stack);
    }
    unsigned flags = close_set(a);
    int32_t next = make_state(a, flags);
    if (!s.row) {
        int32_t *row = mem_array(256, sizeof *row);
        if (!row)
            return fail(a, E_NOMEM, "states");
        memset(row, 0xFF, 256 * sizeof *row);
        a->states[state].row = row;
    }
    if (!a->failure.code)
        a->states[state].row[byte] = next;
    return next;
}

unsigned automaton_flags(const struct automaton *a, int32_t state)
{
    return a->states[state].flags;
}

/* What a trim takes apart. */
struct old {
    struct frame *frames;
    struct state *states;
    struct spot *spots;
    int32_t n_states;
};

/* The stack of an old number, frame by frame from the bottom; 0 after a failure. */
static int32_t rebuild_stack(struct automaton *a, const struct old *old, int32_t stack)
{
    int32_t n = 0, at = stack;
    for (; at >= STACK_FIRST; at = old->frames[at].parent)
        n++;
    int32_t *chain = mem_array((size_t)n + 1, sizeof *chain);
    if (!chain)
        return fail(a, E_NOMEM, "frames");
    int32_t built = at;
    for (int32_t i = n, s = stack; i > 0; s = old->frames[s].parent)
        chain[--i] = s;
    for (int32_t i = 0; i < n && !a->failure.code; i++)
        built = find_frame(a, (struct frame){old->frames[chain[i]].place, built});
    mem_free(chain);
    return built;
}

static int32_t rebuild_state(struct automaton *a, const struct old *old, int32_t state)
{
    const struct state *s = &old->states[state];
    for (int32_t i = 0; i < s->n; i++) {
        const struct spot spot = old->spots[s->first + i];
        a->set[i] = (struct spot){spot.place, rebuild_stack(a, old, spot.stack)};
    }
    a->n_set = s->n;
    return make_state(a, s->flags);
}

bool automaton_full(const struct automaton *a)
{
    return a->n_states > AUTOMATON_STATES_MAX || a->n_frames > AUTOMATON_FRAMES_MAX / 2;
}

bool automaton_trim(struct automaton *a, int32_t *const *keep, int n)
{
    const struct automaton was = *a;
    const struct old old = {a->frames, a->states, a->spots, a->n_states};
    a->frames = NULL;
    a->frame_table = a->state_table = NULL;
    a->states = NULL;
    a->spots = NULL;
    a->n_states = a->cap_states = a->n_spots = a->cap_spots = a->n_frames = a->cap_frames = 0;
    if (!open_tables(a)) { /* it stays as it was */
        mem_free(a->frames);
        mem_free(a->frame_table);
        mem_free(a->states);
        mem_free(a->state_table);
        *a = was;
        return false;
    }
    for (int i = 0; i < n; i++)
        *keep[i] = rebuild_state(a, &old, *keep[i]);
    free_states(old.states, old.n_states);
    mem_free(old.frames);
    mem_free(old.spots);
    mem_free(was.frame_table);
    mem_free(was.state_table);
    return true;
}

int automaton_check(struct automaton *a, struct err *e)
{
    const struct err failure = a->failure;
    err_clear(&a->failure);
    return failure.code ? ERR(e, failure.code, "%s", failure.msg) : 0;
}

size_t automaton_bytes(const struct automaton *a)
{
    size_t n_rows = 0;
    for (int32_t i = 0; i < a->n_states; i++)
        n_rows += a->states[i].row != NULL;
    return sizeof *a + n_rows * 256 * sizeof(int32_t) + (size_t)a->cap_spots * sizeof *a->spots +
           (size_t)a->cap_states * (sizeof *a->states + 2 * sizeof(int32_t)) +
           (size_t)a->cap_frames * (sizeof *a->frames + 2 * sizeof(int32_t));
}
