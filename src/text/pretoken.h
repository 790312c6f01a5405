/* The pre-tokenizer: cuts normalised text into the pieces inside which merges happen. Reads the
 * "pre_tokenizer" of a tokenizer.json: ByteLevel, or a Sequence of Splits that ends with ByteLevel.
 *
 * Each Split cuts what the one before it left; behaviour "Isolated" only, where what matches and
 * what lies between matches are pieces alike (so "invert" changes nothing). ByteLevel with
 * use_regex is one more Split, by the expression of GPT-2. Anything else is refused by name.
 *
 * Time is linear in the text for expressions that are (all published ones): matching runs in
 * PCRE2's JIT code without its UTF-8 check, and a limit in proportion to the text stops the others
 * (E_LIMIT). Immutable once made; what changes while matching is in struct pretoken_run, one a
 * caller. */
#ifndef TEXT_PRETOKEN_H
#define TEXT_PRETOKEN_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <jansson.h>
#include <pcre2.h>

#include "base/err.h"

enum { PRETOKEN_MAX = 8 };

struct pretoken {
    pcre2_general_context *memory;
    pcre2_code *code[PRETOKEN_MAX];
    int n;
};

/* Called for each piece, in order; n > 0. A negative code stops the splitting and is returned. */
typedef int (*pretoken_fn)(void *ctx, const char *s, size_t n, struct err *e);

struct pretoken_run {
    const struct pretoken *p; /* borrowed */
    pretoken_fn fn;
    void *ctx;
    pcre2_match_data *match[PRETOKEN_MAX];
    pcre2_match_context *limits;
};

/* where: "tokenizer.json: pre_tokenizer", for messages. On failure p is as pretoken_free leaves
 * it. */
int pretoken_init(struct pretoken *p, const json_t *spec, const char *where, struct err *e);
void pretoken_free(struct pretoken *p);

/* text_bytes: the most that one pretoken_split will be given. */
int pretoken_run_init(struct pretoken_run *r, const struct pretoken *p, size_t text_bytes,
                      pretoken_fn fn, void *ctx, struct err *e);
void pretoken_run_free(struct pretoken_run *r); /* {0} is fine */

/* Calls fn for the pieces of s, valid UTF-8. Every byte is in exactly one piece. */
int pretoken_split(struct pretoken_run *r, const char *s, size_t n, struct err *e);

#endif
