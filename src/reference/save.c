/* A sequence as bytes, and back. All numbers little-endian, floats IEEE 754.
 *
 *   offset  bytes
 *        0      8   "CHKSEQ" 0 0
 *        8      4   version, 1
 *       12      4   n, committed tokens
 *       16      8   identity of model, config and options (identity.c)
 *       24      8   bytes of the whole save
 *       32          tokens int32 [n]
 *                   per DeltaNet layer: st [nv][dk][dv], conv [kernel-1][2*nk*dk + nv*dv]
 *                   per attention layer: k [n][n_kv*head_dim], v the same, raw index keys [n][dim]
 *                   per PLE module: [ngram_size * (ple_kernel-1)][S*h]
 *                   with drafts: the head's k, v and index keys of n - 1 cells, wide residual [S*h]
 *      end-8    8   XXH3 (64 bits) of all bytes before
 *
 * The head's cell n - 1 depends on the token that will follow, so it is not part of the state. */
#include <string.h>
#include <xxhash.h>

#include "reference/state.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "saves are written as the memory is");

enum { SAVE_VERSION = 1, SAVE_SUM_BYTES = 8 };

struct save_header {
    char magic[8];
    uint32_t version, n;
    uint64_t identity, bytes;
};
_Static_assert(sizeof(struct save_header) == 32, "as in the picture above");

static const char magic[8] = "CHKSEQ";

/* Every part of the state of a sequence of n tokens, in the order of the picture. */
struct parts {
    void (*each)(struct parts *p, void *data, size_t bytes);
    struct buf *out;  /* saving: appended here */
    const char *from; /* restoring: read from here on */
    size_t bytes;     /* so far */
};

static void part(struct parts *p, void *data, size_t n, size_t width, size_t element)
{
    p->each(p, data, n * width * element);
    p->bytes += n * width * element;
}

static void cache_parts(const struct config *c, const struct cache *k, int cells, struct parts *p)
{
    size_t width = (size_t)c->n_kv * c->head_dim;
    part(p, k->k, (size_t)cells, width, sizeof *k->k);
    part(p, k->v, (size_t)cells, width, sizeof *k->v);
    part(p, k->index, (size_t)cells, (size_t)c->index_dim, sizeof *k->index);
}

static void history_parts(const struct history *h, struct parts *p)
{
    part(p, h->rows, (size_t)h->keep, (size_t)h->width, sizeof *h->rows);
}

static void sequence_parts(const struct sequence *s, int n, struct parts *p)
{
    const struct config *c = &s->g->base.weights->config;
    part(p, s->tokens, (size_t)n, 1, sizeof *s->tokens);
    for (int il = 0; il < c->n_layers; il++) {
        const struct layer_state *l = &s->layers[il];
        if (c->attention[il]) {
            cache_parts(c, &l->cache, n, p);
        } else {
            part(p, l->deltanet.st, deltanet_floats(c), 1, sizeof *l->deltanet.st);
            history_parts(&l->deltanet.conv, p);
        }
    }
    for (int m = 0; m < c->n_ple; m++)
        history_parts(&s->ple[m], p);
    if (s->g->options.drafts) {
        cache_parts(c, &s->layers[c->n_layers].cache, n ? n - 1 : 0, p);
        history_parts(&s->wide, p);
    }
}

static void each_count(struct parts *p, void *data, size_t bytes)
{
    (void)p, (void)data, (void)bytes;
}

static void each_save(struct parts *p, void *data, size_t bytes)
{
    buf_add(p->out, data, bytes);
}

static void each_restore(struct parts *p, void *data, size_t bytes)
{
    if (bytes)
        memcpy(data, p->from + p->bytes, bytes);
}

static uint64_t save_bytes(const struct sequence *s, int n)
{
    struct parts p = {.each = each_count};
    sequence_parts(s, n, &p);
    return sizeof(struct save_header) + p.bytes + SAVE_SUM_BYTES;
}

int sequence_save(struct engine *g, const struct sequence *s, struct buf *out, struct err *e)
{
    struct parts p = {.each = each_save, .out = out};
    struct save_header h = {
        .version = SAVE_VERSION, .n = (uint32_t)s->len, .bytes = save_bytes(s, s->len)};
    size_t start = out->len;

    h.identity = ((struct reference *)g)->identity;
    memcpy(h.magic, magic, sizeof magic);
    if (buf_reserve(out, (size_t)h.bytes)) {
        buf_add(out, &h, sizeof h);
        sequence_parts(s, s->len, &p);
        uint64_t sum = XXH3_64bits(out->data + start, out->len - start);
        buf_add(out, &sum, sizeof sum);
    }
    return buf_check(out, e);
}

/* Everything about the bytes that can be wrong, before the sequence is touched. */
static int save_check(const struct sequence *s, const char *data, size_t n, struct err *e)
{
    const struct config *c = &s->g->base.weights->config;
    struct save_header h;
    uint64_t sum;

    if (n < sizeof h + SAVE_SUM_BYTES || memcmp(data, magic, sizeof magic))
        return ERR(e, E_FORMAT, "these %zu bytes are not a saved sequence", n);
    memcpy(&h, data, sizeof h);
    memcpy(&sum, data + n - SAVE_SUM_BYTES, sizeof sum);
    if (h.version != SAVE_VERSION)
        return ERR(e, E_FORMAT, "saved sequence of version %u, this program reads %d", h.version,
                   SAVE_VERSION);
    if (h.bytes != n || XXH3_64bits(data, n - SAVE_SUM_BYTES) != sum)
        return ERR(e, E_FORMAT, "saved sequence is damaged: %zu bytes of %llu, or a wrong checksum",
                   n, (unsigned long long)h.bytes);
    if (h.identity != s->g->identity)
        return ERR(e, E_FORMAT,
                   "saved sequence belongs to another model or to other options "
                   "(expert bits, drafts, draft head norm)");
    if (h.n > (uint32_t)s->ctx)
        return ERR(e, E_LIMIT, "saved sequence of %u tokens, this context holds %d", h.n, s->ctx);
    if (save_bytes(s, (int)h.n) != n)
        return ERR(e, E_FORMAT, "saved sequence of %u tokens has %zu bytes, want %llu", h.n, n,
                   (unsigned long long)save_bytes(s, (int)h.n));
    for (uint32_t i = 0; i < h.n; i++) {
        int32_t token;
        memcpy(&token, data + sizeof h + i * sizeof token, sizeof token);
        if (token < 0 || token >= c->vocab)
            return ERR(e, E_FORMAT, "saved sequence: token %d at %u is not in the vocabulary of %d",
                       token, i, c->vocab);
    }
    return 0;
}

int sequence_restore(struct engine *g, struct sequence *s, const void *data, size_t n,
                     struct err *e)
{
    struct save_header h;
    struct parts p = {.each = each_restore, .from = (const char *)data + sizeof h};
    (void)g;
    int rc = save_check(s, data, n, e);
    if (rc)
        return rc;
    memcpy(&h, data, sizeof h);
    sequence_parts(s, (int)h.n, &p);
    s->len = (int)h.n;
    s->pending = 0;
    return 0;
}
