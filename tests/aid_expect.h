/* Golden values: reading goldens.json with its goldens.bin, and comparing floats with them. The
 * format is described in tests/data/goldens/README.md. Failures end the test. */
#ifndef TESTS_AID_EXPECT_H
#define TESTS_AID_EXPECT_H

#include <jansson.h>
#include <stddef.h>

#include "base/buf.h"

/* Allowed difference, relative to the largest magnitude of the row that is compared. */
#define EXPECT_TOLERANCE 1e-4

struct expect {
    json_t *root;
    struct buf bin; /* the floats */
    const char *dir;
    double worst; /* largest relative difference so far, and where it was */
    char where[160];
    long floats, exact; /* values compared */
};

void expect_open(struct expect *x, const char *dir);
void expect_close(struct expect *x);

/* obj[key], which must be there. */
const json_t *expect_get(const json_t *obj, const char *key);
/* Row `row` of the array that ref = {offset, shape} names, all dimensions but the first being the
 * row (the whole array when row is -1); it must have n values. */
const float *expect_row(const struct expect *x, const json_t *ref, int row, size_t n);
long expect_int(const json_t *array, size_t i); /* array[i] */

/* Compares n floats, within the tolerance; the words say what they are. */
void expect_floats(struct expect *x, const float *got, const float *want, size_t n, const char *fmt,
                   ...) __attribute__((format(printf, 5, 6)));
/* Compares n integers with a JSON array of n. */
void expect_ints(struct expect *x, const long *got, const json_t *want, size_t n, const char *fmt,
                 ...) __attribute__((format(printf, 5, 6)));
/* The argmax of a row: another one is right only if the row itself has it within the tolerance.
 * Returns whether it was such a near tie. */
int expect_argmax(struct expect *x, const float *row, int vocab, long want, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

#endif
