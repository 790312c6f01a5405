/* A sequence as bytes, and back, for any engine. All numbers little-endian, floats IEEE 754.
 *
 *   offset  bytes
 *        0      8   "CHKSEQ" 0 0
 *        8      4   version of the engine's parts
 *       12      4   n, committed tokens
 *       16      8   identity of engine, model, config and options (model/identity.h)
 *       24      8   bytes of the whole save
 *       32          tokens int32 [n], then the engine's parts, without gaps
 *      end-8    8   XXH3 (64 bits) of all bytes before
 *
 * An engine lists its parts once, in a function that is run to count, to save and to restore. */
#ifndef MODEL_SAVE_H
#define MODEL_SAVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* A part of the state, and its place in a save. */
struct save_piece {
    void *part; /* as it was given to save_part */
    char *bytes;
    size_t n;
};

/* What the listing function hands its arrays to. */
struct save_parts {
    struct save_piece *piece; /* NULL while they are counted */
    char *start;              /* of the parts in the save */
    int n;                    /* parts so far */
    size_t bytes;             /* the same */
};
void save_part(struct save_parts *p, void *data, size_t bytes);

struct save_form {
    uint32_t version;
    uint64_t identity;
    int ctx, vocab;  /* what restoring has room for */
    int32_t *tokens; /* [ctx] */
    /* Every part of the state of n tokens, but the tokens. */
    void (*parts)(void *seq, int n, struct save_parts *p);
    /* Copies n parts into a save, or out of it (whose bytes it then leaves alone). NULL: parts are
     * the host's memory. */
    int (*move)(void *seq, const struct save_piece *piece, int n, bool saving, struct err *e);
    void *seq;
};

/* Appends the state of n tokens. E_NOMEM, and what move says; then nothing is appended. */
int save_write(const struct save_form *f, int n, struct buf *out, struct err *e);
/* Overwrites the parts and says how many tokens there are. E_FORMAT, E_LIMIT, E_NOMEM: nothing is
 * touched. What move says: the state is undefined. */
int save_read(const struct save_form *f, const void *data, size_t bytes, int *n, struct err *e);

#endif
