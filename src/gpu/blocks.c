/* The blocks of the model as dispatches: which weights and which parts of scratch and state go into
 * the kernels that hyper.h, linear.h, moe.h, head.h and mix.h record. See blocks.h. */
#include "gpu/blocks.h"
#include "gpu/head.h"
#include "gpu/hyper.h"
#include "gpu/linear.h"

struct gpu_matrix gpu_matrix_of(const struct gpu *g, const struct matrix *m)
{
    struct gpu_matrix out = {.format = m->format, .rows = m->rows, .cols = m->cols};
    out.w = gpu_at(g, m->w);
    if (m->format >= MATRIX_Q4) {
        out.scales = gpu_at(g, m->scales);
        out.biases = gpu_at(g, m->biases);
    }
    return out;
}

static struct gpu_linear linear_of(const struct gpu *g, const struct gpu_acts *x, int R)
{
    return (struct gpu_linear){g->device, g->tape, x->x, x->q, R, 0};
}

static struct mix mix_of(const struct gpu *g)
{
    return (struct mix){g->device, g->tape, &g->base.weights->config};
}

/* Whether the product with m takes activations, and not floats. */
static bool takes_codes(const struct matrix *m)
{
    return m->format >= MATRIX_Q4;
}

/* to [R][rows of m] = m times x; ends with a barrier. */
static int product(struct gpu *g, const struct matrix *m, const struct gpu_acts *x, int R, u64 to,
                   struct err *e)
{
    const struct gpu_linear l = linear_of(g, x, R);
    const struct gpu_product p = {gpu_matrix_of(g, m), to, m->rows};
    int rc = gpu_linear_record(&l, &p, 1, e);
    tape_barrier(g->tape);
    return rc;
}

/* --- the residual --- */

static struct gpu_hyper hyper_of(const struct gpu *g, const struct hyper_job *j)
{
    const struct config *c = &g->base.weights->config;
    const struct scratch *m = &g->scratch;
    return (struct gpu_hyper){.d = g->device,
                              .t = g->tape,
                              .R = j->R,
                              .S = c->S,
                              .h = c->h,
                              .low = c->lowrank,
                              .first = j->first,
                              .eps = (float)c->eps,
                              .hyper = j->hyper,
                              .add = j->add,
                              .inj = j->inj,
                              .norm_x = m->norm.x,
                              .norm_q = m->norm.q,
                              .low_x = m->low,
                              .room = m->many,
                              .bad = m->bad};
}

int gpu_hyper_read(struct gpu *g, const struct hyper_job *j, struct err *e)
{
    struct gpu_hyper x = hyper_of(g, j);
    struct gpu_matrix inject;
    x.gamma = gpu_vector(g, &j->w->norm);
    x.to_x = j->to->x;
    x.to_q = j->to->q;
    x.down = gpu_matrix_of(g, &j->w->down);
    x.up = gpu_matrix_of(g, &j->w->up);
    if (!j->mixer) {
        inject = gpu_matrix_of(g, &j->w->inject);
        x.inject = &inject;
    }
    return gpu_hyper_record(&x, e);
}

int gpu_hyper_add(struct gpu *g, const struct hyper_job *j, struct err *e)
{
    const struct gpu_hyper x = hyper_of(g, j);
    return gpu_hyper_record_add(&x, e);
}

/* --- PLE --- */

static u32 floats_at(u64 place)
{
    return (u32)(place / sizeof(float));
}

int gpu_ple_begin(struct gpu *g, const struct batch *b, int m, struct err *e)
{
    const struct ple_weights *w = &g->base.weights->ple[m];
    const struct gpu_linear l = linear_of(g, &g->scratch.ple_e[m], b->R);
    if (!takes_codes(&w->key) && !takes_codes(&w->value))
        return 0;
    return gpu_linear_quantise(&l, g->base.weights->config.ple_dim, e);
}

int gpu_ple_add(struct gpu *g, const struct batch *b, int m, struct err *e)
{
    const struct config *c = &g->base.weights->config;
    const struct ple_weights *w = &g->base.weights->ple[m];
    struct scratch *room = &g->scratch;
    const struct ple_place *at = &g->places.ple[m];
    const struct gpu_linear l = linear_of(g, &room->ple_e[m], b->R);
    const struct gpu_product in[] = {{gpu_matrix_of(g, &w->key), room->norm.x, c->S * c->h},
                                     {gpu_matrix_of(g, &w->value), room->ple_value, c->h}};
    const struct ple_params p = {
        .rows = b->rows,
        .segments = b->segments,
        .hyper = room->hyper,
        .key = room->norm.x,
        .value = room->ple_value,
        .normed = b->prefill ? room->ple_rows : g->pending.ple[m],
        .norm_key = gpu_vector(g, &w->norm_key),
        .norm_query = gpu_vector(g, &w->norm_query),
        .norm_conv = gpu_vector(g, &w->norm_conv),
        .taps = gpu_vector(g, &w->conv),
        .keep_at = {floats_at(at->rows[0]), floats_at(at->rows[1])},
        .n = (u32)b->R,
        .eps = (float)c->eps,
    };
    const struct mix mix = mix_of(g);
    int rc = gpu_linear_record(&l, in, 2, e);
    tape_barrier(g->tape);
    rc = rc ? rc : ple_mix(&mix, &p, b->n_segments, e);
    tape_barrier(g->tape);
    return rc;
}

int gpu_ple_keep_rows(struct gpu *g, const struct sequence *s, int m, u64 rows, int n,
                      struct err *e)
{
    const struct config *c = &g->base.weights->config;
    const struct ple_place *at = &g->places.ple[m];
    int keep = ple_keep(c), rc = 0;
    size_t width = (size_t)c->S * c->h, bytes = width * sizeof(float);
    u64 before = sequence_at(s, at->rows[s->plane]), to = sequence_at(s, at->rows[!s->plane]);
    for (int i = 0; !rc && i < keep; i++) {
        int from = n - keep + i;
        u64 in = from < 0 ? before + (u64)(keep + from) * bytes : rows + (u64)from * bytes;
        rc = gpu_copy(g, in, to + (u64)i * bytes, width, e);
    }
    return rc;
}

/* --- DeltaNet --- */

static u64 log_bytes(const struct config *c)
{
    return (u64)GPU_DELTANET_LOG(c->nk, c->nv, c->dk, c->dv) * sizeof(float);
}

static struct deltanet_params scan_of(const struct gpu *g, const struct batch *b,
                                      const struct deltanet_weights *w)
{
    const struct config *c = &g->base.weights->config;
    const struct scratch *m = &g->scratch;
    const struct deltanet_place *at = &g->places.deltanet[b->il];
    return (struct deltanet_params){
        .segments = b->segments,
        .conv = m->conv,
        .z = m->z,
        .a = m->a,
        .b = m->b,
        .taps = gpu_vector(g, &w->conv),
        .a_log = gpu_vector(g, &w->A_log),
        .dt_bias = gpu_vector(g, &w->dt_bias),
        .norm = gpu_vector(g, &w->norm),
        .log = b->prefill ? 0 : g->pending.deltanet[b->il],
        .to = takes_codes(&w->out) ? m->y.q : m->y.x,
        .room = m->many,
        .st_at = {floats_at(at->st[0]), floats_at(at->st[1])},
        .conv_at = {floats_at(at->conv[0]), floats_at(at->conv[1])},
        .eps = (float)c->eps,
        .R = (u32)b->R,
    };
}

int gpu_deltanet_apply(struct gpu *g, const struct batch *b, const struct deltanet_weights *w,
                       struct err *e)
{
    const struct config *c = &g->base.weights->config;
    struct scratch *m = &g->scratch;
    const struct gpu_linear l = linear_of(g, &m->mixed, b->R);
    const struct gpu_product in[] = {
        {gpu_matrix_of(g, &w->qkv), m->conv, deltanet_width(c)},
        {gpu_matrix_of(g, &w->z), m->z, c->nv * c->dv},
        {gpu_matrix_of(g, &w->a), m->a, c->nv},
        {gpu_matrix_of(g, &w->b), m->b, c->nv},
    };
    const struct deltanet_params p = scan_of(g, b, w);
    const struct scan s = {b->n_segments, b->R, takes_codes(&w->out)};
    const struct mix mix = mix_of(g);
    int rc = gpu_linear_record(&l, in, 4, e);
    tape_barrier(g->tape);
    rc = rc ? rc : deltanet_scan(&mix, &p, s, e);
    tape_barrier(g->tape);
    return rc ? rc : product(g, &w->out, &m->y, b->R, m->out, e);
}

int gpu_deltanet_commit(struct gpu *g, const struct sequence *s, int n, struct err *e)
{
    const struct config *c = &g->base.weights->config;
    const struct mix mix = mix_of(g);
    int rc = 0;
    for (int il = 0; !rc && il < c->n_layers; il++) {
        const struct deltanet_place *at = &g->places.deltanet[il];
        const struct deltanet_replay_params p = {
            .st_from = sequence_at(s, at->st[s->plane]),
            .st_to = sequence_at(s, at->st[!s->plane]),
            .conv_from = sequence_at(s, at->conv[s->plane]),
            .conv_to = sequence_at(s, at->conv[!s->plane]),
            .log = g->pending.deltanet[il] + (u64)s->first * log_bytes(c),
            .n = (u32)n,
        };
        if (!c->attention[il])
            rc = deltanet_replay(&mix, &p, e);
    }
    return rc;
}

/* --- attention --- */

static struct qsa_prepare_params prepare_of(const struct gpu *g, const struct batch *b,
                                            const struct qsa_weights *w)
{
    const struct scratch *m = &g->scratch;
    return (struct qsa_prepare_params){
        .rows = b->rows,
        .segments = b->segments,
        .q = m->q,
        .k = m->k,
        .v = m->v,
        .index = m->index,
        .rope = b->rope,
        .rope_block = b->rope_block,
        .q_norm = gpu_vector(g, &w->q_norm),
        .k_norm = gpu_vector(g, &w->k_norm),
        .index_q_norm = gpu_vector(g, &w->index_q_norm),
        .index_k_norm = gpu_vector(g, &w->index_k_norm),
        .bad = m->bad,
        .cache = (u32)g->places.cache[b->il],
        .eps = (float)g->base.weights->config.eps,
    };
}

/* Products and cells; with queries those too. */
static int qsa_begin(struct gpu *g, const struct batch *b, const struct qsa_weights *w,
                     bool queries, struct err *e)
{
    const struct config *c = &g->base.weights->config;
    struct scratch *m = &g->scratch;
    int width = c->n_kv * c->head_dim;
    const struct gpu_linear l = linear_of(g, &m->mixed, b->R);
    const struct gpu_product in[] = {
        {gpu_matrix_of(g, &w->k), m->k, width},
        {gpu_matrix_of(g, &w->v), m->v, width},
        {gpu_matrix_of(g, &w->index_qk), m->index, (c->index_heads + 1) * c->index_dim},
        {gpu_matrix_of(g, &w->q), m->q, 2 * c->n_heads * c->head_dim},
    };
    const struct qsa_prepare_params p = prepare_of(g, b, w);
    const struct mix mix = mix_of(g);
    int rc = gpu_linear_record(&l, in, queries ? 4 : 3, e);
    tape_barrier(g->tape);
    rc = rc ? rc : qsa_prepare(&mix, &p, b->R, queries, e);
    tape_barrier(g->tape);
    return rc;
}

int gpu_qsa_fill(struct gpu *g, const struct batch *b, const struct qsa_weights *w, struct err *e)
{
    return qsa_begin(g, b, w, false, e);
}

/* Rows first .. first + n - 1. */
static int attend_group(struct gpu *g, const struct batch *b, int first, int n, bool codes,
                        struct err *e)
{
    const struct config *c = &g->base.weights->config;
    struct scratch *m = &g->scratch;
    const struct mix mix = mix_of(g);
    int positions = b->reach;
    for (int r = first; !b->reach && r < first + n; r++)
        if (b->host->at[r].pos >= positions)
            positions = b->host->at[r].pos + 1;
    const struct select_params s = {.rows = b->rows,
                                    .segments = b->segments,
                                    .index = m->index,
                                    .chosen = m->chosen,
                                    .cache = (u32)g->places.cache[b->il],
                                    .first = (u32)first};
    const struct attend_params a = {.rows = b->rows,
                                    .segments = b->segments,
                                    .q = m->q,
                                    .chosen = m->chosen,
                                    .part_max = m->part_max,
                                    .part_sum = m->part_sum,
                                    .part_out = m->part_out,
                                    .to = codes ? m->att.q : m->att.x,
                                    .cache = (u32)g->places.cache[b->il],
                                    .first = (u32)first};
    int rc = 0, blocks = positions / c->index_ratio;
    if (blocks > c->index_budget / c->index_ratio) {
        rc = select_blocks(&mix, &s, n, blocks, e);
        tape_barrier(g->tape);
    }
    rc = rc ? rc : attend_rows(&mix, &a, n, positions, codes, e);
    tape_barrier(g->tape);
    return rc;
}

int gpu_qsa_apply(struct gpu *g, const struct batch *b, const struct qsa_weights *w, struct err *e)
{
    struct scratch *m = &g->scratch;
    bool codes = takes_codes(&w->o);
    int rc = qsa_begin(g, b, w, true, e);
    for (int r = 0; !rc && r < b->R; r += ATTEND_ROWS)
        rc = attend_group(g, b, r, b->R - r < ATTEND_ROWS ? b->R - r : ATTEND_ROWS, codes, e);
    return rc ? rc : product(g, &w->o, &m->att, b->R, m->out, e);
}

/* --- the ends: embedding, logits, the draft head's first step --- */

int gpu_embed(struct gpu *g, const struct batch *b, struct err *e)
{
    const struct matrix *w = &g->base.weights->embed;
    const struct gpu_matrix m = gpu_matrix_of(g, w);
    const struct embed_params p = {b->rows, m.w, m.scales, m.biases, g->scratch.hyper};
    const struct mix mix = mix_of(g);
    int rc = embed_rows(&mix, &p, w, b->R, e);
    tape_barrier(g->tape);
    return rc;
}

int gpu_head_logits(struct gpu *g, const struct head_job *j, struct err *e)
{
    const struct weights *w = g->base.weights;
    struct scratch *m = &g->scratch;
    const size_t words = (size_t)j->n * (size_t)w->config.vocab;
    const u64 at = (u64)j->to * (u64)w->config.vocab * sizeof(float);
    const struct gpu_best best = {.d = g->device,
                                  .t = g->tape,
                                  .R = j->n,
                                  .vocab = w->config.vocab,
                                  .limit = j->limit,
                                  .first = j->first,
                                  .logits = m->logits + at,
                                  .parts = j->parts ? j->parts : m->best_parts,
                                  .best = j->best,
                                  .bad = m->bad};
    int rc = product(g, &w->head, &m->hidden, j->n, m->logits + at, e);
    if (!rc && j->back) /* beside the search for the best */
        rc = gpu_copy(g, m->logits + at, m->logits_back + at, words, e);
    return rc ? rc : gpu_best_record(&best, e);
}

int gpu_mtp_fold(struct gpu *g, const struct batch *b, u64 wide, struct err *e)
{
    const struct weights *w = g->base.weights;
    const struct config *c = &w->config;
    struct scratch *m = &g->scratch;
    const struct gpu_matrix embed = gpu_matrix_of(g, &w->embed);
    const struct mtp_form form = {(enum mtp_norm)g->options.mtp_norm,
                                  takes_codes(&w->mtp.fc_embedding),
                                  takes_codes(&w->mtp.fc_hidden)};
    const struct mtp_norm_params p = {
        .rows = b->rows,
        .w = embed.w,
        .scales = embed.scales,
        .biases = embed.biases,
        .wide = wide,
        .norm_embedding = gpu_vector(g, &w->mtp.norm_embedding),
        .norm_hidden = gpu_vector(g, &w->mtp.norm_hidden),
        .embed = form.embed_codes ? m->embed.q : m->embed.x,
        .streams = form.stream_codes ? m->streams.q : m->streams.x,
        .eps = (float)c->eps,
    };
    const struct mtp_add_params add = {m->hyper, m->fold};
    const struct mix mix = mix_of(g);
    int rc = mtp_norm(&mix, &p, &w->embed, &form, b->R, e);
    tape_barrier(g->tape);
    rc = rc ? rc : product(g, &w->mtp.fc_embedding, &m->embed, b->R, m->fold, e);
    rc = rc ? rc : product(g, &w->mtp.fc_hidden, &m->streams, b->R * c->S, m->hyper, e);
    rc = rc ? rc : mtp_add(&mix, &add, b->R, e);
    tape_barrier(g->tape);
    return rc;
}
