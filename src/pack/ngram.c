/* ngram.bin: one block of rows at a time (packing.h). Codes, scales and biases come from three
 * tensors and are laid row by row: codes, scales, biases. */
#include <string.h>

#include <xxhash.h>

#include "pack/packing.h"

static void interleave(const struct ngram_layout *g, const struct encode_rows *from, uint8_t *row)
{
    size_t w = (size_t)g->weight_bytes, s = (size_t)g->scale_bytes;
    const uint8_t *codes = from->codes, *scales = (const uint8_t *)from->scales,
                  *biases = (const uint8_t *)from->biases;
    for (uint64_t i = 0; i < from->n; i++) {
        memcpy(row, codes + i * w, w);
        memcpy(row + w, scales + i * s, s);
        memcpy(row + w + s, biases + i * s, s);
        row += w + 2 * s;
    }
}

/* The last part that starts at or before row. */
static const struct plan_ngram *part_of(const struct plan *plan, uint64_t row)
{
    size_t lo = 0, hi = plan->n_ngram;
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (plan->ngram[mid].first_row <= row)
            lo = mid;
        else
            hi = mid;
    }
    return &plan->ngram[lo];
}

int ngram_pack(struct packing *p, struct lane *l, size_t block, struct err *e)
{
    const struct ngram_layout *g = &p->plan->target.ngram;
    size_t piece = p->pieces.n_dense + p->pieces.n_records + block;
    struct piece at = piece_at(&p->pieces, piece);
    uint64_t row_bytes = (uint64_t)g->row_bytes, row = at.offset / row_bytes;
    uint64_t end = row + at.bytes / row_bytes;
    uint8_t *to = l->out, *apart = l->out + at.bytes; /* half of the buffer each */
    if (p->journal.done[piece])
        return 0;
    while (row < end) {
        const struct plan_ngram *part = part_of(p->plan, row);
        uint64_t left = part->first_row + part->matrix.rows - row;
        uint64_t n = end - row < left ? end - row : left;
        struct encode_rows from = {.first = row - part->first_row, .n = n, .codes = apart};
        from.scales = (uint16_t *)(void *)(apart + n * (uint64_t)g->weight_bytes);
        from.biases = from.scales + n * (uint64_t)g->scale_bytes / 2;
        int rc = encode_read(&part->matrix, p->plan->checkpoint, from, &l->scratch, e);
        if (rc)
            return rc;
        interleave(g, &from, to);
        to += n * row_bytes;
        row += n;
    }
    int rc = packing_write(p, PIECE_NGRAM, at.offset, l->out, (size_t)at.bytes, e);
    return rc ? rc : journal_note(&p->journal, piece, XXH3_64bits(l->out, (size_t)at.bytes), e);
}
