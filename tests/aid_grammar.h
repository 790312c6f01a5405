/* Grammars, their masks and guides over the tokens of a model. */
#ifndef TESTS_AID_GRAMMAR_H
#define TESTS_AID_GRAMMAR_H

#include "tests/aid_test.h"
#include "text/guide.h"

/* Fixture of a test program: opens and closes tokenizer and lexicon of the model in this folder. */
extern const char *aid_grammar_folder; /* the demonstration model's, unless main sets another */
extern struct tokenizer *aid_tokenizer;
extern struct lexicon *aid_lexicon;
int aid_grammar_open(void **state);
int aid_grammar_close(void **state);

/* kind g: GBNF, s: a schema, o: any object; tools: t calls, f free text with strict calls at its
 * end. only: the one tool that is called, and once; NULL: any, several times. */
int aid_grammar_make(char kind, const char *text, const char *only, enum grammar_start start,
                     struct grammar **g, struct err *e);

/* A grammar and its table. */
struct aid_masks {
    struct grammar *g;
    struct mask_table *t;
};
void aid_masks_open(struct aid_masks *b, char kind, const char *text, const char *only,
                    enum grammar_start start);
void aid_masks_close(struct aid_masks *b);

/* opened: thinking is open, of so many tokens at most; budget -1: any number. */
void aid_guide_open(struct mask_table *t, bool opened, int budget, struct guide **out);
/* An answer of tokens drawn at random under the mask, appended; strings are led to their end. */
void aid_guide_draw(struct guide *guide, uint64_t seed, int most, struct buf *out);

#endif
