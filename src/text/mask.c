/* Token masks: see mask.h. */
#include "text/mask.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"

enum {
    KEPT_MAX = 128,  /* masks of states */
    BASES_MAX = 512, /* places whose tokens are known */
};

/* What the tokens do at a place, whatever the stack: those that fit, and the nodes at which the
 * rule may end. */
struct base {
    uint32_t *bits;
    int32_t *exits;
    int32_t n, cap;
};

struct range { /* of nodes */
    int32_t from, to;
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
    int32_t *path;      /* [depth_max + 1] states of a walk */
    struct base *bases; /* [n_places] */
    int n_bases;
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
    t->bases = mem_zalloc((size_t)g->rules.n_places, sizeof *t->bases);
    int rc = t->path && t->bases ? automaton_open(t->rules, &t->a, e)
                                 : ERR(e, E_NOMEM, "no memory for token masks");
    if (rc)
        mask_table_close(t);
    else
        *out = t;
    return rc;
}

static void forget_base(struct mask_table *t, struct base *b)
{
    t->n_bases -= b->bits != NULL;
    mem_free(b->bits);
    mem_free(b->exits);
    *b = (struct base){0};
}

static void forget_bases(struct mask_table *t)
{
    for (int32_t i = 0; t->bases && i < t->rules->n_places; i++)
        forget_base(t, &t->bases[i]);
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
    forget_bases(t);
    forget_kept(t);
    automaton_close(t->a);
    pthread_mutex_destroy(&t->lock);
    mem_free(t->path);
    mem_free(t->bases);
    mem_free(t);
}

size_t mask_table_bytes(struct mask_table *t)
{
    pthread_mutex_lock(&t->lock);
    size_t n = automaton_bytes(t->a) + (size_t)t->n_bases * t->words * sizeof(uint32_t) +
               (size_t)t->rules->n_places * sizeof *t->bases;
    for (int32_t i = 0; i < t->rules->n_places; i++)
        n += (size_t)t->bases[i].cap * sizeof *t->bases[i].exits;
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

static void set_ids(const struct lexicon *x, const struct lexicon_node *node, uint32_t *bits)
{
    for (int32_t k = node->first; k < node->first + node->n_ids; k++)
        bits[x->ids[k] / 32] |= 1u << (x->ids[k] % 32);
}

static int add_exit(struct base *b, int32_t node, struct err *e)
{
    if (b->n == b->cap) {
        int32_t want = b->cap ? 2 * b->cap : 64;
        void *more = mem_realloc(b->exits, (size_t)want * sizeof *b->exits);
        if (!more)
            return ERR(e, E_NOMEM, "no memory for token masks");
        b->exits = more;
        b->cap = want;
    }
    b->exits[b->n++] = node;
    return 0;
}

/* Sets the bits of all tokens that end at the nodes of a range, below a text that led to `state`.
 * With b, nodes at which the unknown stack is reached are noted there. */
static int walk(struct mask_table *t, int32_t state, struct range r, uint32_t *bits, struct base *b,
                struct err *e)
{
    const struct lexicon *x = t->x;
    if (state == STATE_DEAD || r.from >= r.to)
        return automaton_check(t->a, e);
    const int top = x->nodes[r.from].depth;
    t->path[0] = state;
    for (int32_t i = r.from; i < r.to;) {
        const struct lexicon_node *node = &x->nodes[i];
        int depth = node->depth - top;
        int32_t next = automaton_next(t->a, t->path[depth], node->byte);
        if (next == STATE_DEAD) {
            i = node->end;
            continue;
        }
        if (b && (automaton_flags(t->a, next) & STATE_LEFT) && add_exit(b, i, e))
            return -e->code;
        set_ids(x, node, bits);
        t->path[depth + 1] = next;
        i++;
    }
    return automaton_check(t->a, e);
}

static int find_base(struct mask_table *t, int32_t place, struct err *e)
{
    struct base *b = &t->bases[place];
    if (b->bits)
        return 0;
    if (t->n_bases == BASES_MAX)
        forget_bases(t);
    b->bits = mem_zalloc(t->words, sizeof *b->bits);
    if (!b->bits)
        return ERR(e, E_NOMEM, "no memory for token masks");
    t->n_bases++;
    const int rc = walk(t, automaton_state(t->a, (struct spot){place, STACK_UNKNOWN}),
                        (struct range){0, t->x->n_nodes}, b->bits, b, e);
    if (rc)
        forget_base(t, b); /* some of it is missing */
    return rc;
}

/* The tokens of one place and stack. */
static int add_spot(struct mask_table *t, struct spot s, uint32_t *bits, struct err *e)
{
    const struct base *b = &t->bases[s.place];
    if (find_base(t, s.place, e))
        return -e->code;
    for (size_t i = 0; i < t->words; i++)
        bits[i] |= b->bits[i];
    if (s.stack < STACK_FIRST)
        return 0;
    int32_t behind = automaton_state(t->a, automaton_pop(t->a, s.stack));
    for (int32_t i = 0; i < b->n; i++) {
        int32_t node = b->exits[i];
        const struct range below = {node + 1, t->x->nodes[node].end};
        if (walk(t, behind, below, bits, NULL, e))
            return -e->code;
    }
    return 0;
}

/* The tokens of a state. */
static int make(struct mask_table *t, int32_t state, uint32_t *bits, struct err *e)
{
    for (int i = 0;; i++) {
        int n;
        const struct spot *spots = automaton_spots(t->a, state, &n); /* moves with each state */
        if (i >= n)
            return 0;
        if (add_spot(t, spots[i], bits, e))
            return -e->code;
    }
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
    if (automaton_trim(t->a, keep, n))
        forget_kept(t);
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
