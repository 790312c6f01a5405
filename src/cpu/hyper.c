/* The gated residual: S parallel streams of width h, read into one and written back.
 *
 *   n        = rms(hyper) per stream, gamma [S*h]
 *   d        = silu(W_down n / S)                                [lowrank]
 *   u        = W_up d                                            [S*h]
 *   mixed[i] = (1/S) * sum over g of sigmoid(u[g,i]) * n[g,i]    g ascending
 *   inj[g]   = 2 * sigmoid((W_inject n)[g] / S)
 *
 *   hyper[g] += inj[g] * out
 *
 * Four stages: the write of the block before, norm and quantising, by row and stream; both products
 * of n; d; u by columns, mixed and quantised before it leaves the cache. */
#include <math.h>
#include <string.h>

#include "cpu/blocks.h"
#include "model/matrix.h"

struct reading {
    struct cpu *g;
    const struct hyper_job *j;
    int parts,
        cols; /* of the streams of a row in the first stage; columns of an item of the last */
};

static struct reading reading_of(struct cpu *g, const struct hyper_job *j)
{
    const struct config *c = &g->weights.config;
    bool whole = c->h % KERN_CHUNK != 0; /* then only whole rows can be quantised */
    return (struct reading){g, j, whole ? 1 : c->S, whole ? c->h : MIX_COLS};
}

/* Stream ig of row r: adds what is to be added, and returns the sum of squares. */
static float add_stream(const struct reading *x, int r, int ig, float *hyper)
{
    const struct config *c = &x->g->weights.config;
    const struct hyper_job *j = x->j;
    if (j->add) {
        float by = j->inj[(size_t)r * c->S + ig] / (float)c->S;
        x->g->kern.sigmoid(&by, 1);
        x->g->kern.add_scaled(hyper, j->add + (size_t)r * c->h, 2 * by, c->h);
    }
    float squares = x->g->kern.sum_squares(hyper, c->h);
    if (!isfinite(squares))
        row_spoil(x->g, j->first + r);
    return squares;
}

static void norm_item(void *ctx, int item, int member)
{
    const struct reading *x = ctx;
    const struct config *c = &x->g->weights.config;
    struct acts *norm = &x->g->scratch.norm;
    int r = item / x->parts, each = c->S / x->parts, first = item % x->parts * each;
    (void)member;
    for (int ig = first; ig < first + each; ig++) {
        size_t stream = (size_t)ig * c->h, at = (size_t)r * c->S * c->h + stream;
        float squares = add_stream(x, r, ig, x->j->hyper + at);
        float scale = (float)(1.0 / sqrt((double)squares / c->h + c->eps));
        x->g->kern.scale_mul(x->j->hyper + at, scale, x->j->w->norm.x + stream, c->h, norm->x + at);
    }
    if (x->parts == 1)
        acts_quantise(&x->g->kern, norm, r, r + 1);
    else
        acts_quantise_part(&x->g->kern, norm, r, first * c->h, each * c->h);
}

static void low_item(void *ctx, int r, int member)
{
    const struct reading *x = ctx;
    const struct config *c = &x->g->weights.config;
    struct acts *low = &x->g->scratch.low;
    float *d = low->x + (size_t)r * c->lowrank;
    (void)member;
    for (int i = 0; i < c->lowrank; i++)
        d[i] /= (float)c->S;
    x->g->kern.silu(d, c->lowrank);
    acts_quantise(&x->g->kern, low, r, r + 1);
}

/* Columns `from` .. of the mixed row r, from u [S][cols]. */
static void mix_row(const struct reading *x, int r, int from, const float *u)
{
    const struct config *c = &x->g->weights.config;
    const float *n = x->g->scratch.norm.x + (size_t)r * c->S * c->h + from;
    float *mixed = x->j->to->x + (size_t)r * c->h + from;
    memset(mixed, 0, (size_t)x->cols * sizeof *mixed);
    for (int ig = 0; ig < c->S; ig++)
        x->g->kern.add_gated(mixed, u + (size_t)ig * x->cols, n + (size_t)ig * c->h, x->cols);
    for (int i = 0; i < x->cols; i++)
        mixed[i] /= (float)c->S;
    if (x->parts == 1)
        acts_quantise(&x->g->kern, x->j->to, r, r + 1);
    else
        acts_quantise_part(&x->g->kern, x->j->to, r, from, x->cols);
}

/* A block of columns of every stream, for MIX_ROWS rows. */
static void mix_item(void *ctx, int item, int member)
{
    const struct reading *x = ctx;
    const struct config *c = &x->g->weights.config;
    int blocks = c->h / x->cols, from = item % blocks * x->cols, r = item / blocks * MIX_ROWS;
    int rows = x->j->R - r < MIX_ROWS ? x->j->R - r : MIX_ROWS;
    const struct acts low = acts_from(&x->g->scratch.low, r);
    float *u = member_room(x->g, member);
    size_t stride = (size_t)c->S * x->cols;
    for (int ig = 0; ig < c->S; ig++) {
        const struct matrix up = cpu_linear_part(&x->j->w->up, ig * c->h + from, x->cols);
        const struct product p = {&up, &low, NULL, rows, u + (size_t)ig * x->cols, stride};
        cpu_linear_outputs(&x->g->kern, &p, 0, x->cols);
    }
    for (int i = 0; i < rows; i++)
        mix_row(x, r + i, from, u + (size_t)i * stride);
}

void cpu_hyper_read(struct cpu *g, const struct hyper_job *j)
{
    const struct config *c = &g->weights.config;
    struct scratch *m = &g->scratch;
    struct reading x = reading_of(g, j);
    const struct product down[] = {
        {&j->w->down, &m->norm, NULL, j->R, m->low.x, (size_t)c->lowrank},
        {&j->w->inject, &m->norm, NULL, j->R, j->inj, (size_t)c->S},
    };
    each_row(g, j->R * x.parts, norm_item, &x);
    cpu_linear_apply(g, down, j->mixer ? 1 : 2);
    each_row(g, j->R, low_item, &x);
    counters_add(&g->counters.touched_bytes, matrix_bytes(&j->w->up, j->w->up.rows));
    team_run(g->team, c->h / x.cols * ((j->R + MIX_ROWS - 1) / MIX_ROWS), mix_item, &x);
}

static void add_item(void *ctx, int item, int member)
{
    const struct reading *x = ctx;
    const struct config *c = &x->g->weights.config;
    int r = item / c->S, ig = item % c->S;
    (void)member;
    add_stream(x, r, ig, x->j->hyper + ((size_t)r * c->S + (size_t)ig) * c->h);
}

void cpu_hyper_add(struct cpu *g, const struct hyper_job *j)
{
    struct reading x = reading_of(g, j);
    each_row(g, j->R * g->weights.config.S, add_item, &x);
}
