/* An observer that remembers: see aid_witness.h. */
#include "tests/aid_witness.h"

#include "base/mem.h"
#include "tests/aid_test.h"

static size_t slot(const struct witness *w, enum seen what, int il)
{
    assert_in_range(what, 0, SEEN_COUNT - 1);
    assert_true(il >= -1 && il <= w->n_layers);
    return (size_t)what * (size_t)(w->n_layers + 2) + (size_t)(il + 1);
}

static struct buf *told(struct witness *w, enum seen what, int il, int pos)
{
    size_t i = slot(w, what, il);
    w->calls++;
    w->told[what]++;
    w->pos[i] = pos;
    buf_clear(&w->slots[i]);
    return &w->slots[i];
}

static void floats(void *ctx, enum seen what, int il, int pos, const float *x, size_t n)
{
    buf_add(told(ctx, what, il, pos), x, n * sizeof *x);
}

static void ints(void *ctx, enum seen what, int il, int pos, const int64_t *ids, size_t n)
{
    struct buf *b = told(ctx, what, il, pos);
    for (size_t i = 0; i < n; i++) {
        long v = (long)ids[i];
        buf_add(b, &v, sizeof v);
    }
}

void witness_init(struct witness *w, int n_layers)
{
    size_t n = (size_t)SEEN_COUNT * (size_t)(n_layers + 2);
    *w = (struct witness){.observer = {w, floats, ints}, .n_layers = n_layers};
    w->slots = mem_zalloc(n, sizeof *w->slots);
    w->pos = mem_array(n, sizeof *w->pos);
    assert_true(w->slots && w->pos);
    for (size_t i = 0; i < n; i++)
        w->pos[i] = -1;
}

void witness_free(struct witness *w)
{
    for (size_t i = 0; i < (size_t)SEEN_COUNT * (size_t)(w->n_layers + 2); i++)
        buf_free(&w->slots[i]);
    mem_free(w->slots);
    mem_free(w->pos);
}

static const struct buf *seen_at(const struct witness *w, enum seen what, int il, int pos)
{
    size_t i = slot(w, what, il);
    if (w->pos[i] != pos)
        fail_msg("%s of layer %d: last seen at position %d, want %d", seen_name(what), il,
                 w->pos[i], pos);
    return &w->slots[i];
}

const float *witness_floats(const struct witness *w, enum seen what, int il, int pos, size_t n)
{
    const struct buf *b = seen_at(w, what, il, pos);
    assert_int_equal(b->len, n * sizeof(float));
    return (const float *)(const void *)b->data;
}

const long *witness_ints(const struct witness *w, enum seen what, int il, int pos, size_t *n)
{
    const struct buf *b = seen_at(w, what, il, pos);
    *n = b->len / sizeof(long);
    return (const long *)(const void *)b->data;
}
