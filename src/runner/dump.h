/* What engines show of their blocks, kept: in memory (capture) or in a file (dump). docs/cli.md,
 * "Dumps", describes the file; `cherenkov check` compares what two sides kept.
 *
 * dump.bin, little-endian: 16 bytes "cherenkov dump1\n", then frames, each a struct dump_frame, its
 * n values (f32 or i64), and zeros up to a multiple of 8. */
#ifndef RUNNER_DUMP_H
#define RUNNER_DUMP_H

#include <assert.h>

#include "model/engine.h"

#define DUMP_FILE  "dump.bin"
#define DUMP_MAGIC "cherenkov dump1\n"

enum dump_type { DUMP_F32, DUMP_I64 };

struct dump_frame {
    char what[16]; /* seen_name, padded with NULs */
    int32_t il, pos;
    uint32_t type; /* enum dump_type */
    uint32_t n;    /* values */
};
static_assert(sizeof(struct dump_frame) == 32, "frames are read in place");
static_assert(offsetof(struct dump_frame, n) == 28, "frames are read in place");

/* The output of one block at one position. */
struct block {
    enum seen what;
    int il, pos; /* il -1 outside layers */
    enum dump_type type;
    size_t n;
    const void *values; /* [n] float or int64_t, borrowed from capture or file */
};

/* Writes frames as an engine computes them. Creates dir; one that holds a dump already is refused,
 * so that two runs never mix. */
struct dump;
int dump_open(const char *dir, struct dump **out, struct err *e);
const struct observer *dump_observer(const struct dump *d); /* borrowed until close */
void dump_close(struct dump *d); /* says on stderr when the dump is not whole */

/* Keeps blocks in the order in which they are computed. */
struct capture;
int capture_open(struct capture **out, struct err *e);
void capture_close(struct capture *c);
const struct observer *capture_observer(const struct capture *c); /* borrowed until close */
void capture_clear(struct capture *c);
/* E_NOMEM when something could not be kept since capture_clear; else the blocks, borrowed until
 * more is computed. */
int capture_blocks(struct capture *c, const struct block **out, size_t *n, struct err *e);

/* A dump, read and validated whole. */
struct dump_file;
int dump_file_open(const char *dir, struct dump_file **out, struct err *e);
/* The same from memory, 8-byte aligned and borrowed until close; where opens the messages. */
int dump_file_parse(const void *data, size_t len, const char *where, struct dump_file **out,
                    struct err *e);
void dump_file_close(struct dump_file *f);
/* The block, or NULL. Of several for one place (a rejected draft, a second sequence) the last. */
const struct block *dump_file_find(const struct dump_file *f, enum seen what, int il, int pos);
int dump_file_positions(const struct dump_file *f); /* highest position + 1 */

#endif
