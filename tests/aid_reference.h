/* An engine "reference" on a golden model with one sequence, for tests of how it behaves. Failures
 * end the test unless a line says otherwise. */
#ifndef TESTS_AID_REFERENCE_H
#define TESTS_AID_REFERENCE_H

#include "reference/reference.h"
#include "tests/aid_checkpoint.h"

enum { BENCH_TEXT = 32, BENCH_CTX = 40 };
extern const int32_t bench_text[BENCH_TEXT];       /* tokens below 512 */
extern const struct engine_options bench_defaults; /* with drafts */

struct bench {
    struct aid_weights m;
    struct engine *g;
    struct sequence *seq; /* of BENCH_CTX tokens */
    float *logits;        /* [ENGINE_ROWS_MAX][vocab] */
};

void bench_open(struct bench *b, const char *dir, const struct engine_options *o);
void bench_close(struct bench *b);
/* The next n tokens of bench_text, over and over, in one step; returns what the step returns. */
int bench_step(struct bench *b, int n, struct err *e);
void bench_feed(struct bench *b, int n);                       /* the same, and commits them */
void bench_save(struct bench *b, struct buf *out);             /* replaces what is in out */
void bench_same_save(struct bench *b, const struct buf *want); /* a save now gives these bytes */

#endif
