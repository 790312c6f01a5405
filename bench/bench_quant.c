/* Number formats: billions of values a second of one thread, in rows as wide as the released
 * model's. Times are of the processor; the best of several runs. */
#include <stdio.h>
#include <time.h>

#include "base/mem.h"
#include "base/rng.h"
#include "quant/half.h"
#include "quant/lowbit.h"
#include "quant/q4.h"

enum { COLS = 2560, ROWS = 64, N = COLS * ROWS, PASSES = 20, RUNS = 5 };

struct room {
    uint16_t *half, *scales, *biases;
    float *values;
    uint8_t *codes, *low;
};

/* One pass over N values. */
static void widen(struct room *r)
{
    bf16_widen(r->half, N, r->values);
}

static void encode(struct room *r, size_t group)
{
    for (size_t g = 0; g < N / group; g++)
        q4_encode_group(r->values + g * group, group, r->codes + g * group / 2, &r->scales[g],
                        &r->biases[g]);
}

static void encode_64(struct room *r)
{
    widen(r); /* as packing does; encoding reads what decoding overwrites */
    encode(r, 64);
}

static void encode_32(struct room *r)
{
    widen(r);
    encode(r, 32);
}

static void decode_q4(struct room *r)
{
    q4_decode_row(r->codes, r->scales, r->biases, N, 64, r->values);
}

static void decode_q3(struct room *r)
{
    q3_decode_row(r->low, r->scales, r->biases, N, 64, r->values);
}

static void decode_q2(struct room *r)
{
    q2_decode_row(r->low, r->scales, r->biases, N, 64, r->values);
}

static void to_q3(struct room *r)
{
    lowbit_from_q4(3, r->codes, N, r->low);
}

static void to_q2(struct room *r)
{
    lowbit_from_q4(2, r->codes, N, r->low);
}

static void measure(const char *name, void (*pass)(struct room *), struct room *r)
{
    double best = 1e9;
    for (int run = 0; run < RUNS; run++) {
        clock_t start = clock();
        for (int i = 0; i < PASSES; i++)
            pass(r);
        double took = (double)(clock() - start) / CLOCKS_PER_SEC;
        best = took < best ? took : best;
    }
    printf("%-32s %6.2f G values/s\n", name, (double)N * PASSES / best * 1e-9);
}

int main(void)
{
    struct room r = {mem_array(N, 2), mem_array(N / 32, 2), mem_array(N / 32, 2),
                     mem_array(N, 4), mem_alloc(N / 2),     mem_alloc(lowbit_bytes(3, N))};
    if (!r.half || !r.scales || !r.biases || !r.values || !r.codes || !r.low)
        return 1;
    for (size_t i = 0; i < N; i++)
        r.half[i] = bf16_from_f32((float)rng_unit_at(1, i) - 0.5f);
    measure("bf16 to f32", widen, &r);
    measure("bf16 to Q4 in groups of 32", encode_32, &r);
    measure("bf16 to Q4 in groups of 64", encode_64, &r);
    measure("Q4 to f32", decode_q4, &r);
    measure("Q4 to Q3", to_q3, &r);
    measure("Q3 to f32", decode_q3, &r);
    measure("Q4 to Q2", to_q2, &r);
    measure("Q2 to f32", decode_q2, &r);
    mem_free(r.half);
    mem_free(r.scales);
    mem_free(r.biases);
    mem_free(r.values);
    mem_free(r.codes);
    mem_free(r.low);
    return 0;
}
