/* What a save belongs to: see identity.h.
 *
 * Vectors are hashed whole. Of a matrix, its form and eight rows spread over it; of the routed
 * experts and n-gram tables, one row each: hashing every byte of a large store would take minutes,
 * and models that differ by training differ in all of these. */
#include "model/identity.h"

#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "model/matrix.h"

enum { SAMPLED_ROWS = 8 };

/* The parts of a layer, by place: those that it does not have are empty. */
#define MATRIX(m) offsetof(struct layer_weights, m)
static const size_t layer_matrices[] = {
    MATRIX(attn_hyper.down), MATRIX(attn_hyper.up),   MATRIX(attn_hyper.inject),
    MATRIX(mlp_hyper.down),  MATRIX(mlp_hyper.up),    MATRIX(mlp_hyper.inject),
    MATRIX(deltanet.qkv),    MATRIX(deltanet.z),      MATRIX(deltanet.a),
    MATRIX(deltanet.b),      MATRIX(deltanet.out),    MATRIX(qsa.q),
    MATRIX(qsa.k),           MATRIX(qsa.v),           MATRIX(qsa.o),
    MATRIX(qsa.index_qk),    MATRIX(moe.router),      MATRIX(moe.gate),
    MATRIX(moe.up),          MATRIX(moe.shared_gate), MATRIX(moe.down),
};
static const size_t layer_vectors[] = {
    MATRIX(attn_hyper.norm),  MATRIX(mlp_hyper.norm),   MATRIX(deltanet.conv),
    MATRIX(deltanet.A_log),   MATRIX(deltanet.dt_bias), MATRIX(deltanet.norm),
    MATRIX(qsa.q_norm),       MATRIX(qsa.k_norm),       MATRIX(qsa.index_q_norm),
    MATRIX(qsa.index_k_norm),
};

struct hasher {
    uint64_t sum;
    float *row; /* room for one matrix row */
};

static void add(struct hasher *h, const void *p, size_t n)
{
    h->sum = XXH3_64bits_withSeed(p, n, h->sum);
}

static void add_int(struct hasher *h, int64_t v)
{
    add(h, &v, sizeof v);
}

static void add_vector(struct hasher *h, const struct vector *v)
{
    add_int(h, v->n);
    add(h, v->x, (size_t)v->n * sizeof *v->x);
}

static void add_rows(struct hasher *h, const struct matrix *m, int most)
{
    int n = m->rows < most ? m->rows : most;
    add_int(h, m->format);
    add_int(h, m->rows);
    add_int(h, m->cols);
    for (int i = 0; i < n; i++) {
        int r = (int)((int64_t)i * m->rows / n);
        add(h, matrix_row(m, r, h->row), (size_t)m->cols * sizeof(float));
    }
}

static void add_matrix(struct hasher *h, const struct matrix *m)
{
    add_rows(h, m, SAMPLED_ROWS);
}

static void add_mixer(struct hasher *h, const struct hyper_weights *w)
{
    add_vector(h, &w->norm);
    add_matrix(h, &w->down);
    add_matrix(h, &w->up);
}

static int add_layer(struct hasher *h, const struct weights *w, const struct layer_weights *l,
                     struct err *e)
{
    const char *base = (const char *)l;
    struct expert x;
    for (size_t i = 0; i < sizeof layer_matrices / sizeof layer_matrices[0]; i++)
        add_matrix(h, (const struct matrix *)(base + layer_matrices[i]));
    for (size_t i = 0; i < sizeof layer_vectors / sizeof layer_vectors[0]; i++)
        add_vector(h, (const struct vector *)(base + layer_vectors[i]));
    int rc = w->source.expert(w->source.ctx, l->moe.record_layer, 0, &x, e);
    if (rc)
        return rc;
    add_rows(h, &x.gate, 1);
    add_rows(h, &x.down, 1);
    return 0;
}

static int add_ple(struct hasher *h, const struct weights *w, int m, struct err *e)
{
    const struct ple_weights *p = &w->ple[m];
    const struct vector *vectors[] = {&p->norm_key, &p->norm_query, &p->norm_conv, &p->conv};
    for (int i = 0; i < 4; i++)
        add_vector(h, vectors[i]);
    add_matrix(h, &p->key);
    add_matrix(h, &p->value);
    int rc = w->source.ngram_row(w->source.ctx, p->module, 0, h->row, e);
    if (rc)
        return rc;
    add(h, h->row, (size_t)w->ngram[p->module].row_dim * sizeof *h->row);
    return 0;
}

static int add_mtp(struct hasher *h, const struct weights *w, struct err *e)
{
    add_vector(h, &w->mtp.norm_embedding);
    add_vector(h, &w->mtp.norm_hidden);
    add_matrix(h, &w->mtp.fc_embedding);
    add_matrix(h, &w->mtp.fc_hidden);
    add_mixer(h, &w->mtp.mixer);
    return add_layer(h, w, &w->mtp.layer, e);
}

/* The numbers of the config that weights do not show: the shapes are in the weights. */
static void add_config(struct hasher *h, const struct config *c)
{
    const int64_t ints[] = {c->n_layers,
                            c->vocab,
                            c->S,
                            c->rot,
                            c->index_budget,
                            c->index_ratio,
                            c->gate_act,
                            c->K,
                            c->norm_topk,
                            c->nk,
                            c->nv,
                            c->dk,
                            c->n_heads,
                            c->n_kv,
                            c->n_ple,
                            c->ngram_size,
                            c->index_heads,
                            c->ple_kernel,
                            c->eos[0],
                            c->n_mtp,
                            c->ngram_base,
                            (int64_t)c->seed,
                            c->heads_per_ngram,
                            c->n_eos};
    const double reals[] = {c->eps, c->rope_theta};
    add(h, ints, sizeof ints);
    add(h, reals, sizeof reals);
    add(h, c->ple_layer, (size_t)c->n_ple * sizeof c->ple_layer[0]);
    for (int il = 0; il < c->n_layers; il++)
        add_int(h, c->attention[il]);
}

/* The widest matrix row, or row of an n-gram table. */
static int widest_row(const struct config *c)
{
    const int widths[] = {c->S * c->h, c->lowrank,      c->nv * c->dv, c->n_heads * c->head_dim,
                          c->inter,    c->shared_inter, c->ple_dim};
    int w = 0;
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
        w = widths[i] > w ? widths[i] : w;
    return w;
}

int identity_of(const struct weights *w, const struct identity_options *o, uint64_t *out,
                struct err *e)
{
    struct hasher h = {.row = mem_array((size_t)widest_row(&w->config), sizeof *h.row)};
    int rc = h.row ? 0 : ERR(e, E_NOMEM, "no memory to tell the weights apart");
    if (rc)
        return rc;
    add(&h, o->engine, strlen(o->engine));
    add_int(&h, o->expert_bits);
    add_int(&h, o->mtp_norm);
    add_int(&h, o->drafts);
    add_config(&h, &w->config);
    add_matrix(&h, &w->embed);
    add_matrix(&h, &w->head);
    add_mixer(&h, &w->mixer);
    for (int il = 0; il < w->config.n_layers && !rc; il++)
        rc = add_layer(&h, w, &w->layers[il], e);
    for (int m = 0; m < w->config.n_ple && !rc; m++)
        rc = add_ple(&h, w, m, e);
    if (!rc && w->config.n_mtp)
        rc = add_mtp(&h, w, e);
    mem_free(h.row);
    *out = h.sum;
    return rc;
}
