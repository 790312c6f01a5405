/* From the list of expected tensors to struct weights: finds each one in the source, checks its
 * form, and puts it where the table `places` says. See weights.h; store/expected.h is the list. */
#include "model/weights.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/mem.h"
#include "quant/finite.h"
#include "quant/half.h"
#include "store/expected.h"

enum { GROUP = 64, NAME_BYTES = EXPECTED_NAME_BYTES + 16, VECTOR_ALIGN = 64 };

/* Which struct a role's place is in. */
enum base { IN_WEIGHTS, IN_MIXER, IN_LAYER, IN_PLE, IN_MTP, NOWHERE };

struct place {
    enum base base;
    size_t at; /* of a struct matrix or struct vector, by the kind of the tensor */
};

#define TOP(member)                                                                                \
    {                                                                                              \
        IN_WEIGHTS, offsetof(struct weights, member)                                               \
    }
#define MIXER(member)                                                                              \
    {                                                                                              \
        IN_MIXER, offsetof(struct hyper_weights, member)                                           \
    }
#define LAYER(member)                                                                              \
    {                                                                                              \
        IN_LAYER, offsetof(struct layer_weights, member)                                           \
    }
#define PLE(member)                                                                                \
    {                                                                                              \
        IN_PLE, offsetof(struct ple_weights, member)                                               \
    }
#define MTP(member)                                                                                \
    {                                                                                              \
        IN_MTP, offsetof(struct mtp_weights, member)                                               \
    }

static const struct place places[ROLE_COUNT] = {
    [ROLE_EMBED] = TOP(embed),
    [ROLE_HEAD] = TOP(head),
    [ROLE_MIXER_NORM] = MIXER(norm),
    [ROLE_MIXER_DOWN] = MIXER(down),
    [ROLE_MIXER_UP] = MIXER(up),
    [ROLE_ATTN_HYPER_NORM] = LAYER(attn_hyper.norm),
    [ROLE_ATTN_HYPER_DOWN] = LAYER(attn_hyper.down),
    [ROLE_ATTN_HYPER_UP] = LAYER(attn_hyper.up),
    [ROLE_ATTN_HYPER_INJECT] = LAYER(attn_hyper.inject),
    [ROLE_MLP_HYPER_NORM] = LAYER(mlp_hyper.norm),
    [ROLE_MLP_HYPER_DOWN] = LAYER(mlp_hyper.down),
    [ROLE_MLP_HYPER_UP] = LAYER(mlp_hyper.up),
    [ROLE_MLP_HYPER_INJECT] = LAYER(mlp_hyper.inject),
    [ROLE_LINEAR_QKV] = LAYER(deltanet.qkv),
    [ROLE_LINEAR_Z] = LAYER(deltanet.z),
    [ROLE_LINEAR_A] = LAYER(deltanet.a),
    [ROLE_LINEAR_B] = LAYER(deltanet.b),
    [ROLE_LINEAR_OUT] = LAYER(deltanet.out),
    [ROLE_LINEAR_CONV] = LAYER(deltanet.conv),
    [ROLE_LINEAR_A_LOG] = LAYER(deltanet.A_log),
    [ROLE_LINEAR_DT_BIAS] = LAYER(deltanet.dt_bias),
    [ROLE_LINEAR_NORM] = LAYER(deltanet.norm),
    [ROLE_Q] = LAYER(qsa.q),
    [ROLE_K] = LAYER(qsa.k),
    [ROLE_V] = LAYER(qsa.v),
    [ROLE_O] = LAYER(qsa.o),
    [ROLE_Q_NORM] = LAYER(qsa.q_norm),
    [ROLE_K_NORM] = LAYER(qsa.k_norm),
    [ROLE_INDEX_QK] = LAYER(qsa.index_qk),
    [ROLE_INDEX_Q_NORM] = LAYER(qsa.index_q_norm),
    [ROLE_INDEX_K_NORM] = LAYER(qsa.index_k_norm),
    [ROLE_ROUTER] = LAYER(moe.router),
    [ROLE_SHARED_GATE] = LAYER(moe.shared_gate),
    [ROLE_SHARED_EXPERT_GATE] = LAYER(moe.gate),
    [ROLE_SHARED_EXPERT_UP] = LAYER(moe.up),
    [ROLE_SHARED_EXPERT_DOWN] = LAYER(moe.down),
    [ROLE_EXPERTS_GATE] = {NOWHERE, 0}, /* by weight_source.expert */
    [ROLE_EXPERTS_UP] = {NOWHERE, 0},
    [ROLE_EXPERTS_DOWN] = {NOWHERE, 0},
    [ROLE_PLE_KEY] = PLE(key),
    [ROLE_PLE_VALUE] = PLE(value),
    [ROLE_PLE_NORM_KEY] = PLE(norm_key),
    [ROLE_PLE_NORM_QUERY] = PLE(norm_query),
    [ROLE_PLE_NORM_CONV] = PLE(norm_conv),
    [ROLE_PLE_CONV] = PLE(conv),
    [ROLE_PLE_TABLE] = {NOWHERE, 0},       /* by weight_source.ngram_row */
    [ROLE_PLE_MULTIPLIERS] = {NOWHERE, 0}, /* derived, and compared */
    [ROLE_PLE_OFFSETS] = {NOWHERE, 0},
    [ROLE_PLE_SIZES] = {NOWHERE, 0},
    [ROLE_MTP_NORM_EMBEDDING] = MTP(norm_embedding),
    [ROLE_MTP_NORM_HIDDEN] = MTP(norm_hidden),
    [ROLE_MTP_FC_EMBEDDING] = MTP(fc_embedding),
    [ROLE_MTP_FC_HIDDEN] = MTP(fc_hidden),
};

static int open_layers(struct weights *w, const struct expected_list *l, struct err *e);
static int load(struct weights *w, const struct expected *x, float **room, struct err *e);
static int check_hash(const struct weights *w, const struct expected *x, struct err *e);

int weights_init(const struct config *c, const struct weight_source *src, struct weights *out,
                 struct err *e)
{
    struct expected_list l;
    int rc = expected_init(c, &l, e);
    if (rc)
        return rc;
    memset(out, 0, sizeof *out);
    out->config = *c;
    out->source = *src;
    rc = open_layers(out, &l, e);
    float *room = out->arena;
    for (size_t i = 0; !rc && i < l.n; i++)
        rc = l.at[i].kind == EXPECTED_HASH ? check_hash(out, &l.at[i], e)
                                           : load(out, &l.at[i], &room, e);
    if (!rc && c->tie_embeddings)
        out->head = out->embed;
    expected_free(&l);
    if (rc)
        weights_free(out);
    return rc;
}

void weights_free(struct weights *w)
{
    mem_free(w->layers);
    mem_free(w->arena);
    memset(w, 0, sizeof *w);
}

static size_t count_of(const struct expected *x)
{
    return (size_t)(x->shape[0] * (x->n_dims > 1 ? x->shape[1] : 1));
}

/* Floats that a vector of n takes in the arena, so that the next one is aligned too. */
static size_t arena_room(size_t n)
{
    size_t unit = VECTOR_ALIGN / sizeof(float);
    return (n + unit - 1) / unit * unit;
}

static bool is_vector(const struct expected *x)
{
    return x->kind == EXPECTED_NORM || x->kind == EXPECTED_NORM_RAW || x->kind == EXPECTED_VECTOR ||
           x->kind == EXPECTED_CONV;
}

/* Layers and the room for all vectors, and what no tensor says: numbers of layers and modules. */
static int open_layers(struct weights *w, const struct expected_list *l, struct err *e)
{
    const struct config *c = &w->config;
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        if (is_vector(&l->at[i]))
            n += arena_room(count_of(&l->at[i]));
    w->layers = mem_zalloc((size_t)c->n_layers, sizeof *w->layers);
    w->arena_bytes = n * sizeof(float);
    w->arena = mem_aligned(VECTOR_ALIGN, w->arena_bytes);
    if (!w->layers || !w->arena)
        return ERR(e, E_NOMEM, "out of memory for %zu weights of norms and convolutions", n);
    for (int il = 0; il < c->n_layers; il++) {
        w->layers[il].moe.record_layer = il;
        w->layers[il].ple = -1;
    }
    w->mtp.layer.moe.record_layer = c->n_layers;
    w->mtp.layer.ple = -1;
    for (int m = 0; m < c->n_ple; m++) {
        ngram_derive(c, m, &w->ngram[m]);
        w->ple[m].module = m;
        w->layers[c->ple_layer[m]].ple = m;
    }
    return 0;
}

static void *place_of(struct weights *w, const struct expected *x)
{
    char *base = NULL;
    switch (places[x->role].base) {
    case IN_WEIGHTS:
        base = (char *)w;
        break;
    case IN_MIXER:
        base = (char *)(x->mtp ? &w->mtp.mixer : &w->mixer);
        break;
    case IN_LAYER:
        base = (char *)(x->mtp ? &w->mtp.layer : &w->layers[x->layer]);
        break;
    case IN_PLE:
        base = (char *)&w->ple[x->module];
        break;
    case IN_MTP:
        base = (char *)&w->mtp;
        break;
    case NOWHERE:
        return NULL;
    }
    return base + places[x->role].at;
}

/* "[4, 512]", for messages. */
static const char *shape_text(const uint64_t *shape, int n_dims, char *room, size_t n)
{
    size_t at = (size_t)snprintf(room, n, "[");
    for (int i = 0; i < n_dims && at < n; i++)
        at += (size_t)snprintf(room + at, n - at, "%s%" PRIu64, i ? ", " : "", shape[i]);
    if (at < n)
        snprintf(room + at, n - at, "]");
    return room;
}

static int wrong_shape(const struct tensor_view *t, const uint64_t *want, int n_dims, struct err *e)
{
    char found[200], wanted[64];
    return ERR(e, E_FORMAT, "%s: want shape %s from the config, found %s %s", t->name,
               shape_text(want, n_dims, wanted, sizeof wanted), dtype_name(t->dtype),
               shape_text(t->shape, t->n_dims, found, sizeof found));
}

/* The tensor module + suffix. Its bytes must be those of its shape and lie as its type needs. */
static int find(const struct weights *w, const char *module, const char *suffix,
                struct tensor_view *t, struct err *e)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s%s", module, suffix);
    int rc = w->source.find(w->source.ctx, name, t, e);
    if (rc)
        return rc;
    uint64_t n = dtype_bytes(t->dtype);
    for (int i = 0; i < t->n_dims; i++)
        n = t->shape[i] && n > UINT64_MAX / t->shape[i] ? UINT64_MAX : n * t->shape[i];
    if (n != t->nbytes)
        return ERR(e, E_FORMAT, "%s: has %" PRIu64 " bytes, want %" PRIu64 " for its shape", name,
                   t->nbytes, n);
    if ((uintptr_t)t->data % dtype_bytes(t->dtype))
        return ERR(e, E_FORMAT, "%s: its data is not aligned to %zu bytes", name,
                   dtype_bytes(t->dtype));
    return 0;
}

static int check_finite(const struct tensor_view *t, struct err *e)
{
    size_t n = (size_t)(t->nbytes / dtype_bytes(t->dtype));
    size_t i = finite_find(t->dtype, t->data, n); /* the first read of these bytes: it takes time */
    if (i == n)
        return interrupt_check(e);
    return ERR(e, E_NONFINITE,
               "%s: element %zu is NaN or infinite, want finite weights: pack again", t->name, i);
}

/* NAME.scales or NAME.biases of a Q4 matrix of rows x cols. */
static int load_side(const struct weights *w, const struct expected *x, const char *suffix,
                     const uint16_t **out, struct err *e)
{
    struct tensor_view t;
    const uint64_t want[2] = {x->shape[0], x->shape[1] / GROUP};
    int rc = find(w, x->name, suffix, &t, e);
    if (rc)
        return rc;
    if (t.dtype != DTYPE_BF16)
        return ERR(e, E_FORMAT, "%s: want BF16, found %s", t.name, dtype_name(t.dtype));
    if (t.n_dims == 2 && t.shape[0] == want[0] && t.shape[1] != want[1] && t.shape[1] &&
        x->shape[1] % t.shape[1] == 0)
        return ERR(e, E_UNSUPPORTED, "%s: groups of %" PRIu64 ", want groups of %d: pack again",
                   t.name, x->shape[1] / t.shape[1], GROUP);
    if (t.n_dims != 2 || t.shape[0] != want[0] || t.shape[1] != want[1])
        return wrong_shape(&t, want, 2, e);
    *out = t.data;
    return check_finite(&t, e);
}

static int load_matrix(const struct weights *w, const struct expected *x, struct matrix *m,
                       struct err *e)
{
    struct tensor_view t;
    uint64_t want[2] = {x->shape[0], x->shape[1]};
    int rc = find(w, x->name, x->suffix, &t, e);
    if (rc)
        return rc;
    bool q4 = t.dtype == DTYPE_U32;
    if (q4 && !expected_group(x))
        return ERR(e, E_FORMAT,
                   "%s: is U32 codes, want BF16 or F32: this tensor is never quantised", t.name);
    if (!q4 && t.dtype != DTYPE_BF16 && t.dtype != DTYPE_F32)
        return ERR(e, E_UNSUPPORTED, "%s: want BF16, F32 or U32 codes, found %s", t.name,
                   dtype_name(t.dtype));
    if (q4)
        want[1] /= 8;
    if (t.n_dims != 2 || t.shape[0] != want[0] || t.shape[1] != want[1])
        return wrong_shape(&t, want, 2, e);
    *m = (struct matrix){.format = q4                      ? MATRIX_Q4
                                   : t.dtype == DTYPE_BF16 ? MATRIX_BF16
                                                           : MATRIX_F32,
                         .rows = (int)x->shape[0],
                         .cols = (int)x->shape[1],
                         .w = t.data};
    if (!q4)
        return check_finite(&t, e);
    m->group = GROUP;
    rc = load_side(w, x, ".scales", &m->scales, e);
    return rc ? rc : load_side(w, x, ".biases", &m->biases, e);
}

/* A convolution may have a dimension of 1 before or behind its taps; the bytes are the same. */
static bool has_shape(const struct tensor_view *t, const struct expected *x)
{
    if (x->kind != EXPECTED_CONV)
        return t->n_dims == 1 && t->shape[0] == x->shape[0];
    if (t->n_dims == 2)
        return t->shape[0] == x->shape[0] && t->shape[1] == x->shape[1];
    return t->n_dims == 3 && t->shape[0] == x->shape[0] &&
           ((t->shape[1] == 1 && t->shape[2] == x->shape[1]) ||
            (t->shape[1] == x->shape[1] && t->shape[2] == 1));
}

static void widen(const struct tensor_view *t, size_t n, float *out)
{
    const uint16_t *half = t->data;
    if (t->dtype == DTYPE_F32)
        memcpy(out, t->data, n * sizeof *out);
    else if (t->dtype == DTYPE_BF16)
        bf16_widen(half, n, out);
    else
        for (size_t i = 0; i < n; i++)
            out[i] = f16_to_f32(half[i]);
}

/* Takes its floats from *room. */
static int load_vector(const struct weights *w, const struct expected *x, struct vector *v,
                       float **room, struct err *e)
{
    struct tensor_view t;
    size_t n = count_of(x);
    int rc = find(w, x->name, x->suffix, &t, e);
    if (rc)
        return rc;
    if (t.dtype != DTYPE_F32 && t.dtype != DTYPE_BF16 && t.dtype != DTYPE_F16)
        return ERR(e, E_UNSUPPORTED, "%s: want BF16, F16 or F32, found %s", t.name,
                   dtype_name(t.dtype));
    if (!has_shape(&t, x))
        return wrong_shape(&t, x->shape, x->n_dims, e);
    rc = check_finite(&t, e);
    if (rc)
        return rc;
    widen(&t, n, *room);
    if (x->kind == EXPECTED_NORM_RAW)
        for (size_t i = 0; i < n; i++)
            (*room)[i] += 1.0f;
    *v = (struct vector){*room, (int)n};
    *room += arena_room(n);
    return 0;
}

static int load(struct weights *w, const struct expected *x, float **room, struct err *e)
{
    void *to = place_of(w, x);
    if (!to)
        return 0;
    return is_vector(x) ? load_vector(w, x, to, room, e) : load_matrix(w, x, to, e);
}

/* Stored n-gram constants, where there are some, must be the derived ones. */
static int check_hash(const struct weights *w, const struct expected *x, struct err *e)
{
    struct tensor_view t;
    struct err absent = {0};
    int rc = find(w, x->name, x->suffix, &t, &absent);
    if (rc == -E_NOTFOUND)
        return 0;
    if (rc)
        return ERR(e, absent.code, "%s", absent.msg);
    if (t.dtype != DTYPE_I64)
        return ERR(e, E_FORMAT, "%s: want I64, found %s", t.name, dtype_name(t.dtype));
    if (t.n_dims != 1 || t.shape[0] != x->shape[0])
        return wrong_shape(&t, x->shape, 1, e);
    struct ngram_module stored = w->ngram[x->module];
    uint64_t *to = x->role == ROLE_PLE_MULTIPLIERS ? stored.mult
                   : x->role == ROLE_PLE_OFFSETS   ? stored.offset
                                                   : stored.size;
    memcpy(to, t.data, (size_t)t.nbytes);
    return ngram_compare(&stored, &w->ngram[x->module], t.name, e);
}
