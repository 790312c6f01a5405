/* The parts of a saved sequence: model/save.h has the picture around them, and src/cpu/save.c says
 * what they are; DeltaNet's states have the order that the kernels use (state.h). What is no
 * part of a save is written before it is read, so nothing else goes to the host and back. */
#include "model/save.h"

#include "base/mem.h"
#include "gpu/plan.h"
#include "quant/kv8.h"

enum { SAVE_VERSION = 1, CACHE_PARTS = 6 };

/* A sequence and its state on the host, of which only the parts of a save are ever touched. */
struct copy {
    const struct sequence *s;
    char *state;
    struct device_piece *pieces; /* the parts */
    int n;
};

static void cache_parts(const struct copy *x, int which, int cells, struct save_parts *p)
{
    const struct gpu_segment *at = &x->s->at;
    const struct config *c = &x->s->g->base.weights->config;
    char *cache = x->state + (at->cache - at->state) + (u64)which * at->cache_bytes;
    size_t n = (size_t)cells, width = (size_t)c->n_kv * c->head_dim;
    size_t scales = n * width / KV8_GROUP * sizeof(uint16_t);
    size_t row = (size_t)c->index_dim * sizeof(float);
    save_part(p, cache, n * width);
    save_part(p, cache + at->k_scale, scales);
    save_part(p, cache + at->v, n * width);
    save_part(p, cache + at->v_scale, scales);
    save_part(p, cache + at->index, n * row);
    save_part(p, cache + at->block, n / (size_t)c->index_ratio * row);
}

static void sequence_parts(void *seq, int n, struct save_parts *p)
{
    const struct copy *x = seq;
    const struct gpu *g = x->s->g;
    const struct config *c = &g->base.weights->config;
    const struct places *at = &g->places;
    size_t wide = (size_t)c->S * (size_t)c->h * sizeof(float);
    int plane = x->s->plane;
    for (int il = 0; il < c->n_layers; il++) {
        if (c->attention[il]) {
            cache_parts(x, at->cache[il], n, p);
            continue;
        }
        save_part(p, x->state + at->deltanet[il].st[plane], deltanet_floats(c) * sizeof(float));
        save_part(p, x->state + at->deltanet[il].conv[plane],
                  (size_t)(c->conv_kernel - 1) * (size_t)deltanet_width(c) * sizeof(float));
    }
    for (int m = 0; m < c->n_ple; m++)
        save_part(p, x->state + at->ple[m].rows[plane], (size_t)ple_keep(c) * wide);
    if (g->options.drafts) {
        cache_parts(x, at->cache[c->n_layers], n ? n - 1 : 0, p);
        save_part(p, x->state + at->wide, wide);
    }
}

static struct save_form form_of(struct copy *x)
{
    return (struct save_form){.version = SAVE_VERSION,
                              .identity = x->s->g->identity,
                              .ctx = x->s->ctx,
                              .vocab = x->s->g->base.weights->config.vocab,
                              .tokens = x->s->tokens,
                              .parts = sequence_parts,
                              .seq = x};
}

static void copy_close(struct copy *x)
{
    mem_free(x->state);
    mem_free(x->pieces);
}

static int copy_open(const struct sequence *s, struct copy *x, struct err *e)
{
    const struct config *c = &s->g->base.weights->config;
    size_t most = (size_t)(c->n_layers + 1) * CACHE_PARTS + (size_t)c->n_ple + 1;
    *x = (struct copy){
        .s = s, .state = mem_alloc(s->state.bytes), .pieces = mem_array(most, sizeof *x->pieces)};
    if (x->state && x->pieces)
        return 0;
    copy_close(x);
    return ERR(e, E_NOMEM, "no memory for a copy of a sequence, %zu bytes", s->state.bytes);
}

struct listing {
    struct save_parts base;
    struct copy *x;
};

static void each_piece(struct save_parts *p, void *data, size_t bytes)
{
    struct copy *x = ((struct listing *)p)->x;
    size_t off = (size_t)((char *)data - x->state);
    x->pieces[x->n++] = (struct device_piece){off, data, bytes};
}

/* Lists the parts of n tokens. */
static void copy_list(struct copy *x, int n)
{
    struct listing l = {.base.each = each_piece, .x = x};
    x->n = 0;
    sequence_parts(x, n, &l.base);
}

int gpu_sequence_save(struct engine *g, const struct sequence *s, struct buf *out, struct err *e)
{
    struct copy x;
    (void)g;
    int rc = copy_open(s, &x, e);
    if (rc)
        return rc;
    const struct save_form f = form_of(&x);
    copy_list(&x, s->len);
    rc = device_download_pieces(s->g->device, &s->state, x.pieces, x.n, e);
    rc = rc ? rc : save_write(&f, s->len, out, e);
    copy_close(&x);
    return rc;
}

int gpu_sequence_restore(struct engine *base, struct sequence *s, const void *data, size_t n,
                         struct err *e)
{
    struct gpu *g = (struct gpu *)base;
    struct copy x;
    int len = 0, rc = gpu_wait(g, e);
    rc = rc ? rc : copy_open(s, &x, e);
    if (rc)
        return rc;
    const struct save_form f = form_of(&x);
    rc = save_read(&f, data, n, &len, e);
    if (!rc) {
        copy_list(&x, len);
        rc = device_upload_pieces(g->device, &s->state, x.pieces, x.n, e);
    }
    copy_close(&x);
    if (rc)
        return rc;
    gpu_sequence_drop(s);
    s->len = len;
    return 0;
}
