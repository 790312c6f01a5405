/* Merges: see bpe.h. The piece is a linked list of symbols in an array, by the position of their
 * first byte. A heap holds a key for every pair that could be joined; a key whose symbols have
 * changed since is recognised by its rank and passed over. */
#include "text/bpe.h"

#include "base/mem.h"
#include "base/rng.h"

struct bpe_pair {
    uint64_t key; /* left << 32 | right */
    uint32_t rank;
    int32_t merged;
};

/* No ids are negative, so no pair has this key. */
#define NO_KEY  UINT64_MAX
#define NO_RANK UINT32_MAX
#define NOWHERE UINT32_MAX

enum { PLACES_MIN = 1024 };

struct bpe_node {
    int32_t id;          /* -1: joined into the symbol on its left */
    uint32_t next, prev; /* NOWHERE at the ends */
    uint32_t rank;       /* of the pair with next, NO_RANK if it is no merge */
    int32_t merged;      /* what that pair becomes */
};

void bpe_init(struct bpe *b)
{
    *b = (struct bpe){0};
}

void bpe_free(struct bpe *b)
{
    mem_free(b->pairs);
    *b = (struct bpe){0};
}

/* The place of a pair, or the empty one where it would be. */
static struct bpe_pair *find(const struct bpe *b, uint64_t key)
{
    size_t i = (size_t)rng_splitmix64(key) & b->mask;
    while (b->pairs[i].key != key && b->pairs[i].key != NO_KEY)
        i = (i + 1) & b->mask;
    return &b->pairs[i];
}

static uint64_t key_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

int bpe_reserve(struct bpe *b, size_t merges, struct err *e)
{
    size_t n = b->pairs ? b->mask + 1 : 0, places = n ? n : PLACES_MIN;
    if (2 * merges <= n)
        return 0;
    while (places < 2 * merges)
        places *= 2;
    struct bpe_pair *old = b->pairs, *p = mem_array(places, sizeof *p);
    if (!p)
        return ERR(e, E_NOMEM, "out of memory for a table of %u merges", b->n);
    for (size_t i = 0; i < places; i++)
        p[i] = (struct bpe_pair){.key = NO_KEY, .rank = NO_RANK};
    b->pairs = p;
    b->mask = places - 1;
    for (size_t i = 0; i < n; i++)
        if (old[i].key != NO_KEY)
            *find(b, old[i].key) = old[i];
    mem_free(old);
    return 0;
}

int bpe_add(struct bpe *b, int32_t left, int32_t right, int32_t merged, struct err *e)
{
    int rc = bpe_reserve(b, (size_t)b->n + 1, e);
    if (rc)
        return rc;
    struct bpe_pair *p = find(b, key_of(left, right));
    if (p->key != NO_KEY)
        return ERR(e, E_FORMAT, "this merge is number %u of the list already", p->rank);
    *p = (struct bpe_pair){key_of(left, right), b->n++, merged};
    return 0;
}

void bpe_work_free(struct bpe_work *w)
{
    mem_free(w->nodes);
    mem_free(w->heap);
    *w = (struct bpe_work){0};
}

/* p with room for n elements, possibly moved; NULL, leaving p, when memory is short. */
static void *grow(void *p, size_t *cap, size_t n, size_t each, struct err *e)
{
    if (n <= *cap)
        return p;
    size_t want = n + n / 2 + 32;
    void *q = want < SIZE_MAX / each ? mem_realloc(p, want * each) : NULL;
    if (q)
        *cap = want;
    else
        ERR(e, E_NOMEM, "out of memory while merging a piece of text");
    return q;
}

/* The heap: smallest key first. A key is rank << 32 | position: equal ranks go left first. */
static int heap_push(struct bpe_work *w, uint64_t key, struct err *e)
{
    uint64_t *heap = grow(w->heap, &w->heap_cap, w->n_heap + 1, sizeof *heap, e);
    if (!heap)
        return -E_NOMEM;
    w->heap = heap;
    size_t i = w->n_heap++;
    for (; i && w->heap[(i - 1) / 2] > key; i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = key;
    return 0;
}

static uint64_t heap_pop(struct bpe_work *w)
{
    uint64_t top = w->heap[0], last = w->heap[--w->n_heap];
    size_t i = 0, n = w->n_heap;
    for (size_t k = 1; k < n; k = 2 * i + 1) {
        k += k + 1 < n && w->heap[k + 1] < w->heap[k];
        if (w->heap[k] >= last)
            break;
        w->heap[i] = w->heap[k];
        i = k;
    }
    w->heap[i] = last;
    return top;
}

/* Looks up the pair that starts at position i, and makes it known to the heap. */
static int consider(const struct bpe *b, struct bpe_work *w, uint32_t i, struct err *e)
{
    struct bpe_node *a = &w->nodes[i];
    a->rank = NO_RANK;
    if (a->next == NOWHERE || !b->pairs)
        return 0;
    const struct bpe_pair *p = find(b, key_of(a->id, w->nodes[a->next].id));
    if (p->rank == NO_RANK)
        return 0;
    a->rank = p->rank;
    a->merged = p->merged;
    return heap_push(w, (uint64_t)p->rank << 32 | i, e);
}

static int start(const struct bpe *b, struct bpe_work *w, const char *s, size_t n, struct err *e)
{
    struct bpe_node *nodes = grow(w->nodes, &w->nodes_cap, n, sizeof *nodes, e);
    if (!nodes)
        return -E_NOMEM;
    w->nodes = nodes;
    w->n_heap = 0;
    for (size_t i = 0; i < n; i++)
        w->nodes[i] = (struct bpe_node){.id = b->byte_id[(unsigned char)s[i]],
                                        .next = i + 1 < n ? (uint32_t)i + 1 : NOWHERE,
                                        .prev = i ? (uint32_t)i - 1 : NOWHERE};
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++)
        rc = consider(b, w, (uint32_t)i, e);
    return rc;
}

/* Joins position i with its neighbour on the right. */
static int join(const struct bpe *b, struct bpe_work *w, uint32_t i, struct err *e)
{
    struct bpe_node *a = &w->nodes[i], *right = &w->nodes[a->next];
    a->id = a->merged;
    a->next = right->next;
    right->id = -1;
    right->rank = NO_RANK;
    if (a->next != NOWHERE)
        w->nodes[a->next].prev = i;
    int rc = consider(b, w, i, e);
    if (!rc && a->prev != NOWHERE)
        rc = consider(b, w, a->prev, e);
    return rc;
}

int bpe_encode(const struct bpe *b, struct bpe_work *w, const char *s, size_t n, struct tokens *out,
               struct err *e)
{
    int rc = start(b, w, s, n, e);
    while (!rc && w->n_heap) {
        uint64_t key = heap_pop(w);
        uint32_t i = (uint32_t)key;
        if (w->nodes[i].rank == key >> 32)
            rc = join(b, w, i, e);
    }
    for (uint32_t i = 0; !rc && i != NOWHERE; i = w->nodes[i].next)
        rc = tokens_push(out, w->nodes[i].id, e);
    return rc;
}
