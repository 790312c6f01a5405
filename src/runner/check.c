/* Two sides compared block by block: see check.h. */
#include "runner/check.h"

#include <math.h>

#include "base/mem.h"

/* One position of a side that is an engine: its blocks, in order. */
struct shown {
    const struct block *blocks;
    size_t n;
};

/* Both sides at one position. */
struct pair {
    const struct check_side *right_side;
    struct shown left, right;
    double tolerance;
};

static int show(const struct check_side *side, int32_t id, float *logits, struct shown *out,
                struct err *e);
static void compare_all(const struct pair *p, struct check_result *out);

int check_run(const struct check_side *left, const struct check_side *right,
              const struct tokens *ids, double tolerance, struct check_result *out, struct err *e)
{
    float *logits = mem_array((size_t)left->engine->weights->config.vocab, sizeof *logits);
    int rc = logits ? 0 : ERR(e, E_NOMEM, "no memory for a row of logits");
    *out = (struct check_result){0};
    for (size_t pos = 0; !rc && pos < ids->n; pos++) {
        struct pair p = {.right_side = right, .tolerance = tolerance};
        const long before = out->n_blocks;
        rc = show(left, ids->ids[pos], logits, &p.left, e);
        if (!rc)
            rc = show(right, ids->ids[pos], logits, &p.right, e);
        if (!rc)
            compare_all(&p, out);
        if (!rc && out->n_blocks == before)
            rc = ERR(e, E_FORMAT,
                     "nothing to compare at position %zu: the right side shows none of the left "
                     "side's blocks; a dump must come from the same tokens",
                     pos);
    }
    mem_free(logits);
    return rc;
}

/* Feeds an engine one token; a dump has nothing to do. */
static int show(const struct check_side *side, int32_t id, float *logits, struct shown *out,
                struct err *e)
{
    struct engine *g = side->engine;
    const struct row row = {side->seq, id};
    if (!g)
        return 0;
    capture_clear(side->capture);
    if (g->ops->step(g, &row, 1, NULL, logits, e) || g->ops->commit(g, side->seq, 1, e))
        return -e->code;
    return capture_blocks(side->capture, &out->blocks, &out->n, e);
}

static const struct block *find_shown(const struct shown *s, enum seen what, int il, int pos)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct block *b = &s->blocks[i];
        if (b->what == what && b->il == il && b->pos == pos)
            return b;
    }
    return NULL;
}

static const struct block *find_right(const struct pair *p, enum seen what, int il, int pos)
{
    if (p->right_side->dump)
        return dump_file_find(p->right_side->dump, what, il, pos);
    return find_shown(&p->right, what, il, pos);
}

static double value(const struct block *b, size_t i)
{
    if (i >= b->n)
        return NAN;
    return b->type == DUMP_F32 ? (double)((const float *)b->values)[i]
                               : (double)((const int64_t *)b->values)[i];
}

/* The largest finite magnitude. */
static double magnitude(const struct block *b)
{
    double most = 0;
    for (size_t i = 0; i < b->n; i++) {
        double x = fabs(value(b, i));
        most = isfinite(x) && x > most ? x : most;
    }
    return most;
}

/* See check_place.difference; a value that is not there (behind the end) differs from all. */
static double difference(const struct block *a, const struct block *b, size_t i, double scale)
{
    const double x = value(a, i), y = value(b, i);
    if (i >= a->n || i >= b->n || a->type != b->type)
        return INFINITY;
    if (x == y || (isnan(x) && isnan(y)))
        return 0;
    return a->type == DUMP_F32 && isfinite(x) && isfinite(y) ? fabs(x - y) / scale : INFINITY;
}

/* The element with the largest difference, as a place. */
static struct check_place worst_of(const struct block *a, const struct block *b)
{
    const size_t n = a->n > b->n ? a->n : b->n;
    const double scale = fmax(magnitude(a), magnitude(b));
    struct check_place worst = {.difference = -1};
    for (size_t i = 0; i < n; i++) {
        const double d = difference(a, b, i, scale);
        if (d > worst.difference)
            worst = (struct check_place){.what = a->what,
                                         .il = a->il,
                                         .pos = a->pos,
                                         .element = i,
                                         .left = value(a, i),
                                         .right = value(b, i),
                                         .n_left = a->n,
                                         .n_right = b->n,
                                         .difference = d};
    }
    worst.difference = fmax(worst.difference, 0);
    return worst;
}

/* The first element that differs by more than the tolerance; the worst one is known to. */
static struct check_place first_of(const struct block *a, const struct block *b, double tolerance)
{
    const double scale = fmax(magnitude(a), magnitude(b));
    struct check_place p = worst_of(a, b);
    size_t i = 0;
    while (difference(a, b, i, scale) <= tolerance)
        i++;
    p.element = i;
    p.left = value(a, i);
    p.right = value(b, i);
    p.difference = difference(a, b, i, scale);
    return p;
}

static bool same_set(const struct block *a, const struct block *b)
{
    for (size_t i = 0; i < a->n; i++) {
        size_t k = 0;
        while (k < b->n && value(b, k) != value(a, i))
            k++;
        if (k == b->n)
            return false;
    }
    return a->n == b->n;
}

/* A choice that may turn out otherwise: a route with the same weights, or as many positions. */
static bool near_tie(const struct pair *p, const struct block *a, const struct block *b)
{
    if (p->tolerance <= 0 || a->type != DUMP_I64 || a->type != b->type || a->n != b->n)
        return false;
    if (a->what == SEEN_SELECTED)
        return true;
    const struct block *wa = find_shown(&p->left, SEEN_ROUTE_WEIGHT, a->il, a->pos);
    const struct block *wb = find_right(p, SEEN_ROUTE_WEIGHT, a->il, a->pos);
    return a->what == SEEN_ROUTE && wa && wb && worst_of(wa, wb).difference <= p->tolerance;
}

static void count_argmax(const struct block *a, const struct block *b, struct check_result *out)
{
    if (a->what != SEEN_LOGITS || a->type != DUMP_F32 || b->type != DUMP_F32 || a->n != b->n)
        return;
    out->n_logits++;
    out->n_same_argmax +=
        engine_argmax(a->values, (int)a->n) == engine_argmax(b->values, (int)b->n);
}

static void compare(const struct pair *p, const struct block *a, const struct block *b,
                    struct check_result *out)
{
    struct check_kind *kind = &out->kinds[a->what];
    const struct check_place worst = worst_of(a, b);
    out->n_blocks++;
    out->n_values += (long)(a->n > b->n ? a->n : b->n);
    kind->n++;
    count_argmax(a, b, out);
    if (worst.difference > 0 && near_tie(p, a, b)) {
        if (!out->n_turns++)
            out->first_turn = first_of(a, b, 0);
        out->behind |= !same_set(a, b);
        return;
    }
    if (out->behind) {
        kind->worst_behind = fmax(kind->worst_behind, worst.difference);
        return;
    }
    kind->worst = fmax(kind->worst, worst.difference);
    if (worst.difference > out->worst.difference)
        out->worst = worst;
    if (worst.difference > p->tolerance && !out->differs) {
        out->differs = true;
        out->first = first_of(a, b, p->tolerance);
    }
}

static void compare_all(const struct pair *p, struct check_result *out)
{
    for (size_t i = 0; i < p->left.n; i++) {
        const struct block *a = &p->left.blocks[i], *b = find_right(p, a->what, a->il, a->pos);
        if (b)
            compare(p, a, b, out);
        else
            out->n_missing++;
    }
}
