/* The parts of a saved sequence: model/save.h has the picture around them, and src/cpu/save.c says
 * what they are; DeltaNet's states have the order that the kernels use (state.h). What is no
 * part of a save is written before it is read, so nothing else goes to the host and back. */
#include "model/save.h"

#include "base/mem.h"
#include "gpu/plan.h"
#include "quant/kv8.h"

enum { SAVE_VERSION = 1 };

/* A part is named by its address on the device. */
static void device_part(struct save_parts *p, u64 address, size_t bytes)
{
    save_part(p, (void *)(uintptr_t)address, bytes);
}

static void cache_parts(const struct sequence *s, int which, int cells, struct save_parts *p)
{
    const struct gpu_segment *at = &s->at;
    const struct config *c = &s->g->base.weights->config;
    const u64 cache = at->cache + (u64)which * at->cache_bytes;
    size_t n = (size_t)cells, width = (size_t)c->n_kv * c->head_dim;
    size_t scales = n * width / KV8_GROUP * sizeof(uint16_t);
    size_t row = (size_t)c->index_dim * sizeof(float);
    device_part(p, cache, n * width);
    device_part(p, cache + at->k_scale, scales);
    device_part(p, cache + at->v, n * width);
    device_part(p, cache + at->v_scale, scales);
    device_part(p, cache + at->index, n * row);
    device_part(p, cache + at->block, n / (size_t)c->index_ratio * row);
}

static void sequence_parts(void *seq, int n, struct save_parts *p)
{
    const struct sequence *s = seq;
    const struct gpu *g = s->g;
    const struct config *c = &g->base.weights->config;
    const struct places *at = &g->places;
    const u64 state = s->at.state;
    size_t wide = (size_t)c->S * (size_t)c->h * sizeof(float);
    for (int il = 0; il < c->n_layers; il++) {
        if (c->attention[il]) {
            cache_parts(s, at->cache[il], n, p);
            continue;
        }
        device_part(p, state + at->deltanet[il].st[s->plane], deltanet_floats(c) * sizeof(float));
        device_part(p, state + at->deltanet[il].conv[s->plane],
                    (size_t)(c->conv_kernel - 1) * (size_t)deltanet_width(c) * sizeof(float));
    }
    for (int m = 0; m < c->n_ple; m++)
        device_part(p, state + at->ple[m].rows[s->plane], (size_t)ple_keep(c) * wide);
    if (g->options.drafts) {
        cache_parts(s, at->cache[c->n_layers], n ? n - 1 : 0, p);
        device_part(p, state + at->wide, wide);
    }
}

static int move(void *seq, const struct save_piece *piece, int n, bool saving, struct err *e)
{
    const struct sequence *s = seq;
    struct device *d = s->g->device;
    struct device_piece *to = mem_array((size_t)n, sizeof *to);
    if (!to)
        return ERR(e, E_NOMEM, "no memory to list the parts of a sequence");
    for (int i = 0; i < n; i++)
        to[i] = (struct device_piece){(size_t)((uintptr_t)piece[i].part - s->at.state),
                                      piece[i].bytes, piece[i].n};
    int rc = saving ? device_download_pieces(d, &s->state, to, n, e)
                    : device_upload_pieces(d, &s->state, to, n, e);
    mem_free(to);
    return rc;
}

static struct save_form form_of(const struct sequence *s)
{
    return (struct save_form){.version = SAVE_VERSION,
                              .identity = s->g->identity,
                              .ctx = s->ctx,
                              .vocab = s->g->base.weights->config.vocab,
                              .tokens = s->tokens,
                              .parts = sequence_parts,
                              .move = move,
                              .seq = (void *)s};
}

int gpu_sequence_save(struct engine *g, const struct sequence *s, struct buf *out, struct err *e)
{
    const struct save_form f = form_of(s);
    (void)g;
    return save_write(&f, s->len, out, e);
}

int gpu_sequence_restore(struct engine *g, struct sequence *s, const void *data, size_t n,
                         struct err *e)
{
    const struct save_form f = form_of(s);
    int len, rc = gpu_wait((struct gpu *)g, e);
    rc = rc ? rc : save_read(&f, data, n, &len, e);
    if (rc)
        return rc;
    gpu_sequence_drop(s);
    s->len = len;
    return 0;
}
