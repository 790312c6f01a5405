/* dense.bin: one tensor, or one module of three, at a time (packing.h). Tensors stream through the
 * lane's buffer in steps, each with a running checksum. */
#include <string.h>

#define XXH_STATIC_LINKING_ONLY /* the state on the stack */
#include <xxhash.h>

#include "pack/finite.h"
#include "pack/packing.h"
#include "quant/half.h"

/* Where an entry stands: what is written so far, and its checksum. */
struct stream {
    size_t piece;
    const struct dense_entry *entry;
    uint64_t done;
    XXH3_state_t sum;
};

static void stream_start(struct stream *s, const struct packing *p, size_t piece)
{
    s->piece = piece;
    s->entry = &p->plan->target.dense[piece];
    s->done = 0;
    XXH3_64bits_reset(&s->sum);
}

static int stream_add(struct stream *s, struct packing *p, const void *from, size_t n,
                      struct err *e)
{
    XXH3_64bits_update(&s->sum, from, n);
    int rc = packing_write(p, PIECE_DENSE, s->entry->offset + s->done, from, n, e);
    s->done += n;
    return rc;
}

/* Zeroes the gap behind the entry, which an earlier attempt may have left otherwise, and notes
 * it. */
static int stream_end(struct stream *s, struct packing *p, struct err *e)
{
    static const uint8_t zero[STORE_ALIGN];
    uint64_t end = s->entry->offset + s->entry->nbytes;
    size_t gap = (size_t)(-end % STORE_ALIGN);
    int rc = 0;
    if (gap && s->piece + 1 < p->plan->target.n_dense)
        rc = file_write_at(&p->file[PIECE_DENSE], end, zero, gap, e);
    return rc ? rc : journal_note(&p->journal, s->piece, XXH3_64bits_digest(&s->sum), e);
}

static void fold(uint16_t *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        w[i] = bf16_from_f32(1.0f + bf16_to_f32(w[i]));
}

static int pack_plain(struct packing *p, struct lane *l, const struct plan_dense *d, struct err *e)
{
    struct stream s;
    const struct tensor *t = d->tensor;
    size_t width = dtype_bytes(t->dtype);
    stream_start(&s, p, d->entry[0]);
    while (s.done < t->nbytes) {
        size_t n = t->nbytes - s.done < p->out_bytes ? (size_t)(t->nbytes - s.done) : p->out_bytes;
        int rc = checkpoint_read(p->plan->checkpoint, t, s.done, l->out, n, e);
        if (!rc)
            rc = finite_check(t, s.done / width, l->out, n / width, e);
        if (!rc && d->kind == PLAN_FOLD)
            fold((uint16_t *)(void *)l->out, n / width);
        if (!rc)
            rc = stream_add(&s, p, l->out, n, e);
        if (rc)
            return rc;
    }
    return stream_end(&s, p, e);
}

static int pack_encoded(struct packing *p, struct lane *l, const struct plan_dense *d,
                        struct err *e)
{
    struct stream s[3];
    const struct encode_source *m = &d->matrix;
    size_t codes = (size_t)m->cols / 2, scales = (size_t)(m->cols / m->group) * 2;
    uint64_t step = p->out_bytes / (codes + 2 * scales);
    int rc = 0;
    for (int i = 0; i < 3; i++)
        stream_start(&s[i], p, d->entry[i]);
    for (uint64_t row = 0; row < m->rows && !rc; row += step) {
        size_t n = (size_t)(m->rows - row < step ? m->rows - row : step);
        struct encode_rows to = {.first = row, .n = n, .codes = l->out};
        to.scales = (uint16_t *)(void *)(l->out + n * codes);
        to.biases = to.scales + n * scales / 2;
        rc = encode_read(m, p->plan->checkpoint, to, &l->scratch, e);
        if (!rc)
            rc = stream_add(&s[0], p, to.codes, n * codes, e);
        if (!rc)
            rc = stream_add(&s[1], p, to.scales, n * scales, e);
        if (!rc)
            rc = stream_add(&s[2], p, to.biases, n * scales, e);
    }
    for (int i = 0; i < 3 && !rc; i++)
        rc = stream_end(&s[i], p, e);
    return rc;
}

static int pack_derived(struct packing *p, const struct plan_dense *d, struct err *e)
{
    struct stream s;
    const uint64_t *from = plan_constants(p->plan, d->expected);
    stream_start(&s, p, d->entry[0]);
    int rc = stream_add(&s, p, from, (size_t)s.entry->nbytes, e);
    return rc ? rc : stream_end(&s, p, e);
}

int dense_pack(struct packing *p, struct lane *l, const struct plan_dense *d, struct err *e)
{
    bool done = true;
    for (int i = 0; i < (d->kind == PLAN_ENCODE ? 3 : 1); i++)
        done = done && p->journal.done[d->entry[i]];
    if (done)
        return 0;
    switch (d->kind) {
    case PLAN_ENCODE:
        return pack_encoded(p, l, d, e);
    case PLAN_DERIVE:
        return pack_derived(p, d, e);
    default:
        return pack_plain(p, l, d, e);
    }
}
