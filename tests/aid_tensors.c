/* Made-up tensors: see aid_tensors.h. */
#include "tests/aid_tensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "quant/half.h"
#include "tests/aid_test.h"

static uint64_t hash_of(const char *s)
{
    uint64_t h = 1469598103934665603u;
    while (*s)
        h = (h ^ (unsigned char)*s++) * 1099511628211u;
    return h;
}

/* Small finite values, and any codes. */
static void fill(struct aid_tensor *t)
{
    uint64_t seed = hash_of(t->name);
    for (uint64_t i = 0; i < t->nbytes / dtype_bytes(t->dtype); i++) {
        if (t->dtype == DTYPE_U32)
            ((uint32_t *)t->data)[i] = (uint32_t)rng_at(seed, i);
        else
            ((uint16_t *)t->data)[i] = bf16_from_f32((float)rng_unit_at(seed, i) * 0.25f);
    }
}

static struct aid_tensor *add(struct aid_tensors *l, const struct expected *x, const char *suffix,
                              enum dtype dtype, uint64_t divisor)
{
    struct aid_tensor *t = &l->at[l->n++];
    *t = (struct aid_tensor){.kind = x->kind, .dtype = dtype, .n_dims = x->n_dims};
    snprintf(t->name, sizeof t->name, "%s%s", x->name, suffix);
    memcpy(t->shape, x->shape, sizeof t->shape);
    t->shape[t->n_dims - 1] /= divisor;
    if (x->kind == EXPECTED_CONV) {
        t->n_dims = 3;
        t->shape[2] = t->shape[1];
        t->shape[1] = 1;
    }
    t->nbytes = dtype_bytes(dtype);
    for (int i = 0; i < t->n_dims; i++)
        t->nbytes *= t->shape[i];
    t->data = mem_aligned(64, (size_t)t->nbytes);
    assert_non_null(t->data);
    if (dtype != DTYPE_I64)
        fill(t);
    return t;
}

static void add_hash(struct aid_tensors *l, const struct expected *x)
{
    struct ngram_module g;
    ngram_derive(&l->config, x->module, &g);
    struct aid_tensor *t = add(l, x, "", DTYPE_I64, 1);
    memcpy(t->data,
           x->role == ROLE_PLE_MULTIPLIERS ? g.mult
           : x->role == ROLE_PLE_OFFSETS   ? g.offset
                                           : g.size,
           (size_t)t->nbytes);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct aid_tensor *)a)->name, ((const struct aid_tensor *)b)->name);
}

void aid_tensors_make(const struct config *c, struct aid_tensors *out)
{
    struct err e = {0};
    struct expected_list l;
    assert_ok(expected_init(c, &l, &e), e);
    *out = (struct aid_tensors){*c, mem_array(3 * l.n, sizeof *out->at), 0};
    assert_non_null(out->at);
    for (size_t i = 0; i < l.n; i++) {
        const struct expected *x = &l.at[i];
        if (x->kind == EXPECTED_EXPERTS || x->kind == EXPECTED_NGRAM)
            continue;
        if (x->kind == EXPECTED_HASH) {
            add_hash(out, x);
        } else if (expected_group(x)) {
            add(out, x, ".weight", DTYPE_U32, 8);
            add(out, x, ".scales", DTYPE_BF16, 64);
            add(out, x, ".biases", DTYPE_BF16, 64);
        } else {
            add(out, x, x->suffix, DTYPE_BF16, 1);
        }
    }
    qsort(out->at, out->n, sizeof *out->at, by_name);
    expected_free(&l);
}

void aid_tensors_free(struct aid_tensors *t)
{
    for (size_t i = 0; i < t->n; i++)
        mem_free(t->at[i].data);
    mem_free(t->at);
    *t = (struct aid_tensors){0};
}

static struct aid_tensor *find(struct aid_tensors *t, const char *name)
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->at[i].name, name) == 0)
            return &t->at[i];
    return NULL;
}

struct aid_tensor *aid_tensors_find(struct aid_tensors *t, const char *name)
{
    struct aid_tensor *x = find(t, name);
    if (!x)
        fail_msg("no tensor %s", name);
    return x;
}

static int source_find(void *ctx, const char *name, struct tensor_view *out, struct err *e)
{
    const struct aid_tensor *t = find(ctx, name);
    if (!t)
        return ERR(e, E_NOTFOUND, "made up: has no tensor %s", name);
    *out = (struct tensor_view){.name = t->name,
                                .dtype = t->dtype,
                                .n_dims = t->n_dims,
                                .data = t->data,
                                .nbytes = t->nbytes};
    memcpy(out->shape, t->shape, sizeof t->shape);
    return 0;
}

void aid_tensors_source(struct aid_tensors *t, struct weight_source *src)
{
    *src = (struct weight_source){.ctx = t, .find = source_find};
}
