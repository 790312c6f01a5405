/* A kept state as a file, for server/prefix.c. One a state, NAME.keep; all numbers little-endian.
 *
 *   offset  bytes
 *        0     16   "cherenkov keep1\n"
 *       16      8   bytes of the whole file
 *       24     16   name of the engine, padded with zeros
 *       40      8   n, tokens
 *       48      8   bytes of the engine's state
 *       56      8   XXH3 (64 bits) of the 56 bytes before and the tokens
 *       64          tokens int32 [n], the engine's state, which has a checksum of its own
 *
 * NAME is the XXH3 of the tokens, in 16 hexadecimal digits. A file is replaced whole or not at
 * all. */
#ifndef SERVER_SAVES_H
#define SERVER_SAVES_H

#include "runner/model.h"

/* What a file says of itself. tokens: owned, mem_free. */
struct save_head {
    int32_t *tokens;
    int n;
    uint64_t bytes; /* of the file */
    int64_t mtime_ns;
};

/* The file of these tokens, to free with mem_free; NULL when memory is short. */
char *saves_path(const char *dir, const int32_t *tokens, int n);
/* state [bytes]: what the engine saved. */
int saves_write(const char *path, const char *engine, const int32_t *tokens, int n,
                const struct buf *state, struct err *e);
/* The parts of such a file, borrowed from its bytes; tokens [n] int32, of any alignment. */
struct save_view {
    const char *tokens;
    int n;
    const char *state;
    size_t state_bytes;
};
/* path opens the messages. E_FORMAT as below. */
int saves_parse(const void *data, size_t bytes, const char *path, const char *engine,
                struct save_view *out, struct err *e);
/* E_FORMAT: it is no such file, damaged before its state, or of another engine. */
int saves_read_head(const char *path, const char *engine, struct save_head *out, struct err *e);
/* Restores seq from the file of these tokens. E_FORMAT as above or from the engine, E_NOTFOUND,
 * E_IO; then seq is as it was. */
int saves_restore(const char *path, struct engine *g, const int32_t *tokens, int n,
                  struct sequence *seq, struct err *e);

#endif
