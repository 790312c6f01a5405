/* What works on streams, on a device: PLE, the embedding, the draft head's fold, against their
 * equations in double; PLE's rows together as one by one, to the bit. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "gpu/mix.h"
#include "quant/half.h"
#include "tests/aid_gpu.h"
#include "tests/aid_gpu_model.h"
#include "tests/aid_test.h"

static struct aid_gpu g;

enum { ROWS = 9, SEGMENTS = 3 };

static float *made_up(size_t n, u64 *at)
{
    float *x = mem_array(n, sizeof *x);
    model_floats(x, n);
    for (size_t i = 0; i < n; i++)
        x[i] = fmaxf(-3, fminf(3, x[i]));
    if (at)
        *at = aid_gpu_put(&g, x, n * sizeof *x);
    return x;
}

static void same(const void *a, const void *b, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++)
        if (((const uint8_t *)a)[i] != ((const uint8_t *)b)[i])
            fail_msg("%s: byte %zu of %zu differs", what, i, n);
}

static float *floats_of(u64 at, size_t n)
{
    float *x = mem_array(n, sizeof *x);
    aid_gpu_get(&g, at, x, n * sizeof *x);
    return x;
}

static double root_of(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return 1 / sqrt(sum / (double)n + 1e-6);
}

/* --- PLE --- */

struct shape {
    int h, S, kernel, dilation;
};

struct ple_case {
    struct config c;
    size_t width, keep;                                           /* S*h; floats kept */
    float *hyper, *key, *value, *norm[3], *taps, *kept[SEGMENTS]; /* kept: both planes */
    u64 state[SEGMENTS], rows, segments;
    struct ple_params p;
};

static void ple_init(struct ple_case *x, const struct shape *s)
{
    *x = (struct ple_case){.c = {.h = s->h, .S = s->S, .eps = 1e-6}};
    x->c.ple_kernel = s->kernel, x->c.ngram_size = s->dilation;
    x->width = (size_t)s->S * (size_t)s->h;
    x->keep = (size_t)(s->dilation * (s->kernel - 1)) * x->width;
    x->hyper = made_up(ROWS * x->width, &x->p.hyper);
    x->key = made_up(ROWS * x->width, &x->p.key);
    x->value = made_up(ROWS * (size_t)s->h, &x->p.value);
    x->norm[0] = made_up(x->width, &x->p.norm_key);
    x->norm[1] = made_up(x->width, &x->p.norm_query);
    x->norm[2] = made_up(x->width, &x->p.norm_conv);
    x->taps = made_up(x->width * (size_t)s->kernel, &x->p.taps);
    x->p.normed = aid_gpu_room(&g, ROWS * x->width * 4);
    x->p.rows = aid_gpu_room(&g, ROWS * sizeof(struct gpu_row));
    x->p.segments = aid_gpu_room(&g, SEGMENTS * sizeof(struct gpu_segment));
    x->p.keep_at[1] = (u32)x->keep;
    x->p.eps = 1e-6f;
    for (int is = 0; is < SEGMENTS; is++)
        x->kept[is] = made_up(2 * x->keep + 1, &x->state[is]);
}

static void ple_free(struct ple_case *x)
{
    float *all[] = {x->hyper,   x->key,  x->value,   x->norm[0], x->norm[1],
                    x->norm[2], x->taps, x->kept[0], x->kept[1], x->kept[2]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        mem_free(all[i]);
    aid_gpu_reset(&g);
}

/* Rows first .. of the case, as n segments; their pending rows begin with the first. */
static void ple_run(struct ple_case *x, const struct gpu_segment *s, int n, u32 first)
{
    struct gpu_row rows[ROWS];
    struct err e = {0};
    const struct mix m = {g.device, g.tape, &x->c};
    struct ple_params p = x->p;
    for (int is = 0; is < n; is++)
        for (u32 r = 0; r < s[is].n; r++)
            rows[p.n++] = (struct gpu_row){.segment = (u32)is, .nth = r};
    aid_gpu_set(&g, p.rows, rows, p.n * sizeof rows[0]);
    aid_gpu_set(&g, p.segments, s, (size_t)n * sizeof *s);
    p.hyper += first * x->width * 4;
    p.key += first * x->width * 4;
    p.value += first * (u32)x->c.h * 4;
    aid_gpu_begin(&g);
    assert_ok(ple_mix(&m, &p, n, &e), e);
    aid_gpu_end(&g);
}

/* gv and its normed form, of stream ig of row r; both [h]. */
static void ple_gate(const struct ple_case *x, int r, int ig, double *gv, double *normed)
{
    size_t h = (size_t)x->c.h, stream = (size_t)ig * h, at = (size_t)r * x->width + stream;
    double *k = mem_array(h, 8), *q = mem_array(h, 8), dot = 0;
    for (size_t i = 0; i < h; i++) {
        k[i] = x->key[at + i];
        q[i] = x->hyper[at + i];
    }
    double of_key = root_of(k, h), of_query = root_of(q, h);
    for (size_t i = 0; i < h; i++)
        dot += k[i] * of_key * x->norm[0][stream + i] * q[i] * of_query * x->norm[1][stream + i];
    dot /= sqrt((double)h);
    double root = sqrt(fmax(fabs(dot), 1e-6)), gate = dot > 0 ? root : dot < 0 ? -root : 0;
    for (size_t i = 0; i < h; i++)
        gv[i] = x->value[(size_t)r * h + i] / (1 + exp(-gate));
    double scale = root_of(gv, h);
    for (size_t i = 0; i < h; i++)
        normed[i] = gv[i] * scale * x->norm[2][stream + i];
    mem_free(k);
    mem_free(q);
}

/* The worst difference of what a segment's rows gave. */
static double ple_compare(const struct ple_case *x, const struct gpu_segment *s, int is,
                          const float *hyper)
{
    const struct config *c = &x->c;
    int keep = c->ngram_size * (c->ple_kernel - 1);
    double worst = 0, *gv = mem_array(ROWS * x->width, 8), *n = mem_array(ROWS * x->width, 8);
    const float *before = x->kept[is] + x->p.keep_at[s->plane];
    for (u32 r = 0; r < s->n; r++)
        for (int ig = 0; ig < c->S; ig++) {
            size_t at = r * x->width + (size_t)(ig * c->h);
            ple_gate(x, (int)(s->first + r), ig, gv + at, n + at);
        }
    for (u32 r = 0; r < s->n; r++)
        for (size_t i = 0; i < x->width; i++) {
            double sum = 0;
            for (int t = 0; t < c->ple_kernel; t++) {
                int from = (int)r - c->ngram_size * (c->ple_kernel - 1 - t);
                double in = from < 0 ? (double)before[(size_t)(keep + from) * x->width + i]
                                     : n[(size_t)from * x->width + i];
                sum += in * x->taps[i * (size_t)c->ple_kernel + (size_t)t];
            }
            size_t at = (s->first + r) * x->width + i;
            double want = x->hyper[at] + gv[r * x->width + i] + sum / (1 + exp(-sum));
            worst = fmax(worst, fabs(hyper[at] - want) / (1 + fabs(want)));
        }
    mem_free(gv);
    mem_free(n);
    return worst;
}

static const struct shape shapes[] = {
    {128, 4, 4, 3}, {96, 2, 3, 4}, {2560, 4, 4, 3}, {20, 3, 2, 1}, {300, 1, 1, 2}};

static void split(const struct ple_case *x, struct gpu_segment s[SEGMENTS])
{
    const u32 rows[SEGMENTS] = {1, 6, 2};
    u32 first = 0;
    for (u32 is = 0; is < SEGMENTS; first += rows[is++])
        s[is] = (struct gpu_segment){.state = x->state[is],
                                     .first = first,
                                     .n = rows[is],
                                     .plane = is % 2,
                                     .pending = first};
}

static void ple_follows_the_equations(void **state)
{
    (void)state;
    double worst = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct ple_case x;
        struct gpu_segment s[SEGMENTS];
        ple_init(&x, &shapes[i]);
        split(&x, s);
        ple_run(&x, s, SEGMENTS, 0);
        float *hyper = floats_of(x.p.hyper, ROWS * x.width);
        for (int is = 0; is < SEGMENTS; is++)
            worst = fmax(worst, ple_compare(&x, &s[is], is, hyper));
        mem_free(hyper);
        ple_free(&x);
    }
    printf("worst: PLE %.2g from the equations (may be 2e-5)\n", worst);
    assert_true(worst < 2e-5);
}

static void ple_rows_alone_are_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct ple_case x;
        struct gpu_segment s[SEGMENTS];
        float *kept[SEGMENTS];
        ple_init(&x, &shapes[i]);
        split(&x, s);
        ple_run(&x, s, SEGMENTS, 0);
        float *hyper = floats_of(x.p.hyper, ROWS * x.width);
        for (int is = 0; is < SEGMENTS; is++) {
            kept[is] = floats_of(x.state[is], 2 * x.keep + 1);
            aid_gpu_set(&g, x.state[is], x.kept[is], x.keep * 8);
        }
        aid_gpu_set(&g, x.p.hyper, x.hyper, ROWS * x.width * 4);
        aid_gpu_set(&g, x.p.key, x.key, ROWS * x.width * 4);
        for (int is = 0; is < SEGMENTS; is++)
            for (u32 r = 0; r < s[is].n; r++) {
                struct gpu_segment one = s[is];
                one.first = 0, one.n = 1, one.pending += r, one.plane = (s[is].plane + r) % 2;
                ple_run(&x, &one, 1, s[is].first + r);
            }
        float *alone = floats_of(x.p.hyper, ROWS * x.width);
        same(alone, hyper, ROWS * x.width * 4, "residual");
        for (int is = 0; is < SEGMENTS; is++) {
            float *got = floats_of(x.state[is], 2 * x.keep + 1);
            same(got + x.p.keep_at[(s[is].plane + s[is].n) % 2],
                 kept[is] + x.p.keep_at[1 - s[is].plane], x.keep * 4, "rows kept");
            mem_free(got);
            mem_free(kept[is]);
        }
        mem_free(alone);
        mem_free(hyper);
        ple_free(&x);
    }
}

/* --- the embedding, and the fold --- */

static double embedded(const struct model_matrix *m, int row, int i)
{
    size_t at = (size_t)row * (size_t)m->cols + (size_t)i;
    uint16_t half;
    float x;
    memcpy(&x, m->w + (m->bits == 32 ? at * 4 : 0), 4);
    memcpy(&half, m->w + (m->bits == 16 ? at * 2 : 0), 2);
    if (m->bits == 32)
        return x;
    if (m->bits == 16)
        return bf16_to_f32(half);
    int code = m->w[at / 2] >> (at % 2 * 4) & 15;
    return (float)code * bf16_to_f32(m->scales[at / 64]) + bf16_to_f32(m->biases[at / 64]);
}

static struct matrix form_of(int bits)
{
    return (struct matrix){.format = bits == 32   ? MATRIX_F32
                                     : bits == 16 ? MATRIX_BF16
                                                  : MATRIX_Q4,
                           .group = 64};
}

enum { VOCAB = 11, R = 5 };

static void tokens_are_embedded(void **state)
{
    (void)state;
    static const int bits[] = {4, 16, 32};
    for (int i = 0; i < 3; i++) {
        struct model_matrix m;
        struct err e = {0};
        const struct config c = {.h = 320, .S = 3};
        struct gpu_row rows[R];
        const struct matrix form = form_of(bits[i]);
        model_matrix_init(&m, bits[i], VOCAB, c.h);
        model_put(&g, &m);
        for (int r = 0; r < R; r++)
            rows[r] = (struct gpu_row){.token = r * 7 % VOCAB};
        const struct embed_params p = {.rows = aid_gpu_put(&g, rows, sizeof rows),
                                       .w = m.at_w,
                                       .scales = m.at_scales,
                                       .biases = m.at_biases,
                                       .to = aid_gpu_room(&g, (size_t)(R * c.S * c.h) * 4)};
        aid_gpu_begin(&g);
        assert_ok(embed_rows(&(struct mix){g.device, g.tape, &c}, &p, &form, R, &e), e);
        aid_gpu_end(&g);
        float *got = floats_of(p.to, (size_t)(R * c.S * c.h));
        for (int j = 0; j < R * c.S * c.h; j++)
            if (got[j] != (float)embedded(&m, rows[j / c.S / c.h].token, j % c.h))
                fail_msg("%d bits: element %d is %g", bits[i], j, (double)got[j]);
        mem_free(got);
        model_matrix_free(&m);
        aid_gpu_reset(&g);
    }
}

struct fold_case {
    struct config c;
    struct mtp_form form;
    struct model_matrix m;
    struct gpu_row rows[R];
    float *wide, *norm_embedding, *norm_hidden;
    struct mtp_norm_params p;
    size_t row_bytes[2]; /* of embed, of a stream */
};

static void fold_init(struct fold_case *x, int h, int S, const struct mtp_form *form)
{
    u64 wide, at[R];
    *x = (struct fold_case){.c = {.h = h, .S = S}, .form = *form};
    size_t width = (size_t)(h * S);
    model_matrix_init(&x->m, 4, VOCAB, h);
    model_put(&g, &x->m);
    x->wide = made_up(R * width, &wide);
    x->norm_embedding = made_up((size_t)h, &x->p.norm_embedding);
    x->norm_hidden = made_up(width, &x->p.norm_hidden);
    for (int r = 0; r < R; r++) {
        x->rows[r] = (struct gpu_row){.pos = r - 1, .token = r * 3 % VOCAB}; /* 0 is left out */
        at[r] = wide + (u64)r * width * 4;
    }
    x->p.rows = aid_gpu_put(&g, x->rows, sizeof x->rows);
    x->p.wide = aid_gpu_put(&g, at, sizeof at);
    x->p.w = x->m.at_w, x->p.scales = x->m.at_scales, x->p.biases = x->m.at_biases;
    x->row_bytes[0] = form->embed_codes ? GPU_ACTS_BYTES((size_t)h) : (size_t)h * 4;
    x->row_bytes[1] = form->stream_codes ? GPU_ACTS_BYTES((size_t)h) : (size_t)h * 4;
    x->p.embed = aid_gpu_room(&g, R * x->row_bytes[0]);
    x->p.streams = aid_gpu_room(&g, (size_t)(R * S) * x->row_bytes[1]);
    x->p.eps = 1e-6f;
}

/* How far a row of h values is from want, but for its rounding. */
static double fold_off(const uint8_t *row, bool codes, const double *want, int h)
{
    double worst = 0;
    for (int i = 0; i < h; i++) {
        double most = 0,
               got = codes ? model_value(row, h, i) : (double)((const float *)(const void *)row)[i];
        for (int j = i / 64 * 64; codes && j < i / 64 * 64 + 64; j++)
            most = fmax(most, fabs(want[j]));
        worst = fmax(worst, (fabs(got - want[i]) - most / 32000) / (1 + fabs(want[i])));
    }
    return worst;
}

static double fold_compare(const struct fold_case *x, const uint8_t *embed, const uint8_t *streams)
{
    int h = x->c.h, S = x->c.S;
    size_t width = (size_t)(h * S);
    double worst = 0, *want = mem_array(width, 8);
    for (int r = 1; r < R; r++) {
        for (int i = 0; i < h; i++)
            want[i] = embedded(&x->m, x->rows[r].token, i);
        double scale = root_of(want, (size_t)h);
        for (int i = 0; i < h; i++)
            want[i] *= scale * x->norm_embedding[i];
        worst = fmax(worst,
                     fold_off(embed + (size_t)r * x->row_bytes[0], x->form.embed_codes, want, h));
        size_t n = x->form.norm == MTP_NORM_ALL ? width : (size_t)h;
        for (size_t i = 0; i < width; i++)
            want[i] = x->wide[(size_t)r * width + i];
        for (size_t at = 0; at < width; at += n) {
            scale = root_of(want + at, n);
            for (size_t i = at; i < at + n; i++)
                want[i] *= scale * x->norm_hidden[i];
        }
        for (int ig = 0; ig < S; ig++)
            worst = fmax(worst, fold_off(streams + (size_t)(r * S + ig) * x->row_bytes[1],
                                         x->form.stream_codes, want + ig * h, h));
    }
    mem_free(want);
    return worst;
}

static void folds_are_normed(void **state)
{
    (void)state;
    static const struct mtp_form forms[] = {
        {MTP_NORM_ALL, true, true}, {MTP_NORM_STREAM, true, false}, {MTP_NORM_ALL, false, true}};
    static const int sizes[][2] = {{128, 4}, {2560, 4}, {192, 3}};
    double worst = 0;
    for (int i = 0; i < 3; i++) {
        struct fold_case x;
        struct err e = {0};
        fold_init(&x, sizes[i][0], sizes[i][1], &forms[i]);
        const struct matrix form = form_of(4);
        size_t n[2] = {R * x.row_bytes[0], (size_t)(R * x.c.S) * x.row_bytes[1]};
        uint8_t *embed = mem_array(1, n[0]), *streams = mem_array(1, n[1]);
        aid_gpu_begin(&g);
        assert_ok(mtp_norm(&(struct mix){g.device, g.tape, &x.c}, &x.p, &form, &x.form, R, &e), e);
        aid_gpu_end(&g);
        aid_gpu_get(&g, x.p.embed, embed, n[0]);
        aid_gpu_get(&g, x.p.streams, streams, n[1]);
        worst = fmax(worst, fold_compare(&x, embed, streams));
        for (size_t j = 0; j < x.row_bytes[0]; j++)
            assert_int_equal(embed[j], 0); /* of the row that is left out */
        mem_free(embed);
        mem_free(streams);
        mem_free(x.wide);
        mem_free(x.norm_embedding);
        mem_free(x.norm_hidden);
        model_matrix_free(&x.m);
        aid_gpu_reset(&g);
    }
    printf("worst: fold %.2g from the equations (may be 1e-5)\n", worst);
    assert_true(worst < 1e-5);
}

static void streams_get_their_sum(void **state)
{
    (void)state;
    const struct config c = {.h = 130, .S = 3};
    struct mtp_add_params p;
    struct err e = {0};
    size_t n = (size_t)(c.h * c.S);
    float *hyper = made_up(R * n, &p.hyper), *fold = made_up((size_t)(R * c.h), &p.fold);
    aid_gpu_begin(&g);
    assert_ok(mtp_add(&(struct mix){g.device, g.tape, &c}, &p, R, &e), e);
    aid_gpu_end(&g);
    float *got = floats_of(p.hyper, R * n);
    for (size_t i = 0; i < R * n; i++)
        assert_true(got[i] == hyper[i] + fold[i / n * (size_t)c.h + i % n % (size_t)c.h]);
    mem_free(hyper);
    mem_free(fold);
    mem_free(got);
    aid_gpu_reset(&g);
}

static void wide_shapes_are_refused(void **state)
{
    (void)state;
    struct err e = {0};
    struct config c = {.dk = 128, .dv = 128, .head_dim = 256, .index_dim = 128, .index_heads = 4};
    assert_ok(mix_check(&c, &e), e);
    c.dv = 33; /* 64 heads fill groups */
    assert_int_equal(mix_check(&c, &e), -E_UNSUPPORTED);
    c.dv = 128, c.head_dim = 544, e = (struct err){0};
    assert_int_equal(mix_check(&c, &e), -E_UNSUPPORTED);
    assert_non_null(strstr(e.msg, "head_dim 544"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ple_follows_the_equations), cmocka_unit_test(ple_rows_alone_are_the_same),
        cmocka_unit_test(tokens_are_embedded),       cmocka_unit_test(folds_are_normed),
        cmocka_unit_test(streams_get_their_sum),     cmocka_unit_test(wide_shapes_are_refused),
    };
    aid_gpu_open(&g);
    int bad = cmocka_run_group_tests(tests, NULL, NULL);
    aid_gpu_close(&g);
    return bad;
}
