/* Token masks: see mask.h. */
#include "text/mask.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"

enum {
    KEPT_MAX = 128,   /* masks of states */
    HEIGHT_SEEN = 16, /* nodes with more below them are walked to */
    ASKED_MIN = 32,   /* a run is made when it was asked for so often: it costs 50 us */
};

/* Where most characters lead from a state: those of `kinds`, all of them, to one and the same. */
struct run {
    uint64_t kinds; /* 0: to is nothing */
    int32_t to;
    int32_t n_asked; /* ASKED_MIN: kinds and to are known */
};

struct kept {
    int32_t state; /* STATE_DEAD: free */
    uint64_t used; /* when last */
    uint32_t *bits;
};

struct mask_table {
    const struct rules *rules;
    const struct lexicon *x;
    size_t words;
    pthread_mutex_t lock; /* guards what is below */
    struct automaton *a;
    int32_t *path;    /* [depth_max + 1] states of a walk */
    struct run *runs; /* [cap_runs], by state */
    int32_t cap_runs;
    struct kept kept[KEPT_MAX];
    uint64_t n_used;
    struct mask *first; /* those that are open */
    int n_open;
};

struct mask {
    struct mask_table *t;
    int32_t state;
    struct mask *next, *before;
};

int mask_table_open(const struct grammar *g, const struct lexicon *x, struct mask_table **out,
                    struct err *e)
{
    struct mask_table *t = mem_zalloc(1, sizeof *t);
    *out = NULL;
    if (!t)
        return ERR(e, E_NOMEM, "no memory for token masks");
    pthread_mutex_init(&t->lock, NULL);
    t->rules = &g->rules;
    t->x = x;
    t->words = ((size_t)x->n_tokens + 31) / 32;
    t->path = mem_array((size_t)x->depth_max + 2, sizeof *t->path);
    int rc =
        t->path ? automaton_open(t->rules, &t->a, e) : ERR(e, E_NOMEM, "no memory for token masks");
    if (rc)
        mask_table_close(t);
    else
        *out = t;
    return rc;
}

static void forget_kept(struct mask_table *t)
{
    for (int i = 0; i < KEPT_MAX; i++) {
        mem_free(t->kept[i].bits);
        t->kept[i] = (struct kept){0};
    }
}

void mask_table_close(struct mask_table *t)
{
    if (!t)
        return;
    forget_kept(t);
    automaton_close(t->a);
    pthread_mutex_destroy(&t->lock);
    mem_free(t->path);
    mem_free(t->runs);
    mem_free(t);
}

size_t mask_table_bytes(struct mask_table *t)
{
    pthread_mutex_lock(&t->lock);
    size_t n = automaton_bytes(t->a) + (size_t)t->cap_runs * sizeof *t->runs;
    for (int i = 0; i < KEPT_MAX; i++)
        n += t->kept[i].bits ? t->words * sizeof(uint32_t) : 0;
    pthread_mutex_unlock(&t->lock);
    return n;
}

int mask_open(struct mask_table *t, struct mask **out, struct err *e)
{
    struct mask *m = mem_zalloc(1, sizeof *m);
    *out = NULL;
    if (!m)
        return ERR(e, E_NOMEM, "no memory for token masks");
    m->t = t;
    pthread_mutex_lock(&t->lock);
    m->state = automaton_root(t->a);
    const int rc = automaton_check(t->a, e);
    m->next = t->first;
    if (m->next)
        m->next->before = m;
    t->first = m;
    t->n_open++;
    pthread_mutex_unlock(&t->lock);
    if (rc)
        mask_close(m);
    else
        *out = m;
    return rc;
}

void mask_close(struct mask *m)
{
    if (!m)
        return;
    struct mask_table *t = m->t;
    pthread_mutex_lock(&t->lock);
    *(m->before ? &m->before->next : &t->first) = m->next;
    if (m->next)
        m->next->before = m->before;
    t->n_open--;
    pthread_mutex_unlock(&t->lock);
    mem_free(m);
}

static void set_ids(const struct lexicon *x, int32_t from, int32_t to, uint32_t *bits)
{
    for (int32_t k = from; k < to; k++)
        bits[x->ids[k] / 32] |= 1u << (x->ids[k] % 32);
}

enum { NOT_MET = -1, SEVERAL = -2 }; /* instead of a state */

static void meet(int32_t *met, int32_t state)
{
    *met = *met == NOT_MET || *met == state ? state : SEVERAL;
}

/* The state to which the bytes from low to high lead, and so many more from 0x80 to 0xBF. */
static int32_t led_to(struct mask_table *t, int32_t state, int low, int high, int more)
{
    int32_t met = NOT_MET, before = NOT_MET;
    for (int byte = low; byte <= high && met != SEVERAL && state != STATE_DEAD; byte++) {
        const int32_t next = automaton_next(t->a, state, (uint8_t)byte);
        if (next != before) /* most lead where the one before did */
            meet(&met, more ? led_to(t, next, 0x80, 0xBF, more - 1) : next);
        before = next;
    }
    return met == NOT_MET ? STATE_DEAD : met;
}

/* Characters of several bytes: first bytes, second ones, how many follow. */
static const struct {
    uint8_t low, high, low2, high2, more, kind;
} characters[] = {
    {0xC2, 0xDF, 0x80, 0xBF, 0, LEXICON_TWO},   {0xE0, 0xE0, 0xA0, 0xBF, 1, LEXICON_THREE},
    {0xE1, 0xEC, 0x80, 0xBF, 1, LEXICON_THREE}, {0xED, 0xED, 0x80, 0x9F, 1, LEXICON_THREE},
    {0xEE, 0xEF, 0x80, 0xBF, 1, LEXICON_THREE}, {0xF0, 0xF0, 0x90, 0xBF, 2, LEXICON_FOUR},
    {0xF1, 0xF3, 0x80, 0xBF, 2, LEXICON_FOUR},  {0xF4, 0xF4, 0x80, 0x8F, 2, LEXICON_FOUR},
};

static void make_run(struct mask_table *t, int32_t state, struct run *out)
{
    int32_t to[LEXICON_KINDS];
    for (int k = 0; k < LEXICON_KINDS; k++)
        to[k] = NOT_MET;
    for (int byte = 0; byte < 0x80; byte++)
        meet(&to[lexicon_kind((uint8_t)byte)], automaton_next(t->a, state, (uint8_t)byte));
    for (size_t i = 0; i < sizeof characters / sizeof characters[0]; i++) {
        int32_t before = NOT_MET;
        for (int byte = characters[i].low; byte <= characters[i].high; byte++) {
            const int32_t next = automaton_next(t->a, state, (uint8_t)byte);
            if (next == before)
                continue;
            before = next;
            meet(&to[characters[i].kind],
                 led_to(t, next, characters[i].low2, characters[i].high2, characters[i].more));
        }
    }
    *out = (struct run){.n_asked = ASKED_MIN};
    for (int k = 0; k < LEXICON_KINDS; k++) {
        if (!out->kinds && to[k] > STATE_DEAD)
            out->to = to[k];
        if (to[k] > STATE_DEAD && to[k] == out->to)
            out->kinds |= (uint64_t)1 << k;
    }
}

/* NULL: not known yet, or no memory for it. */
static const struct run *find_run(struct mask_table *t, int32_t state)
{
    if (state >= t->cap_runs) {
        const int32_t want = 2 * state + 64;
        void *more = mem_realloc(t->runs, (size_t)want * sizeof *t->runs);
        if (!more)
            return NULL;
        t->runs = more;
        memset(t->runs + t->cap_runs, 0, (size_t)(want - t->cap_runs) * sizeof *t->runs);
        t->cap_runs = want;
    }
    struct run *run = &t->runs[state];
    if (run->n_asked < ASKED_MIN && ++run->n_asked == ASKED_MIN)
        make_run(t, state, run);
    return run->n_asked == ASKED_MIN ? run : NULL;
}

/* Whether a node and all below it fit behind a state, as far as that is seen without walking there:
 * all of their characters lead from one state to the next. */
static bool all_fit(struct mask_table *t, int32_t state, const struct lexicon_node *node)
{
    if (!node->height || node->height > HEIGHT_SEEN || (node->byte & 0xC0) == 0x80)
        return false; /* ends here, is too deep, or goes on with a character */
    for (int k = 0; k <= node->height; k++) {
        const struct run *run = find_run(t, state);
        if (!run || (node->kinds & ~run->kinds))
            return false;
        if (run->to == state)
            return true;
        state = run->to;
    }
    return true;
}

/* Sets the bits of all tokens that may follow a state. */
static int make(struct mask_table *t, int32_t state, uint32_t *bits, struct err *e)
{
    const struct lexicon *x = t->x;
    t->path[0] = state;
    for (int32_t i = 0; i < x->n_nodes;) {
        const struct lexicon_node *node = &x->nodes[i];
        const int32_t here = t->path[node->depth];
        if (all_fit(t, here, node)) {
            set_ids(x, node->first, lexicon_ids_end(x, i), bits);
            i = node->end;
            continue;
        }
        const int32_t next = automaton_next(t->a, here, node->byte);
        t->path[node->depth + 1] = next;
        if (next != STATE_DEAD)
            set_ids(x, node->first, node->first + node->n_ids, bits);
        i = next == STATE_DEAD ? node->end : i + 1;
    }
    return automaton_check(t->a, e);
}

/* Forgets what is too much, but not where answers are. */
static int trim(struct mask_table *t, struct err *e)
{
    int n = 0;
    if (!automaton_full(t->a))
        return 0;
    int32_t **keep = mem_array((size_t)t->n_open, sizeof *keep);
    if (!keep)
        return ERR(e, E_NOMEM, "no memory for token masks");
    for (struct mask *m = t->first; m; m = m->next)
        keep[n++] = &m->state;
    if (automaton_trim(t->a, keep, n)) {
        forget_kept(t);
        for (int32_t i = 0; i < t->cap_runs; i++)
            t->runs[i].n_asked = 0;
    }
    mem_free(keep);
    return automaton_check(t->a, e);
}

/* The one that keeps a state, or else that which was used least lately. */
static struct kept *find_kept(struct mask_table *t, int32_t state)
{
    struct kept *oldest = &t->kept[0];
    for (int i = 0; i < KEPT_MAX; i++) {
        if (t->kept[i].state == state)
            return &t->kept[i];
        if (t->kept[i].used < oldest->used)
            oldest = &t->kept[i];
    }
    return oldest;
}

/* The kept mask of a state, made if it is not there; NULL on failure. */
static const uint32_t *find_mask(struct mask_table *t, int32_t state, struct err *e)
{
    struct kept *k = find_kept(t, state);
    k->used = ++t->n_used;
    if (k->bits && k->state == state)
        return k->bits;
    if (!k->bits)
        k->bits = mem_array(t->words, sizeof *k->bits);
    if (!k->bits) {
        ERR(e, E_NOMEM, "no memory for token masks");
        return NULL;
    }
    memset(k->bits, 0, t->words * sizeof *k->bits);
    k->state = STATE_DEAD;
    if (make(t, state, k->bits, e))
        return NULL;
    k->state = state;
    return k->bits;
}

int mask_fill(struct mask *m, uint32_t *bits, int n_tokens, bool *done, struct err *e)
{
    struct mask_table *t = m->t;
    const size_t words = ((size_t)n_tokens + 31) / 32;
    pthread_mutex_lock(&t->lock);
    int rc = trim(t, e);
    const uint32_t *found = rc ? NULL : find_mask(t, m->state, e);
    if (found)
        memcpy(bits, found, (words < t->words ? words : t->words) * sizeof *bits);
    if (found && words <= t->words && n_tokens % 32)
        bits[words - 1] &= (1u << (n_tokens % 32)) - 1;
    *done = automaton_flags(t->a, m->state) & STATE_DONE;
    pthread_mutex_unlock(&t->lock);
    return found ? 0 : -e->code;
}

int mask_feed(struct mask *m, const char *text, size_t len, struct err *e)
{
    struct mask_table *t = m->t;
    pthread_mutex_lock(&t->lock);
    int32_t state = m->state;
    for (size_t i = 0; i < len && state != STATE_DEAD; i++)
        state = automaton_next(t->a, state, (uint8_t)text[i]);
    int rc = automaton_check(t->a, e);
    if (!rc && state == STATE_DEAD)
        rc = ERR(e, E_FORMAT, "the grammar does not allow \"%.*s\" here",
                 (int)(len < 60 ? len : 60), text);
    if (!rc)
        m->state = state;
    pthread_mutex_unlock(&t->lock);
    return rc;
}

bool mask_done(const struct mask *m)
{
    pthread_mutex_lock(&m->t->lock);
    const bool done = automaton_flags(m->t->a, m->state) & STATE_DONE;
    pthread_mutex_unlock(&m->t->lock);
    return done;
}
