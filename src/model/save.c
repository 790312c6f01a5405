/* A sequence as bytes, and back: see save.h. */
#include "model/save.h"

#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/os.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "saves are written as the memory is");

enum { SAVE_SUM_BYTES = 8 };

struct save_header {
    char magic[8];
    uint32_t version, n;
    uint64_t identity, bytes;
};
_Static_assert(sizeof(struct save_header) == 32, "as in the picture of save.h");

static const char magic[8] = "CHKSEQ";

void save_part(struct save_parts *p, void *data, size_t bytes)
{
    if (p->piece)
        p->piece[p->n] = (struct save_piece){data, p->start + p->bytes, bytes};
    p->n++;
    p->bytes += bytes;
}

static void all_parts(const struct save_form *f, int n, struct save_parts *p)
{
    save_part(p, f->tokens, (size_t)n * sizeof *f->tokens);
    f->parts(f->seq, n, p);
}

static uint64_t save_bytes(const struct save_form *f, int n)
{
    struct save_parts p = {0};
    all_parts(f, n, &p);
    return sizeof(struct save_header) + p.bytes + SAVE_SUM_BYTES;
}

static int move_on_host(void *seq, const struct save_piece *piece, int n, bool saving,
                        struct err *e)
{
    (void)seq, (void)e;
    for (int i = 0; i < n; i++)
        if (piece[i].n)
            memcpy(saving ? piece[i].bytes : piece[i].part, saving ? piece[i].part : piece[i].bytes,
                   piece[i].n);
    return 0;
}

/* Copies all parts of n tokens to or from the bytes behind a header. */
static int move_all(const struct save_form *f, int n, char *start, bool saving, struct err *e)
{
    struct save_parts p = {0};
    all_parts(f, n, &p);
    p = (struct save_parts){.piece = mem_array((size_t)p.n, sizeof *p.piece), .start = start};
    if (!p.piece)
        return ERR(e, E_NOMEM, "no memory to list the parts of a sequence");
    all_parts(f, n, &p);
    int rc = (f->move ? f->move : move_on_host)(f->seq, p.piece + 1, p.n - 1, saving, e);
    rc = rc ? rc : move_on_host(f->seq, p.piece, 1, saving, e); /* the tokens */
    mem_free(p.piece);
    return rc;
}

int save_write(const struct save_form *f, int n, struct buf *out, struct err *e)
{
    struct save_header h = {.version = f->version,
                            .n = (uint32_t)n,
                            .identity = f->identity,
                            .bytes = save_bytes(f, n)};
    char *at = buf_reserve(out, (size_t)h.bytes);
    if (!at)
        return buf_check(out, e);
    os_prefer_huge(at, (size_t)h.bytes);
    memcpy(h.magic, magic, sizeof magic);
    memcpy(at, &h, sizeof h);
    int rc = move_all(f, n, at + sizeof h, true, e);
    if (rc)
        return rc;
    const size_t summed = (size_t)h.bytes - SAVE_SUM_BYTES;
    const uint64_t sum = XXH3_64bits(at, summed);
    memcpy(at + summed, &sum, sizeof sum);
    out->len += (size_t)h.bytes;
    out->data[out->len] = '\0';
    return 0;
}

/* Everything about the bytes that can be wrong, before the sequence is touched. */
static int save_check(const struct save_form *f, const char *data, size_t n, struct err *e)
{
    struct save_header h;
    uint64_t sum;

    if (n < sizeof h + SAVE_SUM_BYTES || memcmp(data, magic, sizeof magic))
        return ERR(e, E_FORMAT, "these %zu bytes are not a saved sequence", n);
    memcpy(&h, data, sizeof h);
    memcpy(&sum, data + n - SAVE_SUM_BYTES, sizeof sum);
    if (h.version != f->version)
        return ERR(e, E_FORMAT, "saved sequence of version %u, this engine reads %u", h.version,
                   f->version);
    if (h.bytes != n)
        return ERR(e, E_FORMAT, "saved sequence is damaged: it has %zu bytes, want %llu", n,
                   (unsigned long long)h.bytes);
    if (XXH3_64bits(data, n - SAVE_SUM_BYTES) != sum)
        return ERR(e, E_FORMAT,
                   "saved sequence is damaged: its %zu bytes do not have their checksum", n);
    if (h.identity != f->identity)
        return ERR(e, E_FORMAT,
                   "saved sequence belongs to another model, to another engine or to other options "
                   "(expert bits, drafts, draft head norm)");
    if (h.n > (uint32_t)f->ctx)
        return ERR(e, E_LIMIT, "saved sequence of %u tokens, this context holds %d", h.n, f->ctx);
    if (save_bytes(f, (int)h.n) != n)
        return ERR(e, E_FORMAT, "saved sequence of %u tokens has %zu bytes, want %llu", h.n, n,
                   (unsigned long long)save_bytes(f, (int)h.n));
    for (uint32_t i = 0; i < h.n; i++) {
        int32_t token;
        memcpy(&token, data + sizeof h + i * sizeof token, sizeof token);
        if (token < 0 || token >= f->vocab)
            return ERR(e, E_FORMAT, "saved sequence: token %d at %u is not in the vocabulary of %d",
                       token, i, f->vocab);
    }
    return 0;
}

int save_read(const struct save_form *f, const void *data, size_t bytes, int *n, struct err *e)
{
    struct save_header h;
    int rc = save_check(f, data, bytes, e);
    if (rc)
        return rc;
    memcpy(&h, data, sizeof h);
    rc = move_all(f, (int)h.n, (char *)data + sizeof h, false, e);
    if (!rc)
        *n = (int)h.n;
    return rc;
}
