/* Two sides compared block by block: see check.h. */
#include "runner/check.h"

#include <math.h>

#include "base/mem.h"

/* One position of a side that is an engine: its blocks, in order. */
struct shown {
    const struct block *blocks;
    size_t n;
};

static int show(const struct check_side *side, int32_t id, float *logits, struct shown *out,
                struct err *e);
static const struct block *find(const struct check_side *side, const struct shown *shown,
                                const struct block *like);
static void compare(const struct block *a, const struct block *b, double tolerance,
                    struct check_result *out);

int check_run(const struct check_side *left, const struct check_side *right,
              const struct tokens *ids, double tolerance, struct check_result *out, struct err *e)
{
    float *logits = mem_array((size_t)left->engine->weights->config.vocab, sizeof *logits);
    int rc = logits ? 0 : ERR(e, E_NOMEM, "no memory for a row of logits");
    *out = (struct check_result){0};
    for (size_t pos = 0; !rc && pos < ids->n; pos++) {
        struct shown l = {0}, r = {0};
        const long before = out->n_blocks;
        rc = show(left, ids->ids[pos], logits, &l, e);
        if (!rc)
            rc = show(right, ids->ids[pos], logits, &r, e);
        for (size_t i = 0; !rc && i < l.n; i++) {
            const struct block *other = find(right, &r, &l.blocks[i]);
            if (other)
                compare(&l.blocks[i], other, tolerance, out);
            else
                out->n_missing++;
        }
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

static const struct block *find(const struct check_side *side, const struct shown *shown,
                                const struct block *like)
{
    if (side->dump)
        return dump_file_find(side->dump, like->what, like->il, like->pos);
    for (size_t i = 0; i < shown->n; i++) {
        const struct block *b = &shown->blocks[i];
        if (b->what == like->what && b->il == like->il && b->pos == like->pos)
            return b;
    }
    return NULL;
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

static void compare(const struct block *a, const struct block *b, double tolerance,
                    struct check_result *out)
{
    const size_t n = a->n > b->n ? a->n : b->n;
    const double scale = fmax(magnitude(a), magnitude(b));
    out->n_blocks++;
    out->n_values += (long)n;
    for (size_t i = 0; i < n; i++) {
        const struct check_place p = {.what = a->what,
                                      .il = a->il,
                                      .pos = a->pos,
                                      .element = i,
                                      .left = value(a, i),
                                      .right = value(b, i),
                                      .n_left = a->n,
                                      .n_right = b->n,
                                      .difference = difference(a, b, i, scale)};
        if (p.difference > out->worst.difference)
            out->worst = p;
        if (p.difference > tolerance && !out->differs) {
            out->differs = true;
            out->first = p;
        }
    }
}
