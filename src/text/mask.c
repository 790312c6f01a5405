/* Token masks: see mask.h. */
#include "text/mask.h"

#include <string.h>

#include "base/mem.h"

enum {
    KEPT_MAX = 64,   /* masks of states */
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
    uint32_t *bits;
};

struct mask {
    const struct rules *rules;
    const struct lexicon *x;
    struct automaton *a;
    int32_t state;
    size_t words;
    int32_t *path;      /* [depth_max + 1] states of a walk */
    struct base *bases; /* [n_places] */
    int n_bases;
    struct kept kept[KEPT_MAX];
};

int mask_open(const struct grammar *g, const struct lexicon *x, struct mask **out, struct err *e)
{
    struct mask *m = mem_zalloc(1, sizeof *m);
    *out = NULL;
    if (!m)
        return ERR(e, E_NOMEM, "no memory for token masks");
    m->rules = &g->rules;
    m->x = x;
    m->words = ((size_t)x->n_tokens + 31) / 32;
    m->path = mem_array((size_t)x->depth_max + 2, sizeof *m->path);
    m->bases = mem_zalloc((size_t)g->rules.n_places, sizeof *m->bases);
    int rc = m->path && m->bases ? automaton_open(m->rules, &m->a, e)
                                 : ERR(e, E_NOMEM, "no memory for token masks");
    if (!rc) {
        m->state = automaton_root(m->a);
        rc = automaton_check(m->a, e);
    }
    if (rc)
        mask_close(m);
    else
        *out = m;
    return rc;
}

static void forget_bases(struct mask *m)
{
    for (int32_t i = 0; m->bases && i < m->rules->n_places; i++) {
        mem_free(m->bases[i].bits);
        mem_free(m->bases[i].exits);
        m->bases[i] = (struct base){0};
    }
    m->n_bases = 0;
}

static void forget_kept(struct mask *m)
{
    for (int i = 0; i < KEPT_MAX; i++) {
        mem_free(m->kept[i].bits);
        m->kept[i] = (struct kept){0};
    }
}

void mask_close(struct mask *m)
{
    if (!m)
        return;
    forget_bases(m);
    forget_kept(m);
    automaton_close(m->a);
    mem_free(m->path);
    mem_free(m->bases);
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
static int walk(struct mask *m, int32_t state, struct range r, uint32_t *bits, struct base *b,
                struct err *e)
{
    const struct lexicon *x = m->x;
    if (state == STATE_DEAD || r.from >= r.to)
        return automaton_check(m->a, e);
    const int top = x->nodes[r.from].depth;
    m->path[0] = state;
    for (int32_t i = r.from; i < r.to;) {
        const struct lexicon_node *node = &x->nodes[i];
        int depth = node->depth - top;
        int32_t next = automaton_next(m->a, m->path[depth], node->byte);
        if (next == STATE_DEAD) {
            i = node->end;
            continue;
        }
        if (b && (automaton_flags(m->a, next) & STATE_LEFT) && add_exit(b, i, e))
            return -e->code;
        set_ids(x, node, bits);
        m->path[depth + 1] = next;
        i++;
    }
    return automaton_check(m->a, e);
}

static int find_base(struct mask *m, int32_t place, struct err *e)
{
    struct base *b = &m->bases[place];
    if (b->bits)
        return 0;
    if (m->n_bases == BASES_MAX)
        forget_bases(m);
    b->bits = mem_zalloc(m->words, sizeof *b->bits);
    if (!b->bits)
        return ERR(e, E_NOMEM, "no memory for token masks");
    m->n_bases++;
    return walk(m, automaton_state(m->a, (struct spot){place, STACK_UNKNOWN}),
                (struct range){0, m->x->n_nodes}, b->bits, b, e);
}

/* The tokens of one place and stack. */
static int add_spot(struct mask *m, struct spot s, uint32_t *bits, struct err *e)
{
    const struct base *b = &m->bases[s.place];
    if (find_base(m, s.place, e))
        return -e->code;
    for (size_t i = 0; i < m->words; i++)
        bits[i] |= b->bits[i];
    if (s.stack < STACK_FIRST)
        return 0;
    int32_t behind = automaton_state(m->a, automaton_pop(m->a, s.stack));
    for (int32_t i = 0; i < b->n; i++) {
        int32_t node = b->exits[i];
        const struct range below = {node + 1, m->x->nodes[node].end};
        if (walk(m, behind, below, bits, NULL, e))
            return -e->code;
    }
    return 0;
}

static int make(struct mask *m, uint32_t *bits, struct err *e)
{
    for (int i = 0;; i++) {
        int n;
        const struct spot *spots = automaton_spots(m->a, m->state, &n); /* moves with each state */
        if (i >= n)
            return 0;
        if (add_spot(m, spots[i], bits, e))
            return -e->code;
    }
}

int mask_fill(struct mask *m, uint32_t *bits, int n_tokens, bool *done, struct err *e)
{
    bool forgot;
    size_t words = ((size_t)n_tokens + 31) / 32;
    m->state = automaton_trim(m->a, m->state, &forgot);
    if (forgot)
        forget_kept(m);
    struct kept *k = &m->kept[m->state % KEPT_MAX];
    if (k->state != m->state || !k->bits) {
        if (!k->bits)
            k->bits = mem_array(m->words, sizeof *k->bits);
        if (!k->bits)
            return ERR(e, E_NOMEM, "no memory for token masks");
        memset(k->bits, 0, m->words * sizeof *k->bits);
        k->state = STATE_DEAD;
        if (make(m, k->bits, e))
            return -e->code;
        k->state = m->state;
    }
    memcpy(bits, k->bits, (words < m->words ? words : m->words) * sizeof *bits);
    if (words <= m->words && n_tokens % 32)
        bits[words - 1] &= (1u << (n_tokens % 32)) - 1;
    *done = mask_done(m);
    return automaton_check(m->a, e);
}

int mask_feed(struct mask *m, const char *text, size_t len, struct err *e)
{
    int32_t state = m->state;
    for (size_t i = 0; i < len && state != STATE_DEAD; i++)
        state = automaton_next(m->a, state, (uint8_t)text[i]);
    if (automaton_check(m->a, e))
        return -e->code;
    if (state == STATE_DEAD)
        return ERR(e, E_FORMAT, "the grammar does not allow \"%.*s\" here",
                   (int)(len < 60 ? len : 60), text);
    m->state = state;
    return 0;
}

bool mask_done(const struct mask *m)
{
    return automaton_flags(m->a, m->state) & STATE_DONE;
}
