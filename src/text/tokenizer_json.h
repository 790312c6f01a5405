/* Reads tokenizer.json, whose vocabulary and merges are nearly all of it: these two are found and
 * read here, straight from the text (a 151k vocabulary in a quarter of the time that a tree of JSON
 * values takes), and everything else goes to jansson, which also judges the whole: duplicate keys,
 * what is behind the value, depth. */
#ifndef TEXT_TOKENIZER_JSON_H
#define TEXT_TOKENIZER_JSON_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* A value inside the text, at byte `at` of it; n 0: not there. */
struct json_part {
    const char *s;
    size_t n, at;
    size_t entries; /* that it has at most, by its commas */
};

struct tokenizer_json {
    json_t *rest; /* the whole, but with {} for the vocabulary, [] for the merges */
    struct json_part vocab, merges; /* an object and an array; borrowed from the text */
};

/* text: valid UTF-8. where opens the messages, which count bytes. */
int tokenizer_json_read(const char *text, size_t len, const char *where, struct tokenizer_json *out,
                        struct err *e);
void tokenizer_json_free(struct tokenizer_json *j);

/* Called for each entry, in the order of the file; the strings are borrowed until it returns. A
 * negative code stops the reading and is returned, with the place put in front of its message. */
typedef int (*tokenizer_json_vocab_fn)(void *ctx, const char *name, size_t n, int64_t id,
                                       struct err *e);
typedef int (*tokenizer_json_merge_fn)(void *ctx, const char *left, size_t left_n,
                                       const char *right, size_t right_n, struct err *e);

int tokenizer_json_vocab(const struct tokenizer_json *j, const char *where,
                         tokenizer_json_vocab_fn fn, void *ctx, struct err *e);
/* Merges are "left right" or ["left", "right"]. */
int tokenizer_json_merges(const struct tokenizer_json *j, const char *where,
                          tokenizer_json_merge_fn fn, void *ctx, struct err *e);

#endif
