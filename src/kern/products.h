/* Products of every vector tier: one body, so that all follow one order of additions. A tier's file
 * includes its vec_*.h, then this, once; alone this header is empty.
 *
 * A chunk of 256 elements is 16 lanes, so KERN_PARTS vectors of KERN_VEC lanes: the parts. Each
 * lane holds one block: four bytes of each plane, whose 16 products add up to the block's whole
 * number.
 *
 * A tile is W weight rows times A activation rows, all sums in registers: the codes of a weight row
 * are unpacked once for A rows. Which tile an output falls into changes none of its additions. */
#ifndef KERN_PRODUCTS_H
#define KERN_PRODUCTS_H
#ifdef KERN_VEC

#include <math.h>

enum {
    PART_GROUPS = KERN_VEC / 4,
    PART_ELEMENTS = KERN_VEC * KERN_BLOCK,
    O_BLOCK = 32, /* weight rows that stay near while all activation rows pass */
    AHEAD = 8192, /* bytes: weights asked for early, as processors foresee no more than a page */
    AHEAD_SCALES = AHEAD / 16,
};

struct shape {
    int bits, W, A;
};

/* The sums of a tile: output (w, a) at a * W + w. */
struct sums {
    struct lanes of[2 * KERN_ROWS];
};

KERN_INLINE void sums_clear(const struct shape f, struct sums *s)
{
    KERN_UNROLL
    for (int q = 0; q < f.W * f.A; q++)
        KERN_UNROLL
    for (int h = 0; h < KERN_PARTS; h++)
        s->of[q].part[h] = vec_set(0);
}

/* Output (w, a) goes to to[a][o + w]. */
KERN_INLINE void sums_write(const struct shape f, const struct sums *s, float *const *to, int o)
{
    const int last = f.W * f.A - 1;
    KERN_UNROLL
    for (int q = 0; q <= last; q += 4) {
        float sum[4];
        lanes_fold4(&s->of[q], &s->of[q + 1 < last ? q + 1 : last],
                    &s->of[q + 2 < last ? q + 2 : last], &s->of[q + 3 < last ? q + 3 : last], sum);
        KERN_UNROLL
        for (int j = 0; j < 4; j++)
            if (q + j <= last)
                to[(q + j) / f.W][o + (q + j) % f.W] = sum[j];
    }
}

/* --- quantised weights --- */

/* The activation rows of a tile, and where its outputs go. */
struct panel {
    const uint8_t *records[KERN_ROWS];
    const float *sum[KERN_ROWS];
    float *to[KERN_ROWS];
};

/* One weight row. */
struct weights {
    const uint8_t *codes;
    const uint16_t *scales, *biases;
};

KERN_INLINE struct weights weights_at(const struct kern_matrix *m, int bits, int o)
{
    size_t groups = (size_t)o * (size_t)(m->cols / KERN_GROUP);
    return (struct weights){m->codes + (size_t)o * kern_row_bytes(bits, m->cols),
                            m->scales + groups, m->biases + groups};
}

/* The codes and scales of a vector of blocks, weights or activations. */
struct part {
    struct planes codes;
    vec scale;
};

/* Part h of a record of t groups. Where the record ends within it, what is read behind meets codes
 * of zero. */
KERN_INLINE struct part record_part(const uint8_t *record, int h, int t)
{
    const void *scales = record + t * KERN_GROUP;
    return (struct part){acts_planes((const int8_t *)record + h * PART_ELEMENTS / 4, t * 16),
                         vec_load((const float *)scales + h * KERN_VEC)};
}

/* Asks for `bytes` that will be read soon, or lie behind all that will be. */
KERN_INLINE void fetch_early(const void *p, int bytes)
{
    KERN_UNROLL
    for (int at = 0; at < bytes; at += 64)
        __builtin_prefetch((const char *)p + at, 0, 2);
}

/* k groups of a weight row from element i on, zeros behind. */
KERN_INLINE struct part weight_part(int bits, const struct weights *w, int i, int k)
{
    const uint8_t *codes = w->codes + kern_row_bytes(bits, i);
    fetch_early(codes + AHEAD, bits * 32 / KERN_PARTS);
    return (struct part){part_planes(bits, codes, k), part_weight(w->scales + i / KERN_GROUP, k)};
}

KERN_INLINE void add_part(const struct part *w, const struct part *x, vec *sum)
{
    *sum = vec_fma(vec_mul(part_dot(&w->codes, &x->codes), x->scale), w->scale, *sum);
}

/* Adds t groups from element i on: 4, or at the end of a row 1..3. What several products share is
 * loaded once: the weights of a tile, and one row of activations after the other. */
KERN_INLINE void add_chunk(const struct shape f, const struct weights *w, const struct panel *x,
                           int i, int t, struct sums *s)
{
    KERN_UNROLL
    for (int h = 0; h < KERN_PARTS; h++) {
        int at = i + h * PART_ELEMENTS, k = t - h * PART_GROUPS;
        struct part weights[4];
        if (k <= 0)
            break;
        k = k < PART_GROUPS ? k : PART_GROUPS;
        KERN_UNROLL
        for (int iw = 0; iw < f.W; iw++)
            weights[iw] = weight_part(f.bits, &w[iw], at, k);
        KERN_UNROLL
        for (int a = 0; a < f.A; a++) {
            struct part acts = record_part(x->records[a] + kern_record_at(i), h, t);
            KERN_UNROLL
            for (int iw = 0; iw < f.W; iw++)
                add_part(&weights[iw], &acts, &s->of[a * f.W + iw].part[h]);
        }
    }
}

/* Adds bias * sum of t groups from g on: 16, or at the end of a row fewer. */
KERN_INLINE void add_biases(const struct shape f, const struct weights *w, const struct panel *x,
                            int g, int t, struct sums *s)
{
    KERN_UNROLL
    for (int h = 0; h < KERN_PARTS; h++) {
        int at = g + h * KERN_VEC, k = t - h * KERN_VEC;
        if (k <= 0)
            break;
        k = k < KERN_VEC ? k : KERN_VEC;
        KERN_UNROLL
        for (int iw = 0; iw < f.W; iw++) {
            vec bias = vec_widen_some(w[iw].biases + at, k);
            if (f.bits != 4)
                bias = vec_fma(vec_set(kern_middle(f.bits)), vec_widen_some(w[iw].scales + at, k),
                               bias);
            KERN_UNROLL
            for (int a = 0; a < f.A; a++) {
                vec *to = &s->of[a * f.W + iw].part[h];
                *to = vec_fma(bias, vec_load_some(x->sum[a] + at, k), *to);
            }
        }
    }
}

/* Outputs o .. o + W - 1 of A rows. */
KERN_INLINE void tile(const struct shape f, const struct kern_matrix *m, const struct panel *x,
                      int o)
{
    struct weights w[4];
    struct sums s;
    int i = 0, g = 0, n = m->cols, groups = n / KERN_GROUP;
    KERN_UNROLL
    for (int iw = 0; iw < f.W; iw++) {
        w[iw] = weights_at(m, f.bits, o + iw);
        fetch_early((const char *)w[iw].scales + AHEAD_SCALES, 128);
        fetch_early((const char *)w[iw].biases + AHEAD_SCALES, 128);
    }
    sums_clear(f, &s);
    for (; i + KERN_CHUNK <= n; i += KERN_CHUNK)
        add_chunk(f, w, x, i, KERN_CHUNK / KERN_GROUP, &s);
    if (i < n)
        add_chunk(f, w, x, i, (n - i) / KERN_GROUP, &s);
    for (; g + KERN_LANES <= groups; g += KERN_LANES)
        add_biases(f, w, x, g, KERN_LANES, &s);
    if (g < groups)
        add_biases(f, w, x, g, groups - g, &s);
    sums_write(f, &s, x->to, o);
}

/* --- bf16 weights --- */

/* Rows of n weights, and the rows of n floats of a tile. */
struct bf16 {
    const uint16_t *w;
    const float *x;
    size_t n;
};

/* Adds t elements from i on, of the weight rows from o on: 16, or at the end of a row fewer. */
KERN_INLINE void add_bf16(const struct shape f, const struct bf16 *m, int o, size_t i, int t,
                          struct sums *s)
{
    const uint16_t *w = m->w + (size_t)o * m->n + i;
    KERN_UNROLL
    for (int h = 0; h < KERN_PARTS; h++) {
        int at = h * KERN_VEC, k = t - at;
        if (k <= 0)
            break;
        k = k < KERN_VEC ? k : KERN_VEC;
        KERN_UNROLL
        for (int iw = 0; iw < f.W; iw++) {
            vec weight = vec_widen_some(w + (size_t)iw * m->n + at, k);
            fetch_early((const char *)(w + (size_t)iw * m->n + at) + AHEAD, 1);
            KERN_UNROLL
            for (int a = 0; a < f.A; a++) {
                vec *to = &s->of[a * f.W + iw].part[h];
                *to = vec_fma(weight, vec_load_some(m->x + (size_t)a * m->n + i + at, k), *to);
            }
        }
    }
}

KERN_INLINE void tile_bf16(const struct shape f, const struct bf16 *m, float *const *to, int o)
{
    struct sums s;
    size_t i = 0;
    sums_clear(f, &s);
    for (; i + KERN_LANES <= m->n; i += KERN_LANES)
        add_bf16(f, m, o, i, KERN_LANES, &s);
    if (i < m->n)
        add_bf16(f, m, o, i, (int)(m->n - i), &s);
    sums_write(f, &s, to, o);
}

/* --- which tile --- */

/* Outputs o .. end - 1, at least W; the last tile may write outputs of the one before again, the
 * same bits. */
#define TILE_BITS(bits, A, W)                                                                      \
    static void tile_##bits##_##A##_##W(const struct kern_matrix *m, const struct panel *x, int o, \
                                        int end)                                                   \
    {                                                                                              \
        for (; o < end; o += W)                                                                    \
            tile((struct shape){bits, W, A}, m, x, o + W < end ? o : end - W);                     \
    }
#define TILE(A, W)                                                                                 \
    TILE_BITS(2, A, W)                                                                             \
    TILE_BITS(3, A, W)                                                                             \
    TILE_BITS(4, A, W)                                                                             \
    static void tile_bf16_##A##_##W(const struct bf16 *m, float *const *to, int o, int end)        \
    {                                                                                              \
        for (; o < end; o += W)                                                                    \
            tile_bf16((struct shape){16, W, A}, m, to, o + W < end ? o : end - W);                 \
    }
#define ENTRY(A, W)                                                                                \
    {A, W, {tile_2_##A##_##W, tile_3_##A##_##W, tile_4_##A##_##W}, tile_bf16_##A##_##W},

/* (A, W): as many sums as leave registers for what goes into them. */
#if KERN_ROWS == 6
#define TILES(ONE) ONE(6, 2) ONE(5, 2) ONE(4, 2) ONE(3, 2) ONE(2, 2) ONE(1, 4) ONE(1, 1)
#else
#define TILES(ONE) ONE(4, 1) ONE(3, 1) ONE(2, 2) ONE(1, 4) ONE(1, 1)
#endif

TILES(TILE)
static const struct kind {
    int A, W;
    /* 2, 3, 4 bits */
    void (*run[3])(const struct kern_matrix *m, const struct panel *x, int o, int end);
    void (*run_bf16)(const struct bf16 *m, float *const *to, int o, int end);
} kinds[] = {TILES(ENTRY)};

/* The tile of most rows, of those that are not too large. */
static const struct kind *choose_kind(int rows, int outputs)
{
    const struct kind *k = kinds;
    while (k->A > rows || k->W > outputs)
        k++;
    return k;
}

/* The end of the next weight rows: no small rest is left for later. */
static int block_end(int o, int o1)
{
    return o1 - o < 2 * O_BLOCK ? o1 : o + O_BLOCK;
}

/* Rows j .. j + A - 1 of the input. */
static void panel_set(struct panel *p, const struct kern_input *x, const struct kern_output *out,
                      int j, int A)
{
    int n = x->acts->n;
    for (int a = 0; a < A; a++, j++) {
        size_t r = (size_t)(x->rows ? x->rows[j] : j);
        p->records[a] = x->acts->records + r * kern_acts_bytes(n);
        p->sum[a] = x->acts->sum + r * (size_t)(n / KERN_GROUP);
        p->to[a] = out->to + (size_t)j * out->stride;
    }
}

static void product(const struct kern_matrix *m, const struct kern_input *x,
                    const struct kern_output *out)
{
    for (int o = out->o0, end; o < out->o1; o = end) {
        end = block_end(o, out->o1);
        for (int j = 0; j < x->R;) {
            const struct kind *k = choose_kind(x->R - j, end - o);
            struct panel p;
            panel_set(&p, x, out, j, k->A);
            j += k->A;
            k->run[m->bits - 2](m, &p, o, end);
        }
    }
}

static void product_bf16(const uint16_t *w, int n, const float *x, int R,
                         const struct kern_output *out)
{
    for (int o = out->o0, end; o < out->o1; o = end) {
        end = block_end(o, out->o1);
        for (int r = 0; r < R;) {
            const struct kind *k = choose_kind(R - r, end - o);
            struct bf16 m = {w, x + (size_t)r * (size_t)n, (size_t)n};
            float *to[KERN_ROWS];
            for (int a = 0; a < k->A; a++)
                to[a] = out->to + (size_t)(r + a) * out->stride;
            r += k->A;
            k->run_bf16(&m, to, o, end);
        }
    }
}

/* --- quantising --- */

/* The largest magnitude of a block from its bits, or 0 if it counts for none; see kern_ref.c. */
KERN_INLINE float peak_of(uint32_t bits)
{
    float peak;
    memcpy(&peak, &bits, sizeof peak);
    return peak >= KERN_PEAK_MIN && peak <= KERN_PEAK_MAX ? peak : 0;
}

/* sum[g] += the values of a record's t groups, as their codes have them: products with weights of
 * 1. */
KERN_INLINE void add_group_sums(const uint8_t *record, int t, float *sum)
{
    static const uint8_t ones[KERN_CHUNK / 2] = {KERN_TIMES_128(0x11)};
    KERN_UNROLL
    for (int h = 0; h < KERN_PARTS; h++) {
        int k = t - h * PART_GROUPS;
        float value[KERN_VEC];
        if (k <= 0)
            break;
        k = k < PART_GROUPS ? k : PART_GROUPS;
        struct planes p = part_planes(4, ones, k);
        struct part x = record_part(record, h, t);
        vec_store_n(value, vec_mul(part_dot(&p, &x.codes), x.scale), KERN_VEC);
        for (int g = 0; g < k; g++)
            sum[h * PART_GROUPS + g] +=
                (value[4 * g] + value[4 * g + 1]) + (value[4 * g + 2] + value[4 * g + 3]);
    }
}

static void quantise_row(const float *x, int n, uint8_t *records, float *sum)
{
    int i = 0;
    memset(records + kern_record_at(n), 0, kern_acts_bytes(n) - kern_record_at(n));
    for (int g = 0; g < n / KERN_GROUP; g++)
        sum[g] = 0;
    for (int b = 0; b < n / KERN_BLOCK; b++, x += KERN_BLOCK) {
        int start = b / KERN_LANES * KERN_CHUNK, elements = kern_record_elements(n, start);
        int8_t *codes = (int8_t *)records + kern_record_at(start);
        void *scales = codes + elements;
        uint32_t bits = block_peak_bits(x);
        float peak = peak_of(bits);
        if (bits > KERN_FINITE_BITS)
            sum[b / (KERN_GROUP / KERN_BLOCK)] = NAN;
        ((float *)scales)[b % KERN_LANES] = peak / 127;
        block_codes(x, peak > 0 ? 127 / peak : 0, codes + b % KERN_LANES * 4, elements / 4);
    }
    for (; i + KERN_CHUNK <= n; i += KERN_CHUNK)
        add_group_sums(records + kern_record_at(i), KERN_CHUNK / KERN_GROUP, sum + i / KERN_GROUP);
    if (i < n)
        add_group_sums(records + kern_record_at(i), (n - i) / KERN_GROUP, sum + i / KERN_GROUP);
}

static void quantise(const float *x, int r0, int r1, struct kern_acts *a)
{
    size_t n = (size_t)a->n;
    for (size_t r = (size_t)r0; r < (size_t)r1; r++)
        quantise_row(x + r * n, a->n, a->records + r * kern_acts_bytes(a->n),
                     a->sum + r * (n / KERN_GROUP));
}

#endif
#endif
