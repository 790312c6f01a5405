/* Byte-level BPE from a Hugging Face tokenizer.json. Immutable after opening: any number of threads
 * may use one.
 *
 * Text goes through these steps, as in the library that models are trained with:
 *   1. added tokens are cut out (text/added.h);
 *   2. what is between them is brought into normal form C if the file says so (text/nfc.h);
 *   3. and cut into pieces by the file's expressions (text/pretoken.h, text/expression.h);
 *   4. within a piece, pairs are merged by rank (text/bpe.h).
 * No token is ever put in front or behind: templates contain what a model wants there.
 *
 * Read: vocabularies in any order, with gaps, ids up to VOCAB_ID_MAX; merges as "a b" or ["a",
 * "b"]; ignore_merges; normalizer NFC, a Sequence of it, or none; decoder ByteLevel or a Sequence
 * of one. Keys that change nothing here are passed over: truncation, padding, post_processor,
 * unk_token, byte_fallback (every byte has a token), and any unknown one. Refused (E_UNSUPPORTED):
 * other models, normalizers, pre-tokenizers and decoders, dropout, prefixes and suffixes of
 * subwords, single_word. Refused (E_FORMAT): a vocabulary without one of the 256 bytes, ids or
 * names twice, merges of unknown tokens or given twice, no merges at all.
 *
 * Differs from that library in two corners: characters younger than the Unicode of its normaliser
 * are normalised here; and an added token with letters outside ASCII is decoded as it is written,
 * where the library takes its letters for byte symbols. */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct tokenizer;

struct tokens {
    int32_t *ids; /* owned, mem_free */
    size_t n, cap;
};
int tokens_push(struct tokens *t, int32_t id, struct err *e);
void tokens_free(struct tokens *t);

/* path: tokenizer.json itself, or a folder that holds it. */
int tokenizer_open(const char *path, struct tokenizer **out, struct err *e);
/* The same from memory; where opens the messages. */
int tokenizer_parse(const char *json, size_t len, const char *where, struct tokenizer **out,
                    struct err *e);
void tokenizer_close(struct tokenizer *t);

/* Appends the ids of text. Invalid UTF-8 is E_FORMAT with the byte offset. With `plain`, added
 * tokens inside the text are not recognised and come out as ordinary text. */
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, bool plain,
                     struct tokens *out, struct err *e);
/* The same without `plain`, for who has no use for more than `most` ids: a text that has more gives
 * more than `most`, which are not all of it, after work in proportion to `most` (but for looking at
 * the text once). */
int tokenizer_encode_most(const struct tokenizer *t, const char *text, size_t len, size_t most,
                          struct tokens *out, struct err *e);
/* Bytes of a token (not always whole UTF-8), borrowed; an id with no token gives len 0. */
const char *tokenizer_bytes(const struct tokenizer *t, int32_t id, size_t *len);
/* Appends the text of ids; bytes that are no UTF-8 become U+FFFD. Skips special tokens if asked. */
int tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n, bool skip_special,
                     struct buf *out, struct err *e);

int32_t tokenizer_id(const struct tokenizer *t, const char *token); /* exact content, or -1 */
bool tokenizer_is_special(const struct tokenizer *t, int32_t id);
int32_t tokenizer_count(const struct tokenizer *t); /* highest id in use + 1 */

#endif
