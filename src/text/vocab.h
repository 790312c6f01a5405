/* The vocabulary: ids to names and bytes, names to ids. A name is the string of tokenizer.json, in
 * which each byte is one character of the byte-level alphabet ("Ġthe"); the bytes are what it
 * stands for (" the"). A name with a character outside the alphabet stands for its own UTF-8, and
 * so does that of an added token. Filled while loading, then immutable. */
#ifndef TEXT_VOCAB_H
#define TEXT_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    VOCAB_ID_MAX = (1 << 22) - 1,
    VOCAB_ALPHABET_END = 0x144, /* the characters of the byte-level alphabet are all below this */
};

struct vocab_token {
    size_t name, bytes; /* where they start in vocab.text */
    uint32_t name_len, bytes_len;
    bool used, special;
};

struct vocab {
    struct vocab_token *tokens; /* by id */
    int32_t n;                  /* highest id + 1 */
    size_t cap;
    struct buf text;
    int32_t *places; /* open addressing by name, -1 empty */
    size_t mask, n_names;
    uint16_t character_of[256];          /* the byte-level alphabet, */
    int16_t byte_of[VOCAB_ALPHABET_END]; /* and back; -1: not of the alphabet */
};

void vocab_init(struct vocab *v);
void vocab_free(struct vocab *v);

enum vocab_kind {
    VOCAB_MODEL,   /* of the model's vocabulary: its bytes are what the alphabet says */
    VOCAB_ADDED,   /* an added token: its bytes are its name */
    VOCAB_SPECIAL, /* an added token that readers may want left out of decoded text */
};

/* Room for n tokens more, whose names have text_bytes together: an estimate that saves time. */
int vocab_reserve(struct vocab *v, size_t n, size_t text_bytes, struct err *e);

/* E_FORMAT, with no place in the message, for an id out of range or taken, and for a name that is
 * there with another id. An added token that the model's vocabulary has too keeps its bytes. */
int vocab_add(struct vocab *v, const char *name, size_t n, int64_t id, enum vocab_kind kind,
              struct err *e);

int32_t vocab_find(const struct vocab *v, const char *name, size_t n); /* -1: not there */
/* The same, looking at `guess` first. */
int32_t vocab_find_near(const struct vocab *v, const char *name, size_t n, int32_t guess);
/* Borrowed until vocab_free; NULL and 0 for an id that has no token. */
const char *vocab_name(const struct vocab *v, int32_t id, size_t *n);
const char *vocab_bytes(const struct vocab *v, int32_t id, size_t *n);
bool vocab_is_special(const struct vocab *v, int32_t id);

#endif
