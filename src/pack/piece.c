/* Pieces of a store: see piece.h. */
#include "pack/piece.h"

#include <stdio.h>

#define XXH_STATIC_LINKING_ONLY /* the state on the stack */
#include <xxhash.h>

const char *const piece_file_names[PIECE_FILES] = {"dense.bin", "experts.bin", "ngram.bin"};

void pieces_init(struct pieces *p, const struct manifest *m, uint64_t block_rows)
{
    const struct ngram_layout *g = &m->ngram;
    *p = (struct pieces){.manifest = m, .n_dense = m->n_dense};
    p->n_records = (size_t)m->experts.n_layers * (size_t)m->experts.E;
    if (g->rows) {
        uint64_t fit = PIECE_BLOCK_BYTES / (uint64_t)g->row_bytes;
        p->block_rows = block_rows ? block_rows : fit ? fit : 1;
        p->n_blocks = (size_t)((g->rows + p->block_rows - 1) / p->block_rows);
    }
    p->n = p->n_dense + p->n_records + p->n_blocks;
}

struct piece piece_at(const struct pieces *p, size_t i)
{
    const struct manifest *m = p->manifest;
    if (i < p->n_dense)
        return (struct piece){PIECE_DENSE, m->dense[i].offset, m->dense[i].nbytes};
    i -= p->n_dense;
    if (i < p->n_records)
        return (struct piece){PIECE_EXPERTS, i * m->experts.stride, m->experts.stride};
    uint64_t row = (i - p->n_records) * p->block_rows, row_bytes = (uint64_t)m->ngram.row_bytes;
    uint64_t rows = m->ngram.rows - row < p->block_rows ? m->ngram.rows - row : p->block_rows;
    return (struct piece){PIECE_NGRAM, row * row_bytes, rows * row_bytes};
}

const char *piece_describe(const struct pieces *p, size_t i, char *room, size_t n)
{
    const struct manifest *m = p->manifest;
    struct piece at = piece_at(p, i);
    const char *file = piece_file_names[at.file];
    if (at.file == PIECE_DENSE) {
        snprintf(room, n, "%s: tensor %s", file, m->dense[i].name);
    } else if (at.file == PIECE_EXPERTS) {
        size_t record = i - p->n_dense, E = (size_t)m->experts.E;
        snprintf(room, n, "%s: record layer %zu (%s), expert %zu", file, record / E,
                 m->layer_prefixes[record / E], record % E);
    } else {
        uint64_t row = (i - p->n_dense - p->n_records) * p->block_rows;
        snprintf(room, n, "%s: block %zu, rows %llu to %llu", file, i - p->n_dense - p->n_records,
                 (unsigned long long)row,
                 (unsigned long long)(row + at.bytes / (uint64_t)m->ngram.row_bytes - 1));
    }
    return room;
}

int piece_sum(const struct file *f, struct piece at, void *room, size_t room_bytes, uint64_t *sum,
              struct err *e)
{
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    for (uint64_t done = 0; done < at.bytes;) {
        size_t n = at.bytes - done < room_bytes ? (size_t)(at.bytes - done) : room_bytes;
        int rc = file_read_at(f, at.offset + done, room, n, e);
        if (rc)
            return rc;
        XXH3_64bits_update(&state, room, n);
        done += n;
    }
    *sum = XXH3_64bits_digest(&state);
    return 0;
}
