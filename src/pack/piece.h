/* A store's three data files cut into pieces that have a checksum each: a dense tensor, an expert
 * record with its padding, a block of n-gram rows. Pieces are numbered through, in this order. What
 * lies between them (gaps of dense.bin) is zero. */
#ifndef PACK_PIECE_H
#define PACK_PIECE_H

#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "store/manifest.h"

enum piece_file { PIECE_DENSE, PIECE_EXPERTS, PIECE_NGRAM, PIECE_FILES };
extern const char *const piece_file_names[PIECE_FILES]; /* "dense.bin", ... */

#define PIECE_BLOCK_BYTES ((uint64_t)4 << 20) /* the most that a block of n-gram rows has */

struct pieces {
    const struct manifest *manifest; /* borrowed; its checksums are not used */
    size_t n_dense, n_records, n_blocks, n;
    uint64_t block_rows; /* rows of an n-gram block; the last may have fewer */
};

struct piece {
    enum piece_file file;
    uint64_t offset, bytes;
};

/* block_rows 0: as many as PIECE_BLOCK_BYTES holds, what a new store gets. */
void pieces_init(struct pieces *p, const struct manifest *m, uint64_t block_rows);
struct piece piece_at(const struct pieces *p, size_t i);
/* "dense.bin: tensor X", "experts.bin: record layer 3 (...), expert 17",
 * "ngram.bin: rows 0 to 41942". */
const char *piece_describe(const struct pieces *p, size_t i, char *room, size_t n);
/* XXH3-64 of a piece's bytes in f, read through room. */
int piece_sum(const struct file *f, struct piece at, void *room, size_t room_bytes, uint64_t *sum,
              struct err *e);

#endif
