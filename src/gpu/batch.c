/* The rows of a step as tables for kernels, and its submissions. */
#include <math.h>
#include <string.h>

#include "gpu/blocks.h"

/* Row r, the nth row of its sequence. */
static int row_check(const struct gpu *g, const struct row *row, int r, int n, struct err *e)
{
    const struct sequence *s = row->seq;
    return engine_row_check(&(struct row_check){.row = row,
                                                .r = r,
                                                .n = n,
                                                .own = s->g == g,
                                                .pending = s->pending,
                                                .len = s->len,
                                                .ctx = s->ctx,
                                                .vocab = g->base.weights->config.vocab},
                            e);
}

static void batch_of(struct gpu *g, struct tables *t, struct batch *b)
{
    *b = (struct batch){.il = -1,
                        .back = true,
                        .limit = g->base.weights->config.vocab,
                        .host = t,
                        .rows = gpu_shared(g, t->row),
                        .segments = gpu_shared(g, t->segment),
                        .rope = gpu_shared(g, t->rope),
                        .rope_block = gpu_shared(g, t->rope_block)};
}

/* Cosines, then sines, of a position. */
static void turn(const struct gpu *g, int pos, float *rope)
{
    int half = g->base.weights->config.rot / 2;
    for (int i = 0; i < half; i++) {
        double angle = (double)((float)pos * g->host.freq[i]);
        rope[i] = (float)cos(angle);
        rope[half + i] = (float)sin(angle);
    }
}

/* Tables of the rows in host->at. */
static void tables_fill(struct gpu *g, struct batch *b)
{
    const struct config *c = &g->base.weights->config;
    struct tables *t = b->host;
    for (int i = 0, r = 0; i < b->n_segments; i++) {
        const struct sequence *s = b->seq[i];
        struct gpu_segment segment = s->at;
        segment.first = (u32)r;
        segment.plane = (u32)s->plane;
        segment.pending = b->prefill ? 0 : (u32)(b->pending + r);
        segment.len = (u32)s->len;
        for (; r < b->R && t->at[r].s == s && !(b->apart && r > (int)segment.first); r++) {
            int pos = t->at[r].pos, end = pos + 1;
            t->row[r] = (struct gpu_row){pos, t->at[r].token, (u32)i, (u32)t->at[r].r};
            turn(g, pos, t->rope + (size_t)r * c->rot);
            if (end % c->index_ratio == 0)
                turn(g, end - c->index_ratio, t->rope_block + (size_t)r * c->rot);
        }
        segment.n = (u32)r - segment.first;
        t->segment[i] = b->segment[i] = segment;
    }
}

int gpu_batch_of_rows(struct gpu *g, const struct row *rows, int R, struct batch *b, struct err *e)
{
    struct pending *p = &g->pending;
    int n = 0, rc = engine_rows_check(R, e);
    if (rc)
        return rc;
    p->used = p->rows ? p->used : 0;
    if (engine_pending_check(R, p->used, p->rows, e))
        return -e->code;
    batch_of(g, &g->host.tables[0], b);
    b->R = R;
    b->pending = p->used;
    for (int r = 0; r < R; r++) {
        struct sequence *s = rows[r].seq;
        n = r && s == rows[r - 1].seq ? n + 1 : 1;
        rc = row_check(g, &rows[r], r, n, e);
        if (rc)
            return rc;
        if (n == 1)
            b->seq[b->n_segments++] = s;
        b->host->at[r] = (struct at){s, n - 1, s->len + n - 1, rows[r].token};
        s->tokens[s->len + n - 1] = rows[r].token;
    }
    tables_fill(g, b);
    return 0;
}

int gpu_batch_of_tokens(struct gpu *g, struct sequence *s, const int32_t *tokens, int n,
                        struct batch *b, struct err *e)
{
    if (engine_prefill_check(&g->base, n, e))
        return -e->code;
    batch_of(g, &g->host.tables[0], b);
    b->R = n;
    b->prefill = true;
    b->seq[b->n_segments++] = s;
    for (int r = 0; r < n; r++) {
        int rc = row_check(g, &(struct row){s, tokens[r]}, r, r + 1, e);
        if (rc)
            return rc;
        b->host->at[r] = (struct at){s, r, s->len + r, tokens[r]};
        s->tokens[s->len + r] = tokens[r];
    }
    tables_fill(g, b);
    return 0;
}

void gpu_batch_of_cells(struct gpu *g, struct batch *b, int n, bool prefill)
{
    batch_of(g, &g->host.tables[1], b);
    b->R = n;
    b->prefill = prefill;
    b->il = g->base.weights->config.n_layers;
    for (int r = 0; r < n; r++)
        if (!r || b->host->at[r].s != b->host->at[r - 1].s)
            b->seq[b->n_segments++] = b->host->at[r].s;
    tables_fill(g, b);
}

void gpu_batch_of_drafts(struct gpu *g, struct batch *b, int n)
{
    batch_of(g, &g->host.tables[1], b);
    b->R = b->n_segments = n;
    b->apart = true;
    b->il = g->base.weights->config.n_layers;
    for (int r = 0; r < n; r++)
        b->seq[r] = b->host->at[r].s;
    tables_fill(g, b);
}

struct batch gpu_batch_row(const struct gpu *g, const struct batch *b, int r, struct tables *t)
{
    const u64 rope = (u64)r * (u64)g->base.weights->config.rot * sizeof(float);
    struct batch one = *b;
    *t = *b->host;
    t->at += r;
    one.host = t;
    one.R = 1;
    one.rows += (u64)r * sizeof(struct gpu_row);
    one.rope += rope;
    one.rope_block += rope;
    return one;
}

void gpu_batch_round(const struct gpu *g, struct batch *b)
{
    enum { LEAST = 64 };
    const struct config *c = &g->base.weights->config;
    int unit = c->index_budget / 4 > LEAST ? c->index_budget / 4 : LEAST, most = 0;
    for (int r = 0; r < b->R; r++)
        most = b->host->at[r].pos >= most ? b->host->at[r].pos + 1 : most;
    for (b->reach = unit; b->reach < most;)
        b->reach += b->reach < 8 * unit ? unit : b->reach / 2;
}

int gpu_batch_check(const struct gpu *g, const struct batch *b, struct err *e)
{
    u32 r = *(const u32 *)gpu_back(g, g->scratch.bad);
    if (r >= (u32)b->R)
        return 0;
    return ERR(
        e, E_NONFINITE,
        "position %d: a value of the residual, the cache or the logits is not finite; weights "
        "are damaged or overflow (verify the store)",
        b->host->at[r].pos);
}
