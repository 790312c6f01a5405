/* Weights from a source: every golden shape is found and folded, and every tensor that is missing,
 * of another shape or type, damaged or from another model is refused by name. */
#include "tests/aid_test.h"

#include <string.h>

#include "base/mem.h"
#include "quant/half.h"
#include "tests/aid_tensors.h"

#define L0    "language_model.model.layers.0."
#define MICRO GOLDENS "micro/mlx4/config.json"

static struct config read_config(const char *path)
{
    struct err e = {0};
    struct config c;
    assert_ok(config_load(path, &c, &e), e);
    return c;
}

static int init(struct aid_tensors *t, struct weights *w, struct err *e)
{
    struct weight_source src;
    aid_tensors_source(t, &src);
    err_clear(e);
    return weights_init(&t->config, &src, w, e);
}

static void assert_matrix(const struct matrix *m, int rows, int cols)
{
    assert_non_null(m->w);
    assert_int_equal(m->rows, rows);
    assert_int_equal(m->cols, cols);
    assert_int_equal(m->format, cols % 64 ? MATRIX_BF16 : MATRIX_Q4);
    assert_int_equal(m->group, cols % 64 ? 0 : 64);
    assert_int_equal(m->scales != NULL, cols % 64 == 0);
    assert_int_equal(m->biases != NULL, cols % 64 == 0);
}

static void assert_vector(const struct vector *v, int n)
{
    assert_non_null(v->x);
    assert_int_equal(v->n, n);
    assert_int_equal((uintptr_t)v->x % 64, 0);
}

static void assert_hyper(const struct hyper_weights *y, const struct config *c, bool inject)
{
    int wide = c->S * c->h;
    assert_vector(&y->norm, wide);
    assert_matrix(&y->down, c->lowrank, wide);
    assert_matrix(&y->up, wide, c->lowrank);
    if (inject)
        assert_matrix(&y->inject, c->S, wide);
    else
        assert_int_equal(y->inject.rows, 0);
}

static void assert_layer(const struct layer_weights *l, const struct config *c, bool attention,
                         int record_layer)
{
    assert_hyper(&l->attn_hyper, c, true);
    assert_hyper(&l->mlp_hyper, c, true);
    assert_int_equal(l->moe.record_layer, record_layer);
    assert_int_equal(l->moe.router.format, MATRIX_BF16);
    assert_int_equal(l->moe.router.rows, c->E);
    assert_int_equal(l->moe.shared_gate.rows, 1);
    assert_matrix(&l->moe.gate, c->shared_inter, c->h);
    assert_matrix(&l->moe.up, c->shared_inter, c->h);
    assert_matrix(&l->moe.down, c->h, c->shared_inter);
    if (attention) {
        const struct qsa_weights *q = &l->qsa;
        assert_matrix(&q->q, 2 * c->n_heads * c->head_dim, c->h);
        assert_matrix(&q->k, c->n_kv * c->head_dim, c->h);
        assert_matrix(&q->v, c->n_kv * c->head_dim, c->h);
        assert_matrix(&q->o, c->h, c->n_heads * c->head_dim);
        assert_matrix(&q->index_qk, (c->index_heads + 1) * c->index_dim, c->h);
        assert_vector(&q->q_norm, c->head_dim);
        assert_vector(&q->k_norm, c->head_dim);
        assert_vector(&q->index_q_norm, c->index_dim);
        assert_vector(&q->index_k_norm, c->index_dim);
    } else {
        const struct deltanet_weights *d = &l->deltanet;
        int qkv = 2 * c->nk * c->dk + c->nv * c->dv;
        assert_matrix(&d->qkv, qkv, c->h);
        assert_matrix(&d->z, c->nv * c->dv, c->h);
        assert_matrix(&d->a, c->nv, c->h);
        assert_matrix(&d->b, c->nv, c->h);
        assert_matrix(&d->out, c->h, c->nv * c->dv);
        assert_vector(&d->conv, qkv * c->conv_kernel);
        assert_vector(&d->A_log, c->nv);
        assert_vector(&d->dt_bias, c->nv);
        assert_vector(&d->norm, c->dv);
    }
}

static void check_config(const char *path)
{
    struct err e = {0};
    struct aid_tensors t;
    struct weights w;
    struct config c = read_config(path);
    aid_tensors_make(&c, &t);
    assert_ok(init(&t, &w, &e), e);
    assert_matrix(&w.embed, c.vocab, c.h);
    assert_matrix(&w.head, c.vocab, c.h);
    assert_hyper(&w.mixer, &c, false);
    for (int il = 0; il < c.n_layers; il++)
        assert_layer(&w.layers[il], &c, c.attention[il], il);
    for (int m = 0; m < c.n_ple; m++) {
        int wide = c.S * c.h;
        assert_int_equal(w.layers[c.ple_layer[m]].ple, m);
        assert_int_equal(w.ple[m].module, m);
        assert_matrix(&w.ple[m].key, wide, c.ple_dim);
        assert_matrix(&w.ple[m].value, c.h, c.ple_dim);
        assert_vector(&w.ple[m].norm_key, wide);
        assert_vector(&w.ple[m].norm_query, wide);
        assert_vector(&w.ple[m].norm_conv, wide);
        assert_vector(&w.ple[m].conv, wide * c.ple_kernel);
        assert_true(w.ngram[m].rows > 0);
    }
    if (c.n_mtp) {
        assert_layer(&w.mtp.layer, &c, true, c.n_layers);
        assert_int_equal(w.mtp.layer.ple, -1);
        assert_hyper(&w.mtp.mixer, &c, false);
        assert_vector(&w.mtp.norm_embedding, c.h);
        assert_vector(&w.mtp.norm_hidden, c.S * c.h);
        assert_matrix(&w.mtp.fc_embedding, c.h, c.h);
        assert_matrix(&w.mtp.fc_hidden, c.h, c.h);
    }
    weights_free(&w);
    aid_tensors_free(&t);
}

static void test_every_golden_shape(void **state)
{
    (void)state;
    static const char *const names[] = {"micro",     "wide",     "deep",     "v-hc2",
                                        "v-head128", "v-mtpall", "v-nonorm", "v-nople",
                                        "v-ple2",    "v-rope",   "v-silu"};
    char path[128];
    check_config(DEMO "/config.json");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, GOLDENS "%s/mlx4/config.json", names[i]);
        check_config(path);
    }
}

/* The store holds plain gammas, but 1 + w of mtp.pre_fc_norm_*. */
static void test_folding(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t at;
        float add;
    } cases[] = {
        {"mtp.pre_fc_norm_embedding.weight", offsetof(struct weights, mtp.norm_embedding), 1},
        {"mtp.pre_fc_norm_hidden.weight", offsetof(struct weights, mtp.norm_hidden), 1},
        {"mtp.hyper_connection_mixer.hc_norm.weight", offsetof(struct weights, mtp.mixer.norm), 0},
        {"mtp.layers.0.self_attn.q_norm.weight", offsetof(struct weights, mtp.layer.qsa.q_norm), 0},
        {"language_model.model.hyper_connection_mixer.hc_norm.weight",
         offsetof(struct weights, mixer.norm), 0},
        {"language_model.model.layers.1.ple.conv1d.weight", offsetof(struct weights, ple[0].conv),
         0},
    };
    struct err e = {0};
    struct aid_tensors t;
    struct weights w;
    struct config c = read_config(MICRO);
    aid_tensors_make(&c, &t);
    assert_ok(init(&t, &w, &e), e);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint16_t *raw = aid_tensors_find(&t, cases[i].name)->data;
        const struct vector *v = (const struct vector *)((const char *)&w + cases[i].at);
        for (int k = 0; k < v->n; k++)
            if (v->x[k] != bf16_to_f32(raw[k]) + cases[i].add)
                fail_msg("%s[%d] is %g", cases[i].name, k, (double)v->x[k]);
    }
    weights_free(&w);
    aid_tensors_free(&t);
}

/* A matrix may be bf16 or f32 instead of Q4, a vector f16 or f32 instead of bf16. */
static void test_other_encodings(void **state)
{
    (void)state;
    struct err e = {0};
    struct aid_tensors t;
    struct weights w;
    struct config c = read_config(MICRO);
    aid_tensors_make(&c, &t);
    struct aid_tensor *z = aid_tensors_find(&t, L0 "linear_attn.in_proj_z.weight");
    struct aid_tensor *a = aid_tensors_find(&t, L0 "linear_attn.A_log");
    struct aid_tensor *conv = aid_tensors_find(&t, L0 "linear_attn.conv1d.weight");
    struct aid_tensor *norm = aid_tensors_find(&t, L0 "attn_hyper_connection.hc_norm.weight");
    static const enum dtype matrix_types[] = {DTYPE_BF16, DTYPE_F32};
    for (int i = 0; i < 2; i++) {
        z->dtype = matrix_types[i];
        z->shape[1] = (uint64_t)c.h;
        z->nbytes = z->shape[0] * z->shape[1] * dtype_bytes(z->dtype);
        mem_free(z->data);
        z->data = mem_zalloc(1, (size_t)z->nbytes);
        assert_ok(init(&t, &w, &e), e);
        assert_int_equal(w.layers[0].deltanet.z.format, i ? MATRIX_F32 : MATRIX_BF16);
        assert_int_equal(w.layers[0].deltanet.z.group, 0);
        assert_ptr_equal(w.layers[0].deltanet.z.w, z->data);
        weights_free(&w);
    }
    float *wide = mem_array(a->shape[0], sizeof *wide);
    for (uint64_t i = 0; i < a->shape[0]; i++)
        wide[i] = (float)i + 0.1f;
    mem_free(a->data);
    a->data = wide;
    a->dtype = DTYPE_F32;
    a->nbytes = 4 * a->shape[0];
    norm->dtype = DTYPE_F16;
    ((uint16_t *)norm->data)[3] = 0x3800; /* 0.5 in f16 */
    conv->shape[1] = conv->shape[2];      /* [C][K][1] */
    conv->shape[2] = 1;
    assert_ok(init(&t, &w, &e), e);
    assert_true(w.layers[0].deltanet.A_log.x[2] == 2.1f);
    assert_true(w.layers[0].attn_hyper.norm.x[3] == 0.5f);
    const uint16_t *taps = conv->data;
    for (int i = 0; i < w.layers[0].deltanet.conv.n; i++)
        assert_true(w.layers[0].deltanet.conv.x[i] == bf16_to_f32(taps[i]));
    weights_free(&w);
    aid_tensors_free(&t);
}

static void test_tied_head(void **state)
{
    (void)state;
    struct err e = {0};
    struct aid_tensors t;
    struct weights w;
    struct config c = read_config(MICRO);
    c.tie_embeddings = true;
    aid_tensors_make(&c, &t);
    assert_ok(init(&t, &w, &e), e);
    assert_memory_equal(&w.head, &w.embed, sizeof w.head);
    weights_free(&w);
    aid_tensors_free(&t);
}

/* Expects a failure whose message names the tensor, and nothing left behind. */
static void assert_refused(struct aid_tensors *t, const char *name, int code, const char *says)
{
    struct err e = {0};
    struct weights w;
    int rc = init(t, &w, &e);
    if (rc != -code)
        fail_msg("%s: code %d, want %d: %s", name, -rc, code, e.msg);
    if (!strstr(e.msg, name) || !strstr(e.msg, says))
        fail_msg("\"%s\" does not name %s and say %s", e.msg, name, says);
    assert_null(w.layers);
    assert_null(w.arena);
}

/* For each tensor of v-ple2 (two modules, a draft head) in turn: gone, of another shape, too short,
 * misaligned, of another type. */
static void test_each_tensor_is_checked(void **state)
{
    (void)state;
    struct aid_tensors t;
    struct config c = read_config(GOLDENS "v-ple2/mlx4/config.json");
    aid_tensors_make(&c, &t);
    for (size_t i = 0; i < t.n; i++) {
        struct aid_tensor *x = &t.at[i], keep = *x;
        if (keep.kind != EXPECTED_HASH) {
            x->name[0] = '?';
            assert_refused(&t, keep.name, E_NOTFOUND, "");
            *x = keep;
        }
        x->shape[0]++;
        x->nbytes = keep.nbytes / keep.shape[0] * x->shape[0];
        assert_refused(&t, keep.name, E_FORMAT, "want shape [");
        *x = keep;
        x->nbytes--;
        assert_refused(&t, keep.name, E_FORMAT, "bytes");
        *x = keep;
        x->data = (char *)keep.data + 1;
        assert_refused(&t, keep.name, E_FORMAT, "aligned");
        *x = keep;
        x->dtype = DTYPE_F8_E4M3;
        x->nbytes /= dtype_bytes(keep.dtype);
        assert_refused(&t, keep.name,
                       keep.kind == EXPECTED_HASH || strstr(keep.name, ".scales") ||
                               strstr(keep.name, ".biases")
                           ? E_FORMAT
                           : E_UNSUPPORTED,
                       "F8_E4M3");
        *x = keep;
    }
    print_message("note: %zu tensors, each broken in five ways\n", t.n);
    aid_tensors_free(&t);
}

/* NaN and infinity in vectors, scales, biases and unquantised matrices. */
static void test_values_that_are_not_numbers(void **state)
{
    (void)state;
    struct aid_tensors t;
    struct config c = read_config(MICRO);
    aid_tensors_make(&c, &t);
    for (size_t i = 0; i < t.n; i++) {
        struct aid_tensor *x = &t.at[i];
        if (x->dtype != DTYPE_BF16)
            continue;
        uint16_t *at = (uint16_t *)x->data + x->nbytes / 2 - 1, keep = *at;
        *at = i % 2 ? 0x7F80 : 0x7FC1;
        assert_refused(&t, x->name, E_NONFINITE, "NaN or infinite");
        *at = keep;
    }
    aid_tensors_free(&t);
}

static void test_quantised_otherwise(void **state)
{
    (void)state;
    struct aid_tensors t;
    struct config c = read_config(MICRO);
    aid_tensors_make(&c, &t);
    struct aid_tensor *router = aid_tensors_find(&t, L0 "mlp.gate.weight"), keep = *router;
    router->dtype = DTYPE_U32;
    router->shape[1] /= 2;
    assert_refused(&t, L0 "mlp.gate.weight", E_FORMAT, "never quantised");
    *router = keep;
    struct aid_tensor *scales = aid_tensors_find(&t, L0 "linear_attn.in_proj_qkv.scales");
    scales->shape[1] *= 2;
    scales->nbytes *= 2;
    assert_refused(&t, L0 "linear_attn.in_proj_qkv.scales", E_UNSUPPORTED, "groups of 32");
    aid_tensors_free(&t);
}

/* Constants of another model (another seed, say) would read other rows: silently wrong text. */
static void test_wrong_ngram_constants(void **state)
{
    (void)state;
    static const char *const names[] = {"layer_multipliers", "ngram_heads_offsets",
                                        "ngram_heads_vocab_sizes"};
    struct err e = {0};
    struct aid_tensors t;
    struct weights w;
    struct config c = read_config(GOLDENS "v-ple2/mlx4/config.json");
    aid_tensors_make(&c, &t);
    for (int i = 0; i < 3; i++) {
        char name[160];
        snprintf(name, sizeof name, "language_model.model.layers.2.ple.ple_embedding.%s", names[i]);
        struct aid_tensor *x = aid_tensors_find(&t, name);
        ((int64_t *)x->data)[1] += 2;
        assert_refused(&t, name, E_FORMAT, "wrong n-gram constants");
        ((int64_t *)x->data)[1] -= 2;
        x->name[0] = '?'; /* without them the derivation is all there is */
        assert_ok(init(&t, &w, &e), e);
        weights_free(&w);
        x->name[0] = 'l';
    }
    t.config.seed++;
    assert_refused(&t, "layer_multipliers", E_FORMAT, "seed");
    aid_tensors_free(&t);
}

static void test_allocation_failures(void **state)
{
    (void)state;
    struct err e = {0};
    struct aid_tensors t;
    struct weights w;
    struct config c = read_config(MICRO);
    aid_tensors_make(&c, &t);
    for (long nth = 1;; nth++) {
        mem_fail_at(nth);
        int rc = init(&t, &w, &e);
        mem_fail_at(0);
        if (!rc) {
            assert_true(nth > 5);
            weights_free(&w);
            break;
        }
        assert_int_equal(rc, -E_NOMEM);
    }
    aid_tensors_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_golden_shape),
        cmocka_unit_test(test_folding),
        cmocka_unit_test(test_other_encodings),
        cmocka_unit_test(test_tied_head),
        cmocka_unit_test(test_each_tensor_is_checked),
        cmocka_unit_test(test_values_that_are_not_numbers),
        cmocka_unit_test(test_quantised_otherwise),
        cmocka_unit_test(test_wrong_ngram_constants),
        cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
