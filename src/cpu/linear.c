/* Products with the weight matrices: see linear.h. */
#include "cpu/linear.h"

#include <assert.h>

#include "cpu/state.h"
#include "model/matrix.h"

static struct kern_acts codes_place(size_t rows, int n, struct layout *l)
{
    struct kern_acts q = {.n = n};
    if (n % KERN_GROUP == 0) {
        q.records = layout_take(l, rows * kern_acts_bytes(n), 1);
        q.sum = layout_floats(l, rows, (size_t)(n / KERN_GROUP));
    }
    return q;
}

void acts_place(struct acts *a, size_t rows, int n, struct layout *l)
{
    float *x = layout_floats(l, rows, (size_t)n);
    *a = (struct acts){x, codes_place(rows, n, l), n};
}

void acts_place_split(struct acts *a, const struct acts *whole, size_t rows, int parts,
                      struct layout *l)
{
    int n = whole->n / parts;
    *a = (struct acts){whole->x, codes_place(rows * (size_t)parts, n, l), n};
}

void acts_quantise(const struct kern *k, struct acts *a, int r0, int r1)
{
    if (a->q.records)
        k->quantise(a->x, r0, r1, &a->q);
}

/* Whole records lie where they would lie in a row of these elements alone. */
void acts_quantise_part(const struct kern *k, struct acts *a, int row, int from, int n)
{
    struct acts at = acts_from(a, row);
    struct kern_acts part = {n, at.q.records + kern_record_at(from), at.q.sum + from / KERN_GROUP};
    assert(from % KERN_CHUNK == 0 && n % KERN_CHUNK == 0 && a->q.records);
    k->quantise(at.x + from, 0, 1, &part);
}

struct acts acts_from(const struct acts *a, int row)
{
    struct acts b = *a;
    b.x += (size_t)row * (size_t)a->n;
    if (a->q.records) {
        b.q.records += (size_t)row * kern_acts_bytes(a->n);
        b.q.sum += (size_t)row * (size_t)(a->n / KERN_GROUP);
    }
    return b;
}

struct matrix cpu_linear_part(const struct matrix *m, int o, int n)
{
    struct matrix part = *m;
    size_t groups = m->group ? (size_t)(m->cols / m->group) * (size_t)o : 0;
    size_t codes = matrix_bytes(m, o) - groups * 2 * sizeof *m->scales;
    part.w = (const uint8_t *)m->w + codes;
    part.scales = m->scales ? m->scales + groups : NULL;
    part.biases = m->biases ? m->biases + groups : NULL;
    part.rows = n;
    return part;
}

static void quantised_outputs(const struct kern *k, const struct product *p, int bits,
                              const struct kern_output *out)
{
    const struct matrix *m = p->m;
    const struct kern_matrix q = {bits, m->rows, m->cols, m->w, m->scales, m->biases};
    const struct kern_input in = {&p->x->q, p->rows, p->R};
    assert(p->x->q.records && m->group == KERN_GROUP);
    k->product(&q, &in, out);
}

/* Matrices whose columns are no multiple of 64, and some tests' weights. */
static void float_outputs(const struct kern *k, const struct product *p, int j,
                          const struct kern_output *out)
{
    const struct matrix *m = p->m;
    const float *x = p->x->x + (size_t)(p->rows ? p->rows[j] : j) * (size_t)m->cols;
    if (m->format == MATRIX_BF16) {
        k->product_bf16(m->w, m->cols, x, 1, out);
        return;
    }
    for (int o = out->o0; o < out->o1; o++)
        out->to[o] = k->dot((const float *)m->w + (size_t)o * (size_t)m->cols, x, m->cols);
}

void cpu_linear_outputs(const struct kern *k, const struct product *p, int o0, int o1)
{
    struct kern_output out = {p->to, p->stride, o0, o1};
    switch (p->m->format) {
    case MATRIX_Q4:
        quantised_outputs(k, p, 4, &out);
        return;
    case MATRIX_Q3:
        quantised_outputs(k, p, 3, &out);
        return;
    case MATRIX_Q2:
        quantised_outputs(k, p, 2, &out);
        return;
    case MATRIX_BF16:
        if (!p->rows) {
            k->product_bf16(p->m->w, p->m->cols, p->x->x, p->R, &out);
            return;
        }
        break;
    case MATRIX_F32:
        break;
    }
    for (int j = 0; j < p->R; j++, out.to += p->stride)
        float_outputs(k, p, j, &out);
}

/* The items of a stage: item i < end[q] of product q is its i - end[q-1]th block of outputs. */
struct blocks {
    const struct kern *k;
    const struct product *p;
    int block[LINEAR_MOST], end[LINEAR_MOST];
};

static void run_block(void *ctx, int item, int member)
{
    const struct blocks *b = ctx;
    int q = 0;
    (void)member;
    while (item >= b->end[q])
        q++;
    int o = (item - (q ? b->end[q - 1] : 0)) * b->block[q], rows = b->p[q].m->rows;
    cpu_linear_outputs(b->k, &b->p[q], o, rows - o < b->block[q] ? rows : o + b->block[q]);
}

enum { OUTPUTS = 32, BLOCK_MIN = 32 << 10, BLOCK_MAX = 512 << 10, FEW_ROWS = 16 };

/* Outputs of m that make an item: some `want` bytes of weights, and a multiple of what the kernels
 * like. */
static int block_of(const struct matrix *m, size_t want)
{
    size_t outputs = want / matrix_bytes(m, 1) / OUTPUTS * OUTPUTS;
    outputs = outputs < OUTPUTS ? OUTPUTS : outputs;
    return outputs < (size_t)m->rows ? (int)outputs : m->rows;
}

/* Counts the weights of a stage, and returns how many bytes of them make an item. */
static size_t item_bytes(struct cpu *g, const struct product *p, int n)
{
    size_t all = 0, share = (size_t)team_size(g->team) * 8;
    for (int q = 0; q < n; q++)
        all += matrix_bytes(p[q].m, p[q].m->rows);
    counters_add(&g->counters.touched_bytes, all);
    share = n && p[0].R > FEW_ROWS ? share * 4 : share; /* an item takes longer: smaller ones */
    size_t want = all / share < BLOCK_MIN ? BLOCK_MIN : all / share;
    return want > BLOCK_MAX ? BLOCK_MAX : want;
}

int cpu_linear_split(struct cpu *g, const struct product *p)
{
    return block_of(p->m, item_bytes(g, p, 1));
}

void cpu_linear_apply(struct cpu *g, const struct product *p, int n)
{
    struct blocks b = {.k = &g->kern, .p = p};
    size_t want = item_bytes(g, p, n);
    int items = 0;

    assert(n <= LINEAR_MOST);
    for (int q = 0; q < n; q++) {
        b.block[q] = block_of(p[q].m, want);
        items += (p[q].m->rows + b.block[q] - 1) / b.block[q];
        b.end[q] = items;
    }
    team_run(g->team, items, run_block, &b);
}
