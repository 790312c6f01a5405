/* checksums.bin: a checksum for every expert record and every block of n-gram rows, so that
 * damage is found and named. Dense tensors have theirs in manifest.json, which also seals this
 * file.
 *
 *   offset  bytes
 *   0       8      "CKVSUMS1"
 *   8       8      R, number of records
 *   16      8      B, number of blocks
 *   24      8      rows of a block (the last may have fewer); 0 without a table
 *   32      8 R    XXH3-64 (seed 0) of each record, padding included
 *   ..      8 B    XXH3-64 of each block
 *
 * Numbers are little-endian. */
#ifndef PACK_SUMS_H
#define PACK_SUMS_H

#include <jansson.h>

#include "pack/piece.h"
#include "store/store.h"

#define SUMS_FILE "checksums.bin"

struct sums_header {
    char magic[8];
    uint64_t n_records, n_blocks, block_rows;
};
_Static_assert(sizeof(struct sums_header) == 32 && offsetof(struct sums_header, block_rows) == 24,
               "checksums.bin starts with 32 bytes");

/* The file's bytes, appended to out. sum: [p->n], of which the dense part is left out. */
int sums_make(const struct pieces *p, const uint64_t *sum, struct buf *out, struct err *e);
/* Reads a file's bytes back: cuts m into pieces as the file does, and gives sum [p->n] for
 * mem_free; the dense part comes from m, 0 where it has none. `where` opens messages. */
int sums_parse(const struct buf *bytes, const struct manifest *m, const char *where,
               struct pieces *p, uint64_t **sum, struct err *e);

/* The same of a store's file, whose own checksum must be what the manifest says. A store without
 * checksums (of the original engine): *sum NULL, pieces as a new store would have them. E_FORMAT,
 * E_NOTFOUND, E_LIMIT: the file is damaged. */
int sums_load(const struct store *s, struct pieces *p, uint64_t **sum, struct err *e);

enum { SUMS_HEX = 17 };
const char *sums_hex(uint64_t sum, char room[SUMS_HEX]); /* 16 lower-case digits */
int sums_unhex(const char *text, uint64_t *sum);         /* 0, or -1: not 16 digits */

/* Checksum of a manifest's contents: of its compact form with sorted keys, without "source_dir" (a
 * remark about where it came from) and "seal" (where this is kept). E_NOMEM. */
int sums_seal(const json_t *root, uint64_t *sum, struct err *e);

#endif
