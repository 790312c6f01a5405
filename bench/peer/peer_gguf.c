/* A store as a GGUF file of the architecture "qwen4exp", which llama.cpp reads: the peer of
 * bench/peer.sh, computing with the same weights.
 *
 *   peer_gguf STORE OUT.gguf same|q4_0
 *
 * same: each group of 64 becomes two Q4_1 blocks of the same codes, with scale and bias rounded to
 * f16. q4_0: the values quantised again, in the form that llama.cpp repacks for speed. Norms,
 * convolutions and routers are F32. The draft head is left out.
 *
 * Value heads: there, head v of the model (r = nv / nk of them share a key head) is the head
 * (v % r) * nk + v / r. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/os.h"
#include "base/thread.h"
#include "model/weights.h"
#include "quant/half.h"
#include "quant/q4.h"

enum ggml { GGML_F32 = 0, GGML_Q4_0 = 2, GGML_Q4_1 = 3 };
enum { BLOCK = 32, ALIGN = 32, OUTS_MAX = 8192, LANES_MAX = 64, INTERVAL_DEFAULT = 4 };

/* Which numbers a tensor of the file takes. */
enum from { FROM_MATRIX, FROM_VECTOR, FROM_DECAY, FROM_EXPERTS, FROM_TABLE };

struct out {
    char name[64];
    enum from from;
    enum ggml type;
    int n_dims;
    uint64_t cols, rows, planes; /* ne[0], ne[1], ne[2] */
    const struct matrix *matrix;
    const struct vector *vector;
    int row0;     /* first row of the matrix */
    int il, k;    /* of experts: record layer and which matrix */
    int head;     /* rows (or, with turn_cols, columns) of a value head to put in order; 0: none */
    int heads_at; /* the first of them */
    bool turn_cols;
    uint64_t offset, plane_bytes;
};

struct job {
    size_t out;
    uint64_t plane;
};

struct writer {
    struct store *store;
    struct weights w;
    struct buf meta;
    uint64_t n_meta, data_at;
    struct out *out;
    size_t n;
    struct job *jobs;
    size_t n_jobs;
    bool same;
    struct file file;
    uint8_t *room[LANES_MAX];
    float *values[LANES_MAX];
};

static void put(struct writer *w, const void *p, size_t n)
{
    buf_add(&w->meta, p, n);
}

static void put_u32(struct writer *w, uint32_t v)
{
    put(w, &v, sizeof v);
}

static void put_u64(struct writer *w, uint64_t v)
{
    put(w, &v, sizeof v);
}

static void put_text(struct writer *w, const char *s)
{
    put_u64(w, strlen(s));
    put(w, s, strlen(s));
}

/* Types of metadata: 4 u32, 5 i32, 6 f32, 8 text, 9 array, 10 u64. */
static void key(struct writer *w, const char *name, uint32_t type)
{
    char full[96];
    bool own = strncmp(name, "general.", 8) != 0 && strncmp(name, "tokenizer.", 10) != 0;
    snprintf(full, sizeof full, "%s%s", own ? "qwen4exp." : "", name);
    put_text(w, full);
    put_u32(w, type);
    w->n_meta++;
}

static void number(struct writer *w, const char *name, uint64_t v)
{
    key(w, name, 4);
    put_u32(w, (uint32_t)v);
}

static void real(struct writer *w, const char *name, double v)
{
    float f = (float)v;
    key(w, name, 6);
    put(w, &f, sizeof f);
}

static void text(struct writer *w, const char *name, const char *v)
{
    key(w, name, 8);
    put_text(w, v);
}

static void list32(struct writer *w, const char *name, uint32_t type, const uint32_t *v, int n)
{
    key(w, name, 9);
    put_u32(w, type);
    put_u64(w, (uint64_t)n);
    for (int i = 0; i < n; i++)
        put_u32(w, v[i]);
}

static void list64(struct writer *w, const char *name, const uint64_t *v, int n)
{
    key(w, name, 9);
    put_u32(w, 10);
    put_u64(w, (uint64_t)n);
    for (int i = 0; i < n; i++)
        put_u64(w, v[i]);
}

static void describe_attention(struct writer *w, const struct config *c)
{
    uint32_t half = (uint32_t)c->rot / 2, ratio[CONFIG_LAYERS_MAX];
    const uint32_t sections[4] = {(half + 2) / 3, (half + 1) / 3, half / 3, 0};
    for (int il = 0; il < c->n_layers; il++)
        ratio[il] = c->attention[il] ? (uint32_t)c->index_ratio : 0;
    number(w, "attention.head_count", (uint64_t)c->n_heads);
    number(w, "attention.head_count_kv", (uint64_t)c->n_kv);
    number(w, "attention.key_length", (uint64_t)c->head_dim);
    number(w, "attention.value_length", (uint64_t)c->head_dim);
    real(w, "attention.layer_norm_rms_epsilon", c->eps);
    real(w, "rope.freq_base", c->rope_theta);
    number(w, "rope.dimension_count", (uint64_t)c->rot);
    list32(w, "rope.dimension_sections", 5, sections, 4);
    number(w, "full_attention_interval", INTERVAL_DEFAULT);
    number(w, "attention.indexer.head_count", (uint64_t)c->index_heads);
    number(w, "attention.indexer.key_length", (uint64_t)c->index_dim);
    number(w, "attention.indexer.top_k", (uint64_t)c->index_budget);
    list32(w, "attention.compress_ratios", 4, ratio, c->n_layers);
}

static void describe_table(struct writer *w, const struct config *c)
{
    const struct ngram_module *g = &w->w.ngram[0];
    const uint32_t layer = (uint32_t)c->ple_layer[0];
    list32(w, "ple.layers", 4, &layer, 1);
    number(w, "ple.ngram_size", (uint64_t)c->ngram_size);
    number(w, "ple.heads_per_ngram", (uint64_t)c->heads_per_ngram);
    number(w, "ple.conv_kernel", (uint64_t)c->ple_kernel);
    number(w, "ple.eos_token_id", (uint64_t)c->eos[0]);
    number(w, "embedding_length_per_layer_input", (uint64_t)g->row_dim);
    list64(w, "ple.layer_multipliers", g->mult, c->ngram_size);
    list64(w, "ple.head_offsets", g->offset, g->n_heads);
    list64(w, "ple.head_vocab_sizes", g->size, g->n_heads);
}

static void describe_model(struct writer *w, const struct config *c)
{
    text(w, "general.architecture", "qwen4exp");
    text(w, "general.name", "cherenkov store");
    number(w, "general.quantization_version", 2);
    number(w, "block_count", (uint64_t)c->n_layers);
    number(w, "context_length", (uint64_t)c->max_pos);
    number(w, "embedding_length", (uint64_t)c->h);
    number(w, "feed_forward_length", (uint64_t)c->inter);
    describe_attention(w, c);
    number(w, "expert_count", (uint64_t)c->E);
    number(w, "expert_used_count", (uint64_t)c->K);
    number(w, "expert_feed_forward_length", (uint64_t)c->inter);
    number(w, "expert_shared_feed_forward_length", (uint64_t)c->shared_inter);
    number(w, "ssm.conv_kernel", (uint64_t)c->conv_kernel);
    number(w, "ssm.state_size", (uint64_t)c->dk);
    number(w, "ssm.group_count", (uint64_t)c->nk);
    number(w, "ssm.time_step_rank", (uint64_t)c->nv);
    number(w, "ssm.inner_size", (uint64_t)(c->nv * c->dv));
    number(w, "hyper_connection.count", (uint64_t)c->S);
    number(w, "hyper_connection.low_rank", (uint64_t)c->lowrank);
    number(w, "vocab_size", (uint64_t)c->vocab);
    text(w, "tokenizer.ggml.model", "none");
    if (c->n_ple)
        describe_table(w, c);
}

static struct out *add(struct writer *w, const char *prefix, const char *name)
{
    struct out *o = &w->out[w->n++];
    *o = (struct out){.type = GGML_F32, .n_dims = 1, .rows = 1, .planes = 1};
    snprintf(o->name, sizeof o->name, "%s%s", prefix, name);
    return o;
}

static enum ggml coded(const struct writer *w)
{
    return w->same ? GGML_Q4_1 : GGML_Q4_0;
}

static struct out *add_matrix(struct writer *w, const char *prefix, const char *name,
                              const struct matrix *m)
{
    struct out *o = add(w, prefix, name);
    o->from = FROM_MATRIX;
    o->n_dims = 2;
    o->cols = (uint64_t)m->cols;
    o->rows = (uint64_t)m->rows;
    o->matrix = m;
    o->type = m->format == MATRIX_Q4 ? coded(w) : GGML_F32;
    return o;
}

/* taps 1: a list of numbers; else [n / taps][taps]. */
static struct out *add_vector(struct writer *w, const char *prefix, const char *name,
                              const struct vector *v, int taps)
{
    struct out *o = add(w, prefix, name);
    o->from = FROM_VECTOR;
    o->n_dims = taps > 1 ? 2 : 1;
    o->cols = (uint64_t)(taps > 1 ? taps : v->n);
    o->rows = (uint64_t)(taps > 1 ? v->n / taps : 1);
    o->vector = v;
    return o;
}

static void add_hyper(struct writer *w, const char *prefix, const struct hyper_weights *h)
{
    add_vector(w, prefix, "norm.weight", &h->norm, 1);
    add_matrix(w, prefix, "down.weight", &h->down);
    add_matrix(w, prefix, "up.weight", &h->up);
    if (h->inject.rows)
        add_matrix(w, prefix, "inject.weight", &h->inject);
}

static void add_qsa(struct writer *w, const char *b, const struct qsa_weights *q)
{
    const struct config *c = &w->w.config;
    add_matrix(w, b, "attn_q.weight", &q->q);
    add_matrix(w, b, "attn_k.weight", &q->k);
    add_matrix(w, b, "attn_v.weight", &q->v);
    add_matrix(w, b, "attn_output.weight", &q->o);
    add_vector(w, b, "attn_q_norm.weight", &q->q_norm, 1);
    add_vector(w, b, "attn_k_norm.weight", &q->k_norm, 1);
    struct out *o = add_matrix(w, b, "indexer.q_proj.weight", &q->index_qk);
    o->rows = (uint64_t)(c->index_heads * c->index_dim);
    o = add_matrix(w, b, "indexer.k_proj.weight", &q->index_qk);
    o->row0 = c->index_heads * c->index_dim;
    o->rows = (uint64_t)c->index_dim;
    add_vector(w, b, "indexer.q_norm.weight", &q->index_q_norm, 1);
    add_vector(w, b, "indexer.k_norm.weight", &q->index_k_norm, 1);
}

/* Values of value heads from row (or column) `at` on, `head` of them each. */
static void turn(struct out *o, int at, int head, bool cols)
{
    o->heads_at = at;
    o->head = head;
    o->turn_cols = cols;
}

static void add_deltanet(struct writer *w, const char *b, const struct deltanet_weights *d)
{
    const struct config *c = &w->w.config;
    int keys = 2 * c->nk * c->dk;
    turn(add_matrix(w, b, "attn_qkv.weight", &d->qkv), keys, c->dv, false);
    turn(add_matrix(w, b, "attn_gate.weight", &d->z), 0, c->dv, false);
    turn(add_matrix(w, b, "ssm_beta.weight", &d->b), 0, 1, false);
    turn(add_matrix(w, b, "ssm_alpha.weight", &d->a), 0, 1, false);
    turn(add_vector(w, b, "ssm_conv1d.weight", &d->conv, c->conv_kernel), keys, c->dv, false);
    turn(add_vector(w, b, "ssm_dt.bias", &d->dt_bias, 1), 0, 1, true);
    struct out *o = add_vector(w, b, "ssm_a", &d->A_log, 1);
    o->from = FROM_DECAY;
    turn(o, 0, 1, true);
    add_vector(w, b, "ssm_norm.weight", &d->norm, 1);
    turn(add_matrix(w, b, "ssm_out.weight", &d->out), 0, c->dv, true);
}

static void add_experts(struct writer *w, const char *b, int il)
{
    static const char *const names[EXPERT_MATRICES] = {[EXPERT_GATE] = "ffn_gate_exps.weight",
                                                       [EXPERT_UP] = "ffn_up_exps.weight",
                                                       [EXPERT_DOWN] = "ffn_down_exps.weight"};
    const struct config *c = &w->w.config;
    for (int k = 0; k < EXPERT_MATRICES; k++) {
        struct out *o = add(w, b, names[k]);
        o->from = FROM_EXPERTS;
        o->type = coded(w);
        o->n_dims = 3;
        o->cols = (uint64_t)(k == EXPERT_DOWN ? c->inter : c->h);
        o->rows = (uint64_t)(k == EXPERT_DOWN ? c->h : c->inter);
        o->planes = (uint64_t)c->E;
        o->il = il;
        o->k = k;
    }
}

static void add_layer(struct writer *w, int il)
{
    const struct layer_weights *l = &w->w.layers[il];
    char b[32], hyper[48];
    snprintf(b, sizeof b, "blk.%d.", il);
    snprintf(hyper, sizeof hyper, "%shc_attn_", b);
    add_hyper(w, hyper, &l->attn_hyper);
    snprintf(hyper, sizeof hyper, "%shc_ffn_", b);
    add_hyper(w, hyper, &l->mlp_hyper);
    if (w->w.config.attention[il])
        add_qsa(w, b, &l->qsa);
    else
        add_deltanet(w, b, &l->deltanet);
    if (l->ple >= 0) {
        const struct ple_weights *p = &w->w.ple[l->ple];
        add_matrix(w, b, "ple_key.weight", &p->key);
        add_matrix(w, b, "ple_value.weight", &p->value);
        add_vector(w, b, "ple_norm_key.weight", &p->norm_key, 1);
        add_vector(w, b, "ple_norm_query.weight", &p->norm_query, 1);
        add_vector(w, b, "ple_norm_conv.weight", &p->norm_conv, 1);
        add_vector(w, b, "ple_conv1d.weight", &p->conv, w->w.config.ple_kernel);
    }
    add_matrix(w, b, "ffn_gate_inp.weight", &l->moe.router);
    add_matrix(w, b, "ffn_gate_inp_shexp.weight", &l->moe.shared_gate)->n_dims = 1;
    add_matrix(w, b, "ffn_gate_shexp.weight", &l->moe.gate);
    add_matrix(w, b, "ffn_up_shexp.weight", &l->moe.up);
    add_matrix(w, b, "ffn_down_shexp.weight", &l->moe.down);
    add_experts(w, b, il);
}

static void list_all(struct writer *w)
{
    const struct config *c = &w->w.config;
    add_matrix(w, "", "token_embd.weight", &w->w.embed);
    if (!c->tie_embeddings)
        add_matrix(w, "", "output.weight", &w->w.head);
    add_hyper(w, "output_hc_", &w->w.mixer);
    for (int il = 0; il < c->n_layers; il++)
        add_layer(w, il);
    if (!c->n_ple)
        return;
    struct out *o = add(w, "", "per_layer_token_embd.weight");
    o->from = FROM_TABLE;
    o->type = coded(w);
    o->n_dims = 2;
    o->cols = (uint64_t)w->w.ngram[0].row_dim;
    o->rows = w->w.ngram[0].rows;
}

static uint64_t row_bytes(enum ggml type, uint64_t n)
{
    return type == GGML_F32 ? n * 4 : n / BLOCK * (type == GGML_Q4_1 ? 20 : 18);
}

/* Which row (or column) of the store is row i there. */
static uint64_t turned(const struct out *o, const struct config *c, uint64_t i)
{
    uint64_t at = (uint64_t)o->heads_at, n = (uint64_t)o->head, nk = (uint64_t)c->nk;
    if (!n || i < at)
        return i;
    uint64_t v = (i - at) / n, ratio = (uint64_t)c->nv / nk;
    return at + (v % nk * ratio + v / nk) * n + (i - at) % n;
}

/* A Q4 row as Q4_1: byte j of a block holds elements j and j + 16. */
static void same_row(const uint8_t *codes, const uint16_t *scales, const uint16_t *biases, size_t n,
                     size_t group, uint8_t *to)
{
    for (size_t at = 0; at < n; at += BLOCK, to += 20) {
        const uint8_t *q = codes + at / 2;
        uint16_t d = f16_from_f32(bf16_to_f32(scales[at / group]));
        uint16_t m = f16_from_f32(bf16_to_f32(biases[at / group]));
        memcpy(to, &d, 2);
        memcpy(to + 2, &m, 2);
        for (int i = 0; i < 8; i++) {
            to[4 + 2 * i] = (uint8_t)((q[i] & 15) | (q[i + 8] & 15) << 4);
            to[5 + 2 * i] = (uint8_t)((q[i] >> 4) | (q[i + 8] & 0xF0));
        }
    }
}

/* Symmetric codes 0..15 around 8; the value of largest magnitude is -8 steps. */
static void q4_0_row(const float *x, size_t n, uint8_t *to)
{
    for (size_t at = 0; at < n; at += BLOCK, x += BLOCK, to += 18) {
        float peak = 0;
        for (int i = 0; i < BLOCK; i++)
            peak = fabsf(x[i]) > fabsf(peak) ? x[i] : peak;
        float step = peak / -8, inverse = step != 0 ? 1 / step : 0;
        uint16_t d = f16_from_f32(step);
        memcpy(to, &d, 2);
        for (int i = 0; i < BLOCK / 2; i++) {
            int lo = (int)(x[i] * inverse + 8.5f), hi = (int)(x[i + BLOCK / 2] * inverse + 8.5f);
            to[2 + i] = (uint8_t)((lo > 15 ? 15 : lo) | (hi > 15 ? 15 : hi) << 4);
        }
    }
}

/* The columns of value heads in their order there. */
static void turn_values(const struct out *o, const struct config *c, float *x, float *room)
{
    memcpy(room, x, o->cols * sizeof *x);
    for (uint64_t i = 0; i < o->cols; i++)
        x[i] = room[turned(o, c, i)];
}

static void coded_row(const struct out *o, const struct config *c, struct matrix m, uint64_t row,
                      float *x, uint8_t *to)
{
    const size_t n = (size_t)m.cols, group = (size_t)m.group, sides = n / group;
    const uint8_t *codes = (const uint8_t *)m.w + row * n / 2;
    const uint16_t *s = m.scales + row * sides, *b = m.biases + row * sides;
    if (o->type == GGML_Q4_0) {
        q4_decode_row(codes, s, b, n, group, x);
        if (o->turn_cols)
            turn_values(o, c, x, x + n);
        q4_0_row(x, n, to);
    } else if (!o->turn_cols) {
        same_row(codes, s, b, n, group, to);
    } else {
        for (size_t at = 0; at < n; at += group) { /* heads are whole groups */
            size_t from = (size_t)turned(o, c, at);
            same_row(codes + from / 2, s + from / group, b + from / group, group, group,
                     to + row_bytes(GGML_Q4_1, at));
        }
    }
}

static void plain_row(const struct out *o, const struct config *c, uint64_t row, float *x)
{
    const struct matrix *m = o->matrix;
    const size_t n = (size_t)o->cols;
    if (o->from != FROM_MATRIX)
        memcpy(x, o->vector->x + row * n, n * sizeof *x);
    else if (m->format == MATRIX_BF16)
        bf16_widen((const uint16_t *)m->w + row * n, n, x);
    else
        memcpy(x, (const float *)m->w + row * n, n * sizeof *x);
    for (size_t i = 0; o->from == FROM_DECAY && i < n; i++)
        x[i] = -expf(x[i]);
    if (o->turn_cols)
        turn_values(o, c, x, x + n);
}

static struct matrix matrix_of(const struct writer *w, const struct out *o, uint64_t plane)
{
    struct expert x = {0};
    struct err e = {0};
    if (o->from != FROM_EXPERTS)
        return *o->matrix;
    w->w.source.expert(w->w.source.ctx, o->il, (int)plane, &x, &e);
    return o->k == EXPERT_GATE ? x.gate : o->k == EXPERT_UP ? x.up : x.down;
}

static struct matrix table_row(const struct writer *w, uint64_t row)
{
    const struct ngram_layout *g = &w->store->manifest.ngram;
    const uint8_t *at = store_ngram_row(w->store, row);
    return (struct matrix){.cols = g->dim,
                           .w = at,
                           .scales = (const void *)(at + g->weight_bytes),
                           .biases = (const void *)(at + g->weight_bytes + g->scale_bytes),
                           .group = g->group};
}

/* One plane, in steps of as many rows as the lane's room holds. */
static int write_plane(void *ctx, int worker, size_t i, struct err *e)
{
    struct writer *w = ctx;
    const struct out *o = &w->out[w->jobs[i].out];
    const struct config *c = &w->w.config;
    uint64_t bytes = row_bytes(o->type, o->cols), step = ((uint64_t)4 << 20) / bytes, rc = 0;
    uint64_t to = w->data_at + o->offset + w->jobs[i].plane * o->plane_bytes;
    struct matrix m = {0};
    if (o->type != GGML_F32 && o->from != FROM_TABLE)
        m = matrix_of(w, o, w->jobs[i].plane);
    for (uint64_t row = 0; !rc && row < o->rows; row += step) {
        uint64_t n = o->rows - row < step ? o->rows - row : step;
        for (uint64_t r = 0; r < n; r++) {
            uint8_t *at = w->room[worker] + r * bytes;
            uint64_t from = (o->turn_cols ? row + r : turned(o, c, row + r)) + (uint64_t)o->row0;
            if (o->type == GGML_F32)
                plain_row(o, c, from, w->values[worker]);
            if (o->type == GGML_F32)
                memcpy(at, w->values[worker], bytes);
            else if (o->from == FROM_TABLE)
                coded_row(o, c, table_row(w, from), 0, w->values[worker], at);
            else
                coded_row(o, c, m, from, w->values[worker], at);
        }
        if (file_write_at(&w->file, to + row * bytes, w->room[worker], (size_t)(n * bytes), e))
            return -e->code;
        os_start_writeback(w->file.fd, to + row * bytes, n * bytes);
    }
    return 0;
}

/* Offsets, the header, and a job for each plane. */
static int lay_out(struct writer *w, struct buf *head, struct err *e)
{
    uint64_t at = 0;
    uint32_t version = 3;
    buf_puts(head, "GGUF");
    buf_add(head, &version, sizeof version);
    buf_add(head, &(uint64_t){w->n}, 8);
    buf_add(head, &w->n_meta, 8);
    buf_add(head, w->meta.data, w->meta.len);
    for (size_t i = 0; i < w->n; i++) {
        struct out *o = &w->out[i];
        const uint64_t ne[3] = {o->cols, o->rows, o->planes};
        o->plane_bytes = row_bytes(o->type, o->cols) * o->rows;
        o->offset = at;
        at = (at + o->plane_bytes * o->planes + ALIGN - 1) / ALIGN * ALIGN;
        buf_add(head, &(uint64_t){strlen(o->name)}, 8);
        buf_puts(head, o->name);
        buf_add(head, &(uint32_t){(uint32_t)o->n_dims}, 4);
        buf_add(head, ne, (size_t)o->n_dims * 8);
        buf_add(head, &(uint32_t){(uint32_t)o->type}, 4);
        buf_add(head, &o->offset, 8);
        for (uint64_t p = 0; p < o->planes; p++)
            w->jobs[w->n_jobs++] = (struct job){i, p};
    }
    while (head->len % ALIGN)
        buf_putc(head, '\0');
    w->data_at = head->len;
    int rc = buf_check(head, e);
    return rc ? rc : file_set_size(&w->file, w->data_at + at, e);
}

static int take_memory(struct writer *w, int lanes, struct err *e)
{
    const struct config *c = &w->w.config;
    size_t jobs = OUTS_MAX + (size_t)c->n_layers * EXPERT_MATRICES * (size_t)c->E;
    size_t widest =
        (size_t)c->S * (size_t)c->h + (size_t)(c->nv * c->dv) + (size_t)c->n_heads * 1024;
    w->out = mem_zalloc(OUTS_MAX, sizeof *w->out);
    w->jobs = mem_array(jobs, sizeof *w->jobs);
    bool short_of = !w->out || !w->jobs;
    for (int i = 0; i < lanes; i++) {
        w->room[i] = mem_alloc((size_t)8 << 20);
        w->values[i] = mem_array(2 * widest, sizeof(float));
        short_of = short_of || !w->room[i] || !w->values[i];
    }
    return short_of ? ERR(e, E_NOMEM, "out of memory") : 0;
}

static int check(const struct config *c, struct err *e)
{
    for (int il = 0; il < c->n_layers; il++)
        if (c->attention[il] != ((il + 1) % INTERVAL_DEFAULT == 0))
            return ERR(e, E_UNSUPPORTED, "attention is not every fourth layer");
    if (c->n_ple > 1 || c->dk != c->dv || c->gate_act != GATE_SIGMOID || c->ple_dim != c->h)
        return ERR(e, E_UNSUPPORTED, "this model is not one that llama.cpp runs");
    return 0;
}

static int convert(struct writer *w, const char *store, const char *path, struct err *e)
{
    struct weight_source source;
    struct buf head = BUF_INIT;
    int lanes = os_cpu_count() < LANES_MAX ? os_cpu_count() : LANES_MAX;
    int rc = store_open(store, &w->store, e);
    if (!rc)
        rc = weights_source_bits(w->store, 4, &source, e);
    if (!rc)
        rc = weights_init(&w->store->config, &source, &w->w, e);
    if (!rc)
        rc = check(&w->w.config, e);
    if (!rc)
        rc = take_memory(w, lanes, e);
    if (!rc)
        rc = file_create(path, &w->file, e);
    if (rc)
        return rc;
    describe_model(w, &w->w.config);
    list_all(w);
    rc = lay_out(w, &head, e);
    if (!rc)
        rc = file_write_at(&w->file, 0, head.data, head.len, e);
    if (!rc)
        rc = thread_for(lanes, w->n_jobs, write_plane, w, e);
    if (!rc)
        rc = file_close(&w->file, e);
    buf_free(&head);
    return rc;
}

int main(int argc, char **argv)
{
    struct writer w = {.meta = BUF_INIT, .file = FILE_CLOSED};
    struct err e = {0};
    if (argc != 4 || (strcmp(argv[3], "same") != 0 && strcmp(argv[3], "q4_0") != 0)) {
        fprintf(stderr, "usage: peer_gguf STORE OUT.gguf same|q4_0\n");
        return 2;
    }
    w.same = strcmp(argv[3], "same") == 0;
    if (convert(&w, argv[1], argv[2], &e)) {
        fprintf(stderr, "peer_gguf: %s\n", e.msg);
        return 1;
    }
    return 0; /* the system takes the memory back */
}
