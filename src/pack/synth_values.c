/* The numbers of a made-up store: see synth_values.h. */
#include "pack/synth_values.h"

#include <math.h>
#include <string.h>

#include <xxhash.h>

#include "base/mem.h"
#include "base/rng.h"
#include "quant/half.h"

#define GOLDEN       UINT64_C(0x9E3779B97F4A7C15)
#define SCALE_SHARE  (1.0f / 4.61f) /* deviation of uniform codes 0..15 */
#define EXPERT_GAIN  2.0f
#define ROUTER_SIGMA 6.0f

/* Mean and deviation of a vector, or the gain of a matrix (in sigma). */
struct fill {
    float mean, sigma;
};

static const struct fill fills[ROLE_COUNT] = {
    [ROLE_HEAD] = {0, 4},
    [ROLE_MIXER_DOWN] = {0, 4},
    [ROLE_MIXER_UP] = {0, 2},
    [ROLE_ATTN_HYPER_DOWN] = {0, 4},
    [ROLE_ATTN_HYPER_UP] = {0, 2},
    [ROLE_ATTN_HYPER_INJECT] = {0, 4},
    [ROLE_MLP_HYPER_DOWN] = {0, 4},
    [ROLE_MLP_HYPER_UP] = {0, 2},
    [ROLE_MLP_HYPER_INJECT] = {0, 4},
    [ROLE_LINEAR_CONV] = {0, 0.5f},
    [ROLE_LINEAR_A_LOG] = {0, 1},
    [ROLE_LINEAR_DT_BIAS] = {0, 0.5f},
    [ROLE_LINEAR_NORM] = {1, 0.1f},
    [ROLE_ROUTER] = {0, ROUTER_SIGMA},
    [ROLE_PLE_KEY] = {0, 1},
    [ROLE_PLE_VALUE] = {0, 1},
    [ROLE_PLE_CONV] = {0, 0.3f},
    [ROLE_MTP_FC_EMBEDDING] = {0, 1},
    [ROLE_MTP_FC_HIDDEN] = {0, 1},
};

static struct fill fill_of(const struct expected *x)
{
    struct fill f = fills[x->role];
    if (x->kind == EXPECTED_NORM)
        f = (struct fill){1, 0.1f};
    else if (x->kind == EXPECTED_NORM_RAW)
        f = (struct fill){0, 0.1f};
    else if (f.sigma == 0)
        f = (struct fill){0, 2};
    if (x->role == ROLE_EMBED) /* rows are used as they are: deviation 1 */
        f = (struct fill){0, sqrtf((float)x->shape[1])};
    if (x->kind == EXPECTED_MATRIX || x->kind == EXPECTED_EXACT)
        f.sigma /= sqrtf((float)x->shape[1]);
    return f;
}

static uint64_t stream_of(const struct synth_values *v, const char *name)
{
    return rng_at(v->seed, XXH3_64bits(name, strlen(name)));
}

static uint64_t word_at(uint64_t stream, uint64_t i)
{
    return rng_splitmix64(stream + i * GOLDEN);
}

/* Near enough to normal: four uniform numbers. */
static float gauss_at(uint64_t stream, uint64_t i)
{
    uint64_t w = word_at(stream, i);
    uint32_t sum = (uint32_t)((w & 0xFFFF) + (w >> 16 & 0xFFFF) + (w >> 32 & 0xFFFF) + (w >> 48));
    return ((float)sum * 0x1p-16f - 2.0f) * 1.7320508f;
}

static uint16_t scale_at(uint64_t stream, uint64_t i, float sigma)
{
    uint64_t w = word_at(stream, i);
    float size = sigma * SCALE_SHARE * (0.75f + 0.5f * (float)(w >> 40) * 0x1p-24f);
    return bf16_from_f32(w & 1 ? size : -size);
}

static uint16_t bias_of(uint16_t scale)
{
    return bf16_from_f32(-7.5f * bf16_to_f32(scale));
}

static void put_codes(uint64_t stream, uint64_t first, uint8_t *to, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t w = word_at(stream, first + i / 8);
        memcpy(to + i, &w, bytes - i < 8 ? bytes - i : 8);
    }
}

static void put_scales(uint64_t stream, uint64_t first, float sigma, uint16_t *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = scale_at(stream, first + i, sigma);
}

static void put_biases(uint64_t stream, uint64_t first, float sigma, uint16_t *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = bias_of(scale_at(stream, first + i, sigma));
}

int synth_values_init(const struct plan *p, uint64_t seed, double skew, struct synth_values *out,
                      struct err *e)
{
    struct synth_values v = {.plan = p, .seed = seed, .skew = skew};
    v.op = mem_zalloc(p->target.n_dense, sizeof(void *));
    v.part = mem_zalloc(p->target.n_dense, sizeof *v.part);
    if (!v.op || !v.part) {
        synth_values_free(&v);
        return ERR(e, E_NOMEM, "out of memory for %zu tensors", p->target.n_dense);
    }
    for (size_t i = 0; i < p->n_dense; i++) {
        for (int part = 0; part < (p->dense[i].kind == PLAN_ENCODE ? 3 : 1); part++) {
            v.op[p->dense[i].entry[part]] = &p->dense[i];
            v.part[p->dense[i].entry[part]] = part;
        }
    }
    *out = v;
    return 0;
}

void synth_values_free(struct synth_values *v)
{
    mem_free(v->op);
    mem_free(v->part);
    *v = (struct synth_values){0};
}

/* How many of the layer's experts come before this one, by keys of their own. */
static int rank_of(uint64_t stream, int E, int ie)
{
    uint64_t key = word_at(stream, (uint64_t)ie);
    int rank = 0;
    for (int i = 0; i < E; i++)
        rank += word_at(stream, (uint64_t)i) < key;
    return rank;
}

static void put_router(const struct synth_values *v, const struct expected *x, uint64_t first,
                       uint16_t *to, size_t n)
{
    uint64_t stream = stream_of(v, x->name), cols = x->shape[1];
    struct fill f = fill_of(x);
    float scale = 1;
    for (size_t i = 0; i < n; i++) {
        uint64_t at = first + i;
        if (i == 0 || at % cols == 0)
            scale = v->skew > 0 ? (float)pow(1 + rank_of(rng_splitmix64(stream), (int)x->shape[0],
                                                         (int)(at / cols)),
                                             -v->skew)
                                : 1;
        to[i] = bf16_from_f32(f.sigma * scale * gauss_at(stream, at));
    }
}

void synth_dense(const struct synth_values *v, size_t i, uint64_t at, void *to, size_t n)
{
    const struct plan_dense *d = v->op[i];
    const struct expected *x = d->expected;
    struct fill f = fill_of(x);
    uint64_t stream = stream_of(v, x->name);
    uint16_t *half = to;
    if (d->kind == PLAN_DERIVE) {
        memcpy(to, (const uint8_t *)plan_constants(v->plan, x) + at, n);
    } else if (d->kind == PLAN_ENCODE && v->part[i] == 0) {
        put_codes(stream, at / 8, to, n);
    } else if (d->kind == PLAN_ENCODE) {
        (v->part[i] == 1 ? put_scales : put_biases)(~stream, at / 2, f.sigma, half, n / 2);
    } else if (x->role == ROLE_ROUTER) {
        put_router(v, x, at / 2, half, n / 2);
    } else {
        for (size_t k = 0; k < n / 2; k++)
            half[k] = bf16_from_f32(f.mean + f.sigma * gauss_at(stream, at / 2 + k));
    }
}

void synth_record(const struct synth_values *v, int il, int ie, uint8_t *to)
{
    const struct expert_layout *x = &v->plan->target.experts;
    uint64_t layer = stream_of(v, v->plan->target.layer_prefixes[il]);
    size_t codes = (size_t)x->inter * (size_t)x->h / 2, sides = codes * 2 / (size_t)x->group;
    for (int k = 0; k < EXPERT_MATRICES; k++) {
        uint64_t stream = rng_at(layer, (uint64_t)ie * EXPERT_MATRICES + (uint64_t)k);
        float sigma = EXPERT_GAIN / sqrtf((float)(k == EXPERT_DOWN ? x->inter : x->h));
        uint16_t *scale = (uint16_t *)(void *)(to + x->s[k]);
        uint16_t *bias = (uint16_t *)(void *)(to + x->b[k]);
        put_codes(stream, 0, to + x->w[k], codes);
        put_scales(~stream, 0, sigma, scale, sides);
        for (size_t i = 0; i < sides; i++)
            bias[i] = bias_of(scale[i]);
    }
    memset(to + x->bytes, 0, (size_t)(x->stride - x->bytes));
}

void synth_rows(const struct synth_values *v, uint64_t first, uint64_t n, uint8_t *to)
{
    const struct ngram_layout *g = &v->plan->target.ngram;
    uint64_t stream = stream_of(v, "ngram.bin");
    size_t groups = (size_t)(g->dim / g->group);
    for (uint64_t r = 0; r < n; r++, to += g->row_bytes) {
        uint64_t row = rng_splitmix64(stream + (first + r) * GOLDEN);
        uint16_t side[2][64];
        size_t step = sizeof side[0] / sizeof side[0][0];
        put_codes(row, 0, to, (size_t)g->weight_bytes);
        for (size_t i = 0; i < groups; i += step) {
            size_t m = groups - i < step ? groups - i : step;
            put_scales(~row, i, 1, side[0], m);
            put_biases(~row, i, 1, side[1], m);
            memcpy(to + (size_t)g->weight_bytes + 2 * i, side[0], 2 * m);
            memcpy(to + (size_t)(g->weight_bytes + g->scale_bytes) + 2 * i, side[1], 2 * m);
        }
    }
}
