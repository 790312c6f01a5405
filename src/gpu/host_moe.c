/* Routed experts on the processor: see host_moe.h. Two stages of the team: activations of 64
 * columns of an expert, for all its rows; then 64 of its outputs. */
#include "gpu/host_moe.h"

#include <assert.h>
#include <string.h>

#include "base/cpuid.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/team.h"
#include "gpu/numbers.h"
#include "gpu/params.h"
#include "kern/kern.h"

enum { COLUMNS = KERN_GROUP };

/* Rows of n activations. */
struct rows {
    int n;
    int8_t *codes;
    float *scale, *sum;
};

struct host_expert {
    struct kern_matrix gate, up, down;
    int first, n; /* of m->pair */
};

struct host_moe {
    struct kern kern;
    struct team *team;
    int h, inter, K;
    struct rows x, act;         /* [HOST_MOE_ROWS]; by pair */
    struct host_expert *expert; /* [HOST_MOE_ROWS * K] */
    int *pair;                  /* the same */
    int n_experts, n_pairs;
    float *to; /* of the run */
};

static int rows_take(struct rows *x, int R, int n)
{
    const size_t rows = (size_t)R, groups = (size_t)n / KERN_GROUP;
    x->n = n;
    x->codes = mem_zalloc(rows, kern_acts16_bytes(n));
    x->scale = mem_zalloc(rows * groups, sizeof *x->scale);
    x->sum = mem_zalloc(rows * groups, sizeof *x->sum);
    return x->codes && x->scale && x->sum;
}

static void rows_free(struct rows *x)
{
    mem_free(x->codes);
    mem_free(x->scale);
    mem_free(x->sum);
}

int host_moe_open(int h, int inter, int K, int threads, struct host_moe **out, struct err *e)
{
    const int pairs = HOST_MOE_ROWS * K;
    unsigned cpu;
    *out = NULL;
    assert(h % COLUMNS == 0 && inter % COLUMNS == 0);
    int rc = cpuid_allowed(&cpu, e);
    if (rc)
        return rc;
    struct host_moe *m = mem_zalloc(1, sizeof *m);
    if (!m)
        return ERR(e, E_NOMEM, "no memory for experts on the processor");
    m->h = h;
    m->inter = inter;
    m->K = K;
    kern_init(&m->kern, cpu);
    m->expert = mem_zalloc((size_t)pairs, sizeof *m->expert);
    m->pair = mem_zalloc((size_t)pairs, sizeof *m->pair);
    if (!m->expert || !m->pair || !rows_take(&m->x, HOST_MOE_ROWS, h) ||
        !rows_take(&m->act, pairs, inter))
        rc = ERR(e, E_NOMEM, "no memory for experts on the processor");
    rc = rc ? rc : team_open(threads ? threads : os_cpu_count(), &m->team, e);
    if (rc) {
        host_moe_close(m);
        return rc;
    }
    *out = m;
    return 0;
}

void host_moe_close(struct host_moe *m)
{
    if (!m)
        return;
    team_close(m->team);
    rows_free(&m->x);
    rows_free(&m->act);
    mem_free(m->expert);
    mem_free(m->pair);
    mem_free(m);
}

static int8_t *codes_of(const struct rows *x, int r)
{
    return x->codes + (size_t)r * kern_acts16_bytes(x->n);
}

static size_t groups_at(const struct rows *x, int r)
{
    return (size_t)r * (size_t)(x->n / KERN_GROUP);
}

/* A unit of a kernel's activations has high bytes of even elements, of odd ones, then the low ones;
 * so have the planes, four elements of which belong together. */
void host_moe_rows(struct host_moe *m, const uint8_t *q, int R)
{
    const int n = m->h, groups = n / KERN_GROUP;
    assert(R <= HOST_MOE_ROWS);
    for (int r = 0; r < R; r++, q += GPU_ACTS_BYTES(n)) {
        int8_t *codes = codes_of(&m->x, r);
        for (int i = 0; i < n; i += 8) {
            const uint8_t *unit = q + 16 * (size_t)GPU_ACTS_UNIT(n, i / 64, i % 64 / 8);
            memcpy(codes + kern_code16_at(i), unit, 4);
            memcpy(codes + kern_code16_at(i + 1), unit + 4, 4);
            memcpy(codes + kern_code16_at(i) + KERN_PART, unit + 8, 4);
            memcpy(codes + kern_code16_at(i + 1) + KERN_PART, unit + 12, 4);
        }
        memcpy(m->x.scale + groups_at(&m->x, r), q + 2 * (size_t)n, (size_t)groups * sizeof(float));
        memcpy(m->x.sum + groups_at(&m->x, r), q + 2 * (size_t)n + (size_t)groups * sizeof(float),
               (size_t)groups * sizeof(float));
    }
}

/* Matrix i of a record: 0 gate, 1 up, 2 down. */
static struct kern_matrix matrix_of(const struct host_moe *m, const uint8_t *record, int bits,
                                    size_t i)
{
    const size_t n = (size_t)m->h * (size_t)m->inter;
    const size_t codes = n / 8 * (size_t)bits, scales = n / KERN_GROUP * sizeof(uint16_t);
    const uint8_t *at = record + 3 * codes + 2 * i * scales;
    return (struct kern_matrix){.bits = bits,
                                .rows = i < 2 ? m->inter : m->h,
                                .cols = i < 2 ? m->h : m->inter,
                                .codes = record + i * codes,
                                .scales = (const uint16_t *)(const void *)at,
                                .biases = (const uint16_t *)(const void *)(at + scales)};
}

void host_moe_add(struct host_moe *m, const uint8_t *record, int bits, const int *pair, int n)
{
    struct host_expert *x = &m->expert[m->n_experts++];
    assert(n > 0 && m->n_pairs + n <= HOST_MOE_ROWS * m->K);
    *x = (struct host_expert){.gate = matrix_of(m, record, bits, 0),
                              .up = matrix_of(m, record, bits, 1),
                              .down = matrix_of(m, record, bits, 2),
                              .first = m->n_pairs,
                              .n = n};
    memcpy(m->pair + m->n_pairs, pair, (size_t)n * sizeof *pair);
    m->n_pairs += n;
}

static struct kern_acts16 acts_of(const struct rows *x, int r)
{
    return (struct kern_acts16){.n = x->n,
                                .lanes = GPU_LANES(x->n),
                                .codes = codes_of(x, r),
                                .scale = x->scale + groups_at(x, r),
                                .sum = x->sum + groups_at(x, r)};
}

/* Group g of row r, as acts_put of common.glsl. */
static void group_put(const float *v, const struct rows *to, int r, int g)
{
    int8_t *codes = codes_of(to, r);
    uint32_t most = 0;
    int32_t sum = 0;
    for (int i = 0; i < KERN_GROUP; i++) {
        const uint32_t u = num_bits(v[i]) & 0x7FFFFFFF;
        most = u > most ? u : most;
    }
    const float inverse = acts_inverse(most);
    for (int i = 0; i < KERN_GROUP; i++) {
        const int32_t q = inverse > 0 ? num_round(v[i] * inverse) : 0, high = (q + 128) >> 8;
        int8_t *code = codes + kern_code16_at(g * KERN_GROUP + i);
        code[0] = (int8_t)high;
        code[KERN_PART] = (int8_t)(q - 256 * high);
        sum += q;
    }
    to->scale[groups_at(to, r) + (size_t)g] = acts_scale(most);
    to->sum[groups_at(to, r) + (size_t)g] = acts_sum(most, sum);
}

static void up_item(void *ctx, int item, int member)
{
    struct host_moe *m = ctx;
    const int parts = m->inter / COLUMNS, g = item % parts;
    const struct host_expert *x = &m->expert[item / parts];
    float gate[COLUMNS], up[COLUMNS];
    (void)member;
    for (int i = x->first; i < x->first + x->n; i++) {
        const struct kern_acts16 in = acts_of(&m->x, m->pair[i] / m->K);
        m->kern.product16(&x->gate, &in, g * COLUMNS, (g + 1) * COLUMNS, gate);
        m->kern.product16(&x->up, &in, g * COLUMNS, (g + 1) * COLUMNS, up);
        for (int k = 0; k < COLUMNS; k++)
            gate[k] = num_silu(gate[k]) * up[k];
        group_put(gate, &m->act, m->pair[i], g);
    }
}

static void down_item(void *ctx, int item, int member)
{
    struct host_moe *m = ctx;
    const int parts = m->h / COLUMNS, at = item % parts * COLUMNS;
    const struct host_expert *x = &m->expert[item / parts];
    float y[COLUMNS];
    (void)member;
    for (int i = x->first; i < x->first + x->n; i++) {
        const struct kern_acts16 in = acts_of(&m->act, m->pair[i]);
        m->kern.product16(&x->down, &in, at, at + COLUMNS, y);
        memcpy(m->to + (size_t)m->pair[i] * (size_t)m->h + at, y, sizeof y);
    }
}

void host_moe_run(struct host_moe *m, float *to)
{
    m->to = to;
    team_run(m->team, m->n_experts * (m->inter / COLUMNS), up_item, m);
    team_run(m->team, m->n_experts * (m->h / COLUMNS), down_item, m);
    m->n_experts = m->n_pairs = 0;
}
