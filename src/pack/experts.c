/* experts.bin: a batch of records of one layer at a time (packing.h). Each is put together in the
 * lane's buffer from three matrices and written with its padding; the batch is one write. */
#include <string.h>

#include <xxhash.h>

#include "base/os.h"
#include "pack/packing.h"

/* Tells the system which bytes of a tensor the batch will read: its reads of one expert's part are
 * small, and the parts of a batch follow one another in the file. */
static void announce(const struct checkpoint *c, const struct tensor *t, uint64_t row_bytes,
                     uint64_t row, uint64_t n)
{
    if (t)
        os_will_need(c->files[t->file].fd, t->offset + row * row_bytes, n * row_bytes);
}

static void announce_matrix(const struct checkpoint *c, const struct plan_experts *x, int ie, int n)
{
    const struct encode_source *m = &x->matrix;
    uint64_t row = (uint64_t)ie * x->step, rows = (uint64_t)n * x->step;
    uint64_t scale_bytes = m->source_group ? m->cols / m->source_group * 2 : 0;
    announce(c, m->weight, m->form == ENCODE_BF16 ? m->cols * 2 : m->cols / 2, row, rows);
    announce(c, m->scales, scale_bytes, row, rows);
    announce(c, m->biases, scale_bytes, row, rows);
}

static int build(struct packing *p, struct lane *l, int il, int ie, uint8_t *record, struct err *e)
{
    const struct expert_layout *x = &p->plan->target.experts;
    const uint64_t rows[] = {[EXPERT_GATE] = (uint64_t)x->inter,
                             [EXPERT_UP] = (uint64_t)x->inter,
                             [EXPERT_DOWN] = (uint64_t)x->h};
    for (int k = 0; k < EXPERT_MATRICES; k++) {
        const struct plan_experts *from = &p->plan->experts[il][k];
        struct encode_rows to = {from->first + (uint64_t)ie * from->step, rows[k], record + x->w[k],
                                 (uint16_t *)(void *)(record + x->s[k]),
                                 (uint16_t *)(void *)(record + x->b[k])};
        int rc = encode_read(&from->matrix, p->plan->checkpoint, to, &l->scratch, e);
        if (rc)
            return rc;
    }
    memset(record + x->bytes, 0, (size_t)(x->stride - x->bytes));
    return 0;
}

int experts_pack(struct packing *p, struct lane *l, int il, int ie, int n, struct err *e)
{
    const struct expert_layout *x = &p->plan->target.experts;
    size_t record = (size_t)il * (size_t)x->E + (size_t)ie, piece = p->pieces.n_dense + record;
    size_t stride = (size_t)x->stride;
    int done = 0, rc = 0;
    while (done < n && p->journal.done[piece + (size_t)done])
        done++;
    if (done == n)
        return 0;
    for (int k = 0; k < EXPERT_MATRICES; k++)
        announce_matrix(p->plan->checkpoint, &p->plan->experts[il][k], ie, n);
    for (int i = 0; i < n && !rc; i++)
        rc = build(p, l, il, ie + i, l->out + (size_t)i * stride, e);
    if (!rc)
        rc = packing_write(p, PIECE_EXPERTS, record * stride, l->out, (size_t)n * stride, e);
    for (size_t i = 0; i < (size_t)n && !rc; i++)
        rc = journal_note(&p->journal, piece + i, XXH3_64bits(l->out + i * stride, stride), e);
    return rc;
}
