/* The DeltaNet scan on a device, against the equations in double; rows together as rows one by one,
 * segments together as alone, and a commit of fewer rows, to the bit. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "gpu/mix.h"
#include "tests/aid_gpu.h"
#include "tests/aid_gpu_model.h"
#include "tests/aid_test.h"

static struct aid_gpu g;

enum { ROWS = 21, SEGMENTS = 3 };

struct shape {
    int nk, nv, dk, dv, kernel;
    enum gate_act act;
    bool codes, many; /* many: has dispatches for many rows */
};

/* The sizes of a shape, in floats. */
struct sizes {
    size_t width, state, window, values, log;
};

/* Host's arrays of a case, and where they are on the device. */
struct case_of {
    struct config c;
    struct sizes n;
    bool codes;
    float *conv, *z, *a, *b, *taps, *a_log, *dt_bias, *norm;
    float *first[SEGMENTS]; /* states and windows that the segments begin with, by plane */
    struct deltanet_params p;
    u64 state[SEGMENTS];
    size_t to_bytes, state_floats;
};

static float *made_up(size_t n, float scale, u64 *at)
{
    float *x = mem_array(n, sizeof *x);
    model_floats(x, n);
    for (size_t i = 0; i < n; i++)
        x[i] = fmaxf(-4, fminf(4, x[i])) * scale;
    if (at)
        *at = aid_gpu_put(&g, x, n * sizeof *x);
    return x;
}

static void case_init(struct case_of *x, const struct shape *s)
{
    struct config *c = &x->c;
    *x = (struct case_of){.codes = s->codes};
    c->nk = s->nk, c->nv = s->nv, c->dk = s->dk, c->dv = s->dv;
    c->conv_kernel = s->kernel, c->gate_act = s->act;
    size_t keys = (size_t)s->nk * (size_t)s->dk, values = (size_t)s->nv * (size_t)s->dv;
    size_t keep = (size_t)s->kernel - 1, width = 2 * keys + values;
    x->n = (struct sizes){width, values * (size_t)s->dk, keep * width, values,
                          width + keys + values + (size_t)s->nv};
    x->conv = made_up(ROWS * width, 1, &x->p.conv);
    x->z = made_up(ROWS * values, 1, &x->p.z);
    x->a = made_up(ROWS * (size_t)s->nv, 1, &x->p.a);
    x->b = made_up(ROWS * (size_t)s->nv, 1, &x->p.b);
    x->taps = made_up(width * (size_t)s->kernel, 0.5f, &x->p.taps);
    x->a_log = made_up((size_t)s->nv, 0.5f, &x->p.a_log);
    x->dt_bias = made_up((size_t)s->nv, 1, &x->p.dt_bias);
    x->norm = made_up((size_t)s->dv, 1, &x->p.norm);
    x->state_floats = 2 * (x->n.state + x->n.window);
    x->to_bytes = s->codes ? GPU_ACTS_BYTES(values) : values * sizeof(float);
    x->p.log = aid_gpu_room(&g, ROWS * x->n.log * sizeof(float));
    x->p.to = aid_gpu_room(&g, ROWS * x->to_bytes);
    x->p.eps = 1e-6f;
    for (int p = 0; p < 2; p++) {
        x->p.st_at[p] = (u32)((size_t)p * x->n.state);
        x->p.conv_at[p] = (u32)(2 * x->n.state + (size_t)p * x->n.window);
    }
    for (int is = 0; is < SEGMENTS; is++)
        x->first[is] = made_up(x->state_floats, 0.3f, &x->state[is]);
}

static void case_free(struct case_of *x)
{
    float *all[] = {x->conv, x->z,       x->a,        x->b,        x->taps,    x->a_log,
                    x->norm, x->dt_bias, x->first[0], x->first[1], x->first[2]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        mem_free(all[i]);
    aid_gpu_reset(&g);
}

/* Runs n segments. */
static void scan(struct case_of *x, const struct gpu_segment *s, int n)
{
    struct err e = {0};
    const struct mix m = {g.device, g.tape, &x->c};
    struct scan all = {.n_segments = n, .codes = x->codes};
    u64 table = aid_gpu_put(&g, s, (size_t)n * sizeof *s);
    x->p.segments = table;
    x->p.R = 0;
    for (int i = 0; i < n; i++) {
        all.rows = (int)s[i].n > all.rows ? (int)s[i].n : all.rows;
        x->p.R += s[i].n;
    }
    aid_gpu_begin(&g);
    assert_ok(deltanet_scan(&m, &x->p, all, &e), e);
    aid_gpu_end(&g);
}

/* What a run left: outputs, log, states. */
struct left {
    uint8_t *to;
    float *log, *state[SEGMENTS];
};

static struct left left_of(const struct case_of *x)
{
    struct left l = {mem_array(ROWS, x->to_bytes), mem_array(ROWS * x->n.log, 4), {NULL}};
    aid_gpu_get(&g, x->p.to, l.to, ROWS * x->to_bytes);
    aid_gpu_get(&g, x->p.log, l.log, ROWS * x->n.log * 4);
    for (int is = 0; is < SEGMENTS; is++) {
        l.state[is] = mem_array(x->state_floats, 4);
        aid_gpu_get(&g, x->state[is], l.state[is], x->state_floats * 4);
    }
    return l;
}

static void left_free(struct left *l)
{
    mem_free(l->to);
    mem_free(l->log);
    for (int is = 0; is < SEGMENTS; is++)
        mem_free(l->state[is]);
}

static void begin_again(const struct case_of *x)
{
    for (int is = 0; is < SEGMENTS; is++)
        aid_gpu_set(&g, x->state[is], x->first[is], x->state_floats * 4);
}

static void same(const void *a, const void *b, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++)
        if (((const uint8_t *)a)[i] != ((const uint8_t *)b)[i])
            fail_msg("%s: byte %zu of %zu differs", what, i, n);
}

/* --- the equations --- */

static double act(double x, bool silu)
{
    return (silu ? x : 1) / (1 + exp(-x));
}

/* silu(conv) of channel ch at row r of a segment that begins at row `first`. */
static double convolved(const struct case_of *x, const float *window, int first, int r, size_t ch)
{
    int kernel = x->c.conv_kernel;
    double sum = 0;
    for (int t = 0; t < kernel; t++) {
        int from = r - (kernel - 1) + t;
        float in = from < 0 ? window[(size_t)(kernel - 1 + from) * x->n.width + ch]
                            : x->conv[(size_t)(first + from) * x->n.width + ch];
        sum += (double)x->taps[ch * (size_t)kernel + (size_t)t] * in;
    }
    return act(sum, true);
}

static void unit(double *x, int n, double scale)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (int i = 0; i < n; i++)
        x[i] *= scale / sqrt(sum + 1e-6);
}

/* A value head of a segment, and the window that the segment began with. */
struct head {
    const float *window;
    int first, iv;
};

/* One row of one value head: changes st, gives y. */
static void step(const struct case_of *x, const struct head *at, int r, double *st, double *y)
{
    const struct config *c = &x->c;
    const float *window = at->window;
    int iv = at->iv, keys = c->nk * c->dk, ik = iv / (c->nv / c->nk), first = at->first;
    double q[512], k[512];
    size_t head = (size_t)(first + r) * (size_t)c->nv + (size_t)iv;
    for (int i = 0; i < c->dk; i++) {
        q[i] = convolved(x, window, first, r, (size_t)(ik * c->dk + i));
        k[i] = convolved(x, window, first, r, (size_t)(keys + ik * c->dk + i));
    }
    unit(q, c->dk, 1 / sqrt(c->dk));
    unit(k, c->dk, 1);
    double soft = log1p(exp((double)x->a[head] + x->dt_bias[iv])), squares = 0;
    double decay = exp(-exp(x->a_log[iv]) * soft), beta = act(x->b[head], false);
    for (int j = 0; j < c->dv; j++) {
        double m = 0, v = convolved(x, window, first, r, (size_t)(2 * keys + iv * c->dv + j));
        for (int i = 0; i < c->dk; i++)
            m += (st[i * c->dv + j] *= decay) * k[i];
        y[j] = 0;
        for (int i = 0; i < c->dk; i++)
            y[j] += (st[i * c->dv + j] += k[i] * beta * (v - m)) * q[i];
        squares += y[j] * y[j];
    }
    for (int j = 0; j < c->dv; j++)
        y[j] = y[j] / sqrt(squares / c->dv + x->p.eps) * x->norm[j] *
               act(x->z[head * (size_t)c->dv + (size_t)j], c->gate_act == GATE_SILU);
}

static double output(const struct case_of *x, const struct left *l, int row, int i)
{
    const uint8_t *at = l->to + (size_t)row * x->to_bytes;
    return x->codes ? model_value(at, (int)x->n.values, i) : ((const float *)(const void *)at)[i];
}

/* What rounding to 16 bits may do to output i of a row. */
static double rounding(const struct case_of *x, const struct left *l, int row, int i)
{
    double most = 0;
    for (int j = i / 64 * 64; x->codes && j < i / 64 * 64 + 64; j++)
        most = fmax(most, fabs(output(x, l, row, j)));
    return most / 32000;
}

/* The worst difference of outputs and states from the equations. */
static double compare(const struct case_of *x, const struct left *l, const struct gpu_segment *s,
                      int is)
{
    const struct config *c = &x->c;
    size_t each = (size_t)c->dk * (size_t)c->dv;
    const float *window = x->first[is] + x->p.conv_at[s->plane];
    const float *after = l->state[is] + x->p.st_at[1 - s->plane];
    double worst = 0, *st = mem_array(each, sizeof *st), y[512];
    for (int iv = 0; iv < c->nv; iv++) {
        for (size_t i = 0; i < each; i++)
            st[i] = x->first[is][x->p.st_at[s->plane] + (size_t)iv * each + i];
        for (int r = 0; r < (int)s->n; r++) {
            step(x, &(struct head){window, (int)s->first, iv}, r, st, y);
            for (int j = 0; j < c->dv; j++) {
                int row = (int)s->first + r, at = iv * c->dv + j;
                double off = fabs(output(x, l, row, at) - y[j]) - rounding(x, l, row, at);
                worst = fmax(worst, off / (1 + fabs(y[j])));
            }
        }
        for (size_t i = 0; i < each; i++)
            worst = fmax(worst, fabs(after[(size_t)iv * each + i] - st[i]));
    }
    mem_free(st);
    return worst;
}

/* --- tests --- */

static const struct shape shapes[] = {
    {2, 4, 32, 32, 4, GATE_SIGMOID, true, true},  {1, 3, 128, 128, 4, GATE_SIGMOID, true, true},
    {2, 2, 64, 64, 3, GATE_SILU, true, true},     {4, 8, 32, 48, 2, GATE_SIGMOID, true, false},
    {1, 2, 24, 40, 4, GATE_SILU, false, false},   {1, 1, 7, 5, 1, GATE_SIGMOID, false, false},
    {1, 2, 256, 64, 8, GATE_SIGMOID, true, true}, {1, 1, 64, 512, 4, GATE_SIGMOID, true, true},
    {2, 4, 32, 64, 4, GATE_SILU, false, true},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static void split(const struct case_of *x, struct gpu_segment s[SEGMENTS], const u32 rows[SEGMENTS])
{
    u32 first = 0;
    for (u32 is = 0; is < SEGMENTS; first += rows[is++])
        s[is] = (struct gpu_segment){.state = x->state[is],
                                     .first = first,
                                     .n = rows[is],
                                     .plane = is % 2,
                                     .pending = first};
}

static void rows_follow_the_equations(void **state)
{
    (void)state;
    double worst = 0;
    for (int i = 0; i < SHAPES; i++) {
        struct case_of x;
        struct gpu_segment s[SEGMENTS];
        case_init(&x, &shapes[i]);
        split(&x, s, (const u32[]){1, 5, 3});
        scan(&x, s, SEGMENTS);
        struct left l = left_of(&x);
        for (int is = 0; is < SEGMENTS; is++)
            worst = fmax(worst, compare(&x, &l, &s[is], is));
        left_free(&l);
        case_free(&x);
    }
    printf("worst: %.2g from the equations (may be 1e-5)\n", worst);
    assert_true(worst < 1e-5);
}

/* The row r of segment is alone, as the r-th step of its sequence. */
static void one_row(struct case_of *x, const struct gpu_segment *s, u32 r)
{
    struct gpu_segment one = *s;
    one.first += r;
    one.pending += r;
    one.n = 1;
    one.plane = (s->plane + r) % 2;
    scan(x, &one, 1);
}

static void rows_alone_are_the_same(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        struct case_of x;
        struct gpu_segment s[SEGMENTS];
        case_init(&x, &shapes[i]);
        split(&x, s, (const u32[]){2, 6, 1});
        scan(&x, s, SEGMENTS);
        struct left all = left_of(&x);
        begin_again(&x);
        for (int is = 0; is < SEGMENTS; is++)
            for (u32 r = 0; r < s[is].n; r++)
                one_row(&x, &s[is], r);
        struct left one = left_of(&x);
        same(all.to, one.to, ROWS * x.to_bytes, "output");
        same(all.log, one.log, ROWS * x.n.log * 4, "log");
        for (int is = 0; is < SEGMENTS; is++) {
            u32 to = 1 - s[is].plane, last = (s[is].plane + s[is].n) % 2;
            same(all.state[is] + x.p.st_at[to], one.state[is] + x.p.st_at[last], x.n.state * 4,
                 "state");
            same(all.state[is] + x.p.conv_at[to], one.state[is] + x.p.conv_at[last], x.n.window * 4,
                 "window");
        }
        left_free(&all);
        left_free(&one);
        case_free(&x);
    }
}

/* Three dispatches give what the one gives, which keeps a log of rows besides. */
static void many_rows_are_the_same(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        struct case_of x;
        struct gpu_segment s[SEGMENTS];
        const float none = -7;
        float room;
        case_init(&x, &shapes[i]);
        split(&x, s, (const u32[]){2, 18, 1});
        scan(&x, s, SEGMENTS);
        struct left one = left_of(&x);
        begin_again(&x);
        x.p.log = 0;
        x.p.room = aid_gpu_room(&g, deltanet_room(&x.c, ROWS));
        aid_gpu_set(&g, x.p.room, &none, sizeof none);
        scan(&x, s, SEGMENTS);
        aid_gpu_get(&g, x.p.room, &room, sizeof room);
        assert_int_equal(room != none, shapes[i].many);
        uint8_t *to = mem_array(ROWS, x.to_bytes);
        aid_gpu_get(&g, x.p.to, to, ROWS * x.to_bytes);
        same(to, one.to, ROWS * x.to_bytes, "output");
        mem_free(to);
        for (int is = 0; is < SEGMENTS; is++) {
            float *after = mem_array(x.state_floats, 4);
            aid_gpu_get(&g, x.state[is], after, x.state_floats * 4);
            same(after, one.state[is], x.state_floats * 4, "state and window");
            mem_free(after);
        }
        left_free(&one);
        case_free(&x);
    }
}

static void fewer_rows_are_made_again(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        struct case_of x;
        struct gpu_segment s[SEGMENTS];
        struct err e = {0};
        case_init(&x, &shapes[i]);
        split(&x, s, (const u32[]){1, 7, 1});
        const struct mix m = {g.device, g.tape, &x.c};
        for (u32 n = 0; n <= 6; n += 2) {
            struct gpu_segment part = s[1];
            u64 at = x.state[1];
            const struct deltanet_replay_params again = {.st_from = at + 4 * x.p.st_at[1],
                                                         .st_to = at + 4 * x.p.st_at[0],
                                                         .conv_from = at + 4 * x.p.conv_at[1],
                                                         .conv_to = at + 4 * x.p.conv_at[0],
                                                         .log =
                                                             x.p.log + 4 * x.n.log * s[1].pending,
                                                         .n = n};
            part.n = n;
            begin_again(&x);
            scan(&x, &part, 1);
            struct left want = left_of(&x);
            begin_again(&x);
            scan(&x, s, SEGMENTS);
            aid_gpu_begin(&g);
            assert_ok(deltanet_replay(&m, &again, &e), e);
            aid_gpu_end(&g);
            struct left got = left_of(&x);
            same(got.state[1], want.state[1], x.state_floats * 4, "state after a replay");
            left_free(&want);
            left_free(&got);
        }
        case_free(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_follow_the_equations),
        cmocka_unit_test(rows_alone_are_the_same),
        cmocka_unit_test(many_rows_are_the_same),
        cmocka_unit_test(fewer_rows_are_made_again),
    };
    aid_gpu_open(&g);
    int bad = cmocka_run_group_tests(tests, NULL, NULL);
    aid_gpu_close(&g);
    return bad;
}
