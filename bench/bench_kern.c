/* Kernels, one thread: every tier this processor has, at the sizes of the released model.
 *
 *   bench_kern [TIER...]
 *
 * Products: "far" weights are 96 MB, read from memory; "near" ones fit the second cache. GB/s is
 * weights (codes, scales, biases) a second, and its share of the read bandwidth measured at the
 * start; GMAC/s is multiply-adds. Each figure is the best of many short runs, so that other
 * programs on the machine matter less. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpuid.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/rng.h"
#include "kern/kern.h"

enum {
    FAR_BYTES = 96 << 20,
    SHARE_BYTES = 2 << 20, /* what is timed at once */
    NEAR_BYTES = 300 << 10,
    R_MAX = 64,
    COLS_MAX = 10240,
    RUNS = 5,
};

struct bench {
    struct kern k;
    struct kern_acts acts;
    struct os_pages pages; /* of far */
    uint8_t *far;
    float *x, *out; /* [R_MAX][COLS_MAX]; [R_MAX][rows] */
    double read_gb;
};

static volatile uint64_t sink;

static uint64_t add_words(const uint64_t *w, size_t n)
{
    uint64_t s[8] = {0};
    for (size_t i = 0; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++)
            s[j] += w[i + j];
    return s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}

static double read_bandwidth(const uint8_t *p)
{
    double best = 1e9;
    for (int run = 0; run < RUNS; run++) {
        for (size_t at = 0; at + SHARE_BYTES <= FAR_BYTES; at += SHARE_BYTES) {
            uint64_t start = clock_ns();
            sink = add_words((const uint64_t *)(p + at), SHARE_BYTES / 8);
            double took = clock_seconds_since(start);
            best = took < best ? took : best;
        }
    }
    return SHARE_BYTES / best / 1e9;
}

static void product_line(struct bench *b, const char *where, struct kern_matrix *m, int R)
{
    double best = 1e9, bytes = (double)m->cols * (m->bits / 8.0 + 4.0 / KERN_GROUP);
    int most = (int)(SHARE_BYTES / bytes), rows = m->rows < most ? m->rows : most;
    struct kern_input x = {&b->acts, NULL, R};
    b->acts.n = m->cols;
    b->k.quantise(b->x, 0, R, &b->acts);
    for (int run = 0; run < RUNS; run++) {
        for (int o = 0; o + rows <= m->rows; o += rows) {
            struct kern_output out = {b->out, (size_t)m->rows, o, o + rows};
            uint64_t start = clock_ns();
            b->k.product(m, &x, &out);
            double took = clock_seconds_since(start) / rows;
            best = took < best ? took : best;
        }
    }
    double gb = bytes / best / 1e9;
    printf("  q%d %-4s %6d x %5d  R %2d  %7.1f GB/s %5.2f of reading %7.1f GMAC/s\n", m->bits,
           where, m->rows, m->cols, R, gb, gb / b->read_gb, (double)m->cols * R / best / 1e9);
}

/* A matrix of about `bytes` over the random bytes, which serve as scales too: their values do not
 * matter, as no operation here is slower for some. */
static struct kern_matrix matrix_over(struct bench *b, int bits, int cols, size_t bytes)
{
    size_t row = (size_t)cols * bits / 8, groups = (size_t)cols / KERN_GROUP;
    struct kern_matrix m = {bits, (int)(bytes / (row + 4 * groups)), cols, b->far, NULL, NULL};
    m.rows -= m.rows % 4;
    m.scales = (const uint16_t *)(b->far + (size_t)m.rows * row);
    m.biases = m.scales + (size_t)m.rows * groups;
    return m;
}

static void bench_products(struct bench *b)
{
    static const int Rs[] = {1, 2, 3, 4, 8, 10, 64};
    for (int bits = 4; bits >= 2; bits--) {
        for (int cols = 640; cols <= 2560; cols *= 4) {
            for (size_t r = 0; r < sizeof Rs / sizeof *Rs; r++) {
                struct kern_matrix m = matrix_over(b, bits, cols, NEAR_BYTES);
                product_line(b, "near", &m, Rs[r]);
            }
            for (size_t r = 0; r < sizeof Rs / sizeof *Rs && bits == 4; r++) {
                struct kern_matrix m = matrix_over(b, bits, cols, FAR_BYTES);
                product_line(b, "far", &m, Rs[r]);
            }
        }
    }
}

/* --- the rest: nanoseconds a call --- */

static void run_quantise(struct bench *b)
{
    b->acts.n = 2560;
    b->k.quantise(b->x, 0, 1, &b->acts);
}

static void run_bf16(struct bench *b)
{
    b->k.product_bf16((const uint16_t *)b->far, 2560, b->x, 1,
                      &(struct kern_output){b->out, 0, 0, 64});
}

static void run_bf16_8(struct bench *b)
{
    b->k.product_bf16((const uint16_t *)b->far, 2560, b->x, 8,
                      &(struct kern_output){b->out, 64, 0, 64});
}

static void run_sum_squares(struct bench *b)
{
    b->out[0] = b->k.sum_squares(b->x, 2560);
}

static void run_silu_mul(struct bench *b)
{
    b->k.silu_mul(b->out, b->x, 640);
}

static void run_add_scaled(struct bench *b)
{
    b->k.add_scaled(b->out, b->x, 1e-9f, 2560);
}

static void run_exp_sum(struct bench *b)
{
    b->out[0] = b->k.exp_sum(b->out + 1, 1, 2048);
}

static void run_delta(struct bench *b)
{
    float *x = b->x, *v = x + 20000;
    b->k.delta_step(x, x, &(struct kern_delta){128, 128, v, v, v, 0.5f, 0.5f, b->out, b->out});
}

static void run_dot_kv8(struct bench *b)
{
    b->k.dot_kv8(b->x, 12, &(struct kern_kv8){(int8_t *)b->far, (uint16_t *)b->far}, 256, b->out);
}

static void run_add_kv8(struct bench *b)
{
    b->k.add_kv8(b->out, 12, b->x, &(struct kern_kv8){(int8_t *)b->far, (uint16_t *)b->far}, 256);
}

static void bench_rest(struct bench *b)
{
    static const struct {
        const char *name;
        void (*run)(struct bench *b);
    } all[] = {
        {"quantise 2560", run_quantise},     {"bf16 64 x 2560, R 1", run_bf16},
        {"bf16 64 x 2560, R 8", run_bf16_8}, {"sum_squares 2560", run_sum_squares},
        {"silu_mul 640", run_silu_mul},      {"add_scaled 2560", run_add_scaled},
        {"exp_sum 2048", run_exp_sum},       {"delta_step 128 x 128", run_delta},
        {"dot_kv8 12 x 256", run_dot_kv8},   {"add_kv8 12 x 256", run_add_kv8},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        double best = 1e9;
        enum { TIMES = 100 };
        for (int run = 0; run < 4 * RUNS; run++) {
            uint64_t start = clock_ns();
            for (int t = 0; t < TIMES; t++)
                all[i].run(b);
            double took = clock_seconds_since(start) / TIMES;
            best = took < best ? took : best;
        }
        printf("  %-22s %9.0f ns\n", all[i].name, best * 1e9);
    }
}

static int wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], name))
            return 1;
    return argc == 1;
}

static int bench_init(struct bench *b)
{
    size_t most = (size_t)R_MAX * COLS_MAX;
    struct err e = {0};
    if (os_pages_take(FAR_BYTES, &b->pages, &e)) {
        fprintf(stderr, "%s\n", e.msg);
        return -1;
    }
    b->far = b->pages.data;
    b->x = mem_aligned(64, most * sizeof *b->x);
    b->out = mem_aligned(64, (size_t)R_MAX * (FAR_BYTES / 320) * sizeof *b->out);
    b->acts.records = mem_aligned(64, R_MAX * kern_acts_bytes(COLS_MAX));
    b->acts.sum = mem_aligned(64, most / KERN_GROUP * sizeof(float));
    if (!b->x || !b->out || !b->acts.records || !b->acts.sum)
        return -1;
    for (size_t i = 0; i < FAR_BYTES / 8; i++) {
        uint64_t u = rng_at(1, i) & 0x3FFF3FFF3FFF3FFF; /* as bf16: no infinities */
        memcpy(b->far + 8 * i, &u, sizeof u);
    }
    for (size_t i = 0; i < most; i++)
        b->x[i] = (float)rng_unit_at(2, i) - 0.5f;
    b->read_gb = read_bandwidth(b->far);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("reading memory: %.1f GB/s\n", b->read_gb);
    return 0;
}

static void bench_free(struct bench *b)
{
    os_pages_free(&b->pages);
    mem_free(b->x);
    mem_free(b->out);
    mem_free(b->acts.records);
    mem_free(b->acts.sum);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        unsigned cpu;
    } tiers[] = {
        {"ref", 0},
        {"avx2", CPU_AVX2},
        {"avx2+vnni", CPU_AVX2 | CPU_AVX_VNNI},
        {"avx512", CPU_AVX2 | CPU_AVX512},
        {"neon", CPU_NEON},
    };
    struct bench b = {0};
    unsigned found = cpuid_found();
    int rc = bench_init(&b);
    for (size_t i = 0; i < sizeof tiers / sizeof *tiers && !rc; i++) {
        if ((found & tiers[i].cpu) != tiers[i].cpu || !wanted(tiers[i].name, argc, argv))
            continue;
        if (!tiers[i].cpu && argc == 1)
            continue; /* the definition takes minutes */
        printf("%s\n", tiers[i].name);
        kern_init(&b.k, tiers[i].cpu);
        bench_products(&b);
        bench_rest(&b);
    }
    if (rc)
        fprintf(stderr, "out of memory\n");
    bench_free(&b);
    return rc != 0;
}
