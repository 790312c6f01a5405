/* A save: a sequence of the public interface as bytes, for a file. What engines save of a sequence
 * is one part of it; around it stands what was said, as tokens and, of a chat, as messages.
 *
 *   offset  bytes
 *        0     16   "cherenkov save1" and a line end
 *       16      8   bytes of the whole save
 *       24     16   name of the engine, padded with zeros
 *       40      4   kind: 1 text, 2 chat
 *       44      4   1 when the prompt left a <think> open, else 0
 *       48      8   tokens
 *       56      8   bytes of the text that they say (of a chat)
 *       64      8   bytes of the messages, JSON (of a chat)
 *       72      8   bytes of the engine's part
 *       80          tokens int32, text, messages, the engine's part
 *    end-8      8   XXH3 (64 bits) of all bytes before
 *
 * Little-endian. The engine's part says itself which store and options it belongs to. */
#ifndef RUNNER_SAVE_FILE_H
#define RUNNER_SAVE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum save_kind { SAVE_TEXT = 1, SAVE_CHAT = 2 };
enum { SAVE_ENGINE_MAX = 16 };

struct save_bytes {
    const char *data;
    size_t n;
};

/* The parts; borrowed from whoever made them, or from the bytes that were parsed. */
struct save_file {
    char engine[SAVE_ENGINE_MAX]; /* NUL at the end */
    enum save_kind kind;
    bool thinking;
    struct save_bytes tokens; /* int32 each, not aligned */
    struct save_bytes text, messages, state;
};

void save_file_write(const struct save_file *s, struct buf *out); /* appended; see buf_check */
/* where opens the messages. E_FORMAT for bytes that are no save, of another version, or damaged. */
int save_file_parse(const void *data, size_t n, const char *where, struct save_file *out,
                    struct err *e);

#endif
